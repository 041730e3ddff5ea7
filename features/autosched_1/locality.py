"""Measure the data that a store moves: regions in cache lines, and traffic into each cache."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autosched.features.walk.regions import IndexBounds, region_sizes
from autosched.features.walk.scope import Access, Loop
from autosched.nest.memory_walk import outermost_within


@dataclass(slots=True)
class Locality:
    """The data that one store touches, by level.

    Level k is the k-th loop from outside with all loops inside it; level len(loops) is a single
    iteration. By level, `inner` is the number of iterations, `bytes` the size of the whole cache
    lines touched; `elements` and `lines` have such a list for each access. `runs` are the
    contiguous bytes in the whole region of each access. `within` is the least extent of an accessed
    dimension as a share of the region in that dimension: less than 1 where loops reach beyond a
    buffer.
    """

    inner: list[int]
    bytes: list[int]
    elements: list[list[int]]
    lines: list[list[int]]
    runs: list[int]
    within: float = 1.0

    def fits(self, capacity: int) -> int:
        """The outermost level whose data fit a cache of `capacity` bytes; else the innermost."""
        return outermost_within(self.bytes, capacity)

    def lines_moved(self, access: int, level: int) -> int:
        """Cache lines of `access` that move into a cache that holds the data of `level`.

        From one iteration of the loop around that level to the next, the cache keeps the lines that
        both touch, so the region of that loop moves once; each iteration of the loops further out
        moves it again.
        """
        outside = max(0, level - 1)
        return self.lines[access][outside] * (self.inner[0] // self.inner[outside])

    def all_lines_moved(self, level: int) -> int:
        """Cache lines of all accesses that move into a cache that holds the data of `level`."""
        outside = max(0, level - 1)
        touched = sum([lines[outside] for lines in self.lines])
        return touched * (self.inner[0] // self.inner[outside])

    def memory(self, accesses: Sequence[Access]) -> list[int]:
        """Bytes of the elements touched under each loop, innermost first."""
        sizes = [access.info.bytes for access in accesses]
        return [
            sum(mine[k] * size for mine, size in zip(self.elements, sizes, strict=True))
            for k in range(len(self.inner) - 2, -1, -1)
        ]


def locality(accesses: Sequence[Access], loops: Sequence[Loop], line: int) -> Locality:
    """Measure the regions of `accesses` under every loop, in lines of `line` bytes.

    Adds this store's entries to the touch tables of the loops.
    """
    bounds = IndexBounds(loops)
    count = len(loops)
    inner = [1] * (count + 1)
    for k in range(count - 1, -1, -1):
        inner[k] = inner[k + 1] * max(1, loops[k].extent)
    result = Locality(inner, [0] * (count + 1), [], [], [])
    for access in accesses:
        regions = region_sizes(access, bounds, count)
        elements, lines = [0] * (count + 1), [0] * (count + 1)
        for k in range(count, -1, -1):
            if k < count and regions[k] == regions[k + 1]:  # this loop does not move the access
                elements[k], lines[k] = elements[k + 1], lines[k + 1]
            else:
                elements[k] = math.prod(regions[k])
                lines[k] = _lines(regions[k], access, line)
        for loop, size in zip(loops, elements, strict=False):
            loop.table.setdefault(access.data, []).append((size, access.info.bytes))
        for k, touched in enumerate(lines):
            result.bytes[k] += touched * line
        result.elements.append(elements)
        result.lines.append(lines)
        result.runs.append(_run(regions[0], access)[0])
        result.within = min(result.within, _within(regions[0], access))
    return result


def _within(region: Sequence[int], access: Access) -> float:
    shape = access.info.shape
    return min([1.0, *(n / extent for n, extent in zip(shape, region, strict=True) if n)])


def _run(region: Sequence[int], access: Access) -> tuple[int, int]:
    """The contiguous bytes of a region, and the number of such runs in it.

    A dimension that the region covers in full is contiguous with the next outer one.
    """
    run, d = access.info.bytes, len(region) - 1
    storage = access.info.extents
    while d >= 0:
        run *= region[d]
        d -= 1
        if region[d + 1] != storage[d + 1]:
            break
    return run, math.prod(region[: d + 1])


def _lines(region: Sequence[int], access: Access, line: int) -> int:
    run, runs = _run(region, access)
    if run < line and runs > 1:  # runs shorter than a line may share lines
        return min(runs, _span_lines(region, access, line))
    return runs * -(-run // line)


def _span_lines(region: Sequence[int], access: Access, line: int) -> int:
    """Lines from the first to the last element of a region."""
    span, scale = 1, 1
    storage = access.info.extents
    for d in range(len(region) - 1, -1, -1):
        span += (region[d] - 1) * scale
        scale *= storage[d] or 1
    return -(-span * access.info.bytes // line)
