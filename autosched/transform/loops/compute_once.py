"""ComputeOnce: a scalar that a loop broadcasts to all lanes is computed once before the loop.

before:
    def main(X: Buffer((64,), float32), S: Buffer((1,), float32), Y: Buffer((64,), float32)):
        for j in range(4):
            Y[j * 16:j * 16 + 16] = X[j * 16:j * 16 + 16] * broadcast(rsqrt(S[0]), 16)
after:
    def main(X: Buffer((64,), float32), S: Buffer((1,), float32), Y: Buffer((64,), float32)):
        S_0: float32 = rsqrt(S[0])
        for j in range(4):
            Y[j * 16:j * 16 + 16] = X[j * 16:j * 16 + 16] * broadcast(S_0, 16)

A layer norm thus takes one square root for each row instead of one for each vector. A single
element that vectors are divided by is read once, too: where the divisor is known before the loop,
the code generator divides with products (a division of sixteen floats takes as long as 32
products). Statements behind the loop that use the same value (the end of a row) use the variable,
too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from operator import is_
from typing import ClassVar

from autosched.tir.expr import Broadcast, BufferLoad, Call, Div, Expr, Let, Var
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import bits_of, kinds, kinds_in
from autosched.tir.loops import trip_count
from autosched.tir.op import broadcast
from autosched.tir.stmt import BufferStore, Evaluate, For, ForKind, LetStmt, SeqStmt, Stmt, let, seq
from autosched.tir.walk import (
    child_stmts,
    direct_exprs,
    distinct,
    free_vars,
    map_children,
    rewrite_expr,
    stmts,
)
from autosched.transform.expressions.effects import has_side_effect
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass

_BROADCAST = bits_of(Broadcast)


@dataclass(frozen=True)
class ComputeOnce(FunctionPass):
    """Binds a variable before a loop to each float that the loop broadcasts and does not change.

    The floats are values computed from memory and single elements that vectors are divided by. They
    depend neither on the loop nor on a condition. The loop runs at least once and writes nothing
    that they read. Functions whose arguments may overlap stay as they are.
    """

    name: ClassVar[str] = "ComputeOnce"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if not func.noalias or not kinds_in(func.body) & _BROADCAST:
            return func
        return func.with_body(_Binder().bound(func.body))


class _Binder:
    """One walk that caches the values each statement broadcasts, however deep in loops it is."""

    def __init__(self) -> None:
        self._known: dict[Stmt, tuple[Expr, ...]] = {}

    def bound(self, s: Stmt) -> Stmt:
        """Bind what loops of `s` broadcast before the outermost loop that keeps it fixed."""
        if isinstance(s, SeqStmt):
            parts = list(self._runs(list(s.stmts)))
            alike = len(parts) == len(s.stmts) and all(map(is_, parts, s.stmts))
            return s if alike else seq(*parts)
        if isinstance(s, BufferStore):
            return s
        return self._run([s]) if isinstance(s, For) else map_children(s, self.bound)

    def _runs(self, parts: list[Stmt]) -> Iterator[Stmt]:
        """The statements; each loop is joined with what follows it and uses the same values."""
        while parts:
            count = self._length(parts)
            yield self._run(parts[:count]) if count else self.bound(parts[0])
            del parts[: max(1, count)]

    def _length(self, parts: list[Stmt]) -> int:
        """The number of leading statements that share fixed values of the first, a loop; or 0."""
        shared = set(self._fixed_values(parts[0]))
        if not shared:
            return 0
        count = 1
        for k, part in enumerate(parts[1:], start=2):
            if not all(_is_fixed(value, part) for value in shared):
                break
            if shared.intersection(self._values(part)):
                count = k
        return count

    def _run(self, parts: list[Stmt]) -> Stmt:
        """The statements, the first a loop, inside lets of the values that the loop keeps fixed."""
        variables = {e: Var(_name(e), e.dtype) for e in self._fixed_values(parts[0])}
        new = seq(*parts)
        if variables:
            new = _replaced(new, variables)
        first, *others = new.stmts if isinstance(new, SeqStmt) else (new,)
        new = seq(map_children(first, self.bound), *map(self.bound, others))
        return let(((var, value) for value, var in variables.items()), new)

    def _fixed_values(self, s: Stmt) -> Iterator[Expr]:
        """The distinct values that a loop uses and keeps fixed; none if it may not run."""
        if isinstance(s, For) and _is_sure(s):
            yield from dict.fromkeys(e for e in self._values(s.body) if _is_fixed(e, s))

    def _values(self, s: Stmt) -> tuple[Expr, ...]:
        """The scalar floats that `s` broadcasts unconditionally."""
        found = self._known.get(s)
        if found is None:
            if isinstance(s, BufferStore) and s.predicate is None:
                found = tuple(_handed_out(s.value))
            elif isinstance(s, SeqStmt) or (isinstance(s, For) and _is_sure(s)):
                found = tuple(chain.from_iterable(map(self._values, child_stmts(s))))
            else:
                found = ()
            self._known[s] = found
        return found


def _is_sure(loop: For) -> bool:
    """Whether the loop runs on one thread and at least once."""
    serial = loop.kind in (ForKind.SERIAL, ForKind.UNROLLED)
    return serial and trip_count(loop) > 0


def _handed_out(value: Expr) -> Iterator[Expr]:
    """The operands of broadcasts in `value` that are worth a variable.

    Plain loads are among them where they are divisors.
    """
    seen: set[tuple[Expr, bool]] = set()
    stack = [(value, False)]
    while stack:
        e, divides = item = stack.pop()
        if (
            item in seen
            or not kinds(e) & _BROADCAST
            or isinstance(e, Let)
            or (isinstance(e, Call) and e.op == "if_then_else")
        ):
            continue
        seen.add(item)
        if isinstance(e, Broadcast):
            found = e.value
            if found.dtype.is_float and _loads(found) and (divides or not _is_load(found)):
                yield found
            continue
        divisor = e.b if isinstance(e, Div) else None
        stack += [(part, part is divisor) for part in reversed(e.children())]


def _is_load(e: Expr) -> bool:
    return isinstance(e, BufferLoad)


def _loads(e: Expr) -> list[BufferLoad]:
    """The loads that `e` is computed from; none if one of them is conditional."""
    nodes = list(distinct(e))
    loads = [n for n in nodes if isinstance(n, BufferLoad)]
    sure = not any(isinstance(n, Call) and n.op == "if_then_else" for n in nodes)
    return loads if sure and all(load.predicate is None for load in loads) else []


def _name(e: Expr) -> str:
    return f"{_loads(e)[0].buffer.name}_0"


def _is_fixed(value: Expr, part: Stmt) -> bool:
    """Whether `part` leaves `value` fixed: it neither stores to nor binds what `value` uses."""
    inside = {s.loop_var for s in stmts(part) if isinstance(s, For)}
    inside |= {s.var for s in stmts(part) if isinstance(s, LetStmt)}
    read = {load.buffer.data for load in _loads(value)}
    for s in stmts(part):
        if isinstance(s, BufferStore) and s.buffer.data in read:
            return False
        if isinstance(s, Evaluate) or any(map(has_side_effect, direct_exprs(s))):
            return False
    return not inside & free_vars(value)


def _replaced(s: Stmt, variables: Mapping[Expr, Var]) -> Stmt:
    """`s` with broadcast values replaced by their variables."""

    def handed_out(e: Expr) -> Expr | None:
        if isinstance(e, Broadcast) and (var := variables.get(e.value)) is not None:
            return broadcast(var, e.lanes)
        return None

    return _with_exprs(s, lambda e: rewrite_expr(e, handed_out))


def _with_exprs(s: Stmt, expr: Callable[[Expr], Expr]) -> Stmt:
    return map_children(s, lambda inner: _with_exprs(inner, expr), expr)
