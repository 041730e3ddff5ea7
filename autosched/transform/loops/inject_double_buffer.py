"""InjectDoubleBuffer: a buffer is filled for the next iteration while this one uses it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from autosched.errors import ScheduleError
from autosched.tir.buffer import Buffer
from autosched.tir.expr import IntImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.op import add, floormod, gt, lt, sub
from autosched.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    Stmt,
    seq,
)
from autosched.tir.walk import free_vars, map_children, stmts, substitute_stmt
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.loops.copy_stmt import copy_stmt
from autosched.transform.storage.widen_allocate import widen_allocate

_KEY = "double_buffer_scope"


@dataclass(frozen=True)
class InjectDoubleBuffer(FunctionPass):
    """Doubles the buffers marked double_buffer_scope.

    before:
        def main(A: Buffer((64,), float32), B: Buffer((64,), float32)):
            for i in range(8):
                b = allocate((8,), float32, "shared")
                with attr(data(b), "double_buffer_scope", 1):
                    for j in range(8):
                        b[j] = A[i * 8 + j]
                for j in range(8):
                    B[i * 8 + j] = b[7 - j]
    after:
        def main(A: Buffer((64,), float32), B: Buffer((64,), float32)):
            b = allocate((16,), float32, "shared")
            for j in range(8):
                b[j] = A[j]
            for i in range(8):
                if i + 1 < 8:
                    for j_1 in range(8):
                        b[j_1 + (i + 1) % 2 * 8] = A[(i + 1) * 8 + j_1]
                for j_1 in range(8):
                    B[i * 8 + j_1] = b[7 - j_1 + i % 2 * 8]

    The loop is the innermost one around the allocation. The allocation moves out of it. Raises
    ScheduleError when no serial loop encloses it, or its size changes from iteration to iteration.
    """

    name: ClassVar[str] = "InjectDoubleBuffer"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        marked = {
            s.node.data if isinstance(s.node, Buffer) else s.node
            for s in stmts(func.body)
            if isinstance(s, AttrStmt) and s.key == _KEY
        }
        if not marked:
            return func
        return func.with_body(_DoubleBuffer(marked).stmt(func.body))


@dataclass(slots=True, eq=False)
class _Loop:
    """An open loop, with what will stand before it: memory, and fills for the first iteration."""

    loop: For
    allocations: list[Allocate] = field(default_factory=list)
    first_fills: list[Stmt] = field(default_factory=list)
    conditions: int = 0


class _DoubleBuffer:
    def __init__(self, marked: set[Var]) -> None:
        self._marked = marked
        self._loops: list[_Loop] = []
        self._slots: dict[Var, tuple[_Loop, Var]] = {}

    def stmt(self, s: Stmt) -> Stmt:
        match s:
            case BufferStore():
                return s
            case For():
                return self._loop(s)
            case IfThenElse() if self._loops:
                loop = self._loops[-1]
                loop.conditions += 1
                new = map_children(s, self.stmt)
                loop.conditions -= 1
                return new
            case Allocate() if s.buffer_var in self._marked:
                return self._allocate(s)
            case AttrStmt(key="double_buffer_scope"):
                return self._fill(s)
        return map_children(s, self.stmt)

    def _loop(self, s: For) -> Stmt:
        entry = _Loop(s)
        self._loops.append(entry)
        new = map_children(s, self.stmt)
        self._loops.pop()
        result = seq(*entry.first_fills, new) if entry.first_fills else new
        for a in reversed(entry.allocations):
            result = a.with_(body=result)
        return result

    def _allocate(self, s: Allocate) -> Stmt:
        name = s.buffer_var.name
        if not self._loops or self._loops[-1].loop.kind is ForKind.PARALLEL:
            raise ScheduleError(
                f"InjectDoubleBuffer: {name} is double-buffered, but no serial loop encloses its "
                "allocation; compute it at a loop of its consumer"
            )
        entry = self._loops[-1]
        loop = entry.loop
        if any(loop.loop_var in free_vars(e) for e in s.extents):
            raise ScheduleError(
                f"InjectDoubleBuffer: the size of {name} depends on the loop {loop.loop_var.name}"
            )
        slot = Var(f"{name}.slot", loop.loop_var.dtype)
        wide = widen_allocate(s, 2, slot, innermost=False)
        entry.allocations.append(wide)
        self._slots[s.buffer_var] = (entry, slot)
        body = self.stmt(wide.body)
        return substitute_stmt(body, {slot: floormod(sub(loop.loop_var, loop.min), 2)})

    def _fill(self, s: AttrStmt) -> Stmt:
        pointer = s.node.data if isinstance(s.node, Buffer) else s.node
        entry, slot = self._slots.get(pointer, (None, None))
        if entry is None or slot is None or entry is not self._loops[-1] or entry.conditions:
            raise ScheduleError(
                f"InjectDoubleBuffer: {pointer.name} must be filled once in every iteration of the "
                "loop around its allocation"
            )
        fill = self.stmt(s.body)
        loop = entry.loop
        var, low = loop.loop_var, loop.min
        first = copy_stmt(fill, {var: low, slot: IntImm(0, slot.dtype)})
        if not isinstance(loop.extent, IntImm):
            first = IfThenElse(gt(loop.extent, 0), first)
        entry.first_fills.append(first)
        following = add(var, 1)
        table = {var: following, slot: floormod(sub(following, low), 2)}
        return IfThenElse(lt(following, add(low, loop.extent)), substitute_stmt(fill, table))
