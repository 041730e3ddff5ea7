"""The stride of an access along a loop, by Ansor's syntactic heuristic."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.tir.expr import Add, Expr, IntImm, Mul, Var
from autosched.tir.walk import free_vars


class _Coefficient:
    """The coefficient of `var`, as Ansor guesses it from the text of an index.

    Quirk of `ansor-0.19`: once the variable has been seen, any later product with a constant
    overwrites the coefficient even when the variable is not inside that product, and the last
    value survives from one index to the next.
    """

    def __init__(self, var: Var) -> None:
        self._var = var
        self._value = 0
        self._seen = self._mul = self._add = False

    def of(self, index: Expr) -> int:
        self._seen = self._mul = self._add = False
        self._visit(index)
        return 1 if self._seen and not (self._mul or self._add) else self._value

    def _visit(self, expr: Expr) -> None:
        if expr is self._var:
            self._seen, self._value = True, 2
            return
        for child in expr.children():
            self._visit(child)
        if not self._seen:
            return
        match expr:
            case Mul(IntImm(value), _) | Mul(_, IntImm(value)) if not self._add:
                self._mul, self._value = True, value
            case Add() if not self._mul:
                self._add, self._value = True, 1


def stride_along(
    indices: Sequence[tuple[Expr, ...]], shape: tuple[int | None, ...], var: Var
) -> int:
    """Elements between accesses in consecutive iterations of `var`; 0 when it occurs nowhere.

    The minimum over all index tuples. A buffer without dimensions has stride 1 along every loop.
    """
    if not shape:
        return 1
    best = 0
    coefficient = _Coefficient(var)
    for index in indices:
        scale = 1
        for d in range(min(len(shape), len(index)) - 1, -1, -1):
            if var in free_vars(index[d]):
                stride = abs(coefficient.of(index[d])) * scale
                best = stride if best == 0 else min(best, stride)
                break
            scale *= shape[d] or 1
    return best
