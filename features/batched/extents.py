"""The extents of all loops of many candidates at once, as InferBound finds them one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

import numpy as np

from autosched.errors import ScheduleError
from autosched.features.batched.alike import Alike, parts_of, population_of
from autosched.features.batched.build_nest import build_nest
from autosched.features.batched.forms import Flags, Form
from autosched.features.batched.freed import keep_freed
from autosched.features.batched.loops import splits_fused
from autosched.features.batched.mixed import Texts
from autosched.features.batched.nest import Nest, Population, index_form
from autosched.features.batched.ops import ProgramOps, ops_of
from autosched.features.batched.plan import Plan, UnsupportedError
from autosched.features.batched.plans import Key, Plans
from autosched.features.batched.regions import reads_of
from autosched.features.batched.threads import kept
from autosched.state.dag import ComputeDAG
from autosched.state.steps import Step
from autosched.tir.expr import Expr, FloorDiv, FloorMod, IntImm, Max, Min, Var
from autosched.tir.walk import free_vars, pre_order

Extents = list[list[int]]
"""For each stage in the program, in order, the extents of its loops."""


class BatchedExtents:
    """Works out the extents of the loops of candidates of one DAG.

    Plans and programs are kept from call to call. Loops are in the order in which they are lowered:
    in a reduction across threads, serial reduction loops come last.

    >>> import autosched
    >>> from autosched.state.steps import SplitStep
    >>> task = autosched.Task.from_workload("matmul", M=8, N=2, K=4)
    >>> BatchedExtents(task.dag)([(), (SplitStep(2, 0, 8, (2,)),)])
    [[[8, 2, 4]], [[4, 2, 2, 4]]]
    """

    def __init__(self, dag: ComputeDAG) -> None:
        keep_freed()
        self._dag = dag
        self._plans = Plans(dag)
        self._programs: dict[Key, ProgramOps | None] = {}

    def __call__(self, candidates: Sequence[Sequence[Step]]) -> list[Extents | None]:
        """The extents of each candidate; None for an illegal one, and where there is no rule."""
        found: list[Extents | None] = [None] * len(candidates)
        for key, alike in self._plans.sorted(candidates).programs.items():
            try:
                ops = self._ops(key, alike[0])
                if ops is not None:
                    for part in parts_of(alike):
                        _store(ops, part, found)
            except UnsupportedError:
                self._programs[key] = None
            except ScheduleError:  # with other numbers the same program may be legal
                continue
        return found

    def _ops(self, key: Key, one: Alike) -> ProgramOps | None:
        if key not in self._programs:
            self._programs[key] = ops_of(self._dag, one.plan)
        return self._programs[key]


def _store(ops: ProgramOps, alike: list[Alike], found: list[Extents | None]) -> None:
    """Store the extents of candidates of one program in `found`."""
    with np.errstate(all="ignore"):  # of candidates that turn out to have no rule
        population = population_of(alike, Texts(blank=True))
        nest = build_nest(ops, population)
        bad = (nest.forms.bad | _may_be_symbolic(nest, population)).tolist()
    start = 0
    for those in alike:
        rows = slice(start, start + len(those.members))
        stages = [_of_stage(nest, s, rows, those.plan) for s in range(len(ops.stages))]
        each = zip(*stages, strict=True)
        for n, extents, none in zip(those.members, each, bad[rows], strict=True):
            found[n] = None if none else list(extents)
        start = rows.stop


def _of_stage(nest: Nest, s: int, rows: slice, plan: Plan) -> list[list[int]]:
    """For each of the candidates `rows`, which have one plan, the extents of the loops of stage s.

    The stage may have more loops in other candidates of the nest.
    """
    slots = nest.stages[s].loops.slots[: len(plan.stages[s].loops.leaves)]
    if not slots:
        return [[] for _ in range(rows.start, rows.stop)]
    extents = np.stack([nest.forms.extents[slot][rows] for slot in slots], axis=1)
    return extents.tolist()  # type: ignore[no-any-return]


def _may_be_symbolic(nest: Nest, population: Population) -> Flags:
    """Where InferBound may find an expression for an extent.

    It subtracts the ends of what a stage reads. Where they are quotients of a loop that stands
    still and another that runs, it does not always see that the difference is a number:
    (t * 6 + 5) // 48 - t * 6 // 48.
    """
    found = np.zeros(nest.forms.count, bool)
    for c, reader in nest.stages.items():
        cut = _splits_fused(population, c)
        for s in range(c):
            indices = chain.from_iterable(reads_of(reader.ops, nest.stages[s].ops.buffer))
            for part in {part for index in indices for part in _parts(index)}:
                axes = [reader.axes[var] for var in free_vars(part)]
                if cut.any():
                    found |= cut & _stands_and_runs(nest, s, axes)
                if not isinstance(part, Var) and not (
                    reader.ops.constant_reads and _is_limit(part)
                ):
                    found |= _stands_and_runs(nest, s, axes) & ~_cancels(nest, s, part, reader.axes)
    return found


def _is_limit(e: Expr) -> bool:
    return isinstance(e, Min) and isinstance(e.b, IntImm)


def _cancels(nest: Nest, s: int, e: Expr, axes: Mapping[Var, Form]) -> Flags:
    """Where the loops that stand still leave the quotient or remainder, as its divisor divides
    them.

    (t * 12 + 5) // 6 - t * 12 // 6 is 0, as both are t * 2.
    """
    forms = nest.forms
    if not isinstance(e, FloorDiv | FloorMod) or not isinstance(e.b, IntImm):
        return np.zeros(forms.count, bool)
    inside, lost = forms.attempt(partial(index_form, forms, e.a, axes))
    found: Flags = ~lost
    for slot, term in inside.every():
        used = (term.scale % e.b.value != 0) & (forms.extents[slot] > 1)
        if used.any():
            found = found & ~(used & kept(nest, s, slot))
    return found


def _splits_fused(population: Population, s: int) -> Flags:
    """Where axes of stage s are quotients of a loop whose parts may stand still or run."""
    found = np.zeros(population.count, bool)
    for group in population.groups[s]:
        if splits_fused(group.loops):
            found[group.rows] = True
    factored = population.factored[s]
    return found | (factored is not None and splits_fused(factored[0].loops))


def _parts(index: Expr) -> Iterator[Expr]:
    """Yield the quotients, remainders and clamps in the index, and its variables."""
    return (e for e in pre_order(index) if isinstance(e, FloorDiv | FloorMod | Min | Max | Var))


def _stands_and_runs(nest: Nest, s: int, axes: Sequence[Form]) -> Flags:
    """Where some loops of the axes have one value for each part of stage s, and others several."""
    stands, runs = np.zeros((2, nest.forms.count), bool)
    for axis in axes:
        for slot, term in axis.every():
            used = (term.scale != 0) & (nest.forms.extents[slot] > 1)
            stays = kept(nest, s, slot)
            stands |= used & stays
            runs |= used & ~stays
    return stands & runs
