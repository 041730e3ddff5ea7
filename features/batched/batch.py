"""Candidates in, rows out: many at once where that can be done, the others one by one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autosched.errors import ScheduleError
from autosched.features.ansor.rows import FeatureRows
from autosched.features.batched.counts import Known
from autosched.features.batched.forms import Ints
from autosched.features.batched.loops import Group
from autosched.features.batched.nest import Population
from autosched.features.batched.ops import ProgramOps, StoreOps, ops_of
from autosched.features.batched.plan import Columns, Loops, Plan, UnsupportedError, structure_of
from autosched.features.batched.planner import plan_of
from autosched.features.batched.rows import rows_of_population
from autosched.features.lowering import features_of_steps
from autosched.features.sets import ANSOR
from autosched.state.dag import ComputeDAG
from autosched.state.steps import Step
from autosched.target import Target

Steps = Sequence[Step]
_MOST_AT_ONCE = 4096
_MOST_PLANS = 50_000


@dataclass
class Share:
    """How many candidates were asked for, and how many of them were worked out one by one."""

    candidates: int = 0
    one_by_one: int = 0
    structures: int = 0
    programs: int = 0


@dataclass(eq=False)
class _Program:
    ops: ProgramOps | None
    known: dict[StoreOps, Known] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _Alike:
    """Candidates of one plan: which ones, and their numbers, with 1 as number 0."""

    plan: Plan
    members: list[int]
    numbers: Ints


class BatchedFeatures:
    """Rows of `ansor-0.19` for candidates of one DAG and target.

    Plans and programs are kept from call to call; `share` counts.

    >>> import autosched
    >>> task = autosched.Task.from_workload("matmul", M=2, N=2, K=2)
    >>> batched = BatchedFeatures(task.dag, task.target)
    >>> [rows.shape for rows in batched([(), ()]) if rows is not None]
    [(1, 164), (1, 164)]
    """

    def __init__(self, dag: ComputeDAG, target: Target) -> None:
        self._dag, self._target = dag, target
        self._plans: dict[tuple[Any, ...], Plan | None] = {}
        self._programs: dict[tuple[Any, ...], _Program] = {}
        self.share = Share()

    def __call__(self, candidates: Sequence[Steps]) -> list[FeatureRows | None]:
        """The rows of each candidate, (stored buffers, 164); None for an illegal one."""
        found: list[FeatureRows | None] = [None] * len(candidates)
        rest: list[int] = []
        programs: dict[tuple[Any, ...], list[_Alike]] = defaultdict(list)
        if self._target.is_gpu:
            rest = list(range(len(candidates)))
        else:
            rest = self._sort(candidates, programs)
        for key, alike in programs.items():
            for part in _parts(alike):
                rest += self._program(key, part, found)
        for n in rest:
            found[n] = self._one(candidates[n])
        self.share.candidates += len(candidates)
        self.share.one_by_one += len(rest)
        self.share.structures, self.share.programs = len(self._plans), len(self._programs)
        return found

    def _one(self, steps: Steps) -> FeatureRows | None:
        try:
            return features_of_steps(self._dag, steps, self._target, ANSOR)
        except ScheduleError:
            return None

    def _sort(
        self, candidates: Sequence[Steps], programs: dict[tuple[Any, ...], list[_Alike]]
    ) -> list[int]:
        """Put candidates to those of their program; those without are returned."""
        members: dict[tuple[Any, ...], list[int]] = defaultdict(list)
        numbers: dict[tuple[Any, ...], list[list[int]]] = defaultdict(list)
        for n, steps in enumerate(candidates):
            structure, own = structure_of(steps)
            members[structure].append(n)
            numbers[structure].append(own)
        rest: list[int] = []
        if len(self._plans) > _MOST_PLANS:
            self._plans.clear()
        for structure, those in members.items():
            if structure not in self._plans:
                self._plans[structure] = self._plan(candidates[those[0]])
            plan = self._plans[structure]
            if plan is None:
                rest += those
                continue
            table = np.ones((len(those), len(numbers[structure][0]) + 1), np.int64)
            table[:, 1:] = numbers[structure]
            programs[plan.key].append(_Alike(plan, those, table))
        return rest

    def _plan(self, steps: Steps) -> Plan | None:
        try:
            return plan_of(self._dag, tuple(steps))
        except UnsupportedError:
            return None

    def _program(
        self, key: tuple[Any, ...], alike: list[_Alike], found: list[FeatureRows | None]
    ) -> list[int]:
        """Work out the candidates of one program; returns those that must be done one by one."""
        members = [n for those in alike for n in those.members]
        program = self._programs.get(key)
        try:
            if program is None:
                program = self._programs[key] = _Program(ops_of(self._dag, alike[0].plan))
            if program.ops is None:
                return members
            line = self._target.hardware.cache_line_bytes
            population = population_of(alike)
            values, bad = rows_of_population(program.ops, population, line, program.known)
        except UnsupportedError:
            self._programs[key] = _Program(None)
            return members
        for n, rows, no in zip(members, values, bad, strict=True):
            if not no:
                found[n] = rows
        return [n for n, no in zip(members, bad, strict=True) if no]


def _parts(alike: list[_Alike]) -> list[list[_Alike]]:
    """Not too many candidates at once."""
    parts: list[list[_Alike]] = [[]]
    size = 0
    for those in alike:
        for start in range(0, len(those.members), _MOST_AT_ONCE):
            piece = slice(start, start + _MOST_AT_ONCE)
            some = _Alike(those.plan, those.members[piece], those.numbers[piece])
            if size and size + len(some.members) > _MOST_AT_ONCE:
                parts.append([])
                size = 0
            parts[-1].append(some)
            size += len(some.members)
    return parts


def population_of(alike: list[_Alike]) -> Population:
    """The arrays of candidates whose plans compute the same."""
    sizes = [len(those.members) for those in alike]
    starts = np.cumsum([0, *sizes])
    count = int(starts[-1])
    groups, factored = [], []
    targets, ats, steps = [], [], []
    for s, first in enumerate(alike[0].plan.stages):
        stages = [those.plan.stages[s] for those in alike]
        target = np.repeat(np.array([stage.target for stage in stages], np.int64), sizes)
        at = np.repeat(np.array([stage.at for stage in stages], np.int64), sizes)
        step = np.full(count, -1, np.int64)
        same: dict[Loops, list[int]] = defaultdict(list)
        for k, stage in enumerate(stages):
            same[stage.loops].append(k)
            if stage.unroll_number:
                step[starts[k] : starts[k + 1]] = alike[k].numbers[:, stage.unroll_number]
        targets.append(target)
        ats.append(at)
        steps.append(step)
        groups.append([_group(alike, starts, loops, ks, s) for loops, ks in same.items()])
        given = None
        if first.factored is not None and first.part == "rf":
            factors = [_factors(a, a.plan.stages[s].factored_by) for a in alike]
            given = first.factored, np.concatenate(factors, axis=1)
        factored.append(given)
    return Population(count, groups, targets, ats, steps, factored)


def _group(alike: list[_Alike], starts: Ints, loops: Loops, ks: list[int], s: int) -> Group:
    rows = np.concatenate([np.arange(starts[k], starts[k + 1]) for k in ks])
    factors = [_factors(alike[k], alike[k].plan.stages[s].factors) for k in ks]
    return Group(loops, rows, np.concatenate(factors, axis=1))


def _factors(alike: _Alike, columns: tuple[Columns, ...]) -> Ints:
    found = np.ones((len(columns), len(alike.members)), np.int64)
    for k, own in enumerate(columns):
        for column in own:
            found[k] *= alike.numbers[:, column]
    return found
