"""Candidates of one structure are told by their steps without the numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched.features.batched.sets import batched_features
from autosched.features.batched.structures import Structures
from autosched.features.lowering import features_of_steps
from autosched.search.options import SearchOptions
from autosched.search.space import SearchSpace
from autosched.state.queries import sliced_products
from autosched.state.steps import PragmaStep, SplitStep, Step
from autosched.target import cpu_target, cuda_target
from autosched.task import Task

Steps = tuple[Step, ...]
LIMIT = "auto_unroll_max_step$"


def _sampled(task: Task, count: int) -> list[Steps]:
    space = SearchSpace(task, SearchOptions())
    return space.sample(np.random.default_rng(0), count)


def _plain(step: Step) -> tuple[object, list[int]]:
    """A step without its numbers, and these."""
    if isinstance(step, SplitStep):
        lengths = [n for n in step.lengths if n is not None]
        return (step.stage_id, step.iter_id, len(lengths), step.inner_to_outer), lengths
    if isinstance(step, PragmaStep) and step.pragma.startswith(LIMIT):
        return (step.stage_id, step.iter_id), [int(step.pragma.removeprefix(LIMIT))]
    return step, []


def test_candidates_that_differ_in_numbers_only_are_together() -> None:
    """With keys that a second population has, too, which copies of the steps do not change."""
    task = Task.from_workload("matmul", target=cpu_target(threads=2), M=64, N=48, K=40)
    found = _sampled(task, 96)
    structures = Structures()
    keys: dict[tuple[object, ...], object] = {}
    copies = [tuple([replace(step) for step in steps]) for steps in found]
    for population in (found[:64], found[32:], copies):
        seen: list[int] = []
        for key, members in structures.sorted(population):
            seen += members.places
            assert members.numbers is not None
            for n, numbers in zip(members.places, members.numbers.tolist(), strict=True):
                parts = [_plain(step) for step in population[n]]
                own = tuple([(type(s), p) for s, (p, _) in zip(population[n], parts, strict=True)])
                assert keys.setdefault(own, key) == key
                assert numbers == [number for _, rest in parts for number in rest]
        assert sorted(seen) == list(range(len(population)))
    assert len(set(keys.values())) == len(keys) > 5


def test_splits_into_other_numbers_of_loops_are_apart() -> None:
    splits: list[Steps] = [(SplitStep(0, 0, 64, (4,)),), (SplitStep(0, 0, 64, (4, 2)),)]
    found = [members.places for _, members in Structures().sorted(splits * 2)]
    assert found == [[0, 2], [1, 3]]


def test_equal_steps_of_one_population_are_one() -> None:
    """Of candidates with as many steps and with others, which are objects of their own."""
    task = Task.from_workload("matmul", target=cpu_target(threads=2), M=64, N=48, K=40)
    found = _sampled(task, 32)
    copies = [tuple([replace(step) for step in steps]) for steps in found]
    both: list[Steps] = [*found, (), *copies, ()]
    structures = dict(Structures().sorted(both))
    alone = dict(Structures().sorted(found))
    assert len(structures) == len(alone) + 1
    for members in structures.values():
        originals = [n for n in members.places if n <= len(found)]
        assert members.places == sorted([*originals, *(n + len(found) + 1 for n in originals)])


def test_pragmas_with_and_without_numbers_are_apart() -> None:
    texts = [f"{LIMIT}16", "debug_skip_region", f"{LIMIT}64", "debug_skip_region"]
    found = dict(Structures().sorted([(PragmaStep(0, 0, text),) for text in texts]))
    numbers = [m.numbers.tolist() for m in found.values() if m.numbers is not None]
    assert [members.places for members in found.values()] == [[0, 2], [1, 3]]
    assert numbers == [[[16], [64]], [[], []]]


def test_splits_of_other_stages_loops_or_directions_are_apart() -> None:
    splits = [SplitStep(0, 0, 64, (4,)), SplitStep(1, 0, 64, (4,)), SplitStep(0, 1, 64, (4,))]
    every: list[Steps] = [(split,) for split in [*splits, replace(splits[0], inner_to_outer=False)]]
    every += [(PragmaStep(0, 0, LIMIT + "4"),), (PragmaStep(1, 0, LIMIT + "4"),)]
    every += [(PragmaStep(0, 1, LIMIT + "4"),), (PragmaStep(0, 0, "software_pipeline$4"),)]
    assert len(dict(Structures().sorted(every * 2))) == len(every)


def test_numbers_of_slices_are_in_the_key() -> None:
    task = Task.from_workload("matmul", target=cuda_target(), M=32, N=32, K=4096)
    space = SearchSpace(task, SearchOptions())
    sketch = next(s.steps for s in space.sketches if sliced_products(s.steps))
    k = sliced_products(sketch)[0][0]
    split = sketch[k]
    assert isinstance(split, SplitStep)
    sliced = [
        (*sketch[:k], replace(split, lengths=(count,)), *sketch[k + 1 :]) for count in (4, 8, 4)
    ]
    assert [members.places for _, members in Structures().sorted(sliced)] == [[0, 2], [1]]


@pytest.mark.parametrize("length", [None, 1 << 70])
def test_lengths_that_are_no_numbers_are_illegal(length: int | None) -> None:
    """Those of their structures are worked out one by one."""
    task = Task.from_workload("matmul", target=cpu_target(threads=2), M=64, N=48, K=40)
    found = _sampled(task, 8)
    wrong = [
        tuple(
            replace(s, lengths=(length, *s.lengths[1:])) if isinstance(s, SplitStep) else s
            for s in steps
        )
        for steps in found
    ]
    batched = batched_features(task.dag, task.target, "ansor-0.19")
    rows = batched([*wrong, *found])
    assert rows[: len(wrong)] == [None] * len(wrong)
    for steps, own in zip(found, rows[len(wrong) :], strict=True):
        want = features_of_steps(task.dag, steps, task.target, "ansor-0.19")
        assert own is not None and own.tobytes() == want.tobytes()
    assert batched.share.reasons == {"split lengths that are not chosen yet": len(wrong + found)}


def test_steps_that_are_no_longer_kept_are_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same keys and numbers, when a table of many steps has been given up."""
    monkeypatch.setattr("autosched.features.batched.structures._MOST_STEPS", 3)
    splits: list[Steps] = [(SplitStep(0, 0, 64, (n,)), SplitStep(0, 1, 64, (n,))) for n in range(9)]
    structures = Structures()
    ((first, members),) = structures.sorted(splits)
    assert members.numbers is not None
    ((again, others),) = structures.sorted(splits[::-1])
    assert first == again and others.numbers is not None
    assert members.numbers.tolist() == others.numbers[::-1].tolist() == [[n, n] for n in range(9)]
