"""Loops of a program: how often they run, which are nested in each other, and nests made anew."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.tir.constants import is_zero
from autosched.tir.expr import IntImm
from autosched.tir.stmt import For, Stmt


def trip_count(loop: For) -> int:
    """The number of iterations of a loop of constant extent; 0 for other loops."""
    return max(loop.extent.value, 0) if isinstance(loop.extent, IntImm) else 0


def count_from_zero(loop: For) -> int:
    """The number of iterations of a loop from 0 to a constant; 0 for other loops."""
    return trip_count(loop) if is_zero(loop.min) else 0


def nest_of(s: Stmt) -> tuple[list[For], Stmt]:
    """The loops from `s` on that contain only each other, outermost first, and what is in them."""
    loops: list[For] = []
    while isinstance(s, For):
        loops.append(s)
        s = s.body
    return loops, s


def around(loops: Sequence[For], body: Stmt) -> Stmt:
    """`body` in the loops, outermost first."""
    for loop in reversed(loops):
        body = loop.with_(body=body)
    return body
