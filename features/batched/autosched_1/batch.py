"""Compute rows of `autosched-1`: many candidates at once where possible, the others one by one."""

from __future__ import annotations

from typing import Any, NamedTuple

from autosched.features.ansor.rows import FeatureRows
from autosched.features.autosched_1.machine import machine_of
from autosched.features.batched.alike import (
    MOST_AT_ONCE,
    Alike,
    parts_of,
    population_of,
    some_of,
)
from autosched.features.batched.autosched_1.kept import Kept
from autosched.features.batched.autosched_1.piece import Ready
from autosched.features.batched.autosched_1.pieces import pieces_of
from autosched.features.batched.autosched_1.rows import Prepared, prepared, ready, rows_of_all
from autosched.features.batched.autosched_1.values import KnownChoices
from autosched.features.batched.batch import FEW, BatchedFeatures, Program
from autosched.features.batched.ops import ProgramOps
from autosched.features.batched.plan import UnsupportedError
from autosched.features.sets import AUTOSCHED_1
from autosched.state.dag import ComputeDAG
from autosched.target import Target

WORTH_AT_ONCE = 4  # fewer candidates of one program are faster one by one
_MOST_LEFT = 0.8  # with a larger share of candidates left, the arrays are not rebuilt for these


class _Part(NamedTuple):
    """Candidates by index, and what is known of their stores before their code."""

    members: list[int]
    prepared: Prepared


class BatchedTuningFeatures(BatchedFeatures):
    """Rows of `autosched-1` for candidates of one DAG and CPU target; see `BatchedFeatures`."""

    _features = AUTOSCHED_1
    _within_bounds = True

    def __init__(self, dag: ComputeDAG, target: Target) -> None:
        super().__init__(dag, target)
        self._choices = KnownChoices()

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

    def _parts(self, key: tuple[Any, ...], alike: list[Alike], members: list[int]) -> list[_Part]:
        """Prepare the candidates of one program that can be computed at once, in parts."""
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
        """Prepare those of `members` that keep a stage's values in an output as `kept` says."""
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
        """Prepare the candidates of `made` as one part; an empty list where none is left.

        Candidates that keep a stage's values in an output are left out. With `kept`, all candidates
        keep the same stage's values in the same output.
        """
        left = made.left.nonzero()[0].tolist()
        self.share.reasons += made.nest.forms.reasons
        made.nest.forms.reasons.clear()
        if not left:
            return []
        if len(left) < _MOST_LEFT * len(members):  # the others would be computed for nothing
            made = ready(ops, population_of(some_of(alike, left)), kept)
            made.nest.forms.reasons.clear()
            members = [members[k] for k in left]
        pieces = pieces_of(made)
        return [_Part(members, prepared(made, pieces, machine_of(self._target), self._choices))]

    def _finish(
        self,
        parts: list[_Part],
        found: list[FeatureRows | None],
        buffers: list[tuple[str, ...]] | None,
    ) -> None:
        """Compute the rows of these parts, of all programs together, and store them in `found`."""
        every = rows_of_all([part.prepared for part in parts], machine_of(self._target))
        for part, rows in zip(parts, every, strict=True):
            self.share.reasons += rows.forms.reasons
            rows.hand_out(part.members, found, buffers)
