"""MergeSharedMemoryAllocations: merge the shared memory of a kernel into one allocation.

Buffers that are not in use at the same time share bytes:

before:
    def main(A: Buffer((128,), float32), B: Buffer((128,), float32)):
        launch(threadIdx.x, 128)
        S = allocate((128,), float32, "shared.dyn")
        T = allocate((64,), float32, "shared.dyn")
        S[threadIdx.x] = A[threadIdx.x]
        tvm_storage_sync("shared.dyn")
        B[threadIdx.x] = S[127 - threadIdx.x]
        tvm_storage_sync("shared.dyn")
        T[threadIdx.x // 2] = 1.0
        tvm_storage_sync("shared.dyn")
        B[threadIdx.x] = B[threadIdx.x] + T[threadIdx.x % 64]
after:
    def main(A: Buffer((128,), float32), B: Buffer((128,), float32)):
        launch(threadIdx.x, 128)
        buf_dyn_shmem = allocate((512,), uint8, "shared.dyn")
        S = view(buf_dyn_shmem, (128,), float32)
        T = view(buf_dyn_shmem, (64,), float32)
        S[threadIdx.x] = A[threadIdx.x]
        tvm_storage_sync("shared.dyn")
        B[threadIdx.x] = S[127 - threadIdx.x]
        tvm_storage_sync("shared.dyn")
        T[threadIdx.x // 2] = 1.0
        tvm_storage_sync("shared.dyn")
        B[threadIdx.x] = B[threadIdx.x] + T[threadIdx.x % 64]

Buffers that are in use at the same time lie side by side:

before:
    def main(A: Buffer((128,), float32), B: Buffer((128,), float32)):
        launch(threadIdx.x, 128)
        S = allocate((128,), float32, "shared")
        T = allocate((128,), float32, "shared")
        S[threadIdx.x] = A[threadIdx.x]
        tvm_storage_sync("shared")
        T[threadIdx.x] = S[127 - threadIdx.x]
        tvm_storage_sync("shared")
        B[threadIdx.x] = T[127 - threadIdx.x]
after MergeSharedMemoryAllocations{static=True}:
    def main(A: Buffer((128,), float32), B: Buffer((128,), float32)):
        launch(threadIdx.x, 128)
        buf_shmem = allocate((1024,), uint8, "shared")
        S = view(buf_shmem, (128,), float32)
        T = view(buf_shmem, (128,), float32)
        S[threadIdx.x] = A[threadIdx.x]
        tvm_storage_sync("shared")
        T[threadIdx.x + 128] = S[127 - threadIdx.x]
        tvm_storage_sync("shared")
        B[threadIdx.x] = T[127 - threadIdx.x + 128]
unchanged:
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

from autosched.errors import ScheduleError
from autosched.tir.buffer import Buffer
from autosched.tir.dtype import DType, handle
from autosched.tir.expr import (
    Broadcast,
    BufferLoad,
    Call,
    Expr,
    Ramp,
    Var,
    pointer,
)
from autosched.tir.function import PrimFunc
from autosched.tir.op import add, const, floordiv, mul
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    For,
    LetStmt,
    Stmt,
)
from autosched.tir.walk import (
    free_vars,
    map_children,
    map_expr_children,
    map_exprs,
    stmts,
)
from autosched.transform.device.shared_layout import (
    ALIGNMENT,
    PLANNER,
    alignment_of,
    allocations,
    elements_of,
    plan_layout,
    saves_bytes,
    unit_of,
)
from autosched.transform.device.thread_sync import kernels, missing_barriers
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass

_NAMES = {"shared.dyn": "buf_dyn_shmem", "shared": "buf_shmem"}
_BYTE = DType("uint8")


@dataclass(frozen=True)
class MergeSharedMemoryAllocations(FunctionPass):
    """Merge the allocations in shared.dyn, and with `static` those in shared, into one of bytes.

    Buffers that are in use at different times share memory (`shared_liveness.py`). This moves
    accesses of different buffers to the same place, so with `static` ThreadSync must have run with
    `merged`. Every buffer begins at a multiple of `alignment` bytes and of its element size. The
    total is a whole number of elements of each type. `planner` selects the placement: first_fit,
    best_fit, or auto for the better of both. A kernel with one allocation stays as it is. With
    `by_config`, static memory is merged if that saves bytes and then no barrier is missing, unless
    `tir.merge_static_smem` is off. Raises ScheduleError for memory that is not flat, and, with
    `static`, if a barrier is missing after merging.
    """

    name: ClassVar[str] = "MergeSharedMemoryAllocations"
    static: bool = False
    alignment: int = ALIGNMENT
    planner: str = PLANNER
    by_config: bool = False

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        static = self.by_config and ctx.setting("tir.merge_static_smem")
        merged: dict[Stmt, Stmt] = {}
        for kernel in kernels(func.body):
            new = _merge(kernel, "shared.dyn", self, func.name)
            if self.static:
                new = _merge(new, "shared", self, func.name)
                if not _has_its_barriers(new, func.name):
                    raise ScheduleError(
                        f"MergeSharedMemoryAllocations: {func.name}: barriers are missing between "
                        "uses of merged static memory; run ThreadSync('shared', merged=True) "
                        "before this pass and after LowerThreadAllreduce, which allocates some"
                    )
            elif static and saves_bytes(new, "shared"):
                smaller = _merge(new, "shared", self, func.name)
                new = smaller if _has_its_barriers(smaller, func.name) else new
            merged[kernel] = new

        def go(s: Stmt) -> Stmt:
            return merged[s] if s in merged else map_children(s, go)

        return func.with_body(go(func.body))


def _has_its_barriers(kernel: Stmt, function: str) -> bool:
    """Whether a kernel whose static memory was merged has all the barriers that it needs."""
    assert isinstance(kernel, AttrStmt)
    try:
        return not missing_barriers(kernel, "shared", function)
    except ScheduleError:
        return False


def _merge(kernel: Stmt, scope: str, options: MergeSharedMemoryAllocations, function: str) -> Stmt:
    found = allocations(kernel, scope)
    if len(found) < 2:
        return kernel
    plan = plan_layout(kernel, scope, options.alignment, options.planner)
    offsets: dict[Var, Expr] = {data: const(at) for data, at in plan.offsets.items()}
    total: Expr = const(plan.total)
    bound = _bound(kernel)
    elements = elements_of(kernel, scope)
    for data, s in plan.symbolic.items():
        inside = bound & {v for e in s.extents for v in free_vars(e)}
        if inside:
            names = ", ".join(sorted(v.name for v in inside))
            raise ScheduleError(
                f"MergeSharedMemoryAllocations: {function}: the size of {data.name} depends on "
                f"{names}, which the kernel itself binds; give it a size known at the launch"
            )
        step = alignment_of(elements[data], options.alignment)
        offsets[data] = _up(total, step)
        total = add(offsets[data], reduce(mul, s.extents, const(s.dtype.value_bytes)))
    if plan.symbolic:
        total = _up(total, unit_of(elements))
    memory = pointer(_NAMES[scope], _BYTE, scope)
    rewriter = _Rewriter({s.buffer_var for s in found}, offsets, memory, function)

    def merged(body: Stmt) -> Stmt:
        body = rewriter.stmt(body)
        return Allocate(memory, _BYTE, (total,), TRUE, body) if offsets else body

    return _below_threads(kernel, merged)


def _up(value: Expr, step: int) -> Expr:
    return mul(floordiv(add(value, step - 1), step), step)


def _below_threads(s: Stmt, fn: Callable[[Stmt], Stmt]) -> Stmt:
    """Apply `fn` to the body below the thread attributes at the start of a kernel."""
    if isinstance(s, AttrStmt) and s.key == "thread_extent":
        return s.with_(body=_below_threads(s.body, fn))
    return fn(s)


def _bound(kernel: Stmt) -> set[Var]:
    """The scalar variables that a kernel binds."""
    found: set[Var] = set()
    for s in stmts(kernel):
        if isinstance(s, For):
            found.add(s.loop_var)
        elif isinstance(s, LetStmt):
            found.add(s.var)
        elif isinstance(s, AttrStmt) and s.key in ("thread_extent", "virtual_thread"):
            found.add(s.node.var)
    return found


class _Rewriter:
    """Replaces the pointers `old` by `memory`, in which they begin at `offsets` bytes."""

    def __init__(
        self, old: set[Var], offsets: Mapping[Var, Expr], memory: Var, function: str
    ) -> None:
        self.old = old
        self.offsets = offsets
        self.memory = memory
        self.function = function
        self.buffers: dict[Buffer, Buffer] = {}
        self.memo: dict[Expr, Expr] = {}

    def stmt(self, s: Stmt) -> Stmt:
        match s:
            case Allocate() if s.buffer_var in self.old:
                return self.stmt(s.body)
            case DeclBuffer() if s.buffer.data in self.old:
                if s.buffer.data not in self.offsets:
                    return self.stmt(s.body)
                return DeclBuffer(self._view(s.buffer), self.stmt(s.body))
            case AttrStmt() if isinstance(s.node, Var) and s.node in self.old:
                return AttrStmt(self.memory, s.key, self.expr(s.value), self.stmt(s.body))
            case AttrStmt() if isinstance(s.node, Buffer) and s.node.data in self.old:
                node = self._view(s.node)
                return AttrStmt(node, s.key, self.expr(s.value), self.stmt(s.body))
            case BufferStore() if s.buffer.data in self.old:
                index = self._moved(s.buffer, map_exprs(s.indices, self.expr))
                predicate = None if s.predicate is None else self.expr(s.predicate)
                return BufferStore(self._view(s.buffer), self.expr(s.value), (index,), predicate)
        return map_children(s, self.stmt, self.expr)

    def expr(self, e: Expr) -> Expr:
        done = self.memo.get(e)
        if done is None:
            done = self.memo[e] = self._expr(e)
        return done

    def _expr(self, e: Expr) -> Expr:
        match e:
            case Var() if e in self.old:
                return self._address(e)
            case BufferLoad() if e.buffer.data in self.old:
                index = self._moved(e.buffer, map_exprs(e.indices, self.expr))
                predicate = None if e.predicate is None else self.expr(e.predicate)
                return BufferLoad(self._view(e.buffer), (index,), predicate)
            case Call(op="tvm_access_ptr", args=(kind, Var() as data, offset, *rest)):
                if data in self.old:
                    at = add(self.expr(offset), self._elements(data, kind.dtype))
                    return Call(e.dtype, e.op, (kind, self.memory, at, *map(self.expr, rest)))
            case Call(op="ptx_cp_async", args=(Var() as data, offset, *rest)):
                if data in self.old:
                    # Offsets into byte memory are in bytes.
                    own = const(e.dtype.bytes)
                    at = add(mul(self.expr(offset), own), self.offsets[data])
                    return Call(e.dtype, e.op, (self.memory, at, *map(self.expr, rest)))
        return map_expr_children(e, self.expr)

    def _address(self, data: Var) -> Expr:
        """The address of the first element of `data`, for a pointer used by itself."""
        dtype = data.element or _BYTE
        view = Buffer(self.memory, dtype, (const(1),), name=data.name)
        return Call(handle, "address_of", (BufferLoad(view, (self._elements(data, dtype),)),))

    def _elements(self, data: Var, dtype: DType) -> Expr:
        """The start of `data` in `memory`, in elements of `dtype`."""
        return floordiv(self.offsets[data], dtype.value_bytes)

    def _view(self, buffer: Buffer) -> Buffer:
        found = self.buffers.get(buffer)
        if found is None:
            found = self.buffers[buffer] = buffer.with_(data=self.memory)
        return found

    def _moved(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
        if len(indices) != 1 or buffer.strides:
            what = "strides" if buffer.strides else f"{len(indices)} indices"
            raise ScheduleError(
                f"MergeSharedMemoryAllocations: {self.function}: an access to {buffer.name} has "
                f"{what}; flatten storage first"
            )
        (index,) = indices
        by = self._elements(buffer.data, buffer.dtype)
        match index:
            case Ramp():
                return Ramp(add(index.base, by), index.stride, index.lanes)
            case Broadcast():
                return Broadcast(add(index.value, by), index.lanes)
        return add(index, by if index.dtype.lanes == 1 else Broadcast(by, index.dtype.lanes))
