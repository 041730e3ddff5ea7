"""Classify annotated loops by their position among a store's spatial and reduction loops."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.features.walk.scope import Loop
from autosched.tir.expr import Var

NONE, INNER_SPATIAL, MIDDLE_SPATIAL, OUTER_SPATIAL = range(4)
INNER_REDUCE, MIDDLE_REDUCE, OUTER_REDUCE, MIXED = range(4, 8)


def position(loop: Loop, loops: Sequence[Loop], stored: frozenset[Var]) -> int:
    """The position of `loop`, an index into names.POSITIONS.

    A loop is spatial when the stored index depends on it: its variable is one of `stored`. Among
    the spatial or the reduction loops, the innermost one is inner, also when it is the only one;
    the outermost one is outer. Other loops that run once do not count.
    """
    spatial = loop.var in stored
    alike = [
        item
        for item in loops
        if (item.var in stored) is spatial and (item.extent > 1 or item is loop)
    ]
    base = INNER_SPATIAL if spatial else INNER_REDUCE
    if alike[-1] is loop:
        return base
    return base + (2 if alike[0] is loop else 1)


def annotation(annotated: Sequence[Loop], loops: Sequence[Loop], stored: frozenset[Var]) -> int:
    """The common position of the annotated loops; NONE without any, MIXED when they differ."""
    found = {position(loop, loops, stored) for loop in annotated}
    if not found:
        return NONE
    return found.pop() if len(found) == 1 else MIXED
