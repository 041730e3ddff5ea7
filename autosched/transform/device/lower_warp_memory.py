"""LowerWarpMemory: distribute the memory of a warp over its threads, and shuffle between them.

before:
    def main(A: Buffer((64,), float32), B: Buffer((64,), float32)):
        launch(threadIdx.x, 32)
        S = allocate((64,), float32, "warp")
        for i in range(2):
            S[i * 32 + threadIdx.x] = A[i * 32 + threadIdx.x]
        tvm_storage_sync("warp")
        for i in range(2):
            B[i * 32 + threadIdx.x] = S[i * 32 + (threadIdx.x + 1) % 32]
after:
    def main(A: Buffer((64,), float32), B: Buffer((64,), float32)):
        launch(threadIdx.x, 32)
        S = allocate((2,), float32, "local")
        for i in range(2):
            S[i] = A[i * 32 + threadIdx.x]
        tvm_storage_sync("warp")
        for i in range(2):
            B[i * 32 + threadIdx.x] = tvm_warp_shuffle(uint32(4294967295), S[i], (threadIdx.x + 1)
                    % 32, 32, 32, dtype=float32)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar, NoReturn

from autosched.errors import ScheduleError
from autosched.tir.buffer import Buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import (
    BufferLoad,
    Call,
    Expr,
    IntImm,
    IterVar,
    Ramp,
    Var,
    pointer,
)
from autosched.tir.function import PrimFunc
from autosched.tir.linear import linear
from autosched.tir.op import add, const, floordiv, floormod, mul
from autosched.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    Stmt,
    While,
)
from autosched.tir.walk import distinct, free_vars, map_children, map_expr_children, stmts
from autosched.transform.expressions.facts import Facts
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass


@dataclass(frozen=True)
class LowerWarpMemory(FunctionPass):
    """Distribute memory of scope `warp` over the threads of warps of `warp_size`.

    Each thread keeps the elements that it stores: m consecutive ones, where m is the factor of
    threadIdx.x in the indices of all stores. A load of another thread's element becomes a shuffle,
    so all threads must reach such a load. Raises ScheduleError if threadIdx.x has no constant
    extent that divides a warp, if a store does not name its thread in this form, if the offset of a
    load within a thread's memory depends on the loading thread, and for other uses of the memory.
    With a `warp_size` of 1 nothing changes.
    """

    name: ClassVar[str] = "LowerWarpMemory"
    warp_size: int = 32

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if self.warp_size == 1:
            return func
        return func.with_body(_Finder(self.warp_size, func).stmt(func.body, ()))


class _Finder:
    """Finds the allocations, with the thread axes around and inside them."""

    def __init__(self, warp_size: int, func: PrimFunc) -> None:
        self.warp_size = warp_size
        self.func = func

    def stmt(self, s: Stmt, axes: tuple[AttrStmt, ...]) -> Stmt:
        if isinstance(s, AttrStmt) and s.key == "thread_extent":
            axes = (*axes, s)
        new = map_children(s, lambda part: self.stmt(part, axes))
        if isinstance(new, Allocate) and new.buffer_var.scope == "warp":
            inside = [p for p in stmts(new) if isinstance(p, AttrStmt) and p.key == "thread_extent"]
            return _Dealer(self.warp_size, self.func, new, (*axes, *inside)).lowered()
        return new


class _Dealer:
    """Distributes one allocation over the threads."""

    def __init__(
        self, warp_size: int, func: PrimFunc, memory: Allocate, axes: Sequence[AttrStmt]
    ) -> None:
        self.warp_size = warp_size
        self.function = func.name
        self.memory = memory
        self.old = memory.buffer_var
        self.facts = Facts(func)
        self.axes = axes
        self.thread, self.width = self._warp_index()
        threads = self._threads()
        self.mask = const((1 << min(threads, warp_size)) - 1, DType("uint32"))
        self.uneven: list[Expr] = []
        for axis in axes:
            self.facts.bind(axis.node.var, const(0), axis.value)
        self.each = self._factor()
        sizes = [e.value for e in memory.extents if isinstance(e, IntImm)]
        if len(sizes) != len(memory.extents):
            self._fail(f"the size of {self.old.name} must be constant")
        if memory.dtype.lanes > 1:
            self._fail(f"{self.old.name} holds vectors; give it elements")
        self.groups = -(-prod(sizes) // (self.width * self.each))
        self.new = pointer(self.old.name, memory.dtype, "local")
        self.buffers: dict[Buffer, Buffer] = {}

    def lowered(self) -> Stmt:
        """The allocation per thread, with the rewritten body."""
        size = const(self.groups * self.each)
        return self.memory.with_(
            buffer_var=self.new, extents=(size,), body=self._stmt(self.memory.body)
        )

    # -- analysis -----------------------------------------------------------------------------

    def _warp_index(self) -> tuple[Var, int]:
        found = {a.node.var: a.value for a in self.axes if _tag(a) == "threadIdx.x"}
        if len(found) != 1:
            self._fail(f"cannot find the warp index: {len(found)} axes threadIdx.x at {self.old!r}")
        ((var, extent),) = found.items()
        if not isinstance(extent, IntImm) or self.warp_size % extent.value != 0:
            self._fail(
                f"threadIdx.x must have a constant extent that divides a warp of {self.warp_size} "
                f"threads, found {extent!r}"
            )
        return var, extent.value

    def _threads(self) -> int:
        extents = {_tag(a): a.value for a in self.axes if _tag(a).startswith("threadIdx.")}
        sizes = [e.value if isinstance(e, IntImm) else self.warp_size for e in extents.values()]
        return prod(sizes)

    def _factor(self) -> int:
        """The number of consecutive elements that belong to each thread."""
        found: set[int] = set()
        for s in stmts(self.memory.body):
            if isinstance(s, BufferStore) and s.buffer.data is self.old:
                base = self._base(s.indices, s.buffer)
                _, terms = linear(base)
                factor = terms.pop(self.thread, 0)
                if factor < 1 or any(self.thread in free_vars(e) for e in terms):
                    self._fail(
                        f"a store must name its thread by a positive multiple of threadIdx.x, "
                        f"found {base!r}"
                    )
                lanes = s.indices[0].dtype.lanes
                if factor % lanes:
                    self._fail(f"a vector of {lanes} elements reaches beyond its thread: {s!r}")
                found.add(factor)
        if len(found) != 1:
            self._fail(f"the stores to {self.old.name} need one factor, found {sorted(found)}")
        return found.pop()

    def _base(self, indices: Sequence[Expr], buffer: Buffer) -> Expr:
        if len(indices) != 1 or buffer.elem_offset is not None or buffer.strides:
            self._fail(f"the access to {buffer.name} is not flat")
        (index,) = indices
        if index.dtype.lanes == 1:
            return index
        if not isinstance(index, Ramp) or index.stride is not const(1, index.base.dtype):
            self._fail(f"a vector access must go to neighbours, found {index!r}")
        known = self.facts.analyzer.modular_set(index.base)
        if known.coeff % index.lanes or known.base % index.lanes:
            self._fail(f"a vector access must begin at a multiple of its lanes, found {index!r}")
        return index.base

    def _split(self, index: Expr) -> tuple[Expr, Expr]:
        """(offset in its thread's memory, thread that holds it) of the element `index`."""
        within = floormod(index, self.each)
        if self.groups == 1:
            local, source = within, floordiv(index, self.each)
        else:
            group = self.each * self.width
            local = add(mul(floordiv(index, group), self.each), within)
            source = floordiv(floormod(index, group), self.each)
        simplify = self.facts.analyzer.simplify
        return simplify(local), simplify(source)

    # -- rewriting ----------------------------------------------------------------------------

    def _stmt(self, s: Stmt) -> Stmt:
        match s:
            case For():
                self.facts.bind(s.loop_var, s.min, s.extent)
                return self._under(s, (s.min, s.extent))
            case IfThenElse() | While():
                return self._under(s, (s.condition,))
            case DeclBuffer() if s.buffer.data is self.old:
                return DeclBuffer(self._view(s.buffer), self._stmt(s.body))
            case AttrStmt() if s.node is self.old:
                return s.with_(node=self.new, body=self._stmt(s.body))
            case BufferStore() if s.buffer.data is self.old:
                local, source = self._split(self._base(s.indices, s.buffer))
                if not self.facts.analyzer.can_prove_equal(source, self.thread):
                    self._fail(f"a thread stores into the part of thread {source!r}: {s!r}")
                place = _widened(local, s.indices[0])
                predicate = None if s.predicate is None else self._expr(s.predicate)
                return BufferStore(self._view(s.buffer), self._expr(s.value), (place,), predicate)
        return map_children(s, self._stmt, self._expr)

    def _under(self, s: Stmt, decisive: tuple[Expr, ...]) -> Stmt:
        self.uneven += decisive
        new = map_children(s, self._stmt, self._expr)
        del self.uneven[-len(decisive) :]
        return new

    def _expr(self, e: Expr) -> Expr:
        match e:
            case Var() if e is self.old:
                self._fail(f"the pointer {e.name} is used as such")
            case BufferLoad() if e.buffer.data is self.old:
                return self._load(e)
            case Call(op="if_then_else", args=(condition, yes, no)):
                head = self._expr(condition)
                self.uneven.append(condition)
                arms = self._expr(yes), self._expr(no)
                self.uneven.pop()
                return e if (head, *arms) == e.args else Call(e.dtype, e.op, (head, *arms))
        return map_expr_children(e, self._expr)

    def _load(self, e: BufferLoad) -> Expr:
        local, source = self._split(self._base(e.indices, e.buffer))
        if self.thread in free_vars(local):
            self._fail(
                f"which element of a thread is loaded must not depend on the loading thread, "
                f"found {local!r} for {e!r}"
            )
        predicate = None if e.predicate is None else self._expr(e.predicate)
        load = BufferLoad(self._view(e.buffer), (_widened(local, e.indices[0]),), predicate)
        if self.facts.analyzer.can_prove_equal(source, self.thread):
            return load
        if load.dtype.lanes > 1:
            self._fail(f"a vector cannot come from another thread: {e!r}")
        self._check_all_threads_come(e)
        width, warp = const(self.width), const(self.warp_size)
        return Call(load.dtype, "tvm_warp_shuffle", (self.mask, load, source, width, warp))

    def _check_all_threads_come(self, e: BufferLoad) -> None:
        threads = {a.node.var for a in self.axes if _tag(a).startswith("threadIdx.")}
        for condition in self.uneven:
            if isinstance(condition, Call) and condition.op == "tvm_thread_invariant":
                continue
            reads = any(isinstance(part, BufferLoad) for part in distinct(condition))
            if reads or not threads.isdisjoint(free_vars(condition)):
                self._fail(
                    f"{e!r} comes from another thread and stands under {condition!r}, which not "
                    "all threads of a warp meet alike; load it before"
                )

    def _view(self, buffer: Buffer) -> Buffer:
        if buffer.dtype is not self.memory.dtype:
            self._fail(f"{self.old.name} is accessed as {buffer.dtype}")
        found = self.buffers.get(buffer)
        if found is None:
            shape = (const(self.groups * self.each),)
            found = self.buffers[buffer] = Buffer(self.new, buffer.dtype, shape, name=buffer.name)
        return found

    def _fail(self, problem: str) -> NoReturn:
        raise ScheduleError(f"LowerWarpMemory: {self.function}: {problem}")


def _tag(axis: AttrStmt) -> str:
    assert isinstance(axis.node, IterVar)
    return axis.node.thread_tag or axis.node.var.name


def _widened(local: Expr, index: Expr) -> Expr:
    """`local` with as many lanes as `index`."""
    return Ramp(local, const(1), index.dtype.lanes) if index.dtype.lanes > 1 else local
