"""Draws of what the model may be wrong by: common to a sketch, smaller where much was measured."""

import numpy as np

from autosched.search.doubt import Doubt
from autosched.search.options import SearchOptions
from autosched.search.population import Structures
from autosched.search.space import SearchSpace
from kit.types import MakeTask


def test_effects_are_those_of_sketches_and_fade_with_measurements(make_task: MakeTask) -> None:
    rng = np.random.default_rng(0)
    space = SearchSpace(make_task("matmul", "cpu"), SearchOptions())
    structures = Structures()
    candidates = space.attempts(rng, 60)
    numbers = structures.numbers(candidates).tolist()
    sketches = [structures.known[k].sketch for k in numbers]
    assert 1 < len(set(sketches)) < len(set(numbers))
    doubt = Doubt(structures, rng)
    first = doubt.draw(candidates, 400)
    for sketch in set(sketches):
        mine = first[[s == sketch for s in sketches]]
        assert (mine == mine[0]).all()
    distinct = np.unique(first[:, 0])
    assert len(distinct) == len(set(sketches))
    measured = [s == sketches[0] for s in sketches]
    for _ in range(4):
        doubt.note([c for c, s in zip(candidates, sketches, strict=True) if s == sketches[0]])
    spread = doubt.draw(candidates, 400).std(axis=1)
    others = spread[~np.array(measured)]
    assert (spread[measured] < 0.5 * others.min()).all()
    assert abs(others / first.std(axis=1)[~np.array(measured)] - 1).max() < 0.2


def test_sketches_of_which_nothing_was_measured_are_told(make_task: MakeTask) -> None:
    rng = np.random.default_rng(0)
    space = SearchSpace(make_task("matmul", "cpu"), SearchOptions())
    structures = Structures()
    candidates = space.attempts(rng, 30)
    sketches = [structures.known[k].sketch for k in structures.numbers(candidates).tolist()]
    doubt = Doubt(structures, rng)
    every = doubt.unmeasured(candidates)
    assert len(every) == len(set(sketches)) > 1
    assert sorted(k for those in every for k in those) == list(range(len(candidates)))
    assert all(len({sketches[k] for k in those}) == 1 for those in every)
    doubt.note(candidates[:1])
    assert doubt.unmeasured(candidates) == [those for those in every if 0 not in those]
