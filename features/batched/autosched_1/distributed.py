"""How many loops around a reduction's initialisation and update are distributed, as arrays.

See `nest/distribution.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autosched.features.batched.autosched_1.facts import Facts
from autosched.features.batched.autosched_1.sorted_loops import insert
from autosched.features.batched.forms import Flags, Ints
from autosched.nest.distribution import MAX_ELEMENTS
from autosched.runtime.compiled_loops import compiled
from autosched.state.iterator import Annotation

_VECTORIZE = int(Annotation.VECTORIZE)
"""Loops of this kind and of later kinds (parallel loops and threads) are not distributed."""
_EXTENT, _STRIDE, _KIND, _TORN = range(4)
"""Tables of a store by rank of the loop, counted from the outermost one that may be distributed:
the last tells whether the loop moves the store unevenly, or makes lanes that are no neighbours."""
_SORTED, _MERGED = 0, 2
"""The first of two lines of a store, strides and extents: its loops by rising stride, and these
with loops that continue each other merged."""


def distributed(beside: Sequence[Facts], outer: Ints, level: Ints, where: Flags) -> Ints:
    """The depth from which on the loops around the stores become loops of each store.

    `level` loops are around all of the stores, and the loops from `outer` on enclose nothing else.
    """
    found, rows = level.copy(), where.nonzero()[0]
    most = max(len(facts.present) for facts in beside)
    parts = np.zeros((len(beside), 4, most, len(rows)), np.int64)
    parts[:, _EXTENT] = 1
    for facts, part in zip(beside, parts, strict=True):
        tables = facts.present, facts.depth, facts.extent, facts.strides[0], facts.kind
        _by_rank(*tables, facts.blocks[0], outer, rows, part)
    lists, loops = np.empty((len(beside), 4, most), np.int64), np.empty((2, len(beside)), np.int64)
    _distribute(parts, most, outer, level, rows, lists, *loops, found)
    return found


@compiled
def _by_rank(
    present: Flags,
    depth: Ints,
    extent: Ints,
    stride: Ints,
    kind: Ints,
    block: Ints,
    outer: Ints,
    rows: Ints,
    part: Ints,
) -> None:
    for j in range(len(present)):
        for r in range(len(rows)):
            n = rows[r]
            if present[j, n] and depth[j, n] >= outer[n]:
                rank = depth[j, n] - outer[n]
                part[_EXTENT, rank, r] = extent[j, n]
                part[_STRIDE, rank, r] = stride[j, n]
                part[_KIND, rank, r] = kind[j, n]
                lanes = kind[j, n] == _VECTORIZE and stride[j, n] != 1
                part[_TORN, rank, r] = lanes or block[j, n] != 0


@compiled
def _merge(lists: Ints, p: int, moving: Ints, merged: Ints) -> None:
    """Merge sorted loops of store `p` that continue each other."""
    number = 0
    stride = 0
    extent = 0
    for k in range(moving[p]):
        if number > 0 and lists[p, _SORTED, k] == stride * extent:
            extent *= lists[p, _SORTED + 1, k]
        else:
            number += 1
            stride = lists[p, _SORTED, k]
            extent = lists[p, _SORTED + 1, k]
        lists[p, _MERGED, number - 1] = stride
        lists[p, _MERGED + 1, number - 1] = extent
    merged[p] = number


@compiled
def _insert(lists: Ints, p: int, number: int, stride: int, extent: int) -> None:
    """Insert a loop into the `number` sorted ones of store `p`."""
    at = number
    while at > 0 and (
        lists[p, _SORTED, at - 1] > stride
        or (lists[p, _SORTED, at - 1] == stride and lists[p, _SORTED + 1, at - 1] > extent)
    ):
        lists[p, _SORTED, at] = lists[p, _SORTED, at - 1]
        lists[p, _SORTED + 1, at] = lists[p, _SORTED + 1, at - 1]
        at -= 1
    lists[p, _SORTED, at] = stride
    lists[p, _SORTED + 1, at] = extent


@compiled
def _distribute(
    parts: Ints,
    most: int,
    outer: Ints,
    level: Ints,
    rows: Ints,
    lists: Ints,
    moving: Ints,
    merged: Ints,
    found: Ints,
) -> None:
    for r in range(len(rows)):
        shared = level[rows[r]] - outer[rows[r]]
        fits = 1
        outputs = 1
        for p in range(len(parts)):
            moving[p] = 0
        rank = most
        while rank > 0 and fits:
            rank -= 1
            distributes = rank < shared
            for p in range(len(parts)):
                fits = fits and not parts[p, _TORN, rank, r]
            if distributes:
                # The loops inside write the same elements in all parts, in rising order.
                fits = fits and parts[0, _KIND, rank, r] < _VECTORIZE
                for p in range(len(parts)):
                    fits = fits and parts[p, _STRIDE, rank, r] > 0
                    fits = fits and parts[p, _STRIDE, rank, r] == parts[0, _STRIDE, rank, r]
                    fits = fits and (moving[p] == 0 or lists[p, _SORTED, 0] > 0)
                    _merge(lists, p, moving, merged)
                    fits = fits and merged[p] == merged[0]
                    for k in range(min(merged[p], merged[0])):
                        fits = fits and lists[p, _MERGED, k] == lists[0, _MERGED, k]
                        fits = fits and lists[p, _MERGED + 1, k] == lists[0, _MERGED + 1, k]
            for p in range(len(parts)):
                stride = parts[p, _STRIDE, rank, r]
                extent = parts[p, _EXTENT, rank, r]
                if stride != 0 and extent > 1:
                    _insert(lists, p, moving[p], stride, extent)
                    moving[p] += 1
            if parts[0, _STRIDE, rank, r] != 0:
                outputs *= parts[0, _EXTENT, rank, r]
            if distributes:
                # No two iterations write the same element, and these elements stay in the cache.
                fits = fits and outputs <= MAX_ELEMENTS
                reach = 1
                for k in range(moving[0]):
                    fits = fits and lists[0, _SORTED, k] >= reach
                    reach += lists[0, _SORTED, k] * (lists[0, _SORTED + 1, k] - 1)
                if fits:
                    found[rows[r]] -= 1


def without_common_elements(facts: Facts, start: Ints) -> Ints:
    """The first depths from `start` on inside of which no two iterations write a common element.

    See `nest.loop_nest.is_injective`.
    """
    found, lines = start.copy(), len(facts.present)
    tables = facts.present, facts.depth, facts.extent, facts.strides[0]
    _leave_common(*tables, *np.empty((2, lines), np.int64), found)
    return found


@compiled
def _leave_common(
    present: Flags,
    depth: Ints,
    extent: Ints,
    own: Ints,
    strides: Ints,
    extents: Ints,
    start: Ints,
) -> None:
    for n in range(len(start)):
        common = 1
        while common:
            loops = 0
            for j in range(len(present)):
                stride = abs(own[j, n])
                inside = present[j, n] and depth[j, n] >= start[n]
                if inside and stride != 0 and extent[j, n] > 1:
                    insert(strides, extents, loops, stride, extent[j, n])
                    loops += 1
            common = 0
            reach = 1
            for k in range(loops):
                if strides[k] < reach:
                    common = 1
                reach += strides[k] * (extents[k] - 1)
            start[n] += common
