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
from autosched.features.batched.autosched_1.plans.walk_levels import Levels, sizes_of, walk_one
from autosched.features.batched.autosched_1.plans.walks import Visits
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


def order_of(
    nests: Nests, problems: Problems, those: _Intp, tile: _Intp, short: Ints | int
) -> Order:
    """The order of the nests `those` with a tile each, as `around_accumulators` gives it."""
    found = Order(*np.empty((5, len(those)), np.int64))
    _order(
        *(nests.there, nests.extent, nests.own, problems.loop, problems.table.factors),
        *(those, tile, np.full(len(those), short), np.empty(len(nests.extent), np.int64)),
        *(found.outside, found.moved, found.inside, found.steps, found.number),
    )
    return found


@compiled
def _order(
    there: Flags,
    extent: Ints,
    own: Ints,
    loop: Ints,
    factors: Ints,
    those: Ints,
    tile: Ints,
    short: Ints,
    factor: Ints,
    outside: Ints,
    moved: Ints,
    inside: Ints,
    steps: Ints,
    number: Ints,
) -> None:
    for n in range(len(those)):
        nest = those[n]
        outside[n] = 0
        moved[n] = 0
        inside[n] = 0
        count = 0
        running = 0
        for k in range(len(extent)):
            factor[k] = 1
            if there[k, nest] and own[k, nest] == 0 and extent[k, nest] > 1:
                running += 1
        for d in range(len(loop)):
            if loop[d, nest] >= 0:
                factor[loop[d, nest]] = factors[d, tile[n]]
                count += factors[d, tile[n]] > 1
        some = running > 0
        begun = 0
        stopped = 0
        done = 1
        for k in range(len(extent) - 1, -1, -1):
            reduces = there[k, nest] and own[k, nest] == 0
            runs = reduces and extent[k, nest] > 1
            running -= runs
            if runs or (reduces and not some):
                begun = 1
            if there[k, nest] and not reduces and factor[k] != extent[k, nest]:
                if begun and not (done < short[n] and running > 0):
                    stopped = 1
                if not stopped:
                    moved[n] |= 1 << k
                else:
                    outside[n] |= 1 << k
                count += 1
            elif reduces:
                if stopped:
                    outside[n] |= 1 << k
                else:
                    inside[n] |= 1 << k
                    done *= extent[k, nest]
                count += runs
        steps[n] = done
        number[n] = count


def tiled_visits(nests: Nests, problems: Problems, of: _Intp, order: Order, tile: _Intp) -> Visits:
    """`visits` of tiles: the loops of the nests `of` by `order`, with a tile each."""
    width = _held_lanes(nests, problems, of, tile)
    return _visits(nests, of, order, problems.loop, problems.table.factors, tile, width)


def _held_lanes(nests: Nests, problems: Problems, of: _Intp, tile: _Intp) -> Ints:
    """The lanes that each accumulator of a tile has."""
    held: Ints = nests.width[of] // problems.chunks[of] * problems.table.factors[-1][tile]
    return held


def plain_visits(nests: Nests) -> Visits:
    """The loops of nests without tiles, then lanes."""
    every, none = np.arange(nests.count), np.zeros(nests.count, np.int64)
    loops = nests.there & (nests.extent > 1)
    bits = (loops.astype(np.int64) << np.arange(len(loops))[:, None]).sum(axis=0)
    order = Order(bits, none, none, none, loops.sum(axis=0))
    factors = np.ones((1, 1), np.int64)
    return _visits(nests, every, order, none[None] - 1, factors, none, nests.width)


def _visits(
    nests: Nests, of: _Intp, order: Order, loop: Ints, factors: Ints, tile: _Intp, width: Ints
) -> Visits:
    """The loops of the nests `of` by `order`, without those that run once, then lanes of `width` in
    any case; a loop that takes groups of lanes in turn comes before those inside."""
    most = int(order.number.max(initial=0)) + 2
    extents, first = np.empty((most, len(of)), np.int64), np.empty(len(of), np.int64)
    strides = np.empty((1 + len(nests.reads), most, len(of)), np.int64)
    _list_all(
        *_tables(nests, order, loop, factors, most),
        *(of, tile, width, extents, strides, first),
    )
    return Visits(extents, strides, first)


def _tables(nests: Nests, order: Order, loop: Ints, factors: Ints, most: int) -> tuple[Ints, ...]:
    """What `_list_one` reads, and room for its tables."""
    return (
        *(nests.extent, nests.own, nests.reads, nests.width, nests.lane, nests.steps),
        *(order.outside, order.moved, order.inside, loop, factors),
        *(np.empty(len(nests.extent), np.int64), *np.empty((2, most), np.int64)),
    )


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
    most, accesses = int(order.number.max(initial=0)) + 2, 1 + len(nests.reads)
    found = Levels.empty(memory, len(of))
    _walk_tiles(
        *_tables(nests, order, problems.loop, problems.table.factors, most),
        *(of, tile, _held_lanes(nests, problems, of, tile)),
        *(np.empty((most, 1), np.int64), np.empty((accesses, most, 1), np.int64)),
        *(np.empty(1, np.int64), *sizes_of(memory, elements, most)),
        *(found.needed, found.lines, found.runs, found.pages),
    )
    return found


@compiled
def _walk_tiles(
    extent: Ints,
    own: Ints,
    reads: Ints,
    whole: Ints,
    lane: Ints,
    steps: Ints,
    outside: Ints,
    moved: Ints,
    inside: Ints,
    loop: Ints,
    factors: Ints,
    factor: Ints,
    line: Ints,
    scale: Ints,
    of: Ints,
    tile: Ints,
    width: Ints,
    extents: Ints,
    strides: Ints,
    first: Ints,
    elements: Ints,
    caches: Ints,
    tlb: Ints,
    shift: int,
    state: Ints,
    level: Ints,
    needed: Ints,
    lines: Ints,
    runs: Ints,
    pages: Ints,
) -> None:
    for n in range(len(of)):
        _list_one(
            *(extent, own, reads, whole, lane, steps, outside, moved, inside, loop, factors),
            *(factor, line, scale, n, of[n], tile[n], width[n], 0, extents, strides, first),
        )
        walk_one(
            *(extents, strides, 0, first[0], elements, caches, tlb, shift, state, level),
            *(n, needed, lines, runs, pages),
        )


@compiled
def _list_all(
    extent: Ints,
    own: Ints,
    reads: Ints,
    whole: Ints,
    lane: Ints,
    steps: Ints,
    outside: Ints,
    moved: Ints,
    inside: Ints,
    loop: Ints,
    factors: Ints,
    factor: Ints,
    line: Ints,
    scale: Ints,
    of: Ints,
    tile: Ints,
    width: Ints,
    extents: Ints,
    strides: Ints,
    first: Ints,
) -> None:
    for n in range(len(of)):
        _list_one(
            *(extent, own, reads, whole, lane, steps, outside, moved, inside, loop, factors),
            *(factor, line, scale, n, of[n], tile[n], width[n], n, extents, strides, first),
        )
        for k in range(first[n]):
            extents[k, n] = 1
            for a in range(len(strides)):
                strides[a, k, n] = 0


@compiled
def _list_one(
    extent: Ints,
    own: Ints,
    reads: Ints,
    whole: Ints,
    lane: Ints,
    steps: Ints,
    outside: Ints,
    moved: Ints,
    inside: Ints,
    loop: Ints,
    factors: Ints,
    factor: Ints,
    line: Ints,
    scale: Ints,
    n: int,
    nest: int,
    tile: int,
    width: int,
    column: int,
    extents: Ints,
    strides: Ints,
    first: Ints,
) -> None:
    """List the loops of one nest in a column, from the last line upwards."""
    for k in range(len(extent)):
        factor[k] = 1
    for d in range(len(loop)):
        if loop[d, nest] >= 0:
            factor[loop[d, nest]] = factors[d, tile]
    at = len(extents) - 1
    extents[at, column] = width
    line[at] = -1
    scale[at] = 1
    for k in range(len(extent) - 1, -1, -1):
        if factor[k] > 1:
            at -= 1
            extents[at, column] = factor[k]
            line[at] = k
            scale[at] = 1
    for k in range(len(extent) - 1, -1, -1):
        if inside[n] >> k & 1 and extent[k, nest] > 1:
            at -= 1
            extents[at, column] = extent[k, nest]
            line[at] = k
            scale[at] = 1
    if whole[nest] > width:
        at -= 1
        extents[at, column] = whole[nest] // width
        line[at] = -1
        scale[at] = width
    loops = moved[n]
    for _again in range(2):
        for k in range(len(extent) - 1, -1, -1):
            if loops >> k & 1 and extent[k, nest] > factor[k]:
                at -= 1
                extents[at, column] = extent[k, nest]
                if factor[k] > 1:
                    extents[at, column] = extent[k, nest] // factor[k]
                line[at] = k
                scale[at] = factor[k]
        loops = outside[n]
    first[column] = at
    _stride_all(own, reads, lane, steps, line, scale, nest, at, column, strides)


@compiled
def _stride_all(
    own: Ints,
    reads: Ints,
    lane: Ints,
    steps: Ints,
    line: Ints,
    scale: Ints,
    nest: int,
    outermost: int,
    column: int,
    strides: Ints,
) -> None:
    """Fill in how far each listed loop moves each access."""
    for j in range(outermost, len(line)):
        k = line[j]
        if k < 0:
            strides[0, j, column] = lane[nest] * scale[j]
            for a in range(len(reads)):
                strides[a + 1, j, column] = steps[a, nest] * scale[j]
        else:
            strides[0, j, column] = own[k, nest] * scale[j]
            for a in range(len(reads)):
                strides[a + 1, j, column] = reads[a, k, nest] * scale[j]


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
