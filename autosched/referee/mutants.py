"""Mutants of a kernel, each with one fault that the referee (or a GPU's sanitizer) must find.

A fault changes one barrier, index, buffer size, condition, store of a constant, number of groups to
wait for, or the lanes that hold elements of a matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from autosched.tir import op
from autosched.tir.expr import (
    BufferLoad,
    Call,
    Expr,
    FloatImm,
    IntImm,
    Ramp,
    StringImm,
)
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import direct_loads
from autosched.tir.printer import to_text
from autosched.tir.stmt import Allocate, AttrStmt, BufferStore, Evaluate, IfThenElse, Stmt, nop
from autosched.tir.walk import (
    all_exprs,
    map_children,
    pre_order,
    rewrite_expr,
    stmts,
    substitute,
)


@dataclass(frozen=True)
class Mutant:
    """A function with one fault: its kind, the original statement, and the buffers involved."""

    kind: str
    stmt: Stmt
    buffers: frozenset[str]
    func: PrimFunc

    def __str__(self) -> str:
        return f"{self.kind}: {to_text(self.stmt).strip().splitlines()[0]}"


def mutants(func: PrimFunc) -> Iterator[Mutant]:
    """All mutants of `func`, in the order of its statements."""
    lanes = _Lanes(func)
    for stmt in stmts(func.body):
        for kind, changed, names in (*_changes(stmt), *lanes.changes(stmt)):
            yield Mutant(kind, stmt, names, func.with_body(_replaced(func.body, stmt, changed)))


class _Lanes:
    """Swaps neighbouring lanes where they load or store matrices."""

    def __init__(self, func: PrimFunc) -> None:
        self.lane = {
            s.node.var
            for s in stmts(func.body)
            if isinstance(s, AttrStmt)
            and s.key == "thread_extent"
            and s.node.thread_tag == "threadIdx.x"
        }
        calls = [e for e in all_exprs(func.body) if isinstance(e, Call) and e.op == "ptx_mma"]
        self.operands = {e for call in calls for e in call.args[6:12:2]}

    def changes(self, s: Stmt) -> Iterator[tuple[str, Stmt, frozenset[str]]]:
        """`s` with the lanes that load or store a matrix swapped."""
        swapped = s
        match s:
            case BufferStore() if s.buffer.data in self.operands:
                swapped = s.with_(value=self._swapped(s.value))
            case BufferStore(value=BufferLoad() as load) if load.buffer.data in self.operands:
                swapped = s.with_(indices=tuple(map(self._swapped, s.indices)))
            case Evaluate(Call("ptx_ldmatrix") as call):
                args = (*call.args[:6], self._swapped(call.args[6]))
                swapped = Evaluate(Call(call.dtype, call.op, args))
        if to_text(swapped) != to_text(s):
            yield "lanes swapped", swapped, frozenset()

    def _swapped(self, e: Expr) -> Expr:
        return substitute(e, {v: Call(v.dtype, "bitwise_xor", (v, IntImm(1))) for v in self.lane})


def _replaced(body: Stmt, old: Stmt, new: Stmt) -> Stmt:
    def go(s: Stmt) -> Stmt:
        return new if s is old else map_children(s, go)

    return go(body)


def _changes(s: Stmt) -> Iterator[tuple[str, Stmt, frozenset[str]]]:
    match s:
        case Evaluate(Call("tvm_storage_sync", (StringImm(), *_))):
            yield "barrier dropped", nop(), frozenset()
        case Evaluate(Call("ptx_wait_group", (IntImm(n),)) as call):
            later = Call(call.dtype, call.op, (IntImm(n + 1),))
            yield "one group fewer waited for", Evaluate(later), frozenset()
        case Allocate() if s.buffer_var.scope.startswith("shared"):
            *outer, last = s.extents
            if isinstance(last, IntImm) and last.value > 1:
                less = (*outer, IntImm(last.value - 1, last.dtype))
                smaller = Allocate(s.buffer_var, s.dtype, less, s.condition, s.body)
                yield "buffer shrunk", smaller, frozenset({s.buffer_var.name})
        case IfThenElse(_, then, other):
            names = frozenset(
                x.buffer.name for x in stmts(then) if isinstance(x, BufferStore)
            ) | frozenset(load.buffer.name for x in stmts(then) for load in direct_loads(x))
            if other is None:
                yield "condition dropped", then, names
        case BufferStore():
            yield from _store_changes(s)


def _store_changes(s: BufferStore) -> Iterator[tuple[str, Stmt, frozenset[str]]]:
    own = frozenset({s.buffer.name})
    if isinstance(s.value, FloatImm | IntImm):
        yield "initialisation dropped", nop(), own
    shifted = BufferStore(s.buffer, s.value, _shifted(s.indices), s.predicate)
    yield "store shifted by one", shifted, own
    for node in dict.fromkeys(pre_order(s.value)):
        if isinstance(node, BufferLoad):
            new = BufferLoad(node.buffer, _shifted(node.indices), node.predicate)
            changed = _with(s, node, new)
            yield "load shifted by one", changed, own | {node.buffer.name}
        elif isinstance(node, Call) and node.op == "if_then_else":
            names = {e.buffer.name for e in pre_order(node.args[1]) if isinstance(e, BufferLoad)}
            yield "condition dropped", _with(s, node, node.args[1]), own | names


def _with(s: BufferStore, old: Expr, new: Expr) -> Stmt:
    replace: Callable[[Expr], Expr | None] = lambda e: new if e is old else None  # noqa: E731
    return BufferStore(s.buffer, rewrite_expr(s.value, replace), s.indices, s.predicate)


def _shifted(indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
    *outer, last = indices
    if isinstance(last, Ramp):
        return (*outer, Ramp(op.add(last.base, 1), last.stride, last.lanes))
    return (*outer, op.add(last, 1))
