"""LowerThreadAllreduce: reductions across the threads of a block become shuffles and barriers.

Within a warp, values are shuffled from lane to lane:

before:
    def main(A: Buffer((8,), float32), B: Buffer((1,), float32)):
        launch(threadIdx.x, 8)
        R = allocate((1,), float32, "local")
        with attr(reducer("sum", [x: float32], [y: float32], [x + y], [0.0]), "reduce_scope", 0):
            tvm_thread_allreduce(uint32(1), A[threadIdx.x], True, R[0], threadIdx.x)
        if threadIdx.x == 0:
            B[0] = R[0]
after:
    def main(A: Buffer((8,), float32), B: Buffer((1,), float32)):
        launch(threadIdx.x, 8)
        R = allocate((1,), float32, "local")
        R[0] = A[threadIdx.x]
        with t0: float32 = tvm_warp_shuffle_down(uint32(255), R[0], 4, 32, 32, dtype=float32):
            R[0] = R[0] + t0
        with t0_1: float32 = tvm_warp_shuffle_down(uint32(255), R[0], 2, 32, 32, dtype=float32):
            R[0] = R[0] + t0_1
        with t0_2: float32 = tvm_warp_shuffle_down(uint32(255), R[0], 1, 32, 32, dtype=float32):
            R[0] = R[0] + t0_2
        R[0] = tvm_warp_shuffle(uint32(255), R[0], 0, 32, 32, dtype=float32)
        if threadIdx.x == 0:
            B[0] = R[0]

Small types are reduced by a tree in shared memory. So are reductions that do not fit into a warp,
down to the steps that do:

before:
    def main(A: Buffer((4,), int8), B: Buffer((1,), int8)):
        launch(threadIdx.x, 4)
        R = allocate((1,), int8, "local")
        with attr(reducer("sum", [x: int8], [y: int8], [x + y], [int8(0)]), "reduce_scope", 0):
            tvm_thread_allreduce(uint32(1), A[threadIdx.x], True, R[0], threadIdx.x)
        if threadIdx.x == 0:
            B[0] = R[0]
after LowerThreadAllreduce{warp_size=1}:
    def main(A: Buffer((4,), int8), B: Buffer((1,), int8)):
        launch(threadIdx.x, 4)
        R = allocate((1,), int8, "local")
        with red_buf0 = allocate((4,), int8, "shared"):
            tvm_storage_sync("shared")
            red_buf0[threadIdx.x] = A[threadIdx.x]
            tvm_storage_sync("shared")
            if threadIdx.x < 2:
                red_buf0[threadIdx.x] = red_buf0[threadIdx.x] + red_buf0[threadIdx.x + 2]
            tvm_storage_sync("shared")
            if threadIdx.x < 1:
                red_buf0[threadIdx.x] = red_buf0[threadIdx.x] + red_buf0[threadIdx.x + 1]
            tvm_storage_sync("shared")
            R[0] = red_buf0[0]
        if threadIdx.x == 0:
            B[0] = R[0]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NoReturn

from autosched.errors import ScheduleError
from autosched.tir.constants import is_zero
from autosched.tir.dtype import DType
from autosched.tir.expr import (
    BufferLoad,
    Call,
    Cast,
    CommReducer,
    Expr,
    IntImm,
    IterVar,
    Select,
    Var,
)
from autosched.tir.function import PrimFunc
from autosched.tir.op import cast
from autosched.tir.stmt import AttrStmt, Evaluate, For, IfThenElse, Stmt, While
from autosched.tir.walk import distinct, map_children, stmts, substitute, uses
from autosched.transform.device.allreduce_steps import Group, Reduction, shared_tree, warp_shuffles
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass

_AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")


@dataclass(frozen=True)
class LowerThreadAllreduce(FunctionPass):
    """Lower tvm_thread_allreduce to shuffles within warps or trees in shared memory.

    Warps have `warp_size` threads, blocks at most `max_threads`. Every thread gets the result.
    Shuffles are used for values of 32 and 64 bits if the reducing threads are neighbours and form
    part of a warp, a warp, or up to `warp_size` whole warps; otherwise a tree in shared memory is
    used. A result that is stored in another type, as bool is in int8 (`bool(R[0])`), is reduced in
    that type. Raises ScheduleError for thread axes whose extent is not constant, and for a
    reduction that not all threads of a block reach.
    """

    name: ClassVar[str] = "LowerThreadAllreduce"
    warp_size: int = 32
    max_threads: int = 1024

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        return func.with_body(_Lower(self, func.name).stmt(func.body))


class _Lower:
    def __init__(self, options: LowerThreadAllreduce, function: str) -> None:
        self.options = options
        self.function = function
        self.kernel: Stmt | None = None
        self.axes: dict[str, tuple[Var, int]] = {}
        self.reducers: list[CommReducer] = []
        self.uneven: list[Expr] = []

    def stmt(self, s: Stmt) -> Stmt:
        match s:
            case AttrStmt(key="thread_extent"):
                return self._axis(s)
            case AttrStmt(node=CommReducer() as reducer, key="reduce_scope"):
                self.reducers.append(reducer)
                body = self.stmt(s.body)
                self.reducers.pop()
                return s if body is s.body else body
            case Evaluate(Call(op="tvm_thread_allreduce") as call):
                return self._allreduce(call)
            case For():
                return self._under(s, [s.min, s.extent])
            case IfThenElse() | While():
                return self._under(s, [s.condition])
        return map_children(s, self.stmt)

    def _under(self, s: Stmt, conditions: list[Expr]) -> Stmt:
        self.uneven += conditions
        new = map_children(s, self.stmt)
        del self.uneven[-len(conditions) :]
        return new

    def _axis(self, s: AttrStmt) -> Stmt:
        assert isinstance(s.node, IterVar)
        tag = s.node.thread_tag or s.node.var.name
        outermost, saved = self.kernel is None, dict(self.axes)
        if outermost:
            self.kernel = s
        if tag in _AXES:
            # 0 if the extent is not constant
            extent = s.value.value if isinstance(s.value, IntImm) else 0
            self.axes[tag] = (s.node.var, extent)
        new = map_children(s, self.stmt)
        self.axes = saved
        if outermost:
            self.kernel = None
        return new

    def _allreduce(self, call: Call) -> Stmt:
        count, *rest = call.args
        if not self.reducers or not isinstance(count, IntImm):
            self._fail(f"tvm_thread_allreduce outside of a reduce_scope: {call!r}")
        reducer, n = self.reducers[-1], count.value
        values, condition, targets = rest[:n], rest[n], rest[n + 1 : 2 * n + 1]
        if n != len(reducer.result):
            self._fail(f"{n} values are reduced by a reducer of {len(reducer.result)}: {call!r}")
        if not (isinstance(condition, IntImm) and condition.value):
            pairs = zip(values, reducer.identity, strict=True)
            values = [Select(condition, value, neutral) for value, neutral in pairs]
        group = self._group(rest[2 * n + 1 :])
        self._check_all_threads_come()
        reduction = self._reduction(reducer, values, targets)
        if self._fits_warps(reduction, group):
            return warp_shuffles(reduction, group, self.options.warp_size)
        return shared_tree(reduction, group, self.options.warp_size)

    def _reduction(
        self, reducer: CommReducer, values: Sequence[Expr], targets: Sequence[Expr]
    ) -> Reduction:
        """The reduction in the types that its targets have in memory: int8 for bool."""
        places: list[BufferLoad] = []
        for target in targets:
            place = target.value if isinstance(target, Cast) else target
            if not isinstance(place, BufferLoad):
                self._fail(f"tvm_thread_allreduce stores its result in {target!r}, not a load")
            places.append(place)
        stored = [place.dtype for place in places]
        if stored == [value.dtype for value in values]:
            return Reduction(reducer, tuple(values), tuple(places))
        lhs, rhs = (
            tuple(Var(var.name, dtype) for var, dtype in zip(names, stored, strict=True))
            for names in (reducer.lhs, reducer.rhs)
        )
        table = {
            old: cast(old.dtype, new)
            for old, new in zip((*reducer.lhs, *reducer.rhs), (*lhs, *rhs), strict=True)
        }
        result = _cast(stored, [substitute(e, table) for e in reducer.result])
        identity = _cast(stored, reducer.identity)
        reducer = CommReducer(lhs, rhs, result, identity, reducer.name)
        return Reduction(reducer, _cast(stored, values), tuple(places))

    def _group(self, axes: Sequence[Expr]) -> Group:
        """Which threads reduce together, from the axes named in the call."""
        own = {var for var, _ in self.axes.values()}
        named = {axis for axis in axes if isinstance(axis, Var)}
        if not named <= own:
            names = ", ".join(repr(axis) for axis in named - own)
            self._fail(f"a reduction over {names}, which is no thread axis around it")
        self._check_axes()
        ordered = [(tag, *self.axes[tag]) for tag in _AXES if tag in self.axes]
        reduce_index, reduce_extent = _number([(v, n) for _, v, n in ordered if v in named])
        group_index, groups = _number([(v, n) for _, v, n in ordered if v not in named])
        contiguous = 1
        for _, var, extent in ordered:
            if extent == 1:
                continue
            if var not in named:
                break
            contiguous *= extent
        return Group(reduce_index, reduce_extent, group_index, groups, contiguous)

    def _check_axes(self) -> None:
        """Raise ScheduleError unless all thread axes of the block are known here.

        Their extents must be constant and not 0.
        """
        assert self.kernel is not None
        for s in stmts(self.kernel):
            if isinstance(s, AttrStmt) and s.key == "thread_extent":
                tag = s.node.thread_tag or s.node.var.name
                if tag in _AXES and is_zero(s.value):
                    self._fail(
                        f"{tag} has the extent 0, so that no thread runs; leave the loops of an "
                        "empty reduction serial"
                    )
                extent = s.value.value if isinstance(s.value, IntImm) else 0
                if tag in _AXES and extent == 0:
                    self._fail(f"the extent of {tag} must be constant, found {s.value!r}")
                if tag in _AXES and extent > 1 and tag not in self.axes:
                    self._fail(f"a reduction outside of the axis {tag} of its block")

    def _check_all_threads_come(self) -> None:
        threads = {var for var, extent in self.axes.values() if extent > 1}
        for e in self.uneven:
            if isinstance(e, Call) and e.op == "tvm_thread_invariant":
                continue
            reads = any(isinstance(part, BufferLoad) for part in distinct(e))
            if reads or uses(e, threads):
                self._fail(f"a reduction under {e!r}, which not all threads of a block meet alike")

    def _fits_warps(self, reduction: Reduction, group: Group) -> bool:
        size, extent = self.options.warp_size, group.extent
        if extent == 1 or group.contiguous != extent:
            return False
        if any(v.dtype.lanes > 1 or v.dtype.bits < 32 for v in reduction.values):
            return False
        whole = self.options.max_threads <= size * size and extent % size == 0
        return size % extent == 0 or whole or (group.groups == 1 and extent <= size)

    def _fail(self, problem: str) -> NoReturn:
        raise ScheduleError(f"LowerThreadAllreduce: {self.function}: {problem}")


def _cast(dtypes: Sequence[DType], values: Sequence[Expr]) -> tuple[Expr, ...]:
    return tuple(cast(dtype, value) for dtype, value in zip(dtypes, values, strict=True))


def _number(axes: Sequence[tuple[Var, int]]) -> tuple[Expr, int]:
    """(linear index of a thread along `axes`, the first fastest; number of these threads)."""
    index: Expr = IntImm(0)
    stride = 1
    for var, extent in axes:
        if extent > 1:
            index = index + var * stride
            stride *= extent
    return index, math.prod(extent for _, extent in axes)
