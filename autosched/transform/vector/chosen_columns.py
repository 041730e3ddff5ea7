"""Select vectors of columns by shuffles of columns that lie in registers."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.tir.expr import Expr, Ramp, Shuffle
from autosched.tir.op import const


def lanes_at(start: Expr, width: int) -> Expr:
    """The index of `width` consecutive elements from `start` on."""
    return Ramp(start, const(1, start.dtype), width)


def chosen(loads: Sequence[Expr], starts: Sequence[int], places: Sequence[int], width: int) -> Expr:
    """The columns `places`, which do not decrease, out of the vectors `loads` of `width` columns.

    The vectors begin at `starts`. Each one begins where the previous one ends, except for the last
    one.
    """
    if len(places) > width:
        half = width
        while 2 * half < len(places):
            half *= 2
        rest = [*places[half:], *[places[-1]] * (2 * half - len(places))]
        one, two = (chosen(loads, starts, part, width) for part in (places[:half], rest))
        return _shuffle(one, two, range(len(places)))
    sources = [min(place // width, len(starts) - 1) for place in places]
    if starts[sources[-1]] <= places[0]:
        sources = [sources[-1]] * len(places)
    lanes = [place - starts[source] for place, source in zip(places, sources, strict=True)]
    used = sorted(set(sources))
    if len(used) == 1 and lanes == list(range(width)):
        return loads[used[0]]
    if len(used) == 1:
        return _shuffle(loads[used[0]], loads[used[0]], lanes)
    found, known = loads[used[0]], lanes[: sources.count(used[0])]
    for source in used[1:]:
        more = [width + lane for lane, s in zip(lanes, sources, strict=True) if s == source]
        order = [*known, *more]
        missing = 0 if source == used[-1] else width - len(order)
        found = _shuffle(found, loads[source], [*order, *[0] * missing])
        known = list(range(len(order)))
    return found


def _shuffle(one: Expr, two: Expr, order: Sequence[int]) -> Expr:
    return Shuffle((one, two), tuple(map(const, order)))
