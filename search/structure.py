"""The structure of a candidate: all that it shares with candidates that differ in numbers only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from autosched.search.blocks import nested_splits
from autosched.search.rules.fused_tiles import tile_splits
from autosched.search.rules.instruction import fixed_splits
from autosched.state.queries import sliced_products
from autosched.state.steps import (
    STAGE_INSERTING,
    AnnotationStep,
    ComputeAtStep,
    FuseStep,
    MatrixTilesStep,
    PragmaStep,
    SplitStep,
    Step,
)

Steps = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Split:
    """An SP step: its position among the steps, its extent, and its columns in a row of numbers.

    `first` is the first of these columns and `pieces` their number.
    """

    position: int
    extent: int
    first: int
    pieces: int


@dataclass(frozen=True, slots=True)
class Structure:
    """All that candidates share which differ in numbers only.

    `steps` are the steps of one of these candidates. `splits` are the splits whose lengths differ.
    `unrolls` are the positions of pragmas that limit unrolling; their columns follow those of the
    splits. `pipelines` are the positions of pragmas that say how many tiles a pipelined loop holds;
    their columns come last. `layout` is equal for structures whose rows mean the same, so that the
    numbers of one can be tried in the other. `sketch` is equal for candidates that were sampled
    from one sketch.
    """

    steps: Steps
    splits: tuple[Split, ...]
    unrolls: tuple[int, ...]
    pipelines: tuple[int, ...]
    layout: tuple[Any, ...]
    sketch: tuple[Any, ...]

    @property
    def width(self) -> int:
        """The number of columns of a row."""
        return sum([split.pieces for split in self.splits]) + len(self.pragmas)

    @property
    def pragmas(self) -> tuple[int, ...]:
        """The positions of all pragmas whose numbers are drawn, in the order of their columns."""
        return self.unrolls + self.pipelines

    def numbers(self, steps: Steps) -> list[int]:
        """The row of a candidate of this structure."""
        row: list[int] = []
        for split in self.splits:
            lengths = lengths_of(steps[split.position])
            product = 1
            for length in lengths:
                product *= length
            row += [split.extent // product, *lengths]
        for position in self.pragmas:
            step = steps[position]
            assert isinstance(step, PragmaStep)
            row.append(step.number or 0)
        return row

    def candidate(self, row: Sequence[int]) -> Steps:
        """The steps with the numbers of `row`."""
        steps = list(self.steps)
        for split in self.splits:
            step = steps[split.position]
            assert isinstance(step, SplitStep)
            inner = tuple(row[split.first + 1 : split.first + split.pieces])
            if inner != step.lengths:
                steps[split.position] = step.with_lengths(inner)
        first = self.width - len(self.pragmas)
        for position, number in zip(self.pragmas, row[first:], strict=False):
            step = steps[position]
            assert isinstance(step, PragmaStep)
            steps[position] = step.with_number(number)
        return tuple(steps)


def lengths_of(step: Step) -> tuple[int, ...]:
    """The lengths of a split, 1 for one that is still open."""
    assert isinstance(step, SplitStep)
    return tuple([length or 1 for length in step.lengths])


def kept_splits(steps: Steps) -> frozenset[int]:
    """The positions of splits whose lengths belong to the structure: equal for equal `form_of`.

    The lengths of nested splits and of slices determine the extents of the splits inside them.
    Those of an instruction's or of Winograd's tiles are fixed by their rules.
    """
    slices = chain.from_iterable(sliced_products(steps))
    return frozenset((*nested_splits(steps), *fixed_splits(steps), *tile_splits(steps), *slices))


def form_of(steps: Steps) -> tuple[Any, ...]:
    """A key of the steps without the lengths of splits and the numbers of pragmas."""
    form: list[Any] = list(steps)
    for k, step in enumerate(steps):
        if isinstance(step, SplitStep) and step.extent:
            pieces, direction = len(step.lengths), step.inner_to_outer
            form[k] = (step.stage_id, step.iter_id, step.extent, pieces, direction)
        elif isinstance(step, PragmaStep) and step.number is not None:
            form[k] = (step.stage_id, step.iter_id, step.unroll_limit is None)
    return tuple(form)


def structure_of(steps: Steps, kept: frozenset[int]) -> Structure:
    """The structure of a candidate, in which the splits `kept` have their lengths."""
    splits: list[Split] = []
    unrolls: list[int] = []
    pipelines: list[int] = []
    column = 0
    for k, step in enumerate(steps):
        if isinstance(step, SplitStep) and step.extent and step.lengths and k not in kept:
            pieces = len(step.lengths) + 1
            splits.append(Split(k, step.extent, column, pieces))
            column += pieces
        elif isinstance(step, PragmaStep) and step.number is not None:
            (pipelines if step.unroll_limit is None else unrolls).append(k)
    layout = (
        *[(steps[s.position].stage_id, s.extent, s.pieces) for s in splits],
        *[steps[k].stage_id for k in (*unrolls, *pipelines)],
        len(pipelines),
        *[step for step in steps if isinstance(step, STAGE_INSERTING)],
    )
    sketch = (
        *[step for step in steps if isinstance(step, STAGE_INSERTING)],
        *[(s.stage_id, s.iter_id, len(s.lengths)) for s in steps if isinstance(s, SplitStep)],
    )
    return Structure(steps, tuple(splits), tuple(unrolls), tuple(pipelines), layout, sketch)


def traits(structure: Structure) -> dict[tuple[Any, ...], float]:
    """Numbers that tell structures apart, by name: compute locations, fused and annotated loops."""
    found: dict[tuple[Any, ...], float] = {}
    for k in nested_splits(structure.steps):
        split = structure.steps[k]
        found["block", split.stage_id, k] = lengths_of(split)[-1]
    for step in structure.steps:
        if isinstance(step, FuseStep):
            key: tuple[Any, ...] = ("fused", step.stage_id, step.iter_ids[0])
            found[key] = len(step.iter_ids)
        elif isinstance(step, ComputeAtStep):
            found["at", step.stage_id] = step.target_iter_id
            found["in", step.stage_id] = step.target_stage_id
        elif isinstance(step, AnnotationStep):
            found["annotated", step.stage_id, int(step.annotation)] = step.iter_id
        elif isinstance(step, MatrixTilesStep):
            for k, size in enumerate((*step.sizes, step.stages)):
                found["matrix", step.stage_id, k] = math.log2(max(size, 1))
        elif isinstance(step, STAGE_INSERTING):
            key = ("inserted", step.code, step.stage_id)
            found[key] = found.get(key, 0.0) + 1
    return found
