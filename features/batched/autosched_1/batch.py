"""Rows of `autosched-1`: many at once where that can be done, the others one by one."""

from __future__ import annotations

from typing import Any

from autosched.errors import ScheduleError
from autosched.features.ansor.rows import FeatureRows
from autosched.features.autosched_1.machine import machine_of
from autosched.features.batched.alike import Alike, population_of, some_of
from autosched.features.batched.autosched_1.borders import KnownBorders
from autosched.features.batched.autosched_1.cut_pieces import pieces_of
from autosched.features.batched.autosched_1.partition import Instance, Trees, UncutError
from autosched.features.batched.autosched_1.piece import Ready
from autosched.features.batched.autosched_1.rows import Prepared, prepared, ready, rows_of_all
from autosched.features.batched.autosched_1.values import KnownChoices
from autosched.features.batched.autosched_1.whole_pieces import whole_pieces
from autosched.features.batched.batch import BatchedFeatures, Program
from autosched.features.batched.plan import UnsupportedError
from autosched.features.lowering import rows_of_steps
from autosched.features.sets import AUTOSCHED_1, Rows
from autosched.state.dag import ComputeDAG
from autosched.state.steps import Step
from autosched.target import Target

Steps = tuple[Step, ...]
_WORTH_AT_ONCE = 4  # fewer of one program are faster one by one
_WORTH_CUTTING = 6  # the same of those whose loops are cut


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

    def _program(
        self,
        key: tuple[Any, ...],
        alike: list[Alike],
        found: list[FeatureRows | None],
        buffers: list[tuple[str, ...]] | None,
    ) -> list[int]:
        members = [n for those in alike for n in those.members]
        if len(members) < _WORTH_AT_ONCE:
            self.share.reasons["few that compute the same"] += len(members)
            return members
        machine = machine_of(self._target)
        parts: list[tuple[list[int], Prepared]] = []
        try:
            program = self._ready(key, alike)
            if program.ops is None or program.why:
                self.share.reasons[program.why] += len(members)
                return members
            made = ready(program.ops, population_of(alike))
            cut = self._cut(made)
            whole = prepared(made, whole_pieces(made, self._borders), machine, self._choices)
            parts.append((members, whole))
            if len(cut) >= _WORTH_CUTTING:
                again = ready(program.ops, population_of(some_of(alike, cut)))
                pieces = pieces_of(again, list(cut.values()), self._borders)
                own = prepared(again, pieces, machine, self._choices)
                parts.append(([members[n] for n in cut], own))
            elif cut:
                self.share.reasons["few whose loops are cut"] += len(cut)
            every = rows_of_all([own for _, own in parts], machine)
        except UnsupportedError as error:
            self._programs[key] = Program(None, str(error))
            self.share.reasons[str(error)] += len(members)
            return members
        left = dict.fromkeys(members)
        for (those, _), rows in zip(parts, every, strict=True):
            self.share.reasons += rows.forms.reasons
            for k, (n, values, bad) in enumerate(
                zip(those, rows.values, rows.forms.bad.tolist(), strict=True)
            ):
                if not bad:
                    del left[n]
                    found[n] = values
                    if buffers is not None:
                        buffers[n] = rows.buffers(k)
        return list(left)

    def _cut(self, made: Ready) -> dict[int, list[Instance]]:
        """The candidates with conditions, by number, and what their loops are cut into."""
        found: dict[int, list[Instance]] = {}
        those = made.conditional.nonzero()[0].tolist()
        trees = Trees(made.nest, made.population, made.stores) if those else None
        for n in those:
            assert trees is not None
            try:
                found[n] = trees.instances(n)
            except UncutError as error:
                self.share.reasons[str(error)] += 1
        return found
