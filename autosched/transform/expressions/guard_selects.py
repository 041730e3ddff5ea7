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
    """One walk over a function; `facts` hold at the current statement.

    Memos for the facts at the current expression: `_made` are the results of `expr`, and `_free`
    says which arms may be computed speculatively.
    """

    def __init__(self, func: PrimFunc) -> None:
        self.facts = Facts(func)
        self.memory = MemoryBounds(func, self.facts.analyzer)
        self._made: dict[Expr, Expr] = {}
        self._free: dict[Expr, bool] = {}

    # -- statements

    def stmt(self, s: Stmt) -> Stmt:
        if not kinds_in(s) & _SELECT:
            return s
        if isinstance(s, Allocate | BufferRealize):
            self.memory.add(s)
        return self.facts.map_children(s, self.stmt, self._whole)

    def _whole(self, e: Expr) -> Expr:
        self._made, self._free = {}, {}
        return self.expr(e)

    # -- expressions

    def expr(self, e: Expr) -> Expr:
        if not kinds(e) & _SELECT:
            return e
        made = self._made.get(e)
        if made is None:
            made = self._made[e] = self._guarded(e)
        return made

    def _guarded(self, e: Expr) -> Expr:
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
            self._under(holding(condition), value),
            self._under(self.facts.failing(condition), other),
        )
        if isinstance(e, Call) and all(a is b for a, b in zip(new, parts, strict=True)):
            return e
        return Call(e.dtype, "if_then_else", new)

    def _under(self, conditions: tuple[Expr, ...], e: Expr) -> Expr:
        """`expr(e)` where the conditions hold."""
        outside = self._made, self._free
        self._made, self._free = {}, {}
        try:
            return self.facts.under(conditions, self.expr, e)
        finally:
            self._made, self._free = outside

    def _is_free(self, arm: Expr) -> bool:
        """Whether `arm` may be computed here although its value may not be used.

        Where it may, the arms inside are asked next, with these facts. They are decided from the
        innermost on, so that in a chain of choices each is looked at once.
        """
        found = self._free.get(arm)
        if found is None:
            found = self._free[arm] = self._shown_free(arm, {})
            for inner in _arms_in(arm) if found else ():
                if inner not in self._free:
                    self._free[inner] = self._shown_free(inner, {})
        return found

    def _shown_free(self, e: Expr, known: dict[Expr, bool]) -> bool:
        """Whether `e` is free with the facts of the analyzer, of which `known` is the memo.

        These may be more than at the current expression; what is free there is free with more.
        """
        if not kinds(e) & UNSAFE or self._free.get(e):
            return True
        found = known.get(e)
        if found is None:
            found = known[e] = self._show_free(e, known)
        return found

    def _show_free(self, e: Expr, known: dict[Expr, bool]) -> bool:
        match e:
            case BufferLoad():
                inside = self.memory.contains(e)
                return inside and all(self._shown_free(index, known) for index in e.indices)
            case Select() | Call(op="if_then_else"):
                # Both become an if_then_else if an arm needs it: each arm counts under its
                # condition.
                condition, value, other = e.children()
                return (
                    self._shown_free(condition, known)
                    and self._free_under(holding(condition), value, known)
                    and self._free_under(self.facts.failing(condition), other, known)
                )
        if is_opaque(e) or divides_by_unknown(e, self.facts.analyzer):
            return False
        return all(self._shown_free(child, known) for child in e.children())

    def _free_under(self, conditions: tuple[Expr, ...], e: Expr, known: dict[Expr, bool]) -> bool:
        if not conditions:
            return self._shown_free(e, known)
        inner: dict[Expr, bool] = {}
        return self.facts.under(conditions, lambda arm: self._shown_free(arm, inner), e)


def _arms_in(e: Expr) -> list[Expr]:
    """The arms of Selects in `e` that no inner if_then_else guards, inner ones first."""
    found: dict[Expr, None] = {}
    seen, stack = {e}, [e]
    while stack:
        node = stack.pop()
        if isinstance(node, Select):
            found.update(dict.fromkeys((node.true_value, node.false_value)))
        elif isinstance(node, Call) and node.op == "if_then_else":
            continue
        new = [c for c in node.children() if kinds(c) & _SELECT and c not in seen]
        seen.update(new)
        stack += new
    return list(reversed(found))
