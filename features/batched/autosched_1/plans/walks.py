"""What many nests move through memory: `nest/memory_walk.py` for arrays of loops.

Loops that move an access alike touch the same: what each access touches is worked out once for
each different sequence of loops that move it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from autosched.features.batched.autosched_1.plans.unique import different, keys_of
from autosched.features.batched.forms import Flags, Ints
from autosched.features.batched.stores import Floats
from autosched.nest.core import PAGE, Memory
from autosched.nest.memory_walk import LINE_CYCLES, PAGE_CYCLES, RUN_CYCLES, touched_again

_Intp = npt.NDArray[np.intp]
_FAR = np.int64(1) << 62  # beyond the stride of every loop
_ODD = np.uint64(0x9E3779B97F4A7C15)
_MOST_KNOWN = 200_000  # of 100 bytes or so
_AT_ONCE = 1024


@dataclass(eq=False)
class Visits:
    """Loops of the code, outermost first, by (place, nest); `strides` by (access, place, nest).

    Those of a nest are the last ones: places before `first` are empty, with extent 1 and strides 0.
    """

    extents: Ints
    strides: Ints
    first: Ints

    @property
    def count(self) -> int:
        """Nests."""
        return len(self.first)

    def of(self, those: _Intp | Flags) -> Visits:
        """Those of these nests."""
        return Visits(self.extents[:, those], self.strides[:, :, those], self.first[those])


@dataclass(eq=False)
class Walks:
    """`Walk` of each nest: lines and runs by (cache, nest), pages by (TLB, nest)."""

    lines: Floats
    runs: Floats
    pages: Floats


def walks(visits: Visits, elements: tuple[int, ...], memory: Memory) -> Walks:
    """The walks of all nests; `elements` are the bytes of those of each access."""
    lines, runs, pages, needed = _by_level(visits, elements, memory.line)
    outside = np.ones_like(lines)
    np.cumprod(visits.extents, axis=0, out=outside[1:])
    every = np.arange(visits.count)
    moved_lines: list[Floats] = []
    moved_runs: list[Floats] = []
    for capacity in memory.caches:
        level = np.maximum(_outermost(needed, capacity) - 1, visits.first)
        beyond = np.maximum(level - 1, 0)
        size = needed[level, every]
        whole = (level == visits.first) | (size <= capacity)
        kept = np.maximum(0.0, 2.0 - size / capacity)
        here, there = outside[level, every], outside[beyond, every]
        for counts, found in ((lines, moved_lines), (runs, moved_runs)):
            own = (counts[level, every] * here).astype(np.float64)
            more = (counts[beyond, every] * there).astype(np.float64)
            found.append(np.where(whole, own, kept * more + (1.0 - kept) * own))
    looked_up = []
    for entries in memory.tlb:
        level = np.maximum(_outermost(pages, entries) - 1, visits.first)
        looked_up.append((pages[level, every] * outside[level, every]).astype(np.float64))
    return Walks(np.array(moved_lines), np.array(moved_runs), np.array(looked_up))


def cycles_of(counts: Floats) -> Floats:
    """`nest.memory_walk.Walk.cycles` of lines, runs and pages by (count, nest)."""
    costs = (*LINE_CYCLES, *RUN_CYCLES, *PAGE_CYCLES)
    found: Floats = counts[0] * costs[0]
    for count, each in zip(counts[1:], costs[1:], strict=True):
        found = found + count * each
    return found


def _outermost(sizes: Ints, capacity: int) -> Ints:
    """The outermost level that fits, as all levels inside of it do; else the innermost one."""
    inward = np.logical_and.accumulate(sizes[-2::-1] <= capacity, axis=0)
    found: Ints = len(sizes) - 1 - np.count_nonzero(inward, axis=0)
    return found


def _by_level(
    visits: Visits, elements: tuple[int, ...], line: int
) -> tuple[Ints, Ints, Ints, Ints]:
    """(level, nest): lines, runs and pages that the loops from a level inwards touch, and the
    bytes of a cache that has room for them."""
    places, count = visits.extents.shape
    accesses = len(elements)
    extents = np.tile(visits.extents, accesses)
    element = np.repeat(np.array(elements, np.int64), count)
    stride = np.abs(visits.strides.transpose(1, 0, 2).reshape(places, -1)) * element
    moves = (stride != 0) & (extents > 1)
    number = np.zeros((places + 1, len(element)), np.intp)
    np.cumsum(moves[::-1], axis=0, out=number[-2::-1])
    bytes_, times = _moving(stride, extents, moves, number)
    first, which = different(keys_of([element, *bytes_, *times]))
    table = _each_touched(bytes_[:, first], times[:, first], element[first], line)
    at = number * table.shape[2] + which
    by_access = [own.ravel()[at].reshape(places + 1, accesses, count) for own in table]
    lines, runs, pages = (own.sum(axis=1) for own in by_access[:3])
    return lines, runs, pages, np.maximum(line * lines, by_access[3].max(axis=1))


def _moving(stride: Ints, extents: Ints, moves: Flags, number: _Intp) -> tuple[Ints, Ints]:
    """(loop, access): bytes that each loop that moves an access moves it by and its extent, from
    the innermost one on; a loop that is not there has extent 1."""
    depth = int(number[0].max(initial=0))
    shape = depth, stride.shape[1]
    bytes_, times = np.full(shape, _FAR), np.ones(shape, np.int64)
    at = moves.nonzero()
    place = number[1:][at], at[1]
    bytes_[place], times[place] = stride[at], extents[at]
    return bytes_, times


def _each_touched(bytes_: Ints, times: Ints, element: Ints, line: int) -> Ints:
    """(4, level, access): `_touched` of the innermost loops, of none to all. It depends on which
    loops these are, not on their order: the same ones are asked for once."""
    depth, count = bytes_.shape
    loops = keys_of([bytes_.ravel(), times.ravel()]).reshape(2, depth, count)
    loops *= times > 1
    keys = np.zeros((2, depth + 1, count), np.uint64)
    np.cumsum(loops, axis=1, out=keys[:, 1:])
    keys += element.astype(np.uint64) * _ODD
    some, which = different(keys.reshape(2, -1))
    level, access = np.divmod(some, count)
    inside = np.arange(depth)[:, None] < level
    strides = np.where(inside, bytes_[:, access], _FAR)
    found = _touched(strides, np.where(inside, times[:, access], 1), element[access], line)
    return found[:, which].reshape(4, depth + 1, count)


def _touched(strides: Ints, extents: Ints, element: Ints, line: int) -> Ints:
    """(4, access): lines, runs, pages and needed bytes, as `memory_walk._touched` has them."""
    order = np.argsort(strides, axis=0)
    strides = np.take_along_axis(strides, order, axis=0)
    extents = np.take_along_axis(extents, order, axis=0)
    span = element.copy()
    gap, times = np.zeros_like(span), np.ones_like(span)
    gaps: list[tuple[Flags, Ints, Ints]] = []
    for stride, extent in zip(strides, extents, strict=True):
        inside = extent > 1
        near = inside & (gap == 0) & (stride <= np.maximum(span, line))
        span = np.where(near, span + stride * (extent - 1), span)
        meets = inside & (gap != 0) & (stride < gap * times)
        more = -(-stride // np.maximum(gap, 1)) * (extent - 1)
        times = np.where(meets, times + more, times)
        begins = inside & ~near & ~meets
        if begins.any():
            ends = begins & (gap != 0)
            if ends.any():
                gaps.append((ends, gap, times))
            gap, times = np.where(begins, stride, gap), np.where(begins, extent, times)
    if gap.any():
        gaps.append((gap != 0, gap, times))
    return _counted(span, gaps, line)


def _counted(span: Ints, gaps: list[tuple[Flags, Ints, Ints]], line: int) -> Ints:
    """The four tables of runs of `span` bytes, with what is between runs."""
    run = -(-span // line)
    runs, page_runs, page_span = np.ones_like(span), np.ones_like(span), span
    places = _Places(PAGE // line, run)
    for where, stride, times in gaps:
        runs = np.where(where, runs * times, runs)
        near = stride < PAGE
        page_span = np.where(where & near, page_span + stride * (times - 1), page_span)
        page_runs = np.where(where & ~near, page_runs * times, page_runs)
        places.spread(where, stride, times)
    lines, room = runs * run, places.room()
    needed = np.where(lines > room, -(-lines // room) * PAGE, 0)
    return np.stack([lines, runs, page_runs * -(-page_span // PAGE), needed])


class _Places:
    """Which lines of a page are touched: for each nest the number of a set of them."""

    def __init__(self, slots: int, run: Ints) -> None:
        """The first lines of a page, as many as a run has."""
        if _sets_of(slots).known > _MOST_KNOWN:
            _sets_of.cache_clear()
        self._slots, self._sets = slots, _sets_of(slots)
        self._of = np.minimum(run, slots)

    def spread(self, where: Flags, stride: Ints, times: Ints) -> None:
        """Touch the same again `times` times, `stride` bytes apart."""
        at = np.flatnonzero(where & (times > 1) & (self._of != self._slots))
        if len(at):
            bytes_, of = stride.ravel()[at], self._of.ravel()
            apart = np.minimum(times.ravel()[at], PAGE // np.clip(bytes_ & -bytes_, 1, PAGE))
            keys = (of[at] * PAGE + bytes_ % PAGE) * (PAGE + 1) + apart
            unique, which = np.unique(keys, return_inverse=True)
            of[at] = self._sets.spread(unique)[which]

    def room(self) -> Ints:
        """How many lines of a page are touched."""
        found: Ints = self._sets.sizes()[self._of]
        return found


class _Sets:
    """Sets of lines of a page by number, as bits, and what becomes of them, once for all calls. The
    first are those of the first lines."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._sets = [(1 << k) - 1 for k in range(slots + 1)]
        self._numbers = {places: k for k, places in enumerate(self._sets)}
        self._spread: dict[int, int] = {}
        self._sizes: Ints = np.zeros(0, np.int64)

    @property
    def known(self) -> int:
        """Of how many questions the answers are kept."""
        return len(self._spread)

    def spread(self, keys: Ints) -> Ints:
        """The sets that come of (set * PAGE + stride) * (PAGE + 1) + times."""
        known = self._spread
        found = [known.get(key, -1) for key in keys.tolist()]
        for k, number in enumerate(found):
            if number < 0:
                found[k] = self._made(int(keys[k]))
        return np.array(found, np.int64)

    def _made(self, key: int) -> int:
        rest, times = divmod(key, PAGE + 1)
        number, stride = divmod(rest, PAGE)
        places = touched_again(self._sets[number], stride, times, self._slots)
        found = self._numbers.setdefault(places, len(self._sets))
        if found == len(self._sets):
            self._sets.append(places)
        self._spread[key] = found
        return found

    def sizes(self) -> Ints:
        """How many lines each set has."""
        new = self._sets[len(self._sizes) :]
        if new:
            more = np.array([places.bit_count() for places in new], np.int64)
            self._sizes = np.concatenate([self._sizes, more])
        return self._sizes


_sets_of = lru_cache(_Sets)
