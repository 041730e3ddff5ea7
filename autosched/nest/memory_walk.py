"""How the generated code walks through memory: what it moves, and how often it jumps.

The loops of a store in the order in which the code generator runs them (vector_code.py), each with
the strides of the accesses: from these alone follow the lines and pages that they touch.
Lines at one place of their pages compete for the same sets of a cache, so that rows a page apart
leave most of it unused; and what does not follow its predecessor in memory is not fetched ahead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from autosched.nest.core import PAGE, Memory
from autosched.nest.total import total
from autosched.nest.visits import Visit

# Cycles of a core for each line into L1, L2 and L3 when they follow each other, and for each one
# that does not; for each page that the first and the second level of the TLB do not know. Rounded
# from the Intel 64 and IA-32 Optimization Reference Manual; only their order of magnitude matters.
LINE_CYCLES = (2.0, 6.0, 16.0)
RUN_CYCLES = (6.0, 35.0, 100.0)
PAGE_CYCLES = (7.0, 30.0)


@dataclass(frozen=True, slots=True)
class Walk:
    """Over all iterations: lines that move into L1, L2 and L3, runs of neighbouring ones that they
    come in, and pages that the two levels of the TLB look up."""

    lines: tuple[float, ...]
    runs: tuple[float, ...]
    pages: tuple[float, ...]

    @property
    def cycles(self) -> float:
        """That one core takes for all this."""
        counts = (*self.lines, *self.runs, *self.pages)
        costs = (*LINE_CYCLES, *RUN_CYCLES, *PAGE_CYCLES)
        return total(count * cost for count, cost in zip(counts, costs, strict=True))

    def times(self, factor: float) -> Walk:
        """The walk `factor` times."""
        lines, runs, pages = (
            tuple(count * factor for count in counts)
            for counts in (self.lines, self.runs, self.pages)
        )
        return Walk(lines, runs, pages)


NOWHERE = Walk((0.0,) * 3, (0.0,) * 3, (0.0,) * 2)


class _Touched(NamedTuple):
    """What one access touches: lines, runs of them, pages, and the bytes of a cache that has room
    for the lines where most of them compete."""

    lines: int
    runs: int
    pages: int
    needed: int


@lru_cache(maxsize=20_000)
def walk(visits: tuple[Visit, ...], elements: tuple[int, ...], memory: Memory) -> Walk:
    """The walk of `visits` (outermost first) over accesses to elements of these bytes.

    What the iterations of a loop touch moves once when that of one iteration fits, and again with
    every iteration of the loops outside.
    """
    by_access = [_by_level(visits, a, size, memory.line) for a, size in enumerate(elements)]
    lines: list[float] = []
    runs: list[float] = []
    pages: list[int] = []
    needed: list[int] = []
    outside = [1]
    for visit in visits:
        outside.append(outside[-1] * visit.extent)
    for times, *level in zip(outside, *by_access, strict=True):
        of_lines, of_runs, of_pages, most = 0, 0, 0, 0
        for touched in level:
            of_lines += touched.lines
            of_runs += touched.runs
            of_pages += touched.pages
            most = max(most, touched.needed)
        lines.append(float(of_lines * times))
        runs.append(float(of_runs * times))
        pages.append(of_pages)
        needed.append(max(memory.line * of_lines, most))
    looked_up = [max(0, outermost_within(pages, entries) - 1) for entries in memory.tlb]
    return Walk(
        tuple([_moved(lines, needed, capacity) for capacity in memory.caches]),
        tuple([_moved(runs, needed, capacity) for capacity in memory.caches]),
        tuple([float(pages[k] * outside[k]) for k in looked_up]),
    )


def _moved(counts: Sequence[float], needed: Sequence[int], capacity: int) -> float:
    """Of what all runs of the loops from each level inwards touch, what moves into a cache.

    It is kept from one iteration of the loop outside to the next where it fits, and the less of it
    the more it exceeds the capacity, nothing at the double: caches do not replace strictly what
    was used longest ago.
    """
    level = max(0, outermost_within(needed, capacity) - 1)
    if level == 0 or needed[level] <= capacity:
        return counts[level]
    kept = max(0.0, 2.0 - needed[level] / capacity)
    return kept * counts[level - 1] + (1.0 - kept) * counts[level]


def outermost_within(sizes: Sequence[int], capacity: int) -> int:
    """The outermost level of at most `capacity`; else the innermost."""
    level = len(sizes) - 1
    while level > 0 and sizes[level - 1] <= capacity:
        level -= 1
    return level


def _by_level(visits: Sequence[Visit], access: int, element: int, line: int) -> list[_Touched]:
    """What the loops from each level inwards touch; the last entry is a single iteration."""
    moving: tuple[tuple[int, int], ...] = ()
    found = [_touched(moving, element, line)]
    for extent, strides in reversed(visits):
        stride = strides[access]
        if stride and extent > 1:
            moving = tuple(sorted((*moving, (abs(stride) * element, extent))))
            found.append(_touched(moving, element, line))
        else:
            found.append(found[-1])
    return found[::-1]


def touched_again(places: int, stride: int, times: int, slots: int) -> int:
    """The lines of a page, a bit for each of its `slots`, that the same touch `times` times, each
    `stride` bytes after the last."""
    line = PAGE // slots
    whole, every = places << slots | places, (1 << slots) - 1
    for by in {k * stride % PAGE // line % slots for k in range(times)}:
        places |= whole >> (slots - by) & every
    return places


@lru_cache(maxsize=50_000)
def _touched(moving: tuple[tuple[int, int], ...], element: int, line: int) -> _Touched:
    """Of loops by rising stride (bytes) and their extents: orders and tiles of one nest have many
    of them in common."""
    span = element  # bytes of one run
    gaps: list[tuple[int, int]] = []  # strides between runs, and how many there are
    for stride, extent in moving:
        if not gaps and stride <= max(span, line):
            span += stride * (extent - 1)
        elif gaps and stride < gaps[-1][0] * gaps[-1][1]:  # meets what it has touched before
            last, count = gaps[-1]
            gaps[-1] = last, count + -(-stride // last) * (extent - 1)
        else:
            gaps.append((stride, extent))
    run = -(-span // line)
    runs = 1
    slots = max(1, PAGE // line)
    every = (1 << slots) - 1
    places = (1 << min(run, slots)) - 1  # a bit for each line of a page
    page_span, page_runs = span, 1
    for stride, count in gaps:
        runs *= count
        apart = min(count, PAGE // math.gcd(stride, PAGE))
        if apart > 1 and places != every:
            places = touched_again(places, stride, apart, slots)
        if stride < PAGE:
            page_span += stride * (count - 1)
        else:
            page_runs *= count
    lines = runs * run
    room = places.bit_count()
    needed = -(-lines // room) * PAGE if lines > room else 0
    return _Touched(lines, runs, page_runs * -(-page_span // PAGE), needed)
