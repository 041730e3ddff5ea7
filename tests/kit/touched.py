"""What each store touches under each of its loops, as regions: for reports and tests."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.features.walk.access import accesses_of
from autosched.features.walk.regions import IndexBounds, region
from autosched.features.walk.scope import BufferInfo
from autosched.features.walk.visitor import Nest
from autosched.tir.expr import Var
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import BufferStore

Region = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TouchedRegions:
    """One store: its buffer's name, its loops (innermost first) and the extents of the region
    that each buffer's access covers while that loop and those inside it run through."""

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
                tuple(region(access, bounds, i)) for i in range(len(names) - 1, -1, -1)
            )
            for access in accesses_of(stmt, nest)
        }
        self.found.append(TouchedRegions(stmt.buffer.name, tuple(reversed(names)), regions))

    def allocation(self, data: Var, info: BufferInfo, extents: list[int], nest: Nest) -> None:
        """Touches nothing."""


def touched_regions(func: PrimFunc) -> list[TouchedRegions]:
    """Every store of `func` (lowered by ScheduleOps, not flattened), in program order."""
    collector = _Collector()
    Nest(func, collector)
    return collector.found
