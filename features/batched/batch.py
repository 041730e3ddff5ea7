"""Candidates in, rows out: many at once where that can be done, the others one by one."""

from __future__ import annotations

from collections import Counter, defaultdict
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
from autosched.features.batched.plan import Columns, Loops, Plan, Structures, UnsupportedError
from autosched.features.batched.planner import plan_of
from autosched.features.batched.rows import rows_of_population
from autosched.features.lowering import rows_of_steps
from autosched.features.sets import ANSOR, Rows
from autosched.state.dag import ComputeDAG
from autosched.state.steps import Step
from autosched.target import Target

Steps = tuple[Step, ...]
_MOST_AT_ONCE = 4096
_MOST_PLANS = 50_000


@dataclass
class Share:
    """How many candidates were asked for, how many were worked out one by one, and why."""

    candidates: int = 0
    one_by_one: int = 0
    structures: int = 0
    programs: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


@dataclass(eq=False)
class _Program:
    ops: ProgramOps | None
    why: str = ""
    known: dict[StoreOps, Known] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _Alike:
    """Candidates of one plan: which ones, and their numbers."""

    plan: Plan
    members: list[int]
    numbers: list[list[int]]


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
        self._structures = Structures()
        self._plans: dict[tuple[Any, ...], Plan | str] = {}
        self._programs: dict[tuple[Any, ...], _Program] = {}
        self.share = Share()

    def __call__(self, candidates: Sequence[Steps]) -> list[FeatureRows | None]:
        """The rows of each candidate, (stored buffers, 164); None for an illegal one."""
        found, rest = self.at_once(candidates)
        for n in rest:
            rows = self._one(candidates[n])
            found[n] = None if rows is None else rows.values
        return found

    def rows_of(self, candidates: Sequence[Steps]) -> list[Rows | None]:
        """As `__call__`, with the buffer that each row is about."""
        buffers: list[tuple[str, ...]] = [()] * len(candidates)
        values, rest = self.at_once(candidates, buffers)
        found = [None if v is None else Rows(v, b) for v, b in zip(values, buffers, strict=True)]
        for n in rest:
            found[n] = self._one(candidates[n])
        return found

    def at_once(
        self, candidates: Sequence[Steps], buffers: list[tuple[str, ...]] | None = None
    ) -> tuple[list[FeatureRows | None], list[int]]:
        """The rows that the arrays have a rule for, and the other candidates by number.

        `buffers`, where given, receives the buffers of the rows.
        """
        found: list[FeatureRows | None] = [None] * len(candidates)
        rest: list[int] = []
        programs: dict[tuple[Any, ...], list[_Alike]] = defaultdict(list)
        if self._target.is_gpu:
            rest = list(range(len(candidates)))
        else:
            rest = self._sort(candidates, programs)
        for key, alike in programs.items():
            for part in _parts(alike):
                rest += self._program(key, part, found, buffers)
        self.share.candidates += len(candidates)
        self.share.one_by_one += len(rest)
        self.share.structures, self.share.programs = len(self._plans), len(self._programs)
        return found, rest

    def _one(self, steps: Steps) -> Rows | None:
        try:
            return rows_of_steps(self._dag, steps, self._target, ANSOR)
        except ScheduleError:
            return None

    def _sort(
        self, candidates: Sequence[Steps], programs: dict[tuple[Any, ...], list[_Alike]]
    ) -> list[int]:
        """Put candidates to those of their program; those without are returned."""
        alike: dict[tuple[Any, ...], tuple[list[int], list[list[int]]]] = {}
        for n, steps in enumerate(candidates):
            structure, own = self._structures.structure_of(steps)
            found = alike.get(structure)
            if found is None:
                found = alike[structure] = [], []
            found[0].append(n)
            found[1].append(own)
        rest: list[int] = []
        if len(self._plans) > _MOST_PLANS:
            self._plans.clear()
        for structure, (those, numbers) in alike.items():
            if structure in self._plans:
                plan = self._plans[structure]
            else:
                plan = self._plans[structure] = self._plan(candidates[those[0]])
            if isinstance(plan, str):
                self.share.reasons[plan] += len(those)
                rest += those
                continue
            programs[plan.key].append(_Alike(plan, those, numbers))
        return rest

    def _plan(self, steps: Steps) -> Plan | str:
        """The plan, or why there is none."""
        try:
            return plan_of(self._dag, steps)
        except UnsupportedError as error:
            return str(error)

    def _program(
        self,
        key: tuple[Any, ...],
        alike: list[_Alike],
        found: list[FeatureRows | None],
        buffers: list[tuple[str, ...]] | None,
    ) -> list[int]:
        """Work out the candidates of one program; returns those that must be done one by one."""
        members = [n for those in alike for n in those.members]
        program = self._programs.get(key)
        try:
            if program is None:
                program = self._programs[key] = _Program(ops_of(self._dag, alike[0].plan))
            if program.ops is None:
                self.share.reasons[program.why] += len(members)
                return members
            line = self._target.hardware.cache_line_bytes
            population = population_of(alike)
            rows = rows_of_population(program.ops, population, line, program.known)
        except UnsupportedError as error:
            self._programs[key] = _Program(None, str(error))
            self.share.reasons[str(error)] += len(members)
            return members
        bad = rows.forms.bad
        self.share.reasons += rows.forms.reasons
        for k, (n, values, no) in enumerate(zip(members, rows.values, bad, strict=True)):
            if not no:
                found[n] = values
                if buffers is not None:
                    buffers[n] = rows.buffers(k)
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
    sizes = np.array([len(those.members) for those in alike])
    starts = np.cumsum([0, *sizes])
    numbers = _table(alike)
    count = int(starts[-1])
    groups, factored = [], []
    targets, ats, steps = [], [], []
    every = np.arange(count)
    for s, first in enumerate(alike[0].plan.stages):
        stages = [those.plan.stages[s] for those in alike]
        column = np.repeat(np.array([stage.unroll_number for stage in stages], np.int64), sizes)
        steps.append(np.where(column > 0, numbers[every, column], -1))
        targets.append(np.repeat(np.array([stage.target for stage in stages], np.int64), sizes))
        ats.append(np.repeat(np.array([stage.at for stage in stages], np.int64), sizes))
        same: dict[Loops, list[int]] = defaultdict(list)
        for k, stage in enumerate(stages):
            same[stage.loops].append(k)
        own = []
        for loops, ks in same.items():
            rows = np.concatenate([every[starts[k] : starts[k + 1]] for k in ks])
            columns = [stages[k].factors for k in ks]
            own.append(Group(loops, rows, _factors(numbers, rows, columns, sizes[ks])))
        groups.append(own)
        given = None
        if first.factored is not None and first.part == "rf":
            columns = [stage.factored_by for stage in stages]
            given = first.factored, _factors(numbers, every, columns, sizes)
        factored.append(given)
    return Population(count, groups, targets, ats, steps, factored)


def _table(alike: list[_Alike]) -> Ints:
    """A row for each candidate: 1, then its numbers."""
    rows = [own for those in alike for own in those.numbers]
    most = max(map(len, rows))
    filled = [own if len(own) == most else [*own, *[1] * (most - len(own))] for own in rows]
    return np.concatenate(
        [np.ones((len(rows), 1), np.int64), np.array(filled, np.int64).reshape(len(rows), most)],
        axis=1,
    )


def _factors(numbers: Ints, rows: Ints, columns: list[tuple[Columns, ...]], sizes: Ints) -> Ints:
    """(splits, rows): the factors, products of numbers; `columns` of each plan in turn."""
    splits = len(columns[0])
    most = max((len(own) for plan in columns for own in plan), default=0)
    table = np.zeros((len(columns), splits, most), np.int64)  # number 0 is 1
    for k, plan in enumerate(columns):
        for split, own in enumerate(plan):
            table[k, split, : len(own)] = own
    which = np.repeat(table, sizes, axis=0)
    found: Ints = np.ascontiguousarray(numbers[rows[:, None, None], which].prod(axis=2).T)
    return found
