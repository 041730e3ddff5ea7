"""The regions of buffers that each store touches under each of its loops, for reports and tests."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.features.walk.access import accesses_of
from autosched.features.walk.regions import IndexBounds, region_sizes
from autosched.features.walk.scope import BufferInfo
from autosched.features.walk.visitor import Nest
from autosched.tir.expr import Var
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import BufferStore

Region = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TouchedRegions:
    """The regions touched by one store.

    `buffer` is the name of the store's buffer, and `loops` has its loops, innermost first.
    `regions` has, for each accessed buffer, the extents of the region covered while each of the
    loops and those inside it run through.
    """

    buffer: str
    loops: tuple[str, ...]
    regions: dict[str, tuple[Region, ...]]


class _Collector:
    def __init__(self) -> None:
        self.found: list[TouchedRegions] = []

    def store(self, stmt: BufferStore, nest: Nest) -> None:
        bounds = IndexBounds(nest.loops)
        names = [loop.var.name for loop in nest.loops]
        regions = {
            access.info.name: tuple(
                tuple(region) for region in region_sizes(access, bounds, len(names))[-2::-1]
            )
            for access in accesses_of(stmt, nest)
        }
        self.found.append(TouchedRegions(stmt.buffer.name, tuple(reversed(names)), regions))

    def allocation(self, data: Var, info: BufferInfo, extents: list[int], nest: Nest) -> None:
        """Allocations touch nothing."""


def touched_regions(func: PrimFunc) -> list[TouchedRegions]:
    """Every store of `func` (lowered by ScheduleOps, not flattened), in program order."""
    collector = _Collector()
    Nest(func, collector)
    return collector.found
