"""True strides: how far an index moves when one loop takes a step."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.arith import eval_bound
from autosched.features.walk.scope import Access, Loop
from autosched.tir.expr import Add, Expr, IntImm, Mul, Sub, Var
from autosched.tir.walk import free_vars

Coefficients = dict[Var, int]


class Strides:
    """Strides of accesses along the loops of one store, indices taken apart once each.

    `known` holds what is taken apart; the stores of one function, whose loop variables have one
    range each, may share it.

    The affine part of an index has its coefficients. What is not affine (division, remainder) has
    the difference between the first two iterations, other loops at their first.
    """

    def __init__(self, loops: Sequence[Loop], known: dict[Expr, Coefficients]) -> None:
        self._loops = loops
        self._start = {loop.var: (loop.point[0],) * 2 for loop in loops}
        self._known = known

    def along(self, access: Access) -> list[int]:
        """Elements of the storage between two iterations of each loop, by the first index tuple."""
        total: Coefficients = {}
        scale = 1
        index, extents = access.indices[0], access.info.extents
        for d in range(len(index) - 1, -1, -1):
            _add(total, self._coefficients(index[d]), scale)
            scale *= extents[d] or 1
        return [total.get(loop.var, 0) for loop in self._loops]

    def _coefficients(self, expr: Expr) -> Coefficients:
        found = self._known.get(expr)
        if found is None:
            found = {}
            match expr:
                case IntImm():
                    pass
                case Var():
                    found[expr] = 1
                case Add(a, b) | Sub(a, b):
                    _add(found, self._coefficients(a), 1)
                    _add(found, self._coefficients(b), 1 if type(expr) is Add else -1)
                case Mul(a, IntImm(value)) | Mul(IntImm(value), a):
                    _add(found, self._coefficients(a), value)
                case _:
                    found = self._differences(expr)
            self._known[expr] = found
        return found

    def _differences(self, expr: Expr) -> Coefficients:
        used = free_vars(expr)
        before = eval_bound(expr, self._start)[0]
        return {
            loop.var: eval_bound(expr, {**self._start, loop.var: (loop.point[0] + 1,) * 2})[0]
            - before
            for loop in self._loops
            if loop.extent > 1 and loop.var in used
        }


def _add(total: Coefficients, more: Coefficients, scale: int) -> None:
    for var, value in more.items():
        total[var] = total.get(var, 0) + scale * value
