"""Evolution on a synthetic cost: parents follow scores, the best survive and are improved on."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from autosched.search import evolution
from autosched.search import policy as policy_module
from autosched.search.learner import Learner
from autosched.search.options import SearchOptions
from autosched.search.policy import SketchPolicy
from autosched.search.population import Rows, Structures
from autosched.search.rules.protocol import Context
from autosched.search.space import SearchSpace
from autosched.state.steps import Step
from autosched.task import Task
from kit.certain_model import CertainModel
from kit.types import Array, MakeTask

STEEP = 50.0  # how many times a better candidate is likelier to be a parent


def level(steps: tuple[Step, ...]) -> int:
    """How many of the innermost tiles are 8 long: what the synthetic cost likes."""
    return sum(step.lengths[-1] == 8 for step in steps if hasattr(step, "lengths"))


def row_of(level: int) -> Array:
    return np.full((1, 2), STEEP**level, np.float32)


def featurize(candidates: Sequence[tuple[Step, ...]]) -> list[Array | None]:
    return [row_of(level(steps)) for steps in candidates]


def make_policy(
    task: Task,
    rows: Callable[[Sequence[tuple[Step, ...]]], list[Array | None]] = featurize,
    **options: Any,
) -> SketchPolicy:
    settings: dict[str, Any] = {
        "space": "ansor",  # whose tiles the synthetic cost is about
        "sample_init_min_population": 64,
        "evolutionary_search_population": 64,
        "evolutionary_search_num_iters": 4,
        "evolutionary_search_mutation_prob": 1.0,
    }
    search = SearchOptions(**{**settings, **options})
    rng = np.random.default_rng(3)
    return SketchPolicy(SearchSpace(task, search), Learner(CertainModel()), rng, rows)


@pytest.fixture
def parents(monkeypatch: pytest.MonkeyPatch) -> list[list[tuple[Step, ...]]]:
    """Everything that was mutated, generation by generation."""
    seen = []
    mutated = evolution.mutated

    def recorded(
        context: Context, structures: Structures, parents: Rows, rng: np.random.Generator
    ) -> Rows:
        seen.append(structures.candidates(parents))
        return mutated(context, structures, parents, rng)

    monkeypatch.setattr(evolution, "mutated", recorded)
    return seen


def mean_level(found: Sequence[tuple[Step, ...]]) -> float:
    return float(np.mean([level(steps) for steps in found]))


def test_parents_follow_their_scores(
    make_task: MakeTask, parents: list[list[tuple[Step, ...]]]
) -> None:
    """With the second best fifty times less likely, most are of the best levels there are."""
    policy = make_policy(make_task("matmul"), evolutionary_search_num_iters=1)
    samples = policy._sample(8, 1)[0]
    for steps in samples:
        policy._enter(steps, evolved=False)
    policy._evolve([], 11)
    assert len(parents) == policy_module._STAGES
    assert [len(generation) for generation in parents] == [64] * policy_module._STAGES
    assert mean_level(parents[0]) > mean_level(samples) + 0.5


def test_generations_and_stages_improve(
    make_task: MakeTask, parents: list[list[tuple[Step, ...]]]
) -> None:
    policy = make_policy(make_task("matmul"), evolutionary_search_num_iters=6)
    batch = policy.next_batch(8)
    stages = [parents[k : k + 6] for k in range(0, len(parents), 6)]
    assert len(stages) > 1
    assert mean_level(stages[0][-1]) > mean_level(stages[0][0])
    assert mean_level(stages[-1][-1]) > mean_level(stages[0][0])
    chance = make_policy(make_task("matmul"))._sample(8, 1)[0]
    assert max(c.predicted for c in batch if c.predicted) >= STEEP ** max(map(level, chance))


def test_the_best_measured_are_where_evolution_starts(
    make_task: MakeTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = make_policy(make_task("matmul"), sample_init_use_measured_ratio=4 / 64)
    found = sorted(policy._sample(8, 1)[0], key=level)
    best = found[-4:]
    policy.tell([*best, *found[:4]], [1e-3, 1e-3, 1e-3, 1e-3, 1.0, 1.0, 1.0, float("inf")])
    assert set(policy._taught()) == set(best)


def test_the_surrogate_learns_from_the_best_of_the_pool(
    make_task: MakeTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy_module, "_TAUGHT", 16)
    policy = make_policy(make_task("matmul"))
    samples = policy._sample(8, 1)[0]
    for steps in samples:
        policy._enter(steps, evolved=False)
    taught = [level(steps) for steps in policy._taught()]
    assert len(taught) == 16
    assert sorted(taught)[-8:] == sorted(map(level, samples))[-8:]


def test_illegal_offspring_is_dropped(make_task: MakeTask) -> None:
    """Ansor's features of an illegal candidate are one row of zeros; a model may like them."""

    def rows(candidates: Sequence[tuple[Step, ...]]) -> list[Array | None]:
        levels = [level(s) for s in candidates]
        return [None if n > 2 else row_of(n) * (n < 2) for n in levels]

    class LikesZeros(CertainModel):
        def opinions(self, programs: Sequence[Array]) -> Array:
            return np.array([1.0 if p.any() else 1e6 for p in programs], np.float32)[:, None]

    policy = make_policy(make_task("matmul"), rows)
    policy._learner.model = LikesZeros()
    for _ in range(3):
        batch = policy.next_batch(8)
        assert batch
        assert max(level(c.steps) for c in batch) < 2
        policy.tell([c.steps for c in batch], [1.0] * len(batch))


def test_illegal_offspring_does_not_enter_the_pool(make_task: MakeTask) -> None:
    """What the surrogate expects most of is illegal, until it has learned that."""

    def rows(candidates: Sequence[tuple[Step, ...]]) -> list[Array | None]:
        return [None if level(s) > 1 else row_of(level(s)) for s in candidates]

    policy = make_policy(make_task("matmul"), rows)
    policy.next_batch(8)
    assert max(map(level, policy._pool)) == 1


def test_what_was_measured_leaves_the_pool(make_task: MakeTask) -> None:
    """After forty measured candidates of the best levels, the model still chooses the next ones."""
    policy = make_policy(make_task("matmul"), eps_greedy=0.0)
    for _ in range(10):
        batch = policy.next_batch(4)
        assert [c.predicted is None for c in batch] == [False] * 4
        policy.tell([c.steps for c in batch], [1.0 / (1 + level(c.steps)) for c in batch])
