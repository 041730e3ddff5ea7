"""InjectVirtualThread: repeat the statements that depend on a virtual thread."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from autosched.errors import ScheduleError
from autosched.tir.copy_stmt import copies
from autosched.tir.expr import BufferLoad, Call, Expr, IntImm, IterVar, Var
from autosched.tir.function import PrimFunc
from autosched.tir.intrin import is_pure
from autosched.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    seq,
)
from autosched.tir.substitute_stmt import substitute_stmt
from autosched.tir.walk import direct_exprs, distinct, map_children, stmts
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.storage.widen_allocate import widen_allocate

_MAX_COPIES = 16


@dataclass(frozen=True)
class InjectVirtualThread(FunctionPass):
    """Repeat the statements that depend on a virtual thread, once for each thread.

    before:
        def main(A: Buffer((8,), float32), B: Buffer((8,), float32)):
            virtual_thread(vthread, 2)
            b = allocate((4,), float32, "local")
            for i in range(4):
                b[i] = A[vthread * 4 + i]
            for i in range(4):
                B[vthread * 4 + i] = b[3 - i]
    after:
        def main(A: Buffer((8,), float32), B: Buffer((8,), float32)):
            b = allocate((8,), float32, "local")
            for i in range(4):
                b[i] = A[i]
                b[i + 4] = A[i + 4]
            for i in range(4):
                B[i] = b[3 - i]
                B[i + 4] = b[7 - i]

    Allocations whose contents depend on the virtual thread get one part per thread; others are
    shared (never for the tag cthread). The smallest statements that depend on the thread are
    repeated. They are written out if they contain no loop and there are fewer than 16 threads,
    else put into a serial loop `vx.s`. Raises ScheduleError if the number of threads is not
    constant.
    """

    name: ClassVar[str] = "InjectVirtualThread"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        return func.with_body(_inject(func.body))


def _inject(s: Stmt) -> Stmt:
    if isinstance(s, BufferStore):
        return s
    new = map_children(s, _inject)
    if not (isinstance(new, AttrStmt) and new.key == "virtual_thread"):
        return new
    thread, count = new.node, new.value
    assert isinstance(thread, IterVar)
    if not isinstance(count, IntImm):
        raise ScheduleError(
            f"InjectVirtualThread: the number of virtual threads {thread.var.name} must be a "
            f"constant, found {count!r}"
        )
    if count.value == 1:
        return substitute_stmt(new.body, {thread.var: IntImm(0, thread.var.dtype)})
    shares = thread.thread_tag.startswith("vthread")
    touched = touched_variables(new.body, thread.var)
    return _Injector(thread.var, count.value, touched, shares).stmt(new.body)


def touched_variables(body: Stmt, var: Var) -> set[Var]:
    """The variables and pointers whose value or contents depend on `var`, including `var`."""
    touched = {var}
    users: dict[Var, list[Var]] = {}

    def record(target: Var, sources: Iterable[Var]) -> None:
        for source in sources:
            users.setdefault(source, []).append(target)

    for s in stmts(body):
        match s:
            case BufferStore():
                record(s.buffer.data, _variables(direct_exprs(s)))
            case LetStmt():
                record(s.var, _variables((s.value,)))
            case For():
                record(s.loop_var, _variables((s.min, s.extent)))
            case Allocate():
                record(s.buffer_var, _variables(s.extents))
            case Evaluate():
                used = _variables((s.value,))
                for pointer in _written(s.value):
                    record(pointer, used)
    pending = [var]
    while pending:
        for target in users.get(pending.pop(), ()):
            if target not in touched:
                touched.add(target)
                pending.append(target)
    return touched


def _variables(exprs: Iterable[Expr]) -> set[Var]:
    """The variables in the expressions, and the pointers they load from."""
    found: set[Var] = set()
    for root in exprs:
        for e in distinct(root):
            if isinstance(e, Var):
                found.add(e)
            elif isinstance(e, BufferLoad):
                found.add(e.buffer.data)
    return found


def _written(value: Expr) -> set[Var]:
    """The pointers that calls in `value` may write through."""
    found: set[Var] = set()
    for e in distinct(value):
        if isinstance(e, Call) and e.op == "tvm_access_ptr":
            mode = e.args[4]
            if not isinstance(mode, IntImm) or mode.value & 2:
                found |= _variables((e.args[1],))
        elif isinstance(e, Call) and not is_pure(e.op) and e.op != "tvm_access_ptr":
            for arg in e.args:
                if isinstance(arg, Call) and arg.op == "tvm_access_ptr":
                    continue
                found |= {v for v in _variables((arg,)) if v.dtype.is_handle}
    return found


class _Injector:
    """Repeats the smallest statements that depend on one virtual thread."""

    def __init__(self, var: Var, count: int, touched: set[Var], shares: bool) -> None:
        self._var = var
        self._count = count
        self._touched = touched
        self._shares = shares
        self._injected = False
        self._loop_depth = 0

    def stmt(self, s: Stmt) -> Stmt:
        """`s` with every statement that depends on the thread repeated."""
        if self._injected:
            return self._inside(s)
        if self._depends(direct_exprs(s)) or self._stores(s):
            return self._repeat(s)
        return self._inside(s)

    def _inside(self, s: Stmt) -> Stmt:
        match s:
            case SeqStmt():
                return self._sequence(s)
            case IfThenElse():
                return self._branches(s)
            case For() | While():
                new = map_children(s, self.stmt)
                self._loop_depth += 1
                return new
            case Allocate() if not self._injected and self._private(s.buffer_var):
                wide = widen_allocate(s, self._count, self._var, innermost=False)
                self._touched.add(s.buffer_var)
                return map_children(wide, self.stmt)
            case BufferStore() | Evaluate():
                return s
        return map_children(s, self.stmt)

    def _sequence(self, s: SeqStmt) -> Stmt:
        outer = self._loop_depth
        new = []
        for part in s.stmts:
            self._loop_depth = 0
            new.append(self.stmt(part))
            outer = max(outer, self._loop_depth)
        self._loop_depth = outer
        return s if all(a is b for a, b in zip(s.stmts, new, strict=True)) else seq(*new)

    def _branches(self, s: IfThenElse) -> Stmt:
        then_case = self.stmt(s.then_case)
        if s.else_case is None:
            return s.with_(then_case=then_case)
        depth, self._loop_depth = self._loop_depth, 0
        else_case = self.stmt(s.else_case)
        self._loop_depth = max(depth, self._loop_depth)
        return s.with_(then_case=then_case, else_case=else_case)

    def _repeat(self, s: Stmt) -> Stmt:
        self._injected = True
        body = self._inside(s)
        self._injected = False
        if self._loop_depth == 0 and self._count < _MAX_COPIES:
            values = (IntImm(k, self._var.dtype) for k in range(self._count))
            return seq(*copies(body, [{self._var: value} for value in values]))
        index = Var(f"{self._var.name}.s", self._var.dtype)
        self._loop_depth += 1
        low, extent = IntImm(0, index.dtype), IntImm(self._count, index.dtype)
        body = substitute_stmt(body, {self._var: index})
        return For(index, low, extent, ForKind.SERIAL, body)

    def _depends(self, exprs: Iterable[Expr]) -> bool:
        return not _variables(exprs).isdisjoint(self._touched)

    def _private(self, pointer: Var) -> bool:
        return pointer in self._touched or not self._shares

    def _stores(self, s: Stmt) -> bool:
        return isinstance(s, BufferStore) and s.buffer.data in self._touched
