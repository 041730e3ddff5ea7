"""The walk over a function that every feature set shares: it visits stores inside their loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from autosched.arith import eval_bound
from autosched.arith.const_int_bound import POS_INF
from autosched.errors import ScheduleError
from autosched.features.walk.scope import BufferInfo, Loop, Siblings, TouchTable, f32
from autosched.tir.buffer import Buffer
from autosched.tir.expr import BufferLoad, Expr, IntImm, IterVar, Var
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferRealize,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
)
from autosched.tir.walk import child_stmts, direct_exprs, stmts

# The position of each thread axis in names.LAUNCH, whose first entry is `is_gpu`.
_THREADS = {
    "blockIdx.x": 1,
    "blockIdx.y": 2,
    "blockIdx.z": 3,
    "threadIdx.x": 4,
    "threadIdx.y": 5,
    "threadIdx.z": 6,
}
VTHREAD = 7
_NUM_LAUNCH = 8
_SERIAL = (ForKind.SERIAL, ForKind.UNROLLED)


class Visitor(Protocol):
    """The callbacks of a feature set, called in program order."""

    def store(self, stmt: BufferStore, nest: Nest) -> None:
        """Called at the store `stmt` inside the loops of `nest`."""

    def allocation(self, data: Var, info: BufferInfo, extents: list[int], nest: Nest) -> None:
        """Called where the storage of `data`, with `extents` elements, ends."""


class Nest:
    """The position of the walk: `loops` outermost first, `prod` the product of their extents.

    `step` is auto_unroll_max_step, `stages` the number of tiles that a pipelined loop holds.
    `guards` has for every enclosing condition the number of loops around it. `launch` has the
    extents named in names.LAUNCH, `env` the bounds of loop variables, `buffers` the known facts of
    each buffer. The loops from `floor` on enclose nothing but the current statement; `siblings` is
    the sequence that the statement, with all those loops, belongs to, if any. With
    `recycle_tables`, a thread attribute hands its touch table on to the next one, as Ansor's
    extractor does by an accident of its heap.
    """

    def __init__(self, func: PrimFunc, visitor: Visitor, *, recycle_tables: bool = False) -> None:
        self._visitor = visitor
        self._recycle = recycle_tables
        self._free_tables: list[TouchTable] = []
        self.loops: list[Loop] = []
        self.prod = 1.0
        self.step = 0
        self.stages = 1
        self.floor = 0
        self.siblings: Siblings | None = None
        self.guards: list[int] = []
        self.launch = [0.0] + [1.0] * (_NUM_LAUNCH - 1)
        self.env: dict[Var, tuple[int, int]] = {}
        self.buffers: dict[Var, BufferInfo] = {}
        for buffer in func.buffers:
            self.know(buffer)
        self._visit(func.body)

    def know(self, buffer: Buffer) -> BufferInfo:
        """Record and return the buffer's declared shape and element size."""
        info = self.buffers.get(buffer.data)
        if info is None or info.buffer is not buffer:
            shape = tuple(s.value if isinstance(s, IntImm) else None for s in buffer.shape)
            info = self.buffers[buffer.data] = BufferInfo(shape, buffer.dtype.bytes, buffer)
        return info

    def _visit(self, stmt: Stmt) -> None:
        visit = _VISITS.get(type(stmt))
        if visit is not None:
            visit(self, stmt)
            return
        for expr in direct_exprs(stmt):
            self._note_loads(expr)
        for child in child_stmts(stmt):
            self._alone(child)

    def _seq(self, stmt: SeqStmt) -> None:
        around, floor, level = self.siblings, self.floor, len(self.loops)
        if around is not None and around.level == level:  # only allocations stand in between
            around.count += len(stmt.stmts) - 1
        else:
            self.siblings, self.floor = Siblings(level, floor, len(stmt.stmts)), level
        for child in stmt.stmts:
            self._visit(child)
        self.siblings, self.floor = around, floor

    def _alone(self, stmt: Stmt) -> None:
        """Visit the body of a statement other than a loop; no perfect nest extends across it."""
        siblings, floor = self.siblings, self.floor
        self.siblings, self.floor = None, len(self.loops)
        self._visit(stmt)
        self.siblings, self.floor = siblings, floor

    def _store(self, stmt: BufferStore) -> None:
        self.know(stmt.buffer)
        self._visitor.store(stmt, self)

    def _attr(self, stmt: AttrStmt) -> None:
        self._note_loads(stmt.value)
        if stmt.key in ("thread_extent", "virtual_thread"):
            assert isinstance(stmt.node, IterVar)
            self._thread(stmt.node, stmt.key, _constant(stmt.value), stmt.body)
        elif stmt.key == "pragma_auto_unroll_max_step":
            before, self.step = self.step, _int16(_constant(stmt.value))
            self._alone(stmt.body)
            self.step = before
        elif stmt.key == "pragma_software_pipeline":
            outside, self.stages = self.stages, _constant(stmt.value)
            self._visit(stmt.body)
            self.stages = outside
        elif stmt.key.startswith("pragma_"):
            self._alone(stmt.body)
        else:
            self._visit(stmt.body)

    def _if(self, stmt: IfThenElse) -> None:
        self._note_loads(stmt.condition)
        self.guards.append(len(self.loops))
        self._alone(stmt.then_case)
        if stmt.else_case is not None:
            self._alone(stmt.else_case)
        self.guards.pop()

    def _let(self, stmt: LetStmt) -> None:
        self.env[stmt.var] = eval_bound(stmt.value, self.env)
        if self.loops:
            self.loops[-1].lets.append((stmt.var, stmt.value))
        elif any(isinstance(inner, For) for inner in stmts(stmt.body)):
            raise ScheduleError(f"features: let {stmt.var.name} is outside all loops")
        self._note_loads(stmt.value)
        self._alone(stmt.body)

    def _realize(self, stmt: BufferRealize) -> None:
        info = self.know(stmt.buffer)
        extents = [_constant(r.extent) for r in stmt.bounds]
        info.realized = tuple(extents)
        self._visit(stmt.body)
        self._visitor.allocation(stmt.buffer.data, info, extents, self)

    def _allocate(self, stmt: Allocate) -> None:
        extents = [_constant(e) for e in stmt.extents]
        info = self.buffers[stmt.buffer_var] = BufferInfo(tuple(extents), stmt.dtype.bytes)
        self._visit(stmt.body)
        self._visitor.allocation(stmt.buffer_var, info, extents, self)

    def _note_loads(self, expr: Expr) -> None:
        if not isinstance(expr, BufferLoad | IntImm | Var):
            for child in expr.children():
                self._note_loads(child)
        elif isinstance(expr, BufferLoad):
            self.know(expr.buffer)

    def _for(self, stmt: For) -> None:
        first, size = self._bound(stmt.min), self._bound(stmt.extent)
        span = first if size == (1, 1) else (first[0], first[1] + size[1] - 1)
        known = self.env.get(stmt.loop_var)
        if known is not None and known != span:
            raise ScheduleError(
                f"features: loop variable {stmt.loop_var.name} is bound twice, "
                f"to {known} and to {span}"
            )
        self.env[stmt.loop_var] = span
        extent = 1 if size[1] == POS_INF else size[1]
        varies = None if isinstance(stmt.extent, IntImm) else stmt.extent
        loop = Loop(stmt.loop_var, extent, first, span, {}, stmt.kind, size=varies)
        loop.counted = (
            stmt.kind in _SERIAL
            and first == (0, 0)
            and isinstance(stmt.min, IntImm)
            and isinstance(stmt.extent, IntImm)
            and not stmt.annotations
        )
        self._enter(loop, stmt.body)

    def _bound(self, expr: Expr) -> tuple[int, int]:
        if isinstance(expr, IntImm):
            return expr.value, expr.value
        self._note_loads(expr)
        return eval_bound(expr, self.env)

    def _enter(self, loop: Loop, body: Stmt) -> None:
        self.prod = f32(self.prod * f32(loop.extent))
        self.loops.append(loop)
        self._visit(body)
        self.loops.pop()
        self.prod = f32(self.prod / f32(loop.extent))

    def _thread(self, node: IterVar, key: str, extent: int, body: Stmt) -> None:
        if key == "virtual_thread":
            slot = VTHREAD
        elif node.var.name in _THREADS:
            slot = _THREADS[node.var.name]
        else:
            raise ScheduleError(f"features: unknown thread axis {node.var.name!r}")
        before = self.launch[slot]
        self.launch[slot] = before * extent if key == "virtual_thread" else float(extent)
        self.launch[0] = 1.0
        table = self._free_tables.pop() if self._free_tables else {}
        loop = Loop(node.var, extent, (0, 0), (0, extent - 1), table, thread=slot)
        self._enter(loop, body)
        if self._recycle:
            self._free_tables.append(table)
        self.launch[slot] = before


# Handlers take the statement type of their key.
_VISITS: dict[type[Stmt], Callable[..., None]] = {
    SeqStmt: Nest._seq,
    For: Nest._for,
    BufferStore: Nest._store,
    AttrStmt: Nest._attr,
    IfThenElse: Nest._if,
    LetStmt: Nest._let,
    BufferRealize: Nest._realize,
    Allocate: Nest._allocate,
}


def _constant(expr: Expr) -> int:
    return expr.value if isinstance(expr, IntImm) else 1


def _int16(value: int) -> int:
    return (value + 2**15) % 2**16 - 2**15
