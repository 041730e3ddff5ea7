"""Distribute the steps of a reduction over several partial results, in turn.

    for k in 62: acc = acc + A[k]   ->   for k in 15:
                                             acc0 = acc0 + A[k*4]; acc1 = acc1 + A[k*4 + 1]
                                             acc2 = acc2 + A[k*4 + 2]; acc3 = acc3 + A[k*4 + 3]
                                         acc0 = acc0 + A[60]; acc1 = acc1 + A[61]

A step thus need not wait for the previous one, which takes a core some cycles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autosched.tir.expr import Expr, Var
from autosched.tir.op import add, const, mul
from autosched.tir.walk import substitute
from autosched.transform.vector.reduction_nest import Axis


@dataclass(frozen=True, slots=True)
class Turns:
    """Steps of a reduction that go to `parts` partial results in turn.

    They do so along the longest loop of the reduction, the loop over `var`. `chain` has the loops
    of the reduction; the extent of that one is the number of whole turns. `done` of its steps are
    in whole turns, and `rest` steps are left over.
    """

    chain: tuple[Axis, ...]
    parts: int = 1
    var: Var | None = None
    done: int = 0
    rest: int = 0

    @classmethod
    def of(cls, chain: Sequence[Axis], parts: int) -> Turns:
        """The turns of the loops `chain`, outermost first."""
        if parts == 1:
            return cls(tuple(chain))
        longest = max(chain, key=lambda axis: axis.extent)
        rounds, rest = divmod(longest.extent, parts)
        loops = tuple(replace(a, extent=rounds) if a is longest else a for a in chain)
        return cls(loops, parts, longest.var, rounds * parts, rest)

    def turn(self, e: Expr, part: int) -> Expr:
        """`e` at the step for partial result `part` in the turn that the loops are at."""
        if self.var is None:
            return e
        dtype = self.var.dtype
        at = add(mul(self.var, const(self.parts, dtype)), const(part, dtype))
        return substitute(e, {self.var: at})

    def last(self, e: Expr, part: int) -> Expr:
        """`e` at the left-over step for partial result `part`."""
        assert self.var is not None
        return substitute(e, {self.var: const(self.done + part, self.var.dtype)})
