"""What the loops of many nests touch from each level inwards, compiled (`memory_walk._by_level`).

The loops that move an access stay sorted by stride while one loop after the other comes in, from
the innermost loop outwards. What the first k of them touch is known for every k, so that a loop
with a larger stride than all loops inside, the usual one, takes one step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosched.features.batched.along_loops import picked_in_all
from autosched.features.batched.forms import Flags, Ints
from autosched.nest.core import PAGE, Memory
from autosched.runtime.compiled_loops import compiled, ones

_STRIDE, _EXTENT, _SPAN, _GAP, _TIMES, _NUMBER, _PAGE_SPAN, _PAGE_RUNS, _PLACES = range(9)
"""Columns of `state`: the sorted loops, and what the first k of them touch: bytes of a run,
distance and number of runs that are not counted yet, the number of all others, and the same for
pages; and the places of a page, as bits."""
_ALL_LINES, _ALL_RUNS, _ALL_PAGES, _NEEDED, _OUTSIDE, _LINES, _RUNS, _PAGES, _OWN = range(9)
"""Columns of `level`: the sums over all accesses, the iterations outside; and in the last line,
what one access touches."""
_Intp = npt.NDArray[np.intp]
_BITS = 64  # a page of more lines does not fit into one number


@dataclass(eq=False)
class Visits:
    """Loops of the code, outermost first, by (place, nest); `strides` are by (access, place, nest).

    The loops of a nest are the last places: places before `first` are empty, with extent 1 and
    strides 0.
    """

    extents: Ints
    strides: Ints
    first: Ints

    @property
    def count(self) -> int:
        """The number of nests."""
        return len(self.first)

    def of(self, those: _Intp | Flags) -> Visits:
        """Select these nests."""
        return picked_in_all(self, those)


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


@dataclass(eq=False)
class Sizes:
    """Bytes of an element of each access and of each cache, and pages of each TLB level; a line has
    `1 << shift` bytes."""

    elements: Ints
    caches: Ints
    tlb: Ints
    shift: int

    @staticmethod
    def of(memory: Memory, elements: tuple[int, ...]) -> Sizes:
        """The sizes of a memory and of accessed elements."""
        caches, tlb = np.array(memory.caches), np.array(memory.tlb, np.int64)
        return Sizes(np.array(elements), caches, tlb, memory.line.bit_length() - 1)


@dataclass(eq=False)
class Room:
    """Room for the tables of one nest: `state` is by sorted loop, `level` by level."""

    state: Ints
    level: Ints

    @staticmethod
    def of(loops: int) -> Room:
        """Room for nests of so many loops."""
        return Room(np.empty((loops + 2, 9), np.int64), np.empty((loops + 1, 9), np.int64))


def levels_of(visits: Visits, elements: tuple[int, ...], memory: Memory) -> Levels:
    """The levels of all nests, for a memory that has the rule."""
    found = Levels.empty(memory, visits.count)
    _walk_all(visits, Sizes.of(memory, elements), Room.of(len(visits.extents)), found)
    return found


@compiled
def _walk_all(visits: Visits, sizes: Sizes, room: Room, found: Levels) -> None:
    for n in range(len(visits.first)):
        walk_one(visits, n, sizes, room, found, n)


@compiled
def walk_one(visits: Visits, column: int, sizes: Sizes, room: Room, found: Levels, n: int) -> None:
    """Work out nest `n`, whose loops are in one column of `visits`."""
    innermost = len(visits.extents)
    outermost = visits.first[column]
    room.level[outermost, _OUTSIDE] = 1
    for k in range(outermost, innermost):
        room.level[k + 1, _OUTSIDE] = room.level[k, _OUTSIDE] * visits.extents[k, column]
    for k in range(outermost, innermost + 1):
        room.level[k, _ALL_LINES] = 0
        room.level[k, _ALL_RUNS] = 0
        room.level[k, _ALL_PAGES] = 0
        room.level[k, _NEEDED] = 0
    for a in range(len(sizes.elements)):
        _add_access(visits, column, a, sizes, room)
    for k in range(outermost, innermost + 1):
        room.level[k, _NEEDED] = max(
            room.level[k, _NEEDED], room.level[k, _ALL_LINES] << sizes.shift
        )
    for c in range(len(sizes.caches)):
        k = innermost
        while k > outermost and room.level[k - 1, _NEEDED] <= sizes.caches[c]:
            k -= 1
        k = max(k - 1, outermost)
        if k > outermost:
            found.needed[c, n] = room.level[k, _NEEDED]
        for beyond in range(2):
            at = max(k - beyond, outermost)
            found.lines[beyond, c, n] = room.level[at, _ALL_LINES] * room.level[at, _OUTSIDE]
            found.runs[beyond, c, n] = room.level[at, _ALL_RUNS] * room.level[at, _OUTSIDE]
    for c in range(len(sizes.tlb)):
        k = innermost
        while k > outermost and room.level[k - 1, _ALL_PAGES] <= sizes.tlb[c]:
            k -= 1
        k = max(k - 1, outermost)
        found.pages[c, n] = room.level[k, _ALL_PAGES] * room.level[k, _OUTSIDE]


@compiled
def _add_access(visits: Visits, column: int, a: int, sizes: Sizes, room: Room) -> None:
    """Add what access `a` touches to the tables by level."""
    innermost = len(visits.extents)
    element = sizes.elements[a]
    loops = 0
    room.state[0, _SPAN] = element
    room.state[0, _GAP] = 0
    room.level[innermost, _LINES] = element + (1 << sizes.shift) - 1 >> sizes.shift
    room.level[innermost, _RUNS] = 1
    room.level[innermost, _PAGES] = (element + PAGE - 1) // PAGE
    room.level[innermost, _OWN] = 0
    for k in range(innermost, visits.first[column] - 1, -1):
        moves = 0
        if k < innermost and visits.extents[k, column] > 1:
            moves = abs(visits.strides[a, k, column]) * element
        if moves:
            at = loops
            loops += 1
            while at > 0 and room.state[at - 1, _STRIDE] > moves:
                room.state[at, _STRIDE] = room.state[at - 1, _STRIDE]
                room.state[at, _EXTENT] = room.state[at - 1, _EXTENT]
                at -= 1
            room.state[at, _STRIDE] = moves
            room.state[at, _EXTENT] = visits.extents[k, column]
            _touch(room, at, loops, sizes.shift, innermost)
        room.level[k, _ALL_LINES] += room.level[innermost, _LINES]
        room.level[k, _ALL_RUNS] += room.level[innermost, _RUNS]
        room.level[k, _ALL_PAGES] += room.level[innermost, _PAGES]
        room.level[k, _NEEDED] = max(room.level[k, _NEEDED], room.level[innermost, _OWN])


@compiled
def _touch(room: Room, at: int, loops: int, shift: int, result: int) -> None:
    """Go on after the first `at` loops, to the last one (`memory_walk._touched`)."""
    every = -1 if PAGE >> shift == _BITS else (1 << (PAGE >> shift)) - 1
    span = room.state[at, _SPAN]
    gap = room.state[at, _GAP]
    times = room.state[at, _TIMES]
    number = room.state[at, _NUMBER]
    page_span = room.state[at, _PAGE_SPAN]
    page_runs = room.state[at, _PAGE_RUNS]
    places = room.state[at, _PLACES]
    for j in range(at, loops + 1):
        stride = 0
        extent = 0
        if j < loops:
            stride = room.state[j, _STRIDE]
            extent = room.state[j, _EXTENT]
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
                room.state[loops + 1, _PLACES] = places
                if places != every:
                    _touch_again(room, loops + 1, gap, times, shift, every)
                places = room.state[loops + 1, _PLACES]
            gap = stride
            times = extent
        if j < loops:
            room.state[j + 1, _SPAN] = span
            room.state[j + 1, _GAP] = gap
            room.state[j + 1, _TIMES] = times
            room.state[j + 1, _NUMBER] = number
            room.state[j + 1, _PAGE_SPAN] = page_span
            room.state[j + 1, _PAGE_RUNS] = page_runs
            room.state[j + 1, _PLACES] = places
    lines = number * (span + (1 << shift) - 1 >> shift)
    fits = ones(places)
    needed = 0
    if lines > fits:
        needed = (lines << shift) + PAGE - 1 & -PAGE
        if places != every:
            needed = (lines + fits - 1) // fits * PAGE
    room.level[result, _LINES] = lines
    room.level[result, _RUNS] = number
    room.level[result, _PAGES] = page_runs * ((page_span + PAGE - 1) // PAGE)
    room.level[result, _OWN] = needed


@compiled
def _touch_again(room: Room, at: int, gap: int, times: int, shift: int, every: int) -> None:
    """Repeat the places of a page, with a gap each time (`memory_walk.touched_again`)."""
    start = room.state[at, _PLACES]
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
    room.state[at, _PLACES] = places
