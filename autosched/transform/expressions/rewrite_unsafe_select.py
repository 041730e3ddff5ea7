"""RewriteUnsafeSelect: a Select that may read out of bounds becomes a branch.

before:
    def main(A: Buffer((8,), float32), B: Buffer((16,), float32)):
        for i in range(16):
            B[i] = Select(i < 8, A[i], 0.0)
after:
    def main(A: Buffer((8,), float32), B: Buffer((16,), float32)):
        for i in range(16):
            B[i] = if_then_else(i < 8, A[i], 0.0)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autosched.tir.expr import BufferLoad, Call, Expr, Select
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import bits_of, kinds, kinds_in
from autosched.tir.stmt import Stmt
from autosched.tir.walk import map_children, map_expr_children
from autosched.transform.expressions.unsafe_values import divides_by_unknown, is_opaque
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass

_SELECT = bits_of(Select)


@dataclass(frozen=True)
class RewriteUnsafeSelect(FunctionPass):
    """Turn Selects on a scalar condition with an unsafe arm into if_then_else.

    An arm is unsafe if it contains a load, an impure call, or a division of integers by an index.
    Operations behind a condition inside of the arm count as well: that condition may hold where the
    Select's does not.
    """

    name: ClassVar[str] = "RewriteUnsafeSelect"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        return func.with_body(_Rewriter().stmt(func.body))


class _Rewriter:
    def __init__(self) -> None:
        self.memo: dict[Expr, Expr] = {}
        self.unsafe: dict[Expr, bool] = {}

    def stmt(self, s: Stmt) -> Stmt:
        if not kinds_in(s) & _SELECT:
            return s
        return map_children(s, self.stmt, self.expr)

    def expr(self, e: Expr) -> Expr:
        if not kinds(e) & _SELECT:
            return e
        done = self.memo.get(e)
        if done is None:
            done = self.memo[e] = _rewrite(map_expr_children(e, self.expr), self.unsafe)
        return done


def _rewrite(e: Expr, unsafe: dict[Expr, bool]) -> Expr:
    if isinstance(e, Select) and e.condition.dtype.lanes == 1:
        arms = (e.true_value, e.false_value)
        if any(_is_unsafe(arm, unsafe) for arm in arms):
            return Call(e.dtype, "if_then_else", (e.condition, *arms))
    return e


def _is_unsafe(e: Expr, memo: dict[Expr, bool]) -> bool:
    known = memo.get(e)
    if known is not None:
        return known
    result = (
        isinstance(e, BufferLoad)
        or is_opaque(e)
        or divides_by_unknown(e)
        or any(_is_unsafe(child, memo) for child in e.children())
    )
    memo[e] = result
    return result
