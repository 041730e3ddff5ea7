"""What the text of an index says: of an axis whose loops are mixed, and of all axes of a stage."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.tir.expr import Expr, Var

Bounds = tuple[int, int]
"""The smallest and the largest value."""


@dataclass(frozen=True, eq=False)
class AxisText:
    """An axis: its text, simplified, and what the walk would find in it.

    `raw` is the text as bounds make it, which larger expressions are simplified from. `start` are
    the ends while no loop runs, `ends` by position when the loop and those inside run.
    """

    raw: Expr
    text: Expr
    terms: tuple[Expr, ...]
    start: Bounds
    ends: tuple[Bounds, ...]
    used: tuple[bool, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class StageText:
    """All axes of a stage; `variables` of its loops by position, `conditions` around the store."""

    key: tuple[int, ...]
    variables: tuple[Var | None, ...]
    conditions: tuple[Expr, ...]
    axes: tuple[AxisText, ...]
