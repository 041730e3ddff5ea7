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
        np.empty((places + 2, 9), np.int64),
        np.empty((places + 1, 9), np.int64),
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
    level[outermost, _OUTSIDE] = 1
    for k in range(outermost, innermost):
        level[k + 1, _OUTSIDE] = level[k, _OUTSIDE] * extents[k, column]
    for k in range(outermost, innermost + 1):
        level[k, _ALL_LINES] = 0
        level[k, _ALL_RUNS] = 0
        level[k, _ALL_PAGES] = 0
        level[k, _NEEDED] = 0
    for a in range(len(elements)):
        _add_access(extents, strides, column, a, outermost, elements[a], shift, state, level)
    for k in range(outermost, innermost + 1):
        level[k, _NEEDED] = max(level[k, _NEEDED], level[k, _ALL_LINES] << shift)
    for c in range(len(caches)):
        k = innermost
        while k > outermost and level[k - 1, _NEEDED] <= caches[c]:
            k -= 1
        k = max(k - 1, outermost)
        if k > outermost:
            needed[c, n] = level[k, _NEEDED]
        for beyond in range(2):
            at = max(k - beyond, outermost)
            lines[beyond, c, n] = level[at, _ALL_LINES] * level[at, _OUTSIDE]
            runs[beyond, c, n] = level[at, _ALL_RUNS] * level[at, _OUTSIDE]
    for c in range(len(tlb)):
        k = innermost
        while k > outermost and level[k - 1, _ALL_PAGES] <= tlb[c]:
            k -= 1
        k = max(k - 1, outermost)
        pages[c, n] = level[k, _ALL_PAGES] * level[k, _OUTSIDE]


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
    state[0, _SPAN] = element
    state[0, _GAP] = 0
    level[innermost, _LINES] = element + (1 << shift) - 1 >> shift
    level[innermost, _RUNS] = 1
    level[innermost, _PAGES] = (element + PAGE - 1) // PAGE
    level[innermost, _OWN] = 0
    for k in range(innermost, outermost - 1, -1):
        moves = 0
        if k < innermost and extents[k, column] > 1:
            moves = abs(strides[a, k, column]) * element
        if moves:
            at = loops
            loops += 1
            while at > 0 and state[at - 1, _STRIDE] > moves:
                state[at, _STRIDE] = state[at - 1, _STRIDE]
                state[at, _EXTENT] = state[at - 1, _EXTENT]
                at -= 1
            state[at, _STRIDE] = moves
            state[at, _EXTENT] = extents[k, column]
            _touch(state, at, loops, shift, level, innermost)
        level[k, _ALL_LINES] += level[innermost, _LINES]
        level[k, _ALL_RUNS] += level[innermost, _RUNS]
        level[k, _ALL_PAGES] += level[innermost, _PAGES]
        level[k, _NEEDED] = max(level[k, _NEEDED], level[innermost, _OWN])


@compiled
def _touch(state: Ints, at: int, loops: int, shift: int, level: Ints, result: int) -> None:
    """Go on after the first `at` loops, to the last one (`memory_walk._touched`)."""
    every = -1 if PAGE >> shift == _BITS else (1 << (PAGE >> shift)) - 1
    span = state[at, _SPAN]
    gap = state[at, _GAP]
    times = state[at, _TIMES]
    number = state[at, _NUMBER]
    page_span = state[at, _PAGE_SPAN]
    page_runs = state[at, _PAGE_RUNS]
    places = state[at, _PLACES]
    for j in range(at, loops + 1):
        stride = 0
        extent = 0
        if j < loops:
            stride = state[j, _STRIDE]
            extent = state[j, _EXTENT]
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
                state[loops + 1, _PLACES] = places
                if places != every:
                    _touch_again(state, loops + 1, gap, times, shift, every)
                places = state[loops + 1, _PLACES]
            gap = stride
            times = extent
        if j < loops:
            state[j + 1, _SPAN] = span
            state[j + 1, _GAP] = gap
            state[j + 1, _TIMES] = times
            state[j + 1, _NUMBER] = number
            state[j + 1, _PAGE_SPAN] = page_span
            state[j + 1, _PAGE_RUNS] = page_runs
            state[j + 1, _PLACES] = places
    lines = number * (span + (1 << shift) - 1 >> shift)
    room = ones(places)
    needed = 0
    if lines > room:
        needed = (lines << shift) + PAGE - 1 & -PAGE
        if places != every:
            needed = (lines + room - 1) // room * PAGE
    level[result, _LINES] = lines
    level[result, _RUNS] = number
    level[result, _PAGES] = page_runs * ((page_span + PAGE - 1) // PAGE)
    level[result, _OWN] = needed


@compiled
def _touch_again(state: Ints, at: int, gap: int, times: int, shift: int, every: int) -> None:
    """Repeat the places of a page, with a gap each time (`memory_walk.touched_again`)."""
    start = state[at, _PLACES]
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
    state[at, _PLACES] = places
