"""InjectDoubleBuffer: a buffer is filled for the next iteration while this one uses it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from autosched.errors import ScheduleError
from autosched.tir.buffer import Buffer
from autosched.tir.constants import is_one, is_zero
from autosched.tir.copy_stmt import copy_stmt
from autosched.tir.dtype import bool_
from autosched.tir.expr import BufferLoad, Expr, IntImm, StringImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import stored_in
from autosched.tir.op import add, floordiv, floormod, gt, lt, max_, mul, sub
from autosched.tir.stmt import (
    FALSE,
    Allocate,
    AttrStmt,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    nop,
    seq,
)
from autosched.tir.substitute_stmt import substitute_stmt
from autosched.tir.tiles import STORE, ZERO
from autosched.tir.walk import free_vars, map_children, stmts, substitute, unique_exprs
from autosched.transform.framework.context import CONFIG_KEYS, PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.storage.widen_allocate import widen_allocate

_KEY = "double_buffer_scope"
_CONFIG = "tir.InjectDoubleBuffer"
_SPLIT_LOOP = CONFIG_KEYS[_CONFIG].options["split_loop"]


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

    after InjectDoubleBuffer{split_loop=2}:
        def main(A: Buffer((64,), float32), B: Buffer((64,), float32)):
            b = allocate((16,), float32, "shared")
            for j in range(8):
                b[j] = A[j]
            for i.outer in range(3):
                for j_1 in range(8):
                    b[j_1 + 8] = A[(i.outer * 2 + 1) * 8 + j_1]
                for j_1 in range(8):
                    B[i.outer * 2 * 8 + j_1] = b[7 - j_1]
                for j_2 in range(8):
                    b[j_2] = A[(i.outer * 2 + 1 + 1) * 8 + j_2]
                for j_3 in range(8):
                    B[(i.outer * 2 + 1) * 8 + j_3] = b[7 - j_3 + 8]
            for j_4 in range(8):
                b[j_4 + 8] = A[56 + j_4]
            for j_5 in range(8):
                B[48 + j_5] = b[7 - j_5]
            for j_6 in range(8):
                B[56 + j_6] = b[7 - j_6 + 8]

    The loop is the innermost one around the allocation, which moves out of it. Raises ScheduleError
    if no serial loop encloses the allocation (ScheduleOps makes no loop of a single iteration), if
    its size depends on the loop, or if it is filled from values that the same iteration computes.

    `split_loop`, or the configuration `"tir.InjectDoubleBuffer": {"split_loop": 2}`, is an even
    number by which the loop is unrolled, so that the half in use is a constant. The remaining
    iterations (at least the last, which fills nothing) follow the loop. 1 only peels the last
    iteration; 0 (the default) leaves the loop whole. Raises ConfigError for another number.
    """

    name: ClassVar[str] = "InjectDoubleBuffer"
    split_loop: int = 0

    def __post_init__(self) -> None:
        _SPLIT_LOOP.require(self.name, "split_loop", self.split_loop)

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        marked = {
            s.node.data if isinstance(s.node, Buffer) else s.node
            for s in stmts(func.body)
            if isinstance(s, AttrStmt) and s.key == _KEY
        }
        if not marked:
            return func
        split = self.split_loop or ctx.setting(_CONFIG)["split_loop"]
        shared = set() if func.noalias else {buffer.data for buffer in func.buffers}
        return func.with_body(_DoubleBuffer(marked, split, shared).stmt(func.body))


@dataclass(slots=True, eq=False)
class _Loop:
    """An open loop, and the allocations and first fills that will stand before it.

    In its body, `slot` stands for the half that an iteration uses, `next_slot` for the half of the
    following iteration, and `more` for whether there is a following one. `conditions` counts the
    open conditions and fills inside the loop. `values` has the variables that the body binds.
    """

    loop: For
    slot: Var
    next_slot: Var
    more: Var
    allocations: list[Allocate] = field(default_factory=list)
    first_fills: list[Stmt] = field(default_factory=list)
    conditions: int = 0
    values: dict[Var, Expr] = field(default_factory=dict)


class _DoubleBuffer:
    def __init__(self, marked: set[Var], split: int, shared: set[Var]) -> None:
        self._marked = marked
        self._shared = shared  # arguments that may be one array
        self._split = split
        self._loops: list[_Loop] = []
        self._filled_in: dict[Var, _Loop] = {}

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
            case LetStmt() if self._loops:
                values = self._loops[-1].values
                values[s.var] = substitute(s.value, values)
            case Allocate() if s.buffer_var in self._marked:
                return self._allocate(s)
            case AttrStmt(key="double_buffer_scope"):
                return self._fill(s)
            case AttrStmt(key="thread_extent") if self._loops:
                loops, self._loops = self._loops, []  # memory of threads cannot move out of them
                new = map_children(s, self.stmt)
                self._loops = loops
                return new
        return map_children(s, self.stmt)

    def _loop(self, s: For) -> Stmt:
        dtype = s.loop_var.dtype
        entry = _Loop(s, Var("slot", dtype), Var("next_slot", dtype), Var("more", bool_))
        self._loops.append(entry)
        new = map_children(s, self.stmt)
        self._loops.pop()
        if not entry.allocations:
            return new
        assert isinstance(new, For)
        whole = _split(entry, new, self._split) if self._split else _whole(entry, new)
        result = seq(*entry.first_fills, whole)
        for a in reversed(entry.allocations):
            result = a.with_(body=result)
        return result

    def _allocate(self, s: Allocate) -> Stmt:
        name = s.buffer_var.name
        if not self._loops or self._loops[-1].loop.kind is ForKind.PARALLEL:
            raise ScheduleError(
                f"InjectDoubleBuffer: {name} is double-buffered, but no serial loop of two or more "
                "iterations encloses its allocation; compute it at such a loop of its consumer, or "
                "leave double_buffer out"
            )
        entry = self._loops[-1]
        loop = entry.loop
        inside = {loop.loop_var, *entry.values}
        if any(inside & free_vars(e) for e in s.extents):
            raise ScheduleError(
                f"InjectDoubleBuffer: the size of {name} depends on the loop {loop.loop_var.name}"
            )
        wide = widen_allocate(s, 2, entry.slot, innermost=False)
        entry.allocations.append(wide)
        self._filled_in[s.buffer_var] = entry
        return self.stmt(wide.body)

    def _fill(self, s: AttrStmt) -> Stmt:
        entry = self._entry(s)
        body = s.body
        while isinstance(body, AttrStmt) and body.key == _KEY:  # another output of the operation
            self._entry(body)
            body = body.body
        body = substitute_stmt(body, entry.values)
        self._check_can_run_ahead(body, entry)
        entry.conditions += 1  # a fill inside this one would run ahead twice
        fill = self.stmt(body)
        entry.conditions -= 1
        loop = entry.loop
        var = loop.loop_var
        first = copy_stmt(fill, {var: loop.min, entry.slot: IntImm(0, var.dtype)})
        if not isinstance(loop.extent, IntImm):
            first = IfThenElse(gt(loop.extent, 0), first)
        entry.first_fills.append(first)
        following = substitute_stmt(fill, {var: add(var, 1), entry.slot: entry.next_slot})
        return IfThenElse(entry.more, following)

    def _check_can_run_ahead(self, fill: Stmt, entry: _Loop) -> None:
        """Raise ScheduleError if `fill` reads values that its own iteration computes."""
        made = _made(entry.loop.body) - _made(fill)
        made |= set() if made.isdisjoint(self._shared) else self._shared
        exprs = list(unique_exprs(fill))
        used = [e.buffer.data if isinstance(e, BufferLoad) else e for e in exprs]
        read = [
            v.name
            for v in used
            if isinstance(v, Var) and v in made and self._filled_in.get(v) is not entry
        ]
        names = {e.value for e in exprs if isinstance(e, StringImm)}
        if (STORE in names) != (ZERO in names):  # sums are in tiles before or after
            read.append("AMX tiles")
        if read:
            raise ScheduleError(
                f"InjectDoubleBuffer: what is double-buffered in loop {entry.loop.loop_var.name} "
                f"is filled one iteration ahead, but from {read[0]}, which the loop computes "
                "itself; double-buffer that too, or compute it outside"
            )

    def _entry(self, s: AttrStmt) -> _Loop:
        """The loop in which the buffer that `s` marks is filled.

        Raises ScheduleError unless the buffer is filled once in every iteration.
        """
        pointer = s.node.data if isinstance(s.node, Buffer) else s.node
        entry = self._filled_in.get(pointer)
        if entry is None or self._loops[-1:] != [entry] or entry.conditions:
            raise ScheduleError(
                f"InjectDoubleBuffer: {pointer.name} must be filled once in every iteration of the "
                "loop around its allocation"
            )
        return entry


def _made(body: Stmt) -> set[Var]:
    """The memory that is allocated or written in `body`."""
    return stored_in(body) | {s.buffer_var for s in stmts(body) if isinstance(s, Allocate)}


def _whole(entry: _Loop, loop: For) -> Stmt:
    """The loop, not unrolled: every iteration computes which half it uses."""
    var, low = loop.loop_var, loop.min
    following = add(var, 1)
    table = {
        entry.slot: floormod(sub(var, low), 2),
        entry.next_slot: floormod(sub(following, low), 2),
        entry.more: lt(following, add(low, loop.extent)),
    }
    return loop.with_(body=substitute_stmt(loop.body, table))


def _split(entry: _Loop, loop: For, split: int) -> Stmt:
    """All iterations but the last, unrolled by `split`, then the remaining iterations."""
    var, zero = loop.loop_var, IntImm(0, loop.loop_var.dtype)
    groups = floordiv(max_(sub(loop.extent, 1), 0), split)
    parts: list[Stmt] = []
    filling = _with_fills(loop.body, entry.more, None)
    if not is_zero(groups):
        outer = Var(f"{var.name}.outer", var.dtype)
        begin = mul(outer, split)
        copies = [_copy(entry, filling, begin, n, split, first=n == 0) for n in range(split)]
        parts.append(loop.with_(loop_var=outer, min=zero, extent=groups, body=seq(*copies)))
    begin = mul(groups, split)
    for n in range(split):
        runs = lt(add(begin, n), loop.extent)
        more = lt(add(begin, n + 1), loop.extent) if n + 1 < split else FALSE
        if is_zero(runs):
            break
        body = _with_fills(loop.body, entry.more, more)
        last = _copy(entry, body, begin, n, split, first=not parts and n == 0)
        parts.append(last if is_one(runs) else IfThenElse(runs, last))
    return seq(*parts)


def _copy(entry: _Loop, body: Stmt, begin: Expr, n: int, split: int, *, first: bool) -> Stmt:
    """The body of iteration `begin + n`, where `begin` is a multiple of `split`."""
    count = add(begin, n)
    even = split % 2 == 0
    table = {
        entry.loop.loop_var: add(entry.loop.min, count),
        entry.slot: IntImm(n % 2, count.dtype) if even else floormod(count, 2),
        entry.next_slot: IntImm((n + 1) % 2, count.dtype) if even else floormod(add(count, 1), 2),
    }
    return substitute_stmt(body, table) if first else copy_stmt(body, table)


def _with_fills(body: Stmt, more: Var, condition: Expr | None) -> Stmt:
    """`body` with its fills for the following iteration guarded by `condition`, if there is one."""

    def stmt(s: Stmt) -> Stmt:
        if isinstance(s, BufferStore):
            return s
        if isinstance(s, IfThenElse) and s.condition is more:
            if condition is None or is_one(condition):
                return s.then_case
            return nop() if is_zero(condition) else IfThenElse(condition, s.then_case)
        return map_children(s, stmt)

    return stmt(body)
