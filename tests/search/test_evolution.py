"""Evolution on a synthetic cost: parents follow scores, the best survive and are improved on."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from autosched.search import policy as policy_module
from autosched.search.learner import Learner
from autosched.search.mutation import mutate
from autosched.search.options import SearchOptions
from autosched.search.policy import SketchPolicy
from autosched.search.rules.protocol import Context
from autosched.search.space import SearchSpace
from autosched.state.steps import Step
from autosched.task import Task
from kit.types import Array, MakeTask

STEEP = 50.0  # how many times a better candidate is likelier to be a parent


def level(steps: tuple[Step, ...]) -> int:
    """How many of the innermost tiles are 8 long: what the synthetic cost likes."""
    return sum(step.lengths[-1] == 8 for step in steps if hasattr(step, "lengths"))


class Levels:
    """A model that is certain: the score is in the row."""

    trained = True

    def prepare(self) -> None:
        pass

    def fit(self, programs: Sequence[Array], throughputs: Sequence[float]) -> None:
        pass

    def opinions(self, programs: Sequence[Array]) -> Array:
        return np.array([p[0, 0] for p in programs], np.float32).reshape(-1, 1)


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
        "sample_init_min_population": 64,
        "evolutionary_search_population": 16,
        "evolutionary_search_num_iters": 4,
        "evolutionary_search_mutation_prob": 1.0,
    }
    search = SearchOptions(**{**settings, **options})
    rng = np.random.default_rng(3)
    return SketchPolicy(SearchSpace(task, search), Learner(Levels()), rng, rows)


@pytest.fixture
def parents(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Step, ...]]:
    """Everything that was mutated, in order."""
    seen = []

    def recorded(
        context: Context, steps: tuple[Step, ...], rng: np.random.Generator
    ) -> tuple[Step, ...] | None:
        seen.append(steps)
        return mutate(context, steps, rng)

    monkeypatch.setattr(policy_module, "mutate", recorded)
    return seen


def levels_of(found: Sequence[tuple[Step, ...]], size: int = 16) -> list[float]:
    """The mean level of each generation's parents."""
    return [
        float(np.mean([level(s) for s in found[k : k + size]])) for k in range(0, len(found), size)
    ]


def test_parents_follow_their_scores(make_task: MakeTask, parents: list[tuple[Step, ...]]) -> None:
    """With the second best fifty times less likely, nearly all are of the best level there is."""
    policy = make_policy(make_task("matmul"), evolutionary_search_num_iters=1)
    samples = policy._sample(8)
    policy._evolve(samples, 8)
    assert len(parents) == 16
    assert len({level(s) for s in samples}) > 1
    top = max(map(level, samples))
    assert sum(level(s) == top for s in parents) >= 13


def test_a_candidate_without_a_score_is_no_parent(
    make_task: MakeTask, parents: list[tuple[Step, ...]]
) -> None:
    policy = make_policy(make_task("matmul"))
    population = policy._sample(8)[:6]
    scores = np.array([0.0, 1.0, -np.inf, np.nan, 3.0, 0.0])
    policy._offspring(population, scores, 400)
    counts = Counter(population.index(steps) for steps in parents)
    assert set(counts) == {1, 4}
    assert 0.65 < counts[4] / 400 < 0.85


def test_without_any_score_all_are_parents_alike(
    make_task: MakeTask, parents: list[tuple[Step, ...]]
) -> None:
    policy = make_policy(make_task("matmul"))
    population = policy._sample(8)[:4]
    policy._offspring(population, np.zeros(4), 400)
    counts = Counter(population.index(steps) for steps in parents)
    assert min(counts[k] for k in range(4)) > 60


def test_generations_improve(make_task: MakeTask, parents: list[tuple[Step, ...]]) -> None:
    policy = make_policy(make_task("matmul"), evolutionary_search_num_iters=6)
    batch = policy.next_batch(8)
    means = levels_of(parents)
    assert len(means) == 6
    assert means[-1] > means[0] + 0.5
    assert means == sorted(means)
    still = make_policy(make_task("matmul"), evolutionary_search_num_iters=0).next_batch(8)
    assert max(c.predicted for c in batch if c.predicted) > max(
        c.predicted for c in still if c.predicted
    )


def test_the_best_measured_have_offspring(
    make_task: MakeTask, parents: list[tuple[Step, ...]]
) -> None:
    task = make_task("matmul")
    policy = make_policy(task, sample_init_use_measured_ratio=0.25)
    found = sorted(policy._sample(8), key=level)
    best = found[-4:]
    policy.tell([*best, *found[:4]], [1e-3, 1e-3, 1e-3, 1e-3, 1.0, 1.0, 1.0, float("inf")])
    parents.clear()
    policy._evolve([], 8)
    assert set(best) & set(parents)
    assert not set(found[:4]) & set(parents)


def test_illegal_offspring_is_dropped(make_task: MakeTask) -> None:
    """Ansor's features of an illegal candidate are one row of zeros; a model may like them."""

    def rows(candidates: Sequence[tuple[Step, ...]]) -> list[Array | None]:
        levels = [level(s) for s in candidates]
        return [None if n > 2 else row_of(n) * (n < 2) for n in levels]

    class LikesZeros(Levels):
        def opinions(self, programs: Sequence[Array]) -> Array:
            return np.array([1.0 if p.any() else 1e6 for p in programs], np.float32)[:, None]

    policy = make_policy(make_task("matmul"), rows)
    policy._learner.model = LikesZeros()
    for _ in range(3):
        batch = policy.next_batch(8)
        assert batch
        assert max(level(c.steps) for c in batch) < 2
        policy.tell([c.steps for c in batch], [1.0] * len(batch))


def test_what_was_measured_leaves_the_pool(make_task: MakeTask) -> None:
    """After forty measured candidates of the best levels, the model still chooses the next ones."""
    policy = make_policy(make_task("matmul"), eps_greedy=0.0)
    for _ in range(10):
        batch = policy.next_batch(4)
        assert [c.predicted is None for c in batch] == [False] * 4
        policy.tell([c.steps for c in batch], [1.0 / (1 + level(c.steps)) for c in batch])
