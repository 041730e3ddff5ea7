"""The loops of many nests in the order of the generated code.

`nest/loop_order.py` and `nest/visits.py` for arrays of nests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosched.features.batched.along_loops import marks, picked, picked_in_all
from autosched.features.batched.autosched_1.plans.lanes import Nests
from autosched.features.batched.autosched_1.plans.tiles import Problems
from autosched.features.batched.autosched_1.plans.walks import Visits
from autosched.features.batched.forms import Flags, Ints

_Intp = npt.NDArray[np.intp]


@dataclass(eq=False)
class Order:
    """The loops of nests around the accumulators, by (loop, nest).

    `factors` are the iterations that the tile takes, `rounds` those that are left. `outside` marks
    loops outside the accumulators' lifetime that stay where they are, `moved` those that move in
    front of it, `inside` the reduction loops inside. `steps` has the reduction steps inside, by
    nest.
    """

    factors: Ints
    rounds: Ints
    outside: Flags
    moved: Flags
    inside: Flags
    steps: Ints

    def of(self, those: _Intp | Flags) -> Order:
        """Copy the orders of these nests."""
        return picked_in_all(self, those)

    def differs(self, other: Order) -> Flags:
        """Where the loops are in another order."""
        found: Flags = ((self.inside != other.inside) | (self.moved != other.moved)).any(axis=0)
        return found

    @staticmethod
    def joined(parts: list[Order]) -> Order:
        """All orders, one part after the other."""
        tables = [(p.factors, p.rounds, p.outside, p.moved, p.inside, p.steps) for p in parts]
        return Order(*[np.concatenate(own, axis=-1) for own in zip(*tables, strict=True)])


def order_of(
    nests: Nests, problems: Problems, those: _Intp, tile: _Intp, short: Ints | int
) -> Order:
    """The order of the nests `those` with a tile each, as `around_accumulators` gives it."""
    there, extent = picked(nests.there, those), picked(nests.extent, those)
    reducing = picked(nests.own == 0, those)
    factors, rounds = np.ones_like(extent), extent.copy()
    for dim, loop in enumerate(picked(problems.loop, those)):
        some = (loop >= 0).nonzero()[0]
        at = loop[some], some
        factors[at] = problems.table.factors[dim][tile[some]]
        rounds[at] //= factors[at]
    kept = there & (reducing | (factors != extent))
    reduces, spatial = kept & reducing, kept & ~reducing
    running = reduces & (extent > 1)
    number = marks(running)
    further_out = number > running
    begun, stopped = np.zeros((2, len(those)), bool)
    steps = np.ones(len(those), np.int64)
    runs = number[-1] > 0
    outside, moved, inside = np.zeros((3, *kept.shape), bool)
    for k in range(len(kept) - 1, -1, -1):
        begun = begun | (running[k] if runs.all() else np.where(runs, running[k], reduces[k]))
        stops = begun & spatial[k] & ~((steps < short) & further_out[k])
        stopped = stopped | stops
        outside[k] = kept[k] & stopped
        moved[k] = spatial[k] & ~stopped
        inside[k] = reduces[k] & ~stopped
        steps = np.where(inside[k], steps * extent[k], steps)
    return Order(factors, rounds, outside, moved, inside, steps)


def tiled_visits(nests: Nests, of: _Intp, order: Order, held: Ints, chunks: Ints) -> Visits:
    """`visits` of tiles: the loops of the nests `of` by `order`, with `held` of their `chunks`."""
    whole = nests.width[of]
    width = whole // chunks * held
    return _visits(
        nests,
        of,
        [
            _Run(order.outside, order.rounds, order.factors),
            _Run(order.moved, order.rounds, order.factors),
            _Lanes(whole > width, whole // width, width),
            _Run(order.inside, order.rounds),
            _Run(order.factors > 1, order.factors),
        ],
        width,
    )


def plain_visits(nests: Nests) -> Visits:
    """The loops of nests without tiles, then lanes."""
    every = np.arange(nests.count)
    return _visits(nests, every, [_Run(nests.there, nests.extent)], nests.width)


_Loop = tuple[Flags, Ints, Ints | None, list[Ints]]
"""Where nests have the loop, its extent, the iterations of one step, and its stride for each
access."""


@dataclass(eq=False)
class _Run:
    """Loops of nests: where they are, how often they run, iterations of each step (None: 1)."""

    where: Flags
    extent: Ints
    scale: Ints | None = None

    def loops(self, nests: Nests, marks: Flags) -> Iterator[_Loop]:
        """Yield the loops that at least one nest has."""
        for k, here in enumerate(marks):
            if here.any():
                scale = None if self.scale is None else self.scale[k]
                yield here, self.extent[k], scale, [nests.own[k], *nests.reads[:, k]]


@dataclass(eq=False)
class _Lanes:
    """A loop that takes groups of lanes in turn: where it is, how many groups, and their lanes."""

    where: Flags
    extent: Ints
    scale: Ints

    def loops(self, nests: Nests, mark: Flags) -> Iterator[_Loop]:
        """Yield the one loop."""
        yield mark, self.extent, self.scale, [nests.lane, *nests.steps]


def _visits(nests: Nests, of: _Intp, runs: list[_Run | _Lanes], width: Ints) -> Visits:
    """The loops `runs` of the nests `of` in turn, without those that run once, then lanes of
    `width` in any case."""
    count = len(of)
    marks = [run.where & (run.extent > 1) for run in runs]
    total = np.ones(count, np.int64)
    for mark in marks:
        total += mark.sum(axis=0, dtype=np.int16) if mark.ndim > 1 else mark
    most = int(total.max(initial=1))
    first = most - total
    extents = np.ones((most, count), np.int64)
    strides = np.zeros((1 + len(nests.reads), most, count), np.int64)
    by_access = strides.reshape(len(strides), -1)
    place = first.copy()
    for run, mark in zip(runs, marks, strict=True):
        for here, extent, scale, moves in run.loops(nests, mark):
            those = np.flatnonzero(here)
            at = place[those] * count + those
            extents.ravel()[at] = extent[those]
            by = 1 if scale is None else scale[those]
            nest = of[those]
            for table, own in zip(by_access, moves, strict=True):
                table[at] = own[nest] * by
            place += here
    extents[-1] = width
    strides[0, -1] = nests.lane[of]
    strides[1:, -1] = nests.steps[:, of]
    return Visits(extents, strides, first)


def joined_visits(parts: list[Visits]) -> Visits:
    """The loops of all parts, one part after the other."""
    most = max(len(part.extents) for part in parts)
    missing = [most - len(part.extents) for part in parts]
    extents = [
        np.pad(part.extents, [(n, 0), (0, 0)], constant_values=1)
        for n, part in zip(missing, parts, strict=True)
    ]
    strides = [
        np.pad(part.strides, [(0, 0), (n, 0), (0, 0)])
        for n, part in zip(missing, parts, strict=True)
    ]
    first = [part.first + n for n, part in zip(missing, parts, strict=True)]
    return Visits(
        np.concatenate(extents, axis=1), np.concatenate(strides, axis=2), np.concatenate(first)
    )
