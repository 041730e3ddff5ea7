"""Rows of numbers: what they stand for, and how thousands of them are mutated."""

from __future__ import annotations

from itertools import pairwise
from math import prod

import numpy as np
import pytest

from autosched.search import evolution, population
from autosched.search.evolution import evolved, mutated
from autosched.search.initial import CPU_UNROLL, Rng
from autosched.search.population import (
    Rows,
    Structures,
    first_of_each,
    moved_factors,
    redrawn_unrolls,
)
from autosched.search.rules.protocol import Context
from autosched.search.space import SearchSpace
from autosched.search.surrogate import Scores, Surrogate
from autosched.state.steps import PragmaStep, SplitStep, Step
from kit.types import MakeSpace, MakeTask

Steps = tuple[Step, ...]


def drawn(space: SearchSpace, count: int = 24) -> list[Steps]:
    return space.sample(np.random.default_rng(3), count)


@pytest.mark.parametrize("name", ["matmul", "softmax", "conv2d_nhwc"])
def test_rows_stand_for_their_candidates(
    name: str, target: str, make_space: MakeSpace, make_task: MakeTask
) -> None:
    samples = drawn(make_space(make_task(name, target)))
    structures = Structures()
    rows = structures.rows(samples)
    assert structures.candidates(rows) == samples
    assert len(structures.known) < len(samples) or name == "softmax"
    assert len(np.unique(rows.keys())) == len(samples)
    again = structures.rows(samples[:1]).joined(rows)  # narrower perhaps
    assert structures.candidates(again) == [samples[0], *samples]


@pytest.mark.parametrize("sums_differ", [True, False])
def test_each_row_is_found_once_where_it_is_first(
    sums_differ: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    rows = Rows(rng.integers(2, size=200), rng.integers(1, 4, size=(200, 4)))
    if not sums_differ:
        monkeypatch.setattr(population, "_sums", lambda rows: rows.numbers[:, 0])
    _, first = np.unique(rows.keys(), return_index=True)
    assert len(first) < 160
    np.testing.assert_array_equal(first_of_each(rows), np.sort(first))


def changed_numbers(before: Steps, after: Steps) -> list[tuple[Step, Step]]:
    return [(a, b) for a, b in zip(before, after, strict=True) if a != b]


@pytest.mark.parametrize("name", ["matmul", "dense_bias_relu", "softmax"])
def test_a_factor_moves_within_one_split(
    name: str, target: str, make_space: MakeSpace, make_task: MakeTask
) -> None:
    space = make_space(make_task(name, target))
    structures = Structures()
    rows = structures.rows(drawn(space))
    moved = 0
    for seed in range(8):
        limit = 8 + seed
        after = moved_factors(structures, rows, np.random.default_rng(seed), limit)
        pairs = zip(structures.candidates(rows), structures.candidates(after), strict=True)
        for one, other in pairs:
            changed = changed_numbers(one, other)
            assert len(changed) <= 1, (seed, changed)
            for a, b in changed:
                assert isinstance(a, SplitStep) and isinstance(b, SplitStep) and a.extent
                lengths = [[int(n or 0) for n in step.lengths] for step in (a, b)]
                if a.extent % prod(lengths[0]) == 0:
                    assert a.extent % prod(lengths[1]) == 0
                assert lengths[1][-1] <= max(limit, lengths[0][-1])
                assert lengths[0] != lengths[1]
                moved += 1
    assert moved > 4 * len(rows) or name == "softmax"


def test_divisors_are_drawn_alike_whatever_is_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.array([1, 2, 12, 7, 48, 2048, 30, 1])
    limited, most = np.array([2, 4, 6]), np.array([3, 1, 10])
    found = []
    for largest in (2048, 0):
        monkeypatch.setattr(population, "_DIVIDED", largest)
        rng = np.random.default_rng(0)
        draws = [population._drawn_divisors(values, limited, most, rng) for _ in range(200)]
        found.append(np.array(draws))
    assert (found[0] == found[1]).all()
    drawn = [sorted({int(d) for d in column}) for column in found[0].T]
    assert drawn[:5] == [[1], [2], [2, 3], [7], [1]]
    assert drawn[5] == [2**k for k in range(1, 12)]
    assert drawn[6:] == [[2, 3, 5, 6, 10], [1]]


def test_only_an_unroll_limit_is_redrawn(make_space: MakeSpace, make_task: MakeTask) -> None:
    space = make_space(make_task("matmul"))
    structures = Structures()
    rows = structures.rows(drawn(space))
    after = redrawn_unrolls(structures, rows, np.random.default_rng(0), CPU_UNROLL)
    seen = set()
    for one, other in zip(structures.candidates(rows), structures.candidates(after), strict=True):
        for a, b in changed_numbers(one, other):
            assert isinstance(a, PragmaStep) and isinstance(b, PragmaStep)
            seen.add(b.unroll_limit)
    assert seen <= set(CPU_UNROLL)
    assert len(seen) > 1


def test_numbers_move_to_structures_with_the_same_loops(
    make_space: MakeSpace, make_task: MakeTask
) -> None:
    structures = Structures()
    rows = structures.rows(drawn(make_space(make_task("matmul")), 48))
    after = structures.transplanted(rows, np.random.default_rng(0))
    layouts = [structure.layout for structure in structures.known]
    assert (after.numbers == rows.numbers).all()
    assert (after.structures != rows.structures).any()
    for a, b in zip(rows.structures, after.structures, strict=True):
        assert layouts[a] == layouts[b]


def test_candidates_without_numbers_are_rows_too() -> None:
    """As a record may hold them: no steps, a split without lengths."""
    structures = Structures()
    odd: list[Steps] = [(), (SplitStep(2, 0, 8, ()),), (SplitStep(2, 0, None, (2,)),)]
    rows = structures.rows(odd)
    rng = np.random.default_rng(0)
    assert structures.candidates(moved_factors(structures, rows, rng, 64)) == odd
    assert structures.candidates(redrawn_unrolls(structures, rows, rng, (0, 16))) == odd


def near_four(rows: Rows) -> np.ndarray:
    """Scores up to 1: what the tests like are numbers near 4 in the first split."""
    away = np.abs(np.log2(np.maximum(rows.numbers[:, :3], 1)) - 2).sum(axis=1)
    scores: np.ndarray = np.exp(-away / 2)
    return scores.astype(np.float32)


def test_the_surrogate_learns_what_scores_depend_on(
    make_space: MakeSpace, make_task: MakeTask
) -> None:
    space = make_space(make_task("matmul"))
    structures = Structures()
    rows = structures.rows(drawn(space, 160))
    scores = near_four(rows)
    known, fresh = np.arange(96), np.arange(96, 160)
    taught = scores[known]
    illegal = rows.numbers[:, 1] > 2
    taught[illegal[known]] = -np.inf
    surrogate = Surrogate(structures)
    assert not surrogate.fitted
    surrogate.fit(rows.take(known), np.full(96, -np.inf, np.float32))
    assert not surrogate.fitted
    surrogate.fit(rows.take(known), taught)
    structures.rows(drawn(make_space(make_task("softmax")), 4))  # met after it was fitted
    expected = surrogate.predict(rows.take(fresh))
    legal = ~illegal[fresh]
    assert 8 < legal.sum() < 56
    assert np.corrcoef(expected[legal], np.log(scores[fresh][legal]))[0, 1] > 0.4
    assert expected[~legal].max() < expected[legal].min() + 0.5


class Boosted:
    """A booster as of XGBoost 3.4: of no rows it predicts none for no targets."""

    def inplace_predict(self, matrix: np.ndarray) -> np.ndarray:
        return np.zeros(len(matrix) or (0, 0), np.float32)


def test_the_surrogate_predicts_nothing_of_no_rows(
    make_space: MakeSpace, make_task: MakeTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    structures = Structures()
    rows = structures.rows(drawn(make_space(make_task("matmul")), 4))
    surrogate = Surrogate(structures)
    monkeypatch.setattr(surrogate, "_booster", Boosted())
    assert surrogate.predict(rows).shape == (4,)
    assert surrogate.predict(rows.take(np.arange(0))).shape == (0,)


def test_evolution_finds_what_the_surrogate_likes(
    make_space: MakeSpace, make_task: MakeTask
) -> None:
    space = make_space(
        make_task("matmul"), evolutionary_search_population=256, evolutionary_search_num_iters=4
    )
    structures = Structures()
    start = structures.rows(drawn(space, 48))
    surrogate = Surrogate(structures)
    surrogate.fit(start, near_four(start))
    asked: list[Rows] = []

    def judge(rows: Rows) -> Scores:
        asked.append(rows)
        return surrogate.predict(rows)

    best = evolved(space.context, structures, judge, start, np.random.default_rng(0))
    assert len(asked) == 5
    for before, after in pairwise(asked):  # those that live on are not judged again
        assert np.isin(before.keys(), after.keys()).mean() < 0.1
    assert len(best) == 256
    assert len(np.unique(best.keys())) == 256
    assert (np.diff(surrogate.predict(best)) <= 0).all()
    assert near_four(best)[:16].mean() > 0.9 * near_four(start).max()
    assert near_four(best)[:16].mean() > 2 * near_four(start).mean()
    changed = mutated(space.context, structures, best, np.random.default_rng(1))
    assert len(changed) == len(best)


def certain(rows: Rows) -> Scores:
    """Ten times better with each doubling of the first number."""
    scores: np.ndarray = np.log(10.0) * np.log2(np.maximum(rows.numbers[:, 0], 1))
    return scores.astype(np.float32)


def test_parents_are_drawn_by_their_scores(
    make_space: MakeSpace, make_task: MakeTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = make_space(
        make_task("matmul"), evolutionary_search_population=256, evolutionary_search_num_iters=1
    )
    structures = Structures()
    start = structures.rows(drawn(space, 48))
    judged: list[Rows] = []
    seen: list[Rows] = []

    def judge(rows: Rows) -> Scores:
        judged.append(rows)
        return certain(rows)

    def noted(context: Context, structures: Structures, parents: Rows, rng: Rng) -> Rows:
        seen.append(parents)
        return parents

    monkeypatch.setattr(evolution, "mutated", noted)
    evolution.evolved(space.context, structures, judge, start, np.random.default_rng(0))
    (parents,) = seen
    every, first = (np.log2(np.maximum(rows.numbers[:, 0], 1)) for rows in (judged[0], parents))
    every = np.sort(every)[-256:]
    chances = 10.0**every / (10.0**every).sum()
    best = every.max() - 1
    wanted = chances[every >= best].sum()
    assert wanted > 2 * (every >= best).mean()
    assert abs((first >= best).mean() - wanted) < 0.05
