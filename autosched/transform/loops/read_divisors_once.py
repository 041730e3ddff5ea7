"""ReadDivisorsOnce: what all iterations of a loop divide by is read before it.

before:
    def main(E: Buffer((64,), float32), S: Buffer((1,), float32), Y: Buffer((64,), float32)):
        for j in range(4):
            Y[j * 16:j * 16 + 16] = E[j * 16:j * 16 + 16] / broadcast(S[0], 16)
after:
    def main(E: Buffer((64,), float32), S: Buffer((1,), float32), Y: Buffer((64,), float32)):
        S_0: float32 = S[0]
        for j in range(4):
            Y[j * 16:j * 16 + 16] = E[j * 16:j * 16 + 16] / broadcast(S_0, 16)

Statements behind the loop that divide by the same (the end of a row) do it by the variable, too.
The code generator divides vectors by a number that it knows before the loop with products: a
division of sixteen floats takes as long as 32 of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import is_
from typing import ClassVar

from autosched.tir.expr import Broadcast, BufferLoad, Call, Div, Expr, IntImm, Let, Var
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import bits_of, kinds_in
from autosched.tir.op import broadcast
from autosched.tir.stmt import BufferStore, Evaluate, For, ForKind, LetStmt, SeqStmt, Stmt, seq
from autosched.tir.walk import (
    child_stmts,
    direct_exprs,
    free_vars,
    map_children,
    rewrite_expr,
    stmts,
)
from autosched.transform.expressions.effects import has_side_effect
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass


@dataclass(frozen=True)
class ReadDivisorsOnce(FunctionPass):
    """Binds a variable to each single element that vectors are divided by in a loop.

    Its index does not depend on the loop, which runs at least once and writes nothing to its
    buffer, and the division is under no condition. Functions whose arguments may overlap stay as
    they are.
    """

    name: ClassVar[str] = "ReadDivisorsOnce"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if not func.attrs.get("tir.noalias", True) or not kinds_in(func.body) & bits_of(Div):
            return func
        return func.with_body(_bound(func.body))


def _bound(s: Stmt) -> Stmt:
    """`s` with the divisors of each loop read before the outermost loop that leaves them alone."""
    if isinstance(s, SeqStmt):
        parts = list(_runs(list(s.stmts)))
        alike = len(parts) == len(s.stmts) and all(map(is_, parts, s.stmts))
        return s if alike else seq(*parts)
    return _run([s]) if isinstance(s, For) else map_children(s, _bound)


def _runs(parts: list[Stmt]) -> Iterator[Stmt]:
    """The statements with each loop and what follows it, as far as it divides by the same."""
    while parts:
        count = _length(parts)
        yield _run(parts[:count]) if count else _bound(parts[0])
        del parts[: max(1, count)]


def _length(parts: list[Stmt]) -> int:
    """How many of the statements share the divisors of a loop that is the first; 0 for none."""
    shared = set(_fixed_divisors(parts[0]))
    if not shared:
        return 0
    count = 1
    for k, part in enumerate(parts[1:], start=2):
        if not all(_is_fixed(divisor, part) for divisor in shared):
            break
        if shared.intersection(_divisors(part)):
            count = k
    return count


def _run(parts: list[Stmt]) -> Stmt:
    """The statements, the first a loop, inside the variables of its divisors."""
    variables = {e: Var(f"{e.buffer.name}_0", e.dtype) for e in _fixed_divisors(parts[0])}
    new = seq(*parts)
    for load, var in variables.items():
        new = _replaced(new, load, var)
    first, *others = new.stmts if isinstance(new, SeqStmt) else (new,)
    new = seq(map_children(first, _bound), *map(_bound, others))
    for load, var in variables.items():
        new = LetStmt(var, load, new)
    return new


def _fixed_divisors(s: Stmt) -> Iterator[BufferLoad]:
    """What a loop that runs at least once divides by and leaves alone, each once."""
    if isinstance(s, For) and _is_sure(s):
        yield from dict.fromkeys(e for e in _divisors(s.body) if _is_fixed(e, s))


def _is_sure(loop: For) -> bool:
    """True for a loop of one thread that runs at least once."""
    serial = loop.kind in (ForKind.SERIAL, ForKind.UNROLLED)
    return serial and isinstance(loop.extent, IntImm) and loop.extent.value > 0


def _divisors(s: Stmt) -> Iterator[BufferLoad]:
    """The single elements that vectors are divided by whatever happens."""
    if isinstance(s, BufferStore) and s.predicate is None:
        yield from _divided(s.value)
    elif isinstance(s, SeqStmt) or (isinstance(s, For) and _is_sure(s)):
        for inner in child_stmts(s):
            yield from _divisors(inner)


def _divided(e: Expr) -> Iterator[BufferLoad]:
    if isinstance(e, Let) or (isinstance(e, Call) and e.op == "if_then_else"):
        return
    if isinstance(e, Div) and isinstance(e.b, Broadcast) and isinstance(e.b.value, BufferLoad):
        divisor = e.b.value
        if divisor.predicate is None and divisor.dtype.is_float:
            yield divisor
    for part in e.children():
        yield from _divided(part)


def _is_fixed(load: BufferLoad, part: Stmt) -> bool:
    """True when the statement and what is in it leave the element and its index alone."""
    inside = {s.loop_var for s in stmts(part) if isinstance(s, For)}
    inside |= {s.var for s in stmts(part) if isinstance(s, LetStmt)}
    for s in stmts(part):
        if isinstance(s, BufferStore) and s.buffer.data is load.buffer.data:
            return False
        if isinstance(s, Evaluate) or any(map(has_side_effect, direct_exprs(s))):
            return False
    return not inside & set().union(*(free_vars(index) for index in load.indices))


def _replaced(s: Stmt, load: BufferLoad, var: Var) -> Stmt:
    """`s` with divisions by `load` as divisions by `var`."""

    def divided(e: Expr) -> Expr | None:
        if isinstance(e, Div) and isinstance(e.b, Broadcast) and e.b.value is load:
            return Div(rewrite_expr(e.a, divided), broadcast(var, e.b.lanes))
        return None

    def expr(e: Expr) -> Expr:
        return rewrite_expr(e, divided)

    def stmt(inner: Stmt) -> Stmt:
        return map_children(inner, stmt, expr)

    return stmt(s)
