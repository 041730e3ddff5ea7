"""The loops of many nests in the order of the generated code.

`nest/loop_order.py` and `nest/visits.py` for arrays of nests.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosched.features.batched.along_loops import picked_in_all
from autosched.features.batched.autosched_1.plans.lanes import Nests
from autosched.features.batched.autosched_1.plans.tiles import Problems
from autosched.features.batched.autosched_1.plans.walk_levels import (
    Levels,
    Room,
    Sizes,
    Visits,
    walk_one,
)
from autosched.features.batched.forms import Flags, Ints
from autosched.nest.core import Memory
from autosched.runtime.compiled_loops import compiled

_Intp = npt.NDArray[np.intp]


@dataclass(eq=False)
class Order:
    """The loops of nests around the accumulators: sets of loops as bits, by nest.

    `outside` are loops outside the accumulators' lifetime that stay where they are, `moved` those
    that move in front of it, `inside` the reduction loops inside, with `steps` reduction steps. The
    nest has `number` loops in all, without lanes, once tiles are cut off.
    """

    outside: Ints
    moved: Ints
    inside: Ints
    steps: Ints
    number: Ints

    def of(self, those: _Intp | Flags) -> Order:
        """Copy the orders of these nests."""
        return picked_in_all(self, those)

    def differs(self, other: Order) -> Flags:
        """Where the loops are in another order."""
        found: Flags = (self.inside != other.inside) | (self.moved != other.moved)
        return found

    @staticmethod
    def joined(parts: list[Order]) -> Order:
        """All orders, one part after the other."""
        tables = [(p.outside, p.moved, p.inside, p.steps, p.number) for p in parts]
        return Order(*[np.concatenate(own, axis=-1) for own in zip(*tables, strict=True)])


@dataclass(eq=False)
class _Tiled:
    """Nests with a tile each: the nest, its tile, and the lanes that each accumulator has.

    `loop` has by (dimension, nest) the tile loop, -1 where there is none; `factors` is by
    (dimension, tile).
    """

    of: _Intp
    tile: _Intp
    width: Ints
    loop: Ints
    factors: Ints


def _tiled(nests: Nests, problems: Problems, of: _Intp, tile: _Intp) -> _Tiled:
    factors = problems.table.factors
    width = nests.width[of] // problems.chunks[of] * factors[-1][tile]
    return _Tiled(of, tile, width, problems.loop, factors)


def order_of(
    nests: Nests, problems: Problems, those: _Intp, tile: _Intp, short: Ints | int
) -> Order:
    """The order of the nests `those` with a tile each, as `around_accumulators` gives it."""
    found = Order(*np.empty((5, len(those)), np.int64))
    tiled, room = _tiled(nests, problems, those, tile), np.empty(len(nests.extent), np.int64)
    _order(nests, tiled, np.full(len(those), short), room, found)
    return found


@compiled
def _order(nests: Nests, tiled: _Tiled, short: Ints, factor: Ints, found: Order) -> None:
    for n in range(len(tiled.of)):
        nest = tiled.of[n]
        found.outside[n] = 0
        found.moved[n] = 0
        found.inside[n] = 0
        count = 0
        running = 0
        for k in range(len(nests.extent)):
            factor[k] = 1
            if nests.there[k, nest] and nests.own[k, nest] == 0 and nests.extent[k, nest] > 1:
                running += 1
        for d in range(len(tiled.loop)):
            if tiled.loop[d, nest] >= 0:
                factor[tiled.loop[d, nest]] = tiled.factors[d, tiled.tile[n]]
                count += tiled.factors[d, tiled.tile[n]] > 1
        some = running > 0
        begun = 0
        stopped = 0
        done = 1
        for k in range(len(nests.extent) - 1, -1, -1):
            reduces = nests.there[k, nest] and nests.own[k, nest] == 0
            runs = reduces and nests.extent[k, nest] > 1
            running -= runs
            if runs or (reduces and not some):
                begun = 1
            if nests.there[k, nest] and not reduces and factor[k] != nests.extent[k, nest]:
                if begun and not (done < short[n] and running > 0):
                    stopped = 1
                if not stopped:
                    found.moved[n] |= 1 << k
                else:
                    found.outside[n] |= 1 << k
                count += 1
            elif reduces:
                if stopped:
                    found.outside[n] |= 1 << k
                else:
                    found.inside[n] |= 1 << k
                    done *= nests.extent[k, nest]
                count += runs
        found.steps[n] = done
        found.number[n] = count


def tiled_visits(nests: Nests, problems: Problems, of: _Intp, order: Order, tile: _Intp) -> Visits:
    """`visits` of tiles: the loops of the nests `of` by `order`, with a tile each."""
    return _visits(nests, _tiled(nests, problems, of, tile), order)


def plain_visits(nests: Nests) -> Visits:
    """The loops of nests without tiles, then lanes."""
    every, none = np.arange(nests.count), np.zeros(nests.count, np.int64)
    loops = nests.there & (nests.extent > 1)
    bits = (loops.astype(np.int64) << np.arange(len(loops))[:, None]).sum(axis=0)
    order = Order(bits, none, none, none, loops.sum(axis=0))
    factors = np.ones((1, 1), np.int64)
    return _visits(nests, _Tiled(every, none, nests.width, none[None] - 1, factors), order)


def tiled_levels(
    nests: Nests,
    problems: Problems,
    of: _Intp,
    order: Order,
    tile: _Intp,
    elements: tuple[int, ...],
    memory: Memory,
) -> Levels:
    """`levels_of` the `tiled_visits` of these nests, for a memory that has the rule."""
    tiled, found = _tiled(nests, problems, of, tile), Levels.empty(memory, len(of))
    listed = _Listed.of(nests, order)
    one = _empty_visits(nests, len(listed.line), 1)
    sizes, room = Sizes.of(memory, elements), Room.of(len(listed.line))
    _walk_tiles(nests, tiled, order, listed, one, sizes, room, found)
    return found


def _visits(nests: Nests, tiled: _Tiled, order: Order) -> Visits:
    """The loops of the nests by `order`, without those that run once, then lanes in any case; a
    loop that takes groups of lanes in turn comes before those inside."""
    listed = _Listed.of(nests, order)
    found = _empty_visits(nests, len(listed.line), len(tiled.of))
    _list_all(nests, tiled, order, listed, found)
    return found


@dataclass(eq=False)
class _Listed:
    """Room for the loops of one nest: by loop the `factor` that tiles have, and by place the `line`
    of its loop in the tables of the nests, -1 for lanes, and the `scale` of its strides."""

    factor: Ints
    line: Ints
    scale: Ints

    @staticmethod
    def of(nests: Nests, order: Order) -> _Listed:
        """Room for the nests in these orders."""
        places = np.empty((2, int(order.number.max(initial=0)) + 2), np.int64)
        return _Listed(np.empty(len(nests.extent), np.int64), *places)


def _empty_visits(nests: Nests, places: int, count: int) -> Visits:
    strides = np.empty((1 + len(nests.reads), places, count), np.int64)
    return Visits(np.empty((places, count), np.int64), strides, np.empty(count, np.int64))


@compiled
def _walk_tiles(
    nests: Nests,
    tiled: _Tiled,
    order: Order,
    listed: _Listed,
    one: Visits,
    sizes: Sizes,
    room: Room,
    found: Levels,
) -> None:
    for n in range(len(tiled.of)):
        _list_one(nests, tiled, order, n, listed, one, 0)
        walk_one(one, 0, sizes, room, found, n)


@compiled
def _list_all(nests: Nests, tiled: _Tiled, order: Order, listed: _Listed, found: Visits) -> None:
    for n in range(len(tiled.of)):
        _list_one(nests, tiled, order, n, listed, found, n)
        for k in range(found.first[n]):
            found.extents[k, n] = 1
            for a in range(len(found.strides)):
                found.strides[a, k, n] = 0


@compiled
def _list_one(
    nests: Nests,
    tiled: _Tiled,
    order: Order,
    n: int,
    listed: _Listed,
    found: Visits,
    column: int,
) -> None:
    """List the loops of one nest in a column, from the last place upwards."""
    nest = tiled.of[n]
    for k in range(len(nests.extent)):
        listed.factor[k] = 1
    for d in range(len(tiled.loop)):
        if tiled.loop[d, nest] >= 0:
            listed.factor[tiled.loop[d, nest]] = tiled.factors[d, tiled.tile[n]]
    at = len(found.extents) - 1
    found.extents[at, column] = tiled.width[n]
    listed.line[at] = -1
    listed.scale[at] = 1
    for k in range(len(nests.extent) - 1, -1, -1):
        if listed.factor[k] > 1:
            at -= 1
            found.extents[at, column] = listed.factor[k]
            listed.line[at] = k
            listed.scale[at] = 1
    for k in range(len(nests.extent) - 1, -1, -1):
        if order.inside[n] >> k & 1 and nests.extent[k, nest] > 1:
            at -= 1
            found.extents[at, column] = nests.extent[k, nest]
            listed.line[at] = k
            listed.scale[at] = 1
    if nests.width[nest] > tiled.width[n]:
        at -= 1
        found.extents[at, column] = nests.width[nest] // tiled.width[n]
        listed.line[at] = -1
        listed.scale[at] = tiled.width[n]
    loops = order.moved[n]
    for _again in range(2):
        for k in range(len(nests.extent) - 1, -1, -1):
            if loops >> k & 1 and nests.extent[k, nest] > listed.factor[k]:
                at -= 1
                found.extents[at, column] = nests.extent[k, nest]
                if listed.factor[k] > 1:
                    found.extents[at, column] = nests.extent[k, nest] // listed.factor[k]
                listed.line[at] = k
                listed.scale[at] = listed.factor[k]
        loops = order.outside[n]
    found.first[column] = at
    _stride_all(nests, nest, listed, found, column)


@compiled
def _stride_all(nests: Nests, nest: int, listed: _Listed, found: Visits, column: int) -> None:
    """Fill in how far each listed loop moves each access."""
    for j in range(found.first[column], len(listed.line)):
        k = listed.line[j]
        if k < 0:
            found.strides[0, j, column] = nests.lane[nest] * listed.scale[j]
            for a in range(len(nests.reads)):
                found.strides[a + 1, j, column] = nests.steps[a, nest] * listed.scale[j]
        else:
            found.strides[0, j, column] = nests.own[k, nest] * listed.scale[j]
            for a in range(len(nests.reads)):
                found.strides[a + 1, j, column] = nests.reads[a, k, nest] * listed.scale[j]


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
