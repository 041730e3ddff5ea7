"""ComputeOnce: what all lanes and all iterations of a loop use alike is computed before the loop.

before:
    def main(X: Buffer((64,), float32), S: Buffer((1,), float32), Y: Buffer((64,), float32)):
        for j in range(4):
            Y[j * 16:j * 16 + 16] = X[j * 16:j * 16 + 16] * broadcast(rsqrt(S[0]), 16)
after:
    def main(X: Buffer((64,), float32), S: Buffer((1,), float32), Y: Buffer((64,), float32)):
        S_0: float32 = rsqrt(S[0])
        for j in range(4):
            Y[j * 16:j * 16 + 16] = X[j * 16:j * 16 + 16] * broadcast(S_0, 16)

So a layer norm takes one root for each row, not one for each vector. A single element that vectors
are divided by is read once, too: the code generator divides by a number that it knows before the
loop with products (a division of sixteen floats takes as long as 32 of them). Statements behind the
loop that use the same (the end of a row) take the variable, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from operator import is_
from typing import ClassVar

from autosched.tir.expr import Broadcast, BufferLoad, Call, Div, Expr, IntImm, Let, Var
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import bits_of, kinds, kinds_in
from autosched.tir.op import broadcast
from autosched.tir.stmt import BufferStore, Evaluate, For, ForKind, LetStmt, SeqStmt, Stmt, seq
from autosched.tir.walk import (
    child_stmts,
    direct_exprs,
    free_vars,
    map_children,
    pre_order,
    rewrite_expr,
    stmts,
)
from autosched.transform.expressions.effects import has_side_effect
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass

_BROADCAST = bits_of(Broadcast)


@dataclass(frozen=True)
class ComputeOnce(FunctionPass):
    """Binds a variable to each float that is computed from memory and handed to all lanes in a
    loop, and to each element that vectors are divided by.

    It depends neither on the loop, which runs at least once and writes nothing that it reads, nor
    on a condition. Functions whose arguments may overlap stay as they are.
    """

    name: ClassVar[str] = "ComputeOnce"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if not func.noalias or not kinds_in(func.body) & _BROADCAST:
            return func
        return func.with_body(_Binder().bound(func.body))


class _Binder:
    """One walk; what a statement needs is looked up once, however deep in loops it is."""

    def __init__(self) -> None:
        self._known: dict[Stmt, tuple[Expr, ...]] = {}

    def bound(self, s: Stmt) -> Stmt:
        """`s` with what each loop hands to all lanes bound before the outermost loop that leaves
        it alone."""
        if isinstance(s, SeqStmt):
            parts = list(self._runs(list(s.stmts)))
            alike = len(parts) == len(s.stmts) and all(map(is_, parts, s.stmts))
            return s if alike else seq(*parts)
        if isinstance(s, BufferStore):
            return s
        return self._run([s]) if isinstance(s, For) else map_children(s, self.bound)

    def _runs(self, parts: list[Stmt]) -> Iterator[Stmt]:
        """The statements with each loop and what follows it, as far as it uses the same."""
        while parts:
            count = self._length(parts)
            yield self._run(parts[:count]) if count else self.bound(parts[0])
            del parts[: max(1, count)]

    def _length(self, parts: list[Stmt]) -> int:
        """How many of the statements share the values of a loop that is the first; 0 for none."""
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
        """The statements, the first a loop, inside the variables of its values."""
        variables = {e: Var(_name(e), e.dtype) for e in self._fixed_values(parts[0])}
        new = seq(*parts)
        if variables:
            new = _replaced(new, variables)
        first, *others = new.stmts if isinstance(new, SeqStmt) else (new,)
        new = seq(map_children(first, self.bound), *map(self.bound, others))
        for value, var in reversed(variables.items()):
            new = LetStmt(var, value, new)
        return new

    def _fixed_values(self, s: Stmt) -> Iterator[Expr]:
        """What a loop that runs at least once uses and leaves alone, each once."""
        if isinstance(s, For) and _is_sure(s):
            yield from dict.fromkeys(e for e in self._values(s.body) if _is_fixed(e, s))

    def _values(self, s: Stmt) -> tuple[Expr, ...]:
        """The single floats that vectors need whatever happens."""
        found = self._known.get(s)
        if found is None:
            if isinstance(s, BufferStore) and s.predicate is None:
                found = tuple(_handed_out(s.value, divides=False))
            elif isinstance(s, SeqStmt) or (isinstance(s, For) and _is_sure(s)):
                found = tuple(chain.from_iterable(map(self._values, child_stmts(s))))
            else:
                found = ()
            self._known[s] = found
        return found


def _is_sure(loop: For) -> bool:
    """True for a loop of one thread that runs at least once."""
    serial = loop.kind in (ForKind.SERIAL, ForKind.UNROLLED)
    return serial and isinstance(loop.extent, IntImm) and loop.extent.value > 0


def _handed_out(e: Expr, *, divides: bool) -> Iterator[Expr]:
    """What the broadcasts of `e` hand to all lanes, as far as it is worth a variable; `divides`: e
    is what something is divided by."""
    if (
        not kinds(e) & _BROADCAST
        or isinstance(e, Let)
        or (isinstance(e, Call) and e.op == "if_then_else")
    ):
        return
    if isinstance(e, Broadcast):
        found = e.value
        if found.dtype.is_float and _loads(found) and (divides or not _is_load(found)):
            yield found
        return
    for part in e.children():
        yield from _handed_out(part, divides=isinstance(e, Div) and part is e.b)


def _is_load(e: Expr) -> bool:
    return isinstance(e, BufferLoad)


def _loads(e: Expr) -> list[BufferLoad]:
    """The elements that `e` is computed from; none where some are read under a condition."""
    nodes = list(pre_order(e))
    loads = [n for n in nodes if isinstance(n, BufferLoad)]
    sure = not any(isinstance(n, Call) and n.op == "if_then_else" for n in nodes)
    return loads if sure and all(load.predicate is None for load in loads) else []


def _name(e: Expr) -> str:
    return f"{_loads(e)[0].buffer.name}_0"


def _is_fixed(value: Expr, part: Stmt) -> bool:
    """True when the statement and what is in it leave the value alone."""
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
    """`s` with the variables in place of the values that are handed to all lanes."""

    def handed_out(e: Expr) -> Expr | None:
        if isinstance(e, Broadcast) and (var := variables.get(e.value)) is not None:
            return broadcast(var, e.lanes)
        return None

    return _with_exprs(s, lambda e: rewrite_expr(e, handed_out))


def _with_exprs(s: Stmt, expr: Callable[[Expr], Expr]) -> Stmt:
    return map_children(s, lambda inner: _with_exprs(inner, expr), expr)
