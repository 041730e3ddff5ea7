"""The memory traffic of many nests: `nest/memory_walk.py` for arrays of loops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosched.features.batched.autosched_1.plans.touched import Moving, Touched, touched
from autosched.features.batched.autosched_1.plans.walk_levels import (
    Levels,
    Visits,
    has_rule,
    levels_of,
)
from autosched.features.batched.forms import Ints
from autosched.features.batched.stores import Floats
from autosched.nest.core import Memory
from autosched.nest.memory_walk import LINE_CYCLES, PAGE_CYCLES, RUN_CYCLES

_Intp = npt.NDArray[np.intp]


@dataclass(eq=False)
class Walks:
    """The `Walk` of each nest: lines and runs by (cache, nest), pages by (TLB level, nest)."""

    lines: Floats
    runs: Floats
    pages: Floats


def walks(visits: Visits, elements: tuple[int, ...], memory: Memory) -> Walks:
    """The memory traffic of all nests; `elements` has the bytes of an element of each access."""
    if not has_rule(memory):
        return walks_of(_levels(visits, elements, memory), memory)
    levels = levels_of(visits, elements, memory)
    return walks_of(levels, memory)


def walks_of(levels: Levels, memory: Memory) -> Walks:
    """The memory traffic of nests with these levels (`memory_walk._moved`)."""
    lines, runs = np.empty((2, *levels.needed.shape))
    for k, (needed, capacity) in enumerate(zip(levels.needed, memory.caches, strict=True)):
        kept = np.maximum(0.0, 2.0 - needed / capacity)
        whole = needed <= capacity
        for counts, moved in ((levels.lines, lines), (levels.runs, runs)):
            own, more = counts[:, k].astype(np.float64)
            moved[k] = np.where(whole, own, kept * more + (1.0 - kept) * own)
    return Walks(lines, runs, levels.pages.astype(np.float64))


def _levels(visits: Visits, elements: tuple[int, ...], memory: Memory) -> Levels:
    """`levels_of` for lines of any number of bytes."""
    found = _touched(visits, elements, memory.line)
    shape = len(visits.extents) + 1, visits.count
    lines, runs, pages, needed = (np.empty(shape, np.int64) for _ in range(4))
    for k, at in found.levels():
        found.lines.take(at).sum(axis=0, out=lines[k])
        found.runs.take(at).sum(axis=0, out=runs[k])
        found.pages.take(at).sum(axis=0, out=pages[k])
        found.needed.take(at).max(axis=0, out=needed[k])
    np.maximum(needed, memory.line * lines, out=needed)
    outside = np.ones_like(lines)
    for k, extent in enumerate(visits.extents):
        np.multiply(outside[k], extent, out=outside[k + 1])
    every = np.arange(visits.count)

    def chosen(sizes: Ints, capacities: tuple[int, ...]) -> Ints:
        largest = _largest_inside(sizes)
        each = [np.maximum(_outermost(largest, c) - 1, visits.first) for c in capacities]
        return np.reshape(each, (len(capacities), visits.count)).astype(np.int64)

    level, looked_up = chosen(needed, memory.caches), chosen(pages, memory.tlb)
    both = np.stack([level, np.maximum(level - 1, 0)])
    return Levels(
        np.where(level > visits.first, needed[level, every], 0),
        lines[both, every] * outside[both, every],
        runs[both, every] * outside[both, every],
        pages[looked_up, every] * outside[looked_up, every],
    )


def _touched(visits: Visits, elements: tuple[int, ...], line: int) -> Touched:
    bytes_ = np.array(elements)
    stride = np.abs(visits.strides.transpose(1, 0, 2))
    stride *= bytes_[:, None]
    moves = (stride != 0) & (visits.extents > 1)[:, None]
    return touched(Moving(stride, moves, visits.extents, bytes_), line)


def cycles_of(counts: Floats) -> Floats:
    """`nest.memory_walk.Walk.cycles` for lines, runs and pages by (count, nest)."""
    return weighted(counts, (*LINE_CYCLES, *RUN_CYCLES, *PAGE_CYCLES))


def weighted(counts: Floats, cycles: tuple[float, ...]) -> Floats:
    """The weighted sum of the counts, added up from the first to the last."""
    found: Floats = counts[0] * cycles[0]
    for count, each in zip(counts[1:], cycles[1:], strict=True):
        found = found + count * each
    return found


def _largest_inside(sizes: Ints) -> Ints:
    """For each level but the innermost one, the largest size of it and of the levels inside."""
    found = sizes[:-1].copy()
    for k in range(len(found) - 2, -1, -1):
        np.maximum(found[k], found[k + 1], out=found[k])
    return found


def _outermost(largest: Ints, capacity: int) -> _Intp:
    """The outermost level that fits together with all levels inside of it; else the innermost."""
    found: _Intp = (largest > capacity).sum(axis=0, dtype=np.int16).astype(np.intp)
    return found
