"""Compute the feature rows of many candidates at once where possible, the others one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from autosched.errors import ScheduleError
from autosched.features.ansor.rows import FeatureRows
from autosched.features.batched.alike import Alike, parts_of, population_of, some_of
from autosched.features.batched.build_nest import build_nest
from autosched.features.batched.counts import Known
from autosched.features.batched.freed import keep_freed
from autosched.features.batched.limits import Limits, refused_by_size
from autosched.features.batched.mixed import Texts
from autosched.features.batched.nest import Population
from autosched.features.batched.ops import ProgramOps, StoreOps, ops_of
from autosched.features.batched.plan import UnsupportedError
from autosched.features.batched.plans import Plans
from autosched.features.batched.rows import PopulationRows, rows_of_population
from autosched.features.lowering import rows_of_steps
from autosched.features.sets import ANSOR, Rows
from autosched.runtime.compiled_loops import NoCodeError
from autosched.state.dag import ComputeDAG
from autosched.state.steps import Step
from autosched.target import Target
from autosched.user_warning import warn

Steps = tuple[Step, ...]
FEW = "too few candidates of one program"
ILLEGAL = "illegal steps"
WITHOUT_CODE = "loops that cannot be compiled"


@dataclass
class Share:
    """How many candidates were asked for, how many of them were computed one by one, and why.

    `structures` and `programs` count the different plans and programs.
    """

    candidates: int = 0
    one_by_one: int = 0
    structures: int = 0
    programs: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


@dataclass(eq=False)
class Program:
    """What a group of candidates computes.

    `why` is the reason if there are no rows; `ops` then only serve to apply limits.
    """

    ops: ProgramOps | None
    why: str = ""
    known: dict[StoreOps, Known] = field(default_factory=dict)
    texts: Texts = field(default_factory=Texts)


class _Limited(NamedTuple):
    """Candidates sorted by a GPU's limits: refused, perhaps refused (for `reasons`), and others."""

    refused: list[int]
    unsure: list[int]
    left: list[Alike]
    reasons: Counter[str]


class BatchedFeatures:
    """Rows of `ansor-0.19` for candidates of one DAG and target.

    Plans and programs are kept from call to call; `share` counts candidates.

    >>> import autosched
    >>> task = autosched.Task.from_workload("matmul", M=2, N=2, K=2)
    >>> batched = BatchedFeatures(task.dag, task.target)
    >>> [rows.shape for rows in batched([(), ()]) if rows is not None]
    [(1, 164), (1, 164)]
    """

    _features = ANSOR
    _within_bounds = False

    def __init__(self, dag: ComputeDAG, target: Target, ansor_limits: bool = True) -> None:
        """With `ansor_limits`, shared memory counts as in `verify_gpu`."""
        keep_freed()
        self._dag, self._target = dag, target
        self._ansor_limits = ansor_limits
        self._as_ansor = self._features == ANSOR
        self._least = 1
        self._limits = Limits.of(target, ansor_limits) if target.is_gpu else None
        self._plans = Plans(dag)
        self._programs: dict[tuple[Any, ...], Program] = {}
        self._without_code = False
        self.share = Share()

    def __call__(self, candidates: Sequence[Steps]) -> list[FeatureRows | None]:
        """The rows of each candidate, (stored buffers, 164); None for an illegal one."""
        found, rest = self.at_once(candidates)
        for n in rest:
            rows = self._one(candidates[n])
            found[n] = None if rows is None else rows.values
        return found

    def rows_of(self, candidates: Sequence[Steps]) -> list[Rows | None]:
        """As `__call__`, with the buffer that each row describes."""
        buffers: list[tuple[str, ...]] = [()] * len(candidates)
        values, rest = self.at_once(candidates, buffers)
        found = [None if v is None else Rows(v, b) for v, b in zip(values, buffers, strict=True)]
        for n in rest:
            found[n] = self._one(candidates[n])
        return found

    def at_once(
        self, candidates: Sequence[Steps], buffers: list[tuple[str, ...]] | None = None
    ) -> tuple[list[FeatureRows | None], list[int]]:
        """The rows of candidates that have a rule in array form, and the indices of the others.

        `buffers`, where given, receives the buffers of each candidate's rows.
        """
        found: list[FeatureRows | None] = [None] * len(candidates)
        if self._without_code:
            return self._none_at_once(candidates)
        programs, without = self._plans.sorted(candidates)
        rest: list[int] = []
        for reason, places in without:
            self.share.reasons[reason] += len(places)
            rest += places
        try:
            rest += self._work_out(programs, found, buffers)
        except NoCodeError as error:
            self._without_code = True
            _warn(str(error))
            return self._none_at_once(candidates)
        self.share.candidates += len(candidates)
        self.share.one_by_one += len(rest)
        self.share.structures, self.share.programs = len(self._plans), len(self._programs)
        return found, rest

    def _none_at_once(
        self, candidates: Sequence[Steps]
    ) -> tuple[list[FeatureRows | None], list[int]]:
        self.share.reasons[WITHOUT_CODE] += len(candidates)
        self.share.candidates += len(candidates)
        self.share.one_by_one += len(candidates)
        return [None] * len(candidates), list(range(len(candidates)))

    def _one(self, steps: Steps) -> Rows | None:
        try:
            return rows_of_steps(self._dag, steps, self._target, self._features, self._ansor_limits)
        except ScheduleError:
            return None

    def _work_out(
        self,
        programs: dict[tuple[Any, ...], list[Alike]],
        found: list[FeatureRows | None],
        buffers: list[tuple[str, ...]] | None,
    ) -> list[int]:
        """Store the rows of all candidates in `found`; return the indices of those without rows."""
        rest: list[int] = []
        for key, alike in programs.items():
            for part in parts_of(alike):
                rest += self._program(key, part, found, buffers)
        return rest

    def _program(
        self,
        key: tuple[Any, ...],
        alike: list[Alike],
        found: list[FeatureRows | None],
        buffers: list[tuple[str, ...]] | None,
    ) -> list[int]:
        """Compute the candidates of one program; return those that must be computed one by one."""
        members = [n for those in alike for n in those.members]
        rest: list[int] = []
        ops: ProgramOps | None = None
        try:
            program = self._ready(key, alike)
            if program.ops is not None and self._limits is not None:
                limited = self._within_limits(program.ops, alike)
                rest, alike = limited.unsure, limited.left
                self.share.reasons += limited.reasons
                members = [n for those in alike for n in those.members]
            ops = program.ops
            if len(members) < self._least:
                self.share.reasons[FEW] += len(members)
                return [*rest, *members]
            if ops is None or program.why:
                self.share.reasons[program.why] += len(members)
                return [*rest, *members]
            rows = self._rows(program, ops, population_of(alike, program.texts))
        except UnsupportedError as error:
            self._programs[key] = Program(ops, str(error))
            self.share.reasons[str(error)] += len(members)
            return [*rest, *members]
        except ScheduleError:  # with other numbers the same program may be legal
            self.share.reasons[ILLEGAL] += len(members)
            return [*rest, *members]
        bad = rows.forms.bad
        self.share.reasons += rows.forms.reasons
        rows.hand_out(members, found, buffers)
        return [*rest, *(n for n, no in zip(members, bad, strict=True) if no)]

    def _rows(self, program: Program, ops: ProgramOps, population: Population) -> PopulationRows:
        line = self._target.hardware.cache_line_bytes
        return rows_of_population(ops, population, line, program.known, self._limits)

    def _ready(self, key: tuple[Any, ...], alike: list[Alike]) -> Program:
        program = self._programs.get(key)
        if program is None:
            if self._limits is not None and not alike[0].plan.threads:
                raise UnsupportedError("no loop bound to threads, for a GPU")
            texts = Texts(as_ansor=self._as_ansor)
            ops = ops_of(self._dag, alike[0].plan, self._within_bounds, self._as_ansor)
            program = self._programs[key] = Program(ops, texts=texts)
        return program

    def refused(self, candidates: Sequence[Steps]) -> list[bool]:
        """Whether the limits of a GPU certainly refuse each candidate, so that it has no rows."""
        found = [False] * len(candidates)
        if self._limits is None:
            return found
        for key, alike in self._plans.sorted(candidates).programs.items():
            for part in parts_of(alike):
                try:
                    program = self._ready(key, part)
                    if program.ops is not None:
                        for n in self._within_limits(program.ops, part).refused:
                            found[n] = True
                except UnsupportedError as error:
                    self._programs[key] = Program(None, str(error))
                except ScheduleError:  # the path for single candidates reports it
                    continue
        return found

    def _within_limits(self, ops: ProgramOps, alike: list[Alike]) -> _Limited:
        """Sort the members by the limits on threads and memory."""
        assert self._limits is not None
        with np.errstate(all="ignore"):
            nest = build_nest(ops, population_of(alike, Texts(blank=True)))
            verdict = refused_by_size(nest, alike[0].plan, self._limits)
        nest.forms.refuse(
            verdict.unsure & ~verdict.refused, "memory that may be shared between buffers"
        )
        unsure, refused = nest.forms.bad.tolist(), verdict.refused.tolist()
        found = _Limited([], [], [], nest.forms.reasons)
        left = []
        for k, n in enumerate(n for those in alike for n in those.members):
            if unsure[k]:
                found.unsure.append(n)
            elif refused[k]:
                found.refused.append(n)
            else:
                left.append(k)
        found.left.extend(some_of(alike, left))
        return found


@lru_cache(maxsize=1)
def _warn(why: str) -> None:
    warn(
        "features of candidates are worked out one by one, which takes many times as long: what "
        f"works out many at once cannot be compiled here ({why})"
    )
