"""Count the memory traffic of the generated code, and how often it jumps.

The input is the loops of a store in the order in which the code generator runs them
(vector_code.py), each with the strides of the accesses. The lines and pages that the accesses touch
follow from these alone. Lines at the same offset in their pages compete for the same sets of a
cache, so rows a page apart leave most of the cache unused. A line that does not follow its
predecessor in memory is not prefetched.
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

# Cycles of a core for each line into L1, L2 and L3 when lines follow each other, and for each line
# that does not follow one; for each page that misses the first and the second level of the TLB.
# Rounded from the Intel 64 and IA-32 Optimization Reference Manual; only the order of magnitude
# matters.
LINE_CYCLES = (2.0, 6.0, 16.0)
RUN_CYCLES = (6.0, 35.0, 100.0)
PAGE_CYCLES = (7.0, 30.0)


@dataclass(frozen=True, slots=True)
class Walk:
    """Memory traffic over all iterations of a store's loops.

    `lines` are the cache lines that move into L1, L2 and L3, `runs` the runs of neighbouring lines
    that they come in, `pages` the lookups that miss each of the two TLB levels.
    """

    lines: tuple[float, ...]
    runs: tuple[float, ...]
    pages: tuple[float, ...]

    @property
    def cycles(self) -> float:
        """Cycles that one core takes for this traffic."""
        counts = (*self.lines, *self.runs, *self.pages)
        costs = (*LINE_CYCLES, *RUN_CYCLES, *PAGE_CYCLES)
        return total(count * cost for count, cost in zip(counts, costs, strict=True))

    def times(self, factor: float) -> Walk:
        """The traffic of `factor` such walks."""
        lines, runs, pages = (
            tuple(count * factor for count in counts)
            for counts in (self.lines, self.runs, self.pages)
        )
        return Walk(lines, runs, pages)


NOWHERE = Walk((0.0,) * 3, (0.0,) * 3, (0.0,) * 2)


class _Touched(NamedTuple):
    """What one access touches: lines, runs of neighbouring lines, and pages.

    `needed` is the capacity in bytes of a cache that holds the lines where most of them compete for
    the same sets; 0 where none compete.
    """

    lines: int
    runs: int
    pages: int
    needed: int


@lru_cache(maxsize=20_000)
def walk(visits: tuple[Visit, ...], elements: tuple[int, ...], memory: Memory) -> Walk:
    """The memory traffic of the loops `visits` (outermost first); `elements` has the bytes of an
    element of each access.

    What the iterations of a loop touch moves into a cache once when the data of one iteration fits,
    and again in every iteration of the loops outside.
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
    """How many lines or runs move into a cache of `capacity` bytes.

    At each level, `counts` has what all executions of the loops from that level inwards touch, and
    `needed` the bytes that one execution needs. Data that fits is kept from one iteration of the
    loop outside to the next. The more it exceeds the capacity, the less of it is kept, nothing at
    twice the capacity: caches do not replace strictly what was used longest ago.
    """
    level = max(0, outermost_within(needed, capacity) - 1)
    if level == 0 or needed[level] <= capacity:
        return counts[level]
    kept = max(0.0, 2.0 - needed[level] / capacity)
    return kept * counts[level - 1] + (1.0 - kept) * counts[level]


def outermost_within(sizes: Sequence[int], capacity: int) -> int:
    """The outermost level whose size is at most `capacity`; else the innermost level."""
    level = len(sizes) - 1
    while level > 0 and sizes[level - 1] <= capacity:
        level -= 1
    return level


def _by_level(visits: Sequence[Visit], access: int, element: int, line: int) -> list[_Touched]:
    """What one execution of the loops from each level inwards touches, down to a single
    iteration."""
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
    """Repeat a touched pattern of page lines `times` times, each `stride` bytes after the last.

    `places` and the result are bit masks of the lines of a page, one bit for each of its `slots`
    lines.
    """
    line = PAGE // slots
    whole, every = places << slots | places, (1 << slots) - 1
    for by in {k * stride % PAGE // line % slots for k in range(times)}:
        places |= whole >> (slots - by) & every
    return places


@lru_cache(maxsize=50_000)
def _touched(moving: tuple[tuple[int, int], ...], element: int, line: int) -> _Touched:
    """What one access touches along the loops `moving`: (stride in bytes, extent) by rising stride.

    Cached because the orders and tiles of one nest have many of these loops in common.
    """
    span = element  # bytes of one run
    gaps: list[tuple[int, int]] = []  # strides between runs, and how many there are
    for stride, extent in moving:
        if not gaps and stride <= max(span, line):
            span += stride * (extent - 1)
        elif gaps and stride < gaps[-1][0] * gaps[-1][1]:  # overlaps the runs of the loop inside
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
