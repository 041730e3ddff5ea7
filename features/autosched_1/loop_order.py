"""The loops around a store in the order in which the generated code runs them.

As transform/vector/promote_accumulators.py puts them: what is outside the life of the accumulators,
the reduction, then the tile of outputs that registers hold, then lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autosched.features.autosched_1.lanes import InnerLoop, LaneNest
from autosched.transform.vector.register_tile import around_accumulators


@dataclass(frozen=True, slots=True)
class Visit:
    """A loop of the generated code: `strides` in elements, the stored access first."""

    extent: int
    strides: tuple[int, ...]


def plain_order(nest: LaneNest) -> tuple[Visit, ...]:
    """The loops as the schedule has them, then the lanes."""
    return (*(_visit(loop, loop.extent) for loop in nest.loops), _lanes(nest, nest.width))


def tiled_order(
    nest: LaneNest, tiled: Sequence[InnerLoop], factors: Sequence[int], width: int
) -> tuple[Visit, ...]:
    """The loops where `factors` of the loops `tiled`, the last one of vectors of `width` lanes,
    are held in registers."""
    factor = {id(loop): f for loop, f in zip(tiled, factors, strict=False)}
    kept = [loop for loop in nest.loops if factor.get(id(loop)) != loop.extent and loop.extent > 1]
    reduces = any(loop.stride == 0 for loop in kept)
    outer, inside = around_accumulators(kept) if reduces else (kept, [])
    held = factors[-1]
    visits = []
    for loop in outer:
        taken = factor.get(id(loop), 1)
        visits.append(_visit(loop, loop.extent // taken, taken))
    if nest.width > width * held:
        visits.append(_lanes(nest, nest.width // (width * held), width * held))
    visits += [_visit(loop, loop.extent) for loop in inside]
    visits += [_visit(loop, factor[id(loop)]) for loop in tiled if factor[id(loop)] > 1]
    visits.append(_lanes(nest, width * held))
    return tuple(visits)


def _visit(loop: InnerLoop, extent: int, scale: int = 1) -> Visit:
    return Visit(extent, (loop.stride * scale, *(read * scale for read in loop.reads)))


def _lanes(nest: LaneNest, count: int, scale: int = 1) -> Visit:
    return Visit(count, (nest.own * scale, *(step * scale for step in nest.steps)))
