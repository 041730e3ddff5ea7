"""What the loops of many nests touch from each level inwards, compiled (`memory_walk._by_level`).

The loops that move an access stay sorted by stride while one loop after the other comes in, from
the innermost loop outwards. What the first k of them touch is known for every k, so that a loop
with a larger stride than all loops inside, the usual one, takes one step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autosched.features.batched.forms import Ints
from autosched.nest.core import PAGE, Memory
from autosched.runtime.compiled_loops import compiled, ones

_STRIDE, _EXTENT, _SPAN, _GAP, _TIMES, _NUMBER, _PAGE_SPAN, _PAGE_RUNS, _PLACES = range(9)
"""Lines of the table `state`: the sorted loops, and what the first k of them touch: bytes of a run,
distance and number of runs that are not counted yet, the number of all others, and the same for
pages; and the places of a page, as bits."""
_ALL_LINES, _ALL_RUNS, _ALL_PAGES, _NEEDED, _OUTSIDE, _LINES, _RUNS, _PAGES, _OWN = range(9)
"""Lines of the table `level`, by level: the sums over all accesses, the iterations outside; and in
the last column, what one access touches."""
_BITS = 64  # a page of more lines does not fit into one number


@dataclass(eq=False)
class Levels:
    """The levels that decide what moves into caches.

    By (cache, nest): bytes `needed` at the outermost level that does not fit, 0 where all levels
    fit. `lines` and `runs` are by (level, cache, nest): of all executions from that level inwards,
    and from the next level outside. By (TLB level, nest): `pages`, in the same way.
    """

    needed: Ints
    lines: Ints
    runs: Ints
    pages: Ints

    @staticmethod
    def empty(memory: Memory, count: int) -> Levels:
        """Levels of `count` nests, to be filled in."""
        shape = len(memory.caches), count
        lines, runs = np.empty((2, 2, *shape), np.int64)
        pages = np.empty((len(memory.tlb), count), np.int64)
        return Levels(np.zeros(shape, np.int64), lines, runs, pages)


def has_rule(memory: Memory) -> bool:
    """Whether lines and pages are powers of 2, and a page has no more lines than a number bits."""
    return memory.line & memory.line - 1 == 0 and PAGE // _BITS <= memory.line <= PAGE


def sizes_of(memory: Memory, elements: tuple[int, ...], places: int) -> tuple[Ints | int, ...]:
    """The arguments of `walk_one` that say how large things are, and room for its tables."""
    return (
        np.array(elements),
        np.array(memory.caches),
        np.array(memory.tlb, np.int64),
        memory.line.bit_length() - 1,
        np.empty((9, places + 2), np.int64),
        np.empty((9, places + 1), np.int64),
    )


def levels_of(
    extents: Ints, strides: Ints, first: Ints, elements: tuple[int, ...], memory: Memory
) -> Levels:
    """The levels of all nests (`walks.Visits`), for a memory that has the rule."""
    found = Levels.empty(memory, len(first))
    sizes = sizes_of(memory, elements, len(extents))
    tables = found.needed, found.lines, found.runs, found.pages
    _walk_all(extents, strides, first, *sizes, *tables)
    return found


@compiled
def _walk_all(
    extents: Ints,
    strides: Ints,
    first: Ints,
    elements: Ints,
    caches: Ints,
    tlb: Ints,
    shift: int,
    state: Ints,
    level: Ints,
    needed: Ints,
    lines: Ints,
    runs: Ints,
    pages: Ints,
) -> None:
    for n in range(len(first)):
        walk_one(
            *(extents, strides, n, first[n], elements, caches, tlb, shift, state, level),
            *(n, needed, lines, runs, pages),
        )


@compiled
def walk_one(
    extents: Ints,
    strides: Ints,
    column: int,
    outermost: int,
    elements: Ints,
    caches: Ints,
    tlb: Ints,
    shift: int,
    state: Ints,
    level: Ints,
    n: int,
    needed: Ints,
    lines: Ints,
    runs: Ints,
    pages: Ints,
) -> None:
    """Work out nest `n`, whose loops are in one column of `extents` and `strides`."""
    innermost = len(extents)
    level[_OUTSIDE, outermost] = 1
    for k in range(outermost, innermost):
        level[_OUTSIDE, k + 1] = level[_OUTSIDE, k] * extents[k, column]
    for k in range(outermost, innermost + 1):
        level[_ALL_LINES, k] = 0
        level[_ALL_RUNS, k] = 0
        level[_ALL_PAGES, k] = 0
        level[_NEEDED, k] = 0
    for a in range(len(elements)):
        _add_access(extents, strides, column, a, outermost, elements[a], shift, state, level)
    for k in range(outermost, innermost + 1):
        level[_NEEDED, k] = max(level[_NEEDED, k], level[_ALL_LINES, k] << shift)
    for c in range(len(caches)):
        k = innermost
        while k > outermost and level[_NEEDED, k - 1] <= caches[c]:
            k -= 1
        k = max(k - 1, outermost)
        if k > outermost:
            needed[c, n] = level[_NEEDED, k]
        for beyond in range(2):
            at = max(k - beyond, outermost)
            lines[beyond, c, n] = level[_ALL_LINES, at] * level[_OUTSIDE, at]
            runs[beyond, c, n] = level[_ALL_RUNS, at] * level[_OUTSIDE, at]
    for c in range(len(tlb)):
        k = innermost
        while k > outermost and level[_ALL_PAGES, k - 1] <= tlb[c]:
            k -= 1
        k = max(k - 1, outermost)
        pages[c, n] = level[_ALL_PAGES, k] * level[_OUTSIDE, k]


@compiled
def _add_access(
    extents: Ints,
    strides: Ints,
    column: int,
    a: int,
    outermost: int,
    element: int,
    shift: int,
    state: Ints,
    level: Ints,
) -> None:
    """Add what access `a` touches to the tables by level."""
    innermost = len(extents)
    loops = 0
    state[_SPAN, 0] = element
    state[_GAP, 0] = 0
    level[_LINES, innermost] = element + (1 << shift) - 1 >> shift
    level[_RUNS, innermost] = 1
    level[_PAGES, innermost] = (element + PAGE - 1) // PAGE
    level[_OWN, innermost] = 0
    for k in range(innermost, outermost - 1, -1):
        moves = 0
        if k < innermost and extents[k, column] > 1:
            moves = abs(strides[a, k, column]) * element
        if moves:
            at = loops
            loops += 1
            while at > 0 and state[_STRIDE, at - 1] > moves:
                state[_STRIDE, at] = state[_STRIDE, at - 1]
                state[_EXTENT, at] = state[_EXTENT, at - 1]
                at -= 1
            state[_STRIDE, at] = moves
            state[_EXTENT, at] = extents[k, column]
            _touch(state, at, loops, shift, level, innermost)
        level[_ALL_LINES, k] += level[_LINES, innermost]
        level[_ALL_RUNS, k] += level[_RUNS, innermost]
        level[_ALL_PAGES, k] += level[_PAGES, innermost]
        level[_NEEDED, k] = max(level[_NEEDED, k], level[_OWN, innermost])


@compiled
def _touch(state: Ints, at: int, loops: int, shift: int, level: Ints, result: int) -> None:
    """Go on after the first `at` loops, to the last one (`memory_walk._touched`)."""
    every = -1 if PAGE >> shift == _BITS else (1 << (PAGE >> shift)) - 1
    span = state[_SPAN, at]
    gap = state[_GAP, at]
    times = state[_TIMES, at]
    number = state[_NUMBER, at]
    page_span = state[_PAGE_SPAN, at]
    page_runs = state[_PAGE_RUNS, at]
    places = state[_PLACES, at]
    for j in range(at, loops + 1):
        stride = 0
        extent = 0
        if j < loops:
            stride = state[_STRIDE, j]
            extent = state[_EXTENT, j]
        if gap == 0 and j < loops and stride <= max(span, 1 << shift):
            span += stride * (extent - 1)
        elif gap != 0 and j < loops and stride < gap * times:
            times += (stride + gap - 1) // gap * (extent - 1)
        else:
            if gap == 0:
                run = span + (1 << shift) - 1 >> shift
                places = every if run >= PAGE >> shift else (1 << run) - 1
                number = 1
                page_span = span
                page_runs = 1
            else:
                number *= times
                if gap < PAGE:
                    page_span += gap * (times - 1)
                else:
                    page_runs *= times
                state[_PLACES, loops + 1] = places
                if places != every:
                    _touch_again(state, loops + 1, gap, times, shift, every)
                places = state[_PLACES, loops + 1]
            gap = stride
            times = extent
        if j < loops:
            state[_SPAN, j + 1] = span
            state[_GAP, j + 1] = gap
            state[_TIMES, j + 1] = times
            state[_NUMBER, j + 1] = number
            state[_PAGE_SPAN, j + 1] = page_span
            state[_PAGE_RUNS, j + 1] = page_runs
            state[_PLACES, j + 1] = places
    lines = number * (span + (1 << shift) - 1 >> shift)
    room = ones(places)
    needed = 0
    if lines > room:
        needed = (lines << shift) + PAGE - 1 & -PAGE
        if places != every:
            needed = (lines + room - 1) // room * PAGE
    level[_LINES, result] = lines
    level[_RUNS, result] = number
    level[_PAGES, result] = page_runs * ((page_span + PAGE - 1) // PAGE)
    level[_OWN, result] = needed


@compiled
def _touch_again(state: Ints, at: int, gap: int, times: int, shift: int, every: int) -> None:
    """Repeat the places of a page, with a gap each time (`memory_walk.touched_again`)."""
    start = state[_PLACES, at]
    places = start
    slots = PAGE >> shift
    by = 0
    rest = min(times, PAGE >> ones(min(gap & -gap, PAGE) - 1))
    while rest > 1 and places != every:
        rest -= 1
        by = (by + gap) % PAGE
        turn = by >> shift
        if turn:
            low = start >> (slots - turn) & (1 << turn) - 1
            places |= (start << turn | low) & every
    state[_PLACES, at] = places
