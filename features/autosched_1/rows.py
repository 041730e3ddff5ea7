"""Features of every stored buffer of a function: feature set `autosched-1`.

The walk is the one of `ansor-0.19`. This set corrects Ansor's accidental behaviour: thread axes
that a cooperative fetch names again count once, touch tables belong to one loop, regions and
strides to one buffer, positions of annotated loops are distinguished, multiply-adds are counted,
and buffers of equal weight keep their order of appearance. It adds what decides the speed of the
generated code: lanes and register tiles, data moved into each cache, occupancy, coalescing, bank
conflicts, conditions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from autosched.features.ansor.rows import FeatureRows
from autosched.features.autosched_1.columns import Kernel, Program, Row, columns
from autosched.features.autosched_1.estimate import estimate
from autosched.features.autosched_1.inner_nest import begins_in_registers, inner_nest, nest_starts
from autosched.features.autosched_1.machine import Machine, machine_of
from autosched.features.autosched_1.names import COLUMNS, SCALED
from autosched.features.autosched_1.sparse_sums import Patterns, sparse_facts, sparse_sum
from autosched.features.autosched_1.store import StoreFacts, store_facts
from autosched.features.autosched_1.tensor_cores import is_fragment
from autosched.features.autosched_1.within_bounds import within_bounds
from autosched.features.walk.scope import BufferInfo
from autosched.features.walk.strides import Coefficients
from autosched.features.walk.visitor import VTHREAD, Nest
from autosched.nest.loop_nest import Take
from autosched.nest.piece import Piece
from autosched.nest.plan import Planned, ScalarStore, plan_store
from autosched.target import Target
from autosched.tir.expr import Expr, Var
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import BufferStore, Stmt
from autosched.tir.walk import map_children, stmts
from autosched.transform.cpu_loops import CPU_LOOPS
from autosched.transform.expressions.guard_selects import GuardSelects
from autosched.transform.framework.passes import Pass
from autosched.transform.loops.hoist_if_then_else import HoistIfThenElse
from autosched.transform.loops.known_zeros import known_patterns
from autosched.transform.loops.loop_partition import LoopPartition
from autosched.transform.loops.sink_init import SinkInit
from autosched.transform.loops.skip_zeros import SkipZeros
from autosched.transform.vector.border_tiles import conditional_variables, value_inside
from autosched.transform.vector.hint_borders import HintBorders

_SCALED = np.array(SCALED)


@dataclass(slots=True)
class _Collected:
    """The stores of one buffer in program order, and its allocation.

    `allocation` is bytes, elements, and the product of the loops around it; None without one.
    """

    stores: list[StoreFacts] = field(default_factory=list)
    allocation: tuple[int, int, float] | None = None


class _Collector:
    """Visitor that records every store and allocation of the walk.

    `patterns` describes buffers that are zero except at elements with certain remainders; sums over
    such buffers leave iterations out (`sparse_sums.py`).
    """

    def __init__(self, machine: Machine, patterns: Patterns) -> None:
        self._machine, self._patterns = machine, patterns
        self._strides: dict[Expr, Coefficients] = {}
        self.buffers: dict[Var, _Collected] = {}
        self.stores: list[StoreFacts] = []
        self.kernels: dict[int, Kernel] = {}

    def store(self, stmt: BufferStore, nest: Nest) -> None:
        sparse = sparse_sum(stmt, nest.loops, self._patterns) if self._patterns else None
        if sparse is not None:
            self._note(sparse_facts(stmt, sparse, nest, self._machine))
            return
        facts = store_facts(stmt, nest, self._machine, self._strides)
        zeros = self._patterns.get(stmt.buffer.data, ())
        facts.share = 1 / math.prod([pattern.modulus for pattern in zeros])
        self._note(facts)

    def _note(self, facts: StoreFacts) -> None:
        self.buffers.setdefault(facts.stmt.buffer.data, _Collected()).stores.append(facts)
        self.stores.append(facts)

    def allocation(self, data: Var, info: BufferInfo, extents: list[int], nest: Nest) -> None:
        elements = 1
        for extent in extents:
            elements *= extent
        found = self.buffers.setdefault(data, _Collected())
        found.allocation = elements * info.bytes, elements, nest.prod
        if nest.loops and nest.loops[0].thread:
            kernel = self.kernels.setdefault(id(nest.loops[0]), Kernel(nest.loops[0]))
            copies = 1
            for loop in nest.loops:
                copies *= loop.extent if loop.thread == VTHREAD else 1
            if info.scope == "shared":
                kernel.shared += elements * info.bytes * nest.stages
            elif is_fragment(info):
                kernel.local += elements * info.bytes // self._machine.warp
            elif info.scope == "local":
                kernel.local += elements * info.bytes * copies


def features_from_func(func: PrimFunc, target: Target) -> FeatureRows:
    """The features of `func` as it stands (lowered by ScheduleOps, simplified, not flattened).

    Returns float32 (stored buffers, len(COLUMNS)), a row per buffer that is stored to, in order of
    first store; columns as `autosched_1_names.COLUMNS`. Raises ScheduleError for a loop variable
    bound twice with different bounds or an unknown thread axis.
    """
    return _values(*_as_followed(func, target), target)


def features_and_buffers(func: PrimFunc, target: Target) -> tuple[FeatureRows, list[str]]:
    """The rows of `features_from_func`, and the name of the buffer that each row describes.

    Take the buffers from here: passes may reorder stores, and keep one buffer in another.
    """
    func, patterns = _as_followed(func, target)
    return _values(func, patterns, target), list(_stored(func).values())


def _values(func: PrimFunc, patterns: Patterns, target: Target) -> FeatureRows:
    """The feature rows of a function to which the passes of `_as_followed` have been applied."""
    machine = machine_of(target)
    collector = _Collector(machine, patterns)
    Nest(func, collector)
    stored = [collector.buffers[data] for data in _stored(func)]
    starts = nest_starts([store for found in stored for store in found.stores])
    rows = [
        Row(
            found.stores,
            [estimate(store, starts[id(store)], machine) for store in found.stores],
            found.allocation,
            machine,
        )
        for found in stored
    ]
    program = Program(rows, collector.kernels)
    values = np.array([columns(row, program, machine) for row in rows], np.float64)
    result = values.reshape(len(rows), len(COLUMNS))
    result[:, _SCALED] = np.log2(result[:, _SCALED] + 1.0)
    return result.astype(np.float32)


def _stored(func: PrimFunc) -> dict[Var, str]:
    """The buffers that are stored to, in order of first store, with their names."""
    stores = [s for s in stmts(func.body) if isinstance(s, BufferStore)]
    return {store.buffer.data: store.buffer.name for store in stores}


def _as_followed(func: PrimFunc, target: Target) -> tuple[PrimFunc, Patterns]:
    """Apply to `func` the passes of the CPU's pipeline that decide which loops there are, and drop
    its border conditions; also return where its buffers are known to be zero.

    Selects that guard loads become conditions, loop invariants leave their loops, and values that
    become outputs are kept in those outputs. `sparse_sums.py` describes the terms that sums leave
    out. A GPU's function stays as it is.
    """
    if target.is_gpu:
        return func, {}
    func = GuardSelects()(func)
    patterns = known_patterns(func)
    followed = reduce(lambda f, p: p(f), passes_followed(bool(patterns)), func)
    return within_bounds(followed), patterns


def passes_followed(zeros: bool) -> tuple[Pass, ...]:
    """The passes of `_as_followed`.

    For each of them, `features/batched/autosched_1` either computes its effect on loops in numbers,
    or leaves the candidates to this path. `zeros` is for a function with sums that leave out terms
    known to be zero: such a sum becomes several nests, so that no initialisation moves into them.
    """
    left_out = (SkipZeros, SinkInit) if zeros else SkipZeros
    return tuple([p for p in CPU_LOOPS if not isinstance(p, left_out)])


def foreseen_nests(func: PrimFunc, target: Target) -> list[Planned]:
    """Predict the nests that the CPU code generator will make of `func`, lowered as for features.

    Buffers come in order of first store. The nests that it really made are in `planned` of
    PromoteAccumulators and VectorizeInnermost.
    """
    machine = machine_of(target)
    inside = func
    if not target.is_gpu:
        passes = (
            *CPU_LOOPS,
            GuardSelects(),
            HintBorders(machine.core.vector_bytes),
            LoopPartition(True),
            HoistIfThenElse(),
        )
        func = reduce(lambda f, p: p(f), passes, func)
        inside = func.with_body(_inside(func.body))
    planned = []
    for bordered, free in zip(_nests(func, machine), _nests(inside, machine), strict=True):
        own, pieces = free, plan_store(free.nest, machine.core)
        if _lanes_differ(free.nest, pieces, bordered.conditional):
            own, pieces = bordered, plan_store(bordered.nest, machine.core)
        planned += [Planned(own.buffer, own.times, piece) for piece in pieces]
    return planned


def _inside(s: Stmt) -> Stmt:
    """`s` where each value that is stored is the one inside of borders."""
    if isinstance(s, BufferStore):
        return BufferStore(s.buffer, value_inside(s.value), s.indices, s.predicate)
    return map_children(s, _inside)


class _StoreNest(NamedTuple):
    """The nest of a store to the buffer named `buffer`, which runs `times` times.

    `conditional` says for each of its loops whether conditions of borders depend on it.
    """

    buffer: str
    times: int
    nest: ScalarStore
    conditional: Sequence[bool]


def _nests(func: PrimFunc, machine: Machine) -> Iterator[_StoreNest]:
    """The nest of each store that leaves code."""
    collector = _Collector(machine, {})
    Nest(func, collector)
    stores = [store for found in collector.buffers.values() for store in found.stores]
    starts = nest_starts(stores)
    gone = {
        id(first)
        for first, second in pairwise(collector.stores)
        if begins_in_registers(first, second, starts, machine.core)
    }
    for store in stores:
        if id(store) not in gone:
            level, nest = inner_nest(store, starts[id(store)])
            times = math.prod([loop.extent for loop in store.loops[:level]])
            variables = conditional_variables(store.stmt.value)
            conditional = [loop.var in variables for loop in store.loops[level:]]
            yield _StoreNest(store.stored.info.name, times, nest, conditional)


def _lanes_differ(nest: ScalarStore, pieces: Iterable[Piece], conditional: Sequence[bool]) -> bool:
    """Whether a loop with a flag in `conditional` becomes lanes of `pieces`."""
    taken = {m.loop for piece in pieces for m in piece.nest.moves if isinstance(m, Take)}
    running = [k for k, loop in enumerate(nest.loops) if loop.extent > 1]
    vectors = {k for k, loop in enumerate(nest.loops) if loop.vector}
    lanes = vectors | {running[k] for k in taken if k < len(running)}
    return any(conditional[k] for k in lanes)
