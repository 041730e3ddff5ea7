"""What the policy proposes: new, legal, repeatable, and good by its model."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from autosched.search import learned, sample
from autosched.search.cost_model import CostModel, RandomModel, XGBoostModel
from autosched.search.featurize import task_featurizer
from autosched.search.learner import Learner
from autosched.search.options import SearchOptions
from autosched.search.policy import Candidate, SketchPolicy
from autosched.search.space import SearchSpace
from autosched.state.steps import SplitStep, Step
from autosched.task import Task
from kit.certain_model import CertainModel
from kit.types import Array, MakeTask

FAST = {"evolutionary_search_population": 12, "evolutionary_search_num_iters": 2}


def featurize(candidates: Sequence[tuple[Step, ...]]) -> list[Array | None]:
    """One row: how many of the innermost tiles are 8 long."""
    rows: list[Array | None] = []
    for steps in candidates:
        lengths = [step.lengths[-1] for step in steps if hasattr(step, "lengths")]
        score = sum(length == 8 for length in lengths)
        rows.append(np.full((1, 4), 1 + score, np.float32))
    return rows


def make_policy(
    task: Task, model: CostModel | None = None, seed: int = 0, **options: Any
) -> SketchPolicy:
    given: dict[str, Any] = {**FAST, **options}
    settings = SearchOptions(sample_init_min_population=12, **given)
    learner = Learner(model or CertainModel())
    rng = np.random.default_rng(seed)
    return SketchPolicy(SearchSpace(task, settings), learner, rng, featurize)


def play(policy: SketchPolicy, rounds: int = 3, count: int = 5) -> list[Candidate]:
    """The proposals of some rounds; the cost of a candidate is a stub that depends on it only."""
    proposed = []
    for _ in range(rounds):
        batch = policy.next_batch(count)
        policy.tell([c.steps for c in batch], [1.0 / (1 + len(c.steps)) for c in batch])
        proposed += batch
    return proposed


def test_gpu_candidates_keep_the_limits_even_before_training(make_task: MakeTask) -> None:
    task = make_task("matmul", "cuda")
    settings = SearchOptions(sample_init_min_population=8)
    real = task_featurizer(task)
    space = SearchSpace(task, settings)
    policy = SketchPolicy(space, Learner(RandomModel()), np.random.default_rng(0), real)
    assert all(rows is not None for rows in real([c.steps for c in policy.next_batch(8)]))


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_nothing_is_proposed_twice(target: str, make_task: MakeTask) -> None:
    task = make_task("matmul", target)
    proposed = play(make_policy(task))
    texts = [task.dag.infer_bound_of(c.steps).to_str() for c in proposed]
    assert len(texts) == 15
    assert len(set(texts)) == len(texts)


def test_the_same_seed_gives_the_same_sequence(make_task: MakeTask) -> None:
    first, second, other = (play(make_policy(make_task("matmul"), seed=s)) for s in (4, 4, 5))
    assert first == second
    assert first != other


def test_the_same_seed_with_a_trained_model(make_task: MakeTask) -> None:
    sequences = [
        play(make_policy(make_task("matmul"), XGBoostModel(0, rounds=5, threads=1), seed=2))
        for _ in range(2)
    ]
    assert sequences[0] == sequences[1]


def test_evolution_finds_better_scores_than_sampling(make_task: MakeTask) -> None:
    task = make_task("matmul")
    evolved = make_policy(task, evolutionary_search_num_iters=4).next_batch(8)
    sampled = make_policy(task, RandomModel(0)).next_batch(8)
    assert all(c.predicted is None for c in sampled)
    chance = [row[0, 0] for row in featurize([c.steps for c in sampled]) if row is not None]
    assert np.mean([c.predicted for c in evolved]) > np.mean(chance)


def test_samples_are_told_before_the_others_evolve(
    make_task: MakeTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are half of the batch, and whoever is told builds nothing in vain."""
    policy = make_policy(make_task("matmul"))
    told: list[tuple[Step, ...]] = []
    before: list[int] = []
    evolve = policy._evolve

    def evolve_(attempts: Sequence[tuple[Step, ...]], count: int) -> None:
        before.append(len(told))
        evolve(attempts, count)

    monkeypatch.setattr(policy, "_evolve", evolve_)
    batch = policy.next_batch(8, told.extend)
    assert before == [4]
    assert told == [c.steps for c in batch[:4]]
    assert sum(policy._pool[c.steps] for c in batch[:4]) == 0


def test_samples_drawn_ahead_are_those_of_the_next_round(
    make_task: MakeTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = make_policy(make_task("matmul"))
    first = play(policy, rounds=1)
    policy.draw_ahead(5)
    ((drawn, _),) = policy._drawn
    waiting = set(policy._pool)
    policy.draw_ahead(5)  # there are some
    monkeypatch.setattr(SearchSpace, "sample", lambda *_: pytest.fail("drawn again"))
    again = play(policy, rounds=1)
    assert {c.steps for c in again[:2]} <= {*drawn, *waiting}
    assert not {c.steps for c in first} & {c.steps for c in again}
    untrained = make_policy(make_task("matmul"), RandomModel(0))
    untrained.draw_ahead(5)  # how many depends on whether a model can choose
    assert not untrained._drawn


def test_samples_of_several_rounds_are_drawn_at_once(make_task: MakeTask) -> None:
    policy = make_policy(make_task("matmul"))
    play(policy, rounds=1)
    asked: list[int] = []
    work_out = policy._featurize

    def noted(some: Sequence[tuple[Step, ...]]) -> list[Array | None]:
        asked.append(len(some))
        return work_out(some)

    policy._featurize = noted
    policy.draw_ahead(5, 3)
    every = [{*drawn.fresh} for drawn in policy._drawn]
    assert len(every) == 3
    assert len(set.union(*every)) == sum(map(len, every)) >= max(asked) >= 3 * 5
    for left in (2, 1, 0):
        waiting = {*policy._pool}
        batch = policy.next_batch(5)
        assert {c.steps for c in batch[:2]} <= {*every[2 - left], *waiting}
        assert len(policy._drawn) == left


def test_a_small_space_has_samples_of_one_round(
    make_task: MakeTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = make_policy(make_task("matmul"))
    few = [c.steps for c in play(policy, rounds=1)]
    monkeypatch.setattr(SearchSpace, "sample", lambda *_: few)
    policy.draw_ahead(50, 3)
    assert [drawn.fresh for drawn in policy._drawn] == [few]


def test_some_are_random(make_task: MakeTask) -> None:
    batch = make_policy(make_task("matmul"), eps_greedy=0.5).next_batch(8)
    assert [c.predicted is None for c in batch] == [False] * 4 + [True] * 4


def test_illegal_candidates_are_not_proposed(make_task: MakeTask) -> None:
    policy = make_policy(make_task("matmul"))
    policy._featurize = lambda candidates: [
        None if k % 3 else row for k, row in enumerate(featurize(candidates))
    ]
    for candidate in policy.next_batch(8):
        assert candidate.predicted is None or candidate.predicted > -np.inf


def test_told_candidates_are_known(make_task: MakeTask) -> None:
    task = make_task("matmul")
    earlier = play(make_policy(task), rounds=1)
    policy = make_policy(task)
    policy.tell([c.steps for c in earlier], [1.0] * len(earlier))
    again = policy.next_batch(6)
    assert again
    assert not {c.steps for c in again} & {c.steps for c in earlier}


def test_of_many_measured_candidates_a_sample_is_looked_at_again(
    make_task: MakeTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round's cost does not grow with what was measured before."""
    monkeypatch.setattr(learned, "_BEST", 2)
    monkeypatch.setattr(learned, "_OTHERS", 3)
    task = make_task("matmul")
    # Ansor's space: its draws are the same on any machine.
    policy = make_policy(task, space="ansor", sample_init_use_measured_ratio=0)
    play(policy, rounds=4, count=5)
    asked: set[tuple[Step, ...]] = set()

    def noted(candidates: Sequence[tuple[Step, ...]]) -> list[Array | None]:
        asked.update(candidates)
        return featurize(candidates)

    policy._featurize = noted
    assert policy.next_batch(5)
    assert len(asked & policy._measured.keys()) == 5 < len(policy._measured)


def test_a_space_is_used_up(make_task: MakeTask) -> None:
    from autosched.task import Task

    policy = make_policy(Task.from_workload("matmul", M=1, N=1, K=1))
    proposed = play(policy, rounds=40, count=8)
    assert policy.next_batch(8) == []
    assert len({c.steps for c in proposed}) == len(proposed)


@pytest.mark.parametrize("rows", [None, np.zeros((1, 4), np.float32)])
def test_where_no_candidate_is_legal_none_is_proposed(
    make_task: Callable[[str], Task], rows: np.ndarray | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with a model that can choose, which the one that comes along can at once."""
    monkeypatch.setattr(sample, "_BARREN_BATCHES", 1)
    policy = make_policy(make_task("matmul"))
    policy._featurize = lambda candidates: [rows for _ in candidates]
    assert policy.next_batch(4) == []
    known = SearchSpace(make_task("matmul")).sample(np.random.default_rng(0), 3)
    policy.tell(known, [np.inf] * 3)
    assert policy.next_batch(4) == []


@pytest.mark.parametrize(("worst", "tried"), [(0.6, True), (0.3, False)])
def test_the_best_of_every_sketch_with_hope_is_tried(
    worst: float, tried: bool, make_task: MakeTask
) -> None:
    task = make_task("matmul", "cpu")
    space = SearchSpace(task, SearchOptions(sample_init_min_population=60))
    few = min(_splits(sketch.steps) for sketch in space.sketches)
    assert few < max(_splits(sketch.steps) for sketch in space.sketches)

    def featurize_(candidates: Sequence[tuple[Step, ...]]) -> list[Array | None]:
        rows: list[Array | None] = []
        for steps in candidates:
            score = (worst if _splits(steps) == few else 1.0) + sum(_lengths(steps)) / 1e6
            rows.append(np.full((1, 4), score, np.float32))
        return rows

    policy = SketchPolicy(space, Learner(CertainModel()), np.random.default_rng(0), featurize_)
    batch = policy.next_batch(8)
    chosen = [c for c in batch if c.predicted is not None]
    assert any(_splits(c.steps) == few for c in chosen) == tried


def _splits(steps: Sequence[Step]) -> int:
    return sum(isinstance(step, SplitStep) for step in steps)


def _lengths(steps: Sequence[Step]) -> list[int]:
    return [n or 1 for step in steps if isinstance(step, SplitStep) for n in step.lengths]
