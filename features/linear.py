"""True strides: how far an index moves when one loop takes a step."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.arith import eval_bound
from autosched.tir.expr import Expr, Var
from autosched.tir.walk import free_vars
from features.regions import affine_terms
from features.scope import Access, Loop


class Strides:
    """Strides of accesses along the loops of one store, indices taken apart once each.

    An affine index has its coefficient. Any other (division, remainder) has the difference
    between the first two iterations, other loops at their first.
    """

    def __init__(self, loops: Sequence[Loop]) -> None:
        self._loops = loops
        self._start: dict[Var, tuple[int, int]] | None = None
        self._memo: dict[Expr, dict[Var, int] | None] = {}

    def of(self, access: Access, loop: Loop) -> int:
        """Elements of the storage between two iterations of `loop`, by the first index tuple."""
        var = loop.var
        if var not in access.used:
            return 0
        total, scale = 0, 1
        index, extents = access.indices[0], access.info.extents
        for d in range(len(index) - 1, -1, -1):
            if var in free_vars(index[d]):
                total += scale * self._step(index[d], loop)
            scale *= extents[d] or 1
        return total

    def _step(self, expr: Expr, loop: Loop) -> int:
        if expr not in self._memo:
            terms: dict[Var, int] = {}
            self._memo[expr] = None if affine_terms(expr, terms) is None else terms
        known = self._memo[expr]
        if known is not None:
            return known.get(loop.var, 0)
        if loop.extent < 2:
            return 0
        if self._start is None:
            self._start = {item.var: (item.point[0],) * 2 for item in self._loops}
        before = eval_bound(expr, self._start)[0]
        moved = {**self._start, loop.var: (loop.point[0] + 1,) * 2}
        after = eval_bound(expr, moved)[0]
        return after - before
