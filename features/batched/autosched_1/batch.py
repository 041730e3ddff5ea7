"""Rows of `autosched-1`: many at once where that can be done, the others one by one."""

from __future__ import annotations

from typing import Any

from autosched.errors import ScheduleError
from autosched.features.ansor.rows import FeatureRows
from autosched.features.autosched_1.machine import machine_of
from autosched.features.batched.alike import Alike, population_of
from autosched.features.batched.autosched_1.rows import rows_of_population
from autosched.features.batched.autosched_1.values import KnownChoices
from autosched.features.batched.batch import BatchedFeatures, _Program
from autosched.features.batched.plan import UnsupportedError
from autosched.features.lowering import rows_of_steps
from autosched.features.sets import AUTOSCHED_1, Rows
from autosched.state.dag import ComputeDAG
from autosched.state.steps import Step
from autosched.target import Target

Steps = tuple[Step, ...]


class BatchedTuningFeatures(BatchedFeatures):
    """Rows of `autosched-1` for candidates of one DAG and CPU target; see `BatchedFeatures`."""

    def __init__(self, dag: ComputeDAG, target: Target) -> None:
        super().__init__(dag, target)
        self._choices: KnownChoices = {}

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
        try:
            program = self._ready(key, alike)
            if program.ops is None or program.why:
                self.share.reasons[program.why] += len(members)
                return members
            population = population_of(alike, program.texts)
            machine = machine_of(self._target)
            rows = rows_of_population(program.ops, population, machine, self._choices)
        except UnsupportedError as error:
            self._programs[key] = _Program(None, str(error))
            self.share.reasons[str(error)] += len(members)
            return members
        self.share.reasons += rows.forms.reasons
        rest = []
        for k, (n, values, bad) in enumerate(
            zip(members, rows.values, rows.forms.bad.tolist(), strict=True)
        ):
            if bad:
                rest.append(n)
                continue
            found[n] = values
            if buffers is not None:
                buffers[n] = rows.buffers(k)
        return rest
