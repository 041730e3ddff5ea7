"""GuardSelects: a Select with a value that might read out of bounds becomes an if_then_else.

before:
    def main(A: Buffer((16,), float32), B: Buffer((16,), float32)):
        for i in vectorized(16):
            B[i] = Select(i >= 1, A[i - 1], 0.0) + Select(A[i] < 0.0, 0.0, A[i])
after:
    def main(A: Buffer((16,), float32), B: Buffer((16,), float32)):
        for i in vectorized(16):
            B[i] = if_then_else(i >= 1, A[i - 1], 0.0) + Select(A[i] < 0.0, 0.0, A[i])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autosched.tir.expr import BufferLoad, Call, Expr, Select
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import bits_of, kinds, kinds_in
from autosched.tir.stmt import Allocate, BufferRealize, Stmt
from autosched.tir.walk import map_expr_children
from autosched.transform.expressions.facts import Facts, holding
from autosched.transform.expressions.memory_bounds import MemoryBounds
from autosched.transform.expressions.unsafe_values import UNSAFE, divides_by_unknown, is_opaque
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass

_SELECT = bits_of(Select)


@dataclass(frozen=True)
class GuardSelects(FunctionPass):
    """Turn each Select with a value that must not be computed speculatively into an if_then_else.

    Vector code computes both values of a Select in all lanes, but performs the loads of an
    if_then_else only in the lanes that take it. A value may be computed speculatively if its loads
    are provably inside of their buffer's memory, its integer divisors cannot be zero, and its calls
    are pure. Selects with only such values stay, because they need no masks.
    """

    name: ClassVar[str] = "GuardSelects"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if not kinds_in(func.body) & _SELECT:
            return func
        return func.with_body(_Guard(func).stmt(func.body))


class _Guard:
    """One walk over a function; `facts` hold at the current statement."""

    def __init__(self, func: PrimFunc) -> None:
        self.facts = Facts(func)
        self.memory = MemoryBounds(func, self.facts.analyzer)

    # -- statements

    def stmt(self, s: Stmt) -> Stmt:
        if not kinds_in(s) & _SELECT:
            return s
        if isinstance(s, Allocate | BufferRealize):
            self.memory.add(s)
        return self.facts.map_children(s, self.stmt, self.expr)

    # -- expressions

    def expr(self, e: Expr) -> Expr:
        if not kinds(e) & _SELECT:
            return e
        if isinstance(e, Select):
            if not (self._is_free(e.true_value) and self._is_free(e.false_value)):
                return self._chosen(e, e.children())
        elif isinstance(e, Call) and e.op == "if_then_else":
            return self._chosen(e, e.args)
        return map_expr_children(e, self.expr)

    def _chosen(self, e: Expr, parts: tuple[Expr, ...]) -> Expr:
        """The if_then_else of `parts`, each value rewritten under its condition."""
        condition, value, other = parts
        new = (
            self.expr(condition),
            self.facts.under(holding(condition), self.expr, value),
            self.facts.under(self.facts.failing(condition), self.expr, other),
        )
        if isinstance(e, Call) and all(a is b for a, b in zip(new, parts, strict=True)):
            return e
        return Call(e.dtype, "if_then_else", new)

    def _is_free(self, e: Expr) -> bool:
        """Whether `e` may be computed here although its value may not be used."""
        if not kinds(e) & UNSAFE:
            return True
        match e:
            case BufferLoad():
                return self.memory.contains(e) and all(map(self._is_free, e.indices))
            case Select() | Call(op="if_then_else"):
                # Both become an if_then_else if an arm needs it: each arm counts under its
                # condition.
                condition, value, other = e.children()
                return (
                    self._is_free(condition)
                    and self.facts.under(holding(condition), self._is_free, value)
                    and self.facts.under(self.facts.failing(condition), self._is_free, other)
                )
        if is_opaque(e) or divides_by_unknown(e, self.facts.analyzer):
            return False
        return all(map(self._is_free, e.children()))
