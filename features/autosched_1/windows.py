"""Reductions over windows that reach over a border: two stores in place of one.

    for tile: for i in 4: for k in 3:
        Y[tile * 4 + i] = max(Y[..], if_then_else(1 <= tile * 4 + i + k, X[..], 0.0))

The code generator cuts loops at the border, so that most nests have whole windows and ask for
nothing (HintBorders). Here the first store is one of them, for the share of the nests that are
inside throughout; the second is for the others, with the condition around it: a nest ends there.
What all the cuts leave of the others takes five times as long to work out, and ranks candidates
little better (0.77 and 0.76 of the pairs of three depthwise convolutions).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from autosched.features.autosched_1.branches import Branch, points_of, values_at
from autosched.features.walk.scope import Loop
from autosched.features.walk.visitor import Nest
from autosched.tir.expr import LE, BufferLoad, Expr, IntImm
from autosched.tir.linear import sum_of
from autosched.tir.stmt import BufferStore
from autosched.tir.walk import free_vars, rewrite_expr
from autosched.transform.loops.loop_interval import Part, as_part, likely_parts
from autosched.transform.vector.hint_borders import chosen_factor


class Window(NamedTuple):
    """A reduction's store as it is inside, and the conditions that hold there."""

    inside: BufferStore
    parts: tuple[Part, ...]


class Border(NamedTuple):
    """The shares of the nests inside and of the others, and the loops around the condition."""

    inside: float
    others: float
    depth: int


def window_of(store: BufferStore) -> Window | None:
    """The store as a reduction over windows; None for any other."""
    found = value_inside(store.value, BufferLoad(store.buffer, store.indices))
    if found is None:
        return None
    value, parts = found
    return Window(BufferStore(store.buffer, value, store.indices, store.predicate), parts)


def value_inside(value: Expr, own: Expr) -> tuple[Expr, tuple[Part, ...]] | None:
    """What a sum, maximum or minimum with `own` is inside, and the comparisons that hold there;
    None for any other value."""
    chosen = chosen_factor(value, own)
    if chosen is None:
        return None
    condition, then, _ = chosen.args
    parts: list[Part] = []
    for one, _ in likely_parts(condition):
        part = as_part(one)
        if part is None:
            return None
        parts.append(part)
    return rewrite_expr(value, lambda e: then if e is chosen else e), tuple(parts)


def border_of(window: Window, nest: Nest) -> Border:
    """What becomes of the window where the walk stands; nothing counts as inside where that cannot
    be told."""
    outside, inside = nest.loops[: nest.floor], nest.loops[nest.floor :]
    unknown = Border(0.0, 1.0, len(nest.loops))
    left: list[Branch] = []
    depth = 0
    for part in window.parts:
        test = _throughout(part, outside, inside)
        found = None if test is None else points_of([(test, True)], outside)
        if test is None or found is None:
            return unknown
        if found[0] < found[1]:
            left.append((test, True))
            asked = free_vars(part.source)
            last = max([k for k, loop in enumerate(nest.loops) if loop.var in asked], default=-1)
            depth = max(depth, last + 1)
    every = points_of(left, outside)
    if every is None:
        return unknown
    count, points = every
    return Border(count / points, (points - count) / points, depth)


def _throughout(part: Part, outside: Sequence[Loop], inside: Sequence[Loop]) -> Expr | None:
    """That the part holds for all iterations of the loops inside; None where a term is of both."""
    within: dict[Expr, int] = {}
    around: dict[Expr, int] = {}
    for term, factor in part.terms.items():
        asked = free_vars(term)
        if asked.isdisjoint([loop.var for loop in inside]):
            around[term] = factor
        elif asked.isdisjoint([loop.var for loop in outside]):
            within[term] = factor
        else:
            return None
    dtype = part.source.children()[0].dtype
    most = 0
    if within:
        total = sum_of(within, 0, dtype)
        asked = free_vars(total)
        values = values_at(total, [loop for loop in inside if loop.var in asked])
        if values is None:
            return None
        most = int(values.max())
    return LE(sum_of(around, 0, dtype), IntImm(-part.constant - most, dtype))
