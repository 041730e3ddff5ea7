"""Crossing: splits of two candidates of a sketch in one, cut to fit the blocks they are in."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.search import evolution
from autosched.search.crossing import crossed
from autosched.search.evolution import mutated
from autosched.search.initial import Rng
from autosched.search.options import SpaceName
from autosched.search.population import Rows, Structures
from autosched.state.steps import PragmaStep, SplitStep, Step
from kit.types import MakeSpace, MakeTask

Steps = tuple[Step, ...]


def numbers_of(step: Step) -> tuple[int | None, ...]:
    return step.lengths if isinstance(step, SplitStep) else ()


@pytest.mark.parametrize("name", ["matmul", "conv2d_nhwc", "softmax"])
def test_a_split_is_as_a_relative_has_it_or_cut_to_fit(
    name: str, make_space: MakeSpace, make_task: MakeTask
) -> None:
    """And what comes out is a legal candidate of the structure of the first parent."""
    task = make_task(name)
    samples = make_space(task).sample(np.random.default_rng(3), 48)
    structures = Structures()
    rows = structures.rows(samples)
    after = crossed(structures, rows, np.random.default_rng(0))
    assert (after.structures == rows.structures).all()
    children = structures.candidates(after)
    again = structures.rows(children)
    assert (again.structures == rows.structures).all()
    assert (again.numbers == after.numbers).all()
    kin = structures.tables().kin[rows.structures]
    for child, parent, mine in zip(children, samples, kin, strict=True):
        task.dag.infer_bound_of(child)
        relatives = [s for s, other in zip(samples, kin, strict=True) if other == mine]
        for k, step in enumerate(child):
            if not isinstance(step, SplitStep):
                assert step == parent[k] or isinstance(step, PragmaStep)
                continue
            theirs = [numbers_of(s[k]) for s in relatives if k < len(s)]
            assert any(is_cut(step, other) for other in theirs), (step, theirs)
    new = sum(child not in samples for child in children)
    assert new > len(samples) / 4


def is_cut(step: SplitStep, lengths: tuple[int | None, ...]) -> bool:
    """Whether the step's lengths are these, each at most what is left of its extent."""
    left = step.extent or 1
    for mine, other in zip(reversed(step.lengths), reversed(lengths), strict=True):
        if mine != min(other or 1, left):
            return False
        left = -(-left // (mine or 1))
    return True


def test_a_tile_is_cut_from_the_inside_out() -> None:
    """(4, 48) of 256 columns in blocks of 64 and 40, and a split of another sketch."""
    structures = Structures()
    block = [
        (SplitStep(2, 0, 1024, (size,)), SplitStep(2, 1, size, lengths))
        for size, lengths in ((256, (4, 48)), (64, (1, 1)), (40, (1, 1)))
    ]
    rows = structures.rows([*block, (SplitStep(1, 0, 8, (2, 2)),)])
    found: set[Steps] = set()
    for seed in range(64):
        found.update(structures.candidates(crossed(structures, rows, np.random.default_rng(seed))))
    inside = {tuple(numbers_of(s) for s in steps) for steps in found}
    assert inside >= {((64,), (2, 48)), ((40,), (1, 40)), ((256,), (1, 1)), ((2, 2),)}
    assert len([lengths for lengths in inside if len(lengths) == 1]) == 1


@pytest.mark.parametrize(
    ("target", "space", "crosses"),
    [("cpu", "autosched", True), ("cpu", "ansor", False), ("cuda", "autosched", False)],
)
def test_ansors_space_and_gpus_do_not_cross(
    target: str,
    space: SpaceName,
    crosses: bool,
    make_space: MakeSpace,
    make_task: MakeTask,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int] = []

    def counted(structures: Structures, rows: Rows, rng: Rng) -> Rows:
        seen.append(len(rows))
        return rows

    monkeypatch.setattr(evolution, "crossed", counted)
    drawn_from = make_space(make_task("matmul", target), space=space)
    structures = Structures()
    rows = structures.rows(drawn_from.sample(np.random.default_rng(2), 10) * 10)
    mutated(drawn_from.context, structures, rows, np.random.default_rng(1))
    assert (seen[0] > 10) == crosses
    assert crosses or seen == [0]
