"""The index text of an axis whose loops are mixed, and the texts of all axes of a stage."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from autosched.tir.expr import Add, Expr, FloorDiv, FloorMod, IntImm, Mul, Var
from autosched.tir.walk import free_vars

Bounds = tuple[int, int]
"""The smallest and the largest value."""


class Along(NamedTuple):
    """How a text depends on a loop: by terms whose scales add up to `scale`, in quotients
    (`divided`), in remainders (`cut`)."""

    scale: int
    divided: bool
    cut: bool


@dataclass(frozen=True, eq=False)
class AxisText:
    """An axis as text, and what the walk would find in it.

    `raw` is the text as bound inference makes it, from which larger expressions are simplified;
    `text` is its simplified form and `terms` are the terms of that sum. `start` are the bounds of
    the values while no loop runs; `ends` has, by position of a loop, those while it and the loops
    inside it run. `used` tells by position whether the loop is in the text; `counts` are the
    operations in it. `vanishes` tells that the text is 0, perhaps only because of conditions.
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
        """The scale of each term; empty where a term is no positive multiple of a variable,
        quotient or remainder."""
        found = []
        for inside, scale in map(_scaled, self.terms):
            if scale < 1 or not isinstance(inside, Var | FloorDiv | FloorMod):
                return ()
            found.append(scale)
        return tuple(found)

    def along(self, variable: Var | None) -> Along:
        """How the text depends on the variable of a loop."""
        scale, divided, cut = 0, False, False
        for inside, factor in map(_scaled, self.terms) if variable is not None else ():
            if inside is variable:
                scale += factor
            elif variable in free_vars(inside):
                steps = _steps(inside, variable)
                divided, cut = divided or not steps, cut or steps
        return Along(scale, divided, cut)

    @property
    def divided(self) -> bool:
        """Whether the whole text is a quotient."""
        return isinstance(self.text, FloorDiv)

    @property
    def cut(self) -> bool:
        """Whether the text is a digit of a sum, the quotient of a remainder.

        In a difference, Ansor may write it otherwise: (o * 3 + t) % 360 // 72 becomes
        o % 120 // 24.
        """
        return isinstance(self.text, FloorDiv) and isinstance(self.text.a, FloorMod)


@dataclass(frozen=True, eq=False)
class StageText:
    """The texts of all axes of a stage.

    `key` has the numbers that they follow from. `variables` (None for a loop that runs once, unless
    it is a thread axis) and `sizes` are those of the stage's loops by position. `conditions` are
    around the store.
    """

    key: tuple[int, ...]
    variables: tuple[Var | None, ...]
    sizes: tuple[int, ...]
    conditions: tuple[Expr, ...]
    axes: tuple[AxisText, ...]


def _scaled(term: Expr) -> tuple[Expr, int]:
    """A term without its constant factor, and that factor."""
    if isinstance(term, Mul) and isinstance(term.b, IntImm):
        return term.a, term.b.value
    return term, 1


def _steps(e: Expr, variable: Var) -> bool:
    """Whether the variable is in the text other than in dividends."""
    if isinstance(e, FloorDiv):
        return False
    return e is variable or any(_steps(child, variable) for child in e.children())


def terms_of(e: Expr) -> list[Expr]:
    """The terms of a sum."""
    return [*terms_of(e.a), e.b] if isinstance(e, Add) else [e]
