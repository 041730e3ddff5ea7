"""What the text of an index says: of an axis whose loops are mixed, and of all axes of a stage."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from autosched.tir.expr import Expr, FloorDiv, FloorMod, IntImm, Mul, Var

Bounds = tuple[int, int]
"""The smallest and the largest value."""


@dataclass(frozen=True, eq=False)
class AxisText:
    """An axis: its text, simplified, and what the walk would find in it.

    `raw` is the text as bounds make it, which larger expressions are simplified from. `start` are
    the ends while no loop runs, `ends` by position when the loop and those inside run. It
    `vanishes` where it is 0, but perhaps by conditions alone.
    """

    raw: Expr
    text: Expr
    terms: tuple[Expr, ...]
    start: Bounds
    ends: tuple[Bounds, ...]
    used: tuple[bool, ...]
    counts: tuple[int, ...]
    vanishes: bool

    @cached_property
    def scales(self) -> tuple[int, ...]:
        """What its terms are multiplied with; empty where one is no digit of something."""
        found = []
        for term in self.terms:
            inside, scale = term, 1
            if isinstance(term, Mul) and isinstance(term.b, IntImm):
                inside, scale = term.a, term.b.value
            if scale < 1 or not isinstance(inside, Var | FloorDiv | FloorMod):
                return ()
            found.append(scale)
        return tuple(found)

    @property
    def divided(self) -> bool:
        """Whether it is a quotient as a whole."""
        return isinstance(self.text, FloorDiv)

    @property
    def cut(self) -> bool:
        """Whether it is a digit of a sum: Ansor may write it otherwise in a difference, as it makes
        o % 120 // 24 of (o * 3 + t) % 360 // 72."""
        return isinstance(self.text, FloorDiv) and isinstance(self.text.a, FloorMod)


@dataclass(frozen=True, eq=False)
class StageText:
    """All axes of a stage; `variables` and `sizes` of its loops by position, `conditions` around
    the store."""

    key: tuple[int, ...]
    variables: tuple[Var | None, ...]
    sizes: tuple[int, ...]
    conditions: tuple[Expr, ...]
    axes: tuple[AxisText, ...]
