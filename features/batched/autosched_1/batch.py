"""Rows of `autosched-1`: many at once where that can be done, the others one by one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from autosched.errors import ScheduleError
from autosched.features.ansor.rows import FeatureRows
from autosched.features.autosched_1.machine import machine_of
from autosched.features.batched.alike import (
    MOST_AT_ONCE,
    Alike,
    parts_of,
    population_of,
    repeated,
    some_of,
)
from autosched.features.batched.autosched_1.borders import KnownBorders
from autosched.features.batched.autosched_1.cut_pieces import CopiesOf, pieces_of
from autosched.features.batched.autosched_1.kept import Kept
from autosched.features.batched.autosched_1.partition import Pieces, Trees
from autosched.features.batched.autosched_1.piece import Ready
from autosched.features.batched.autosched_1.rows import Prepared, prepared, ready, rows_of_all
from autosched.features.batched.autosched_1.spread import Spread
from autosched.features.batched.autosched_1.values import KnownChoices
from autosched.features.batched.autosched_1.whole_pieces import whole_pieces
from autosched.features.batched.batch import FEW, BatchedFeatures, Program
from autosched.features.batched.forms import Ints
from autosched.features.batched.ops import ProgramOps, inside_of_borders
from autosched.features.batched.plan import UnsupportedError
from autosched.features.lowering import rows_of_steps
from autosched.features.sets import AUTOSCHED_1, Rows
from autosched.state.dag import ComputeDAG
from autosched.state.steps import Step
from autosched.target import Target

Steps = tuple[Step, ...]
WORTH_AT_ONCE = 4  # fewer of one program are faster one by one
_WORTH_CUTTING = 3  # the same of those whose loops are cut
_MOST_WHOLE = 0.8  # of candidates: if more are whole, the arrays are not made anew for these alone


class _Part(NamedTuple):
    """Candidates by number, and what is known of their stores before their code."""

    members: list[int]
    prepared: Prepared


class BatchedTuningFeatures(BatchedFeatures):
    """Rows of `autosched-1` for candidates of one DAG and CPU target; see `BatchedFeatures`."""

    def __init__(self, dag: ComputeDAG, target: Target) -> None:
        super().__init__(dag, target)
        self._choices: KnownChoices = {}
        self._borders: KnownBorders = {}

    def _one(self, steps: Steps) -> Rows | None:
        try:
            return rows_of_steps(self._dag, steps, self._target, AUTOSCHED_1)
        except ScheduleError:
            return None

    def _work_out(
        self,
        programs: dict[tuple[Any, ...], list[Alike]],
        found: list[FeatureRows | None],
        buffers: list[tuple[str, ...]] | None,
    ) -> list[int]:
        rest: list[int] = []
        waiting: list[_Part] = []
        size = 0
        for key, alike in programs.items():
            for part in parts_of(alike):
                members = [n for those in part for n in those.members]
                rest += members
                waiting += self._parts(key, part, members)
                size += len(members)
                if size >= MOST_AT_ONCE:
                    self._finish(waiting, found, buffers)
                    waiting, size = [], 0
        self._finish(waiting, found, buffers)
        return [n for n in rest if found[n] is None]

    def _ready(self, key: tuple[Any, ...], alike: list[Alike]) -> Program:
        known = key in self._programs
        program = super()._ready(key, alike)
        if not known and program.ops is not None:
            program.ops = inside_of_borders(program.ops)
        return program

    def _parts(self, key: tuple[Any, ...], alike: list[Alike], members: list[int]) -> list[_Part]:
        """The candidates of one program that can be worked out, those with cut loops together."""
        if len(members) < WORTH_AT_ONCE:
            self.share.reasons[FEW] += len(members)
            return []
        try:
            program = self._ready(key, alike)
            if program.ops is None or program.why:
                self.share.reasons[program.why] += len(members)
                return []
            made = ready(program.ops, population_of(alike))
            parts = self._made(program.ops, alike, members, made)
            for kept in made.kept:
                parts += self._kept(program.ops, alike, members, kept)
        except UnsupportedError as error:
            self._programs[key] = Program(None, str(error))
            self.share.reasons[str(error)] += len(members)
            return []
        return parts

    def _kept(
        self, ops: ProgramOps, alike: list[Alike], members: list[int], kept: Kept
    ) -> list[_Part]:
        """Those of the candidates that keep a stage's values in an output."""
        those = kept.where.nonzero()[0].tolist()
        if len(those) < WORTH_AT_ONCE:
            self.share.reasons["few that keep values in an output"] += len(those)
            return []
        some = some_of(alike, those)
        made = ready(ops, population_of(some), kept)
        return self._made(ops, some, [members[n] for n in those], made, kept)

    def _made(
        self,
        ops: ProgramOps,
        alike: list[Alike],
        members: list[int],
        made: Ready,
        kept: Kept | None = None,
    ) -> list[_Part]:
        """The candidates of a nest, those with cut loops apart; all of them are `kept` alike."""
        machine = machine_of(self._target)
        cut, different, which = self._cut(made)
        parts = self._whole(ops, alike, members, made, kept)
        if len(cut) < _WORTH_CUTTING:
            if cut:
                self.share.reasons["few whose loops are cut"] += len(cut)
            return parts
        copies = CopiesOf.of(different, made.stores)
        spread = Spread.of(copies.number[which])
        again = ready(ops, population_of(repeated(alike, cut, spread.owner)), kept)
        again.nest.forms.owner = spread.owner
        kinds = spread.by_row(copies.first[which])
        pieces = pieces_of(again, copies, kinds, self._borders)
        own = prepared(again, pieces, machine, self._choices, spread)
        return [*parts, _Part([members[n] for n in cut], own)]

    def _whole(
        self,
        ops: ProgramOps,
        alike: list[Alike],
        members: list[int],
        made: Ready,
        kept: Kept | None,
    ) -> list[_Part]:
        """Those of the candidates whose loops are not cut."""
        left = made.left.nonzero()[0].tolist()
        self.share.reasons += made.nest.forms.reasons
        made.nest.forms.reasons.clear()
        if not left:
            return []
        if len(left) < _MOST_WHOLE * len(members):  # the others would be worked out for nothing
            made = ready(ops, population_of(some_of(alike, left)), kept)
            made.nest.forms.reasons.clear()
            members = [members[k] for k in left]
        pieces = whole_pieces(made, self._borders)
        return [_Part(members, prepared(made, pieces, machine_of(self._target), self._choices))]

    def _finish(
        self,
        parts: list[_Part],
        found: list[FeatureRows | None],
        buffers: list[tuple[str, ...]] | None,
    ) -> None:
        """Work out the rows of these, of all programs together, and put them where they belong."""
        every = rows_of_all([part.prepared for part in parts], machine_of(self._target))
        for part, rows in zip(parts, every, strict=True):
            self.share.reasons += rows.forms.reasons
            bad = rows.forms.bad.tolist()
            for k, (n, values, no) in enumerate(zip(part.members, rows.values, bad, strict=True)):
                if not no:
                    found[n] = values
                    if buffers is not None:
                        buffers[n] = rows.buffers(k)

    def _cut(self, made: Ready) -> tuple[list[int], list[Pieces], Ints]:
        """The candidates with conditions, the different pieces that loops are cut into, and which
        of these each has."""
        conditional = made.conditional
        for kept in made.kept:
            conditional = conditional & ~kept.where
        those = conditional.nonzero()[0]
        if not len(those):
            return [], [], those
        every, which = Trees(made.nest, made.population, made.stores).pieces(those)
        renumbered = np.full(len(every), -1)
        found: list[Pieces] = []
        for k, own in enumerate(every):
            if isinstance(own, str):
                self.share.reasons[own] += int((which == k).sum())
            else:
                renumbered[k] = len(found)
                found.append(own)
        which = renumbered[which]
        return those[which >= 0].tolist(), found, which[which >= 0]
