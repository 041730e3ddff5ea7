"""RenormalizeSplitPattern: turn quotients of remainders into remainders of quotients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autosched.tir.expr import Expr, FloorDiv, FloorMod, IntImm
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import bits_of, kinds, kinds_in
from autosched.tir.op import floordiv, floormod
from autosched.tir.stmt import Stmt
from autosched.tir.walk import map_children, map_expr_children
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass


@dataclass(frozen=True)
class RenormalizeSplitPattern(FunctionPass):
    """Undo the index form that splitting a fused loop leaves, so that quotients can be shared.

    before:
        def main(A: Buffer((8,), float32), B: Buffer((64,), float32)):
            for x in range(64):
                B[x] = A[x % 32 // 4]
    after:
        def main(A: Buffer((8,), float32), B: Buffer((64,), float32)):
            for x in range(64):
                B[x] = A[x // 4 % 8]

    For constants c1, c2 > 0: (x % (c1 * c2)) // c2 = (x // c2) % c1.
    """

    name: ClassVar[str] = "RenormalizeSplitPattern"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        return func.with_body(_Swapper().stmt(func.body))


class _Swapper:
    def __init__(self) -> None:
        self.modulo = bits_of(FloorMod)
        self.memo: dict[Expr, Expr] = {}

    def stmt(self, s: Stmt) -> Stmt:
        if not kinds_in(s) & self.modulo:
            return s
        return map_children(s, self.stmt, self.expr)

    def expr(self, e: Expr) -> Expr:
        if not kinds(e) & self.modulo:
            return e
        done = self.memo.get(e)
        if done is None:
            done = self.memo[e] = _swapped(map_expr_children(e, self.expr))
        return done


def _swapped(e: Expr) -> Expr:
    match e:
        case FloorDiv(FloorMod(x, IntImm(modulus)), IntImm(divisor)):
            if 0 < divisor < modulus and modulus % divisor == 0:
                return floormod(floordiv(x, divisor), modulus // divisor)
    return e
