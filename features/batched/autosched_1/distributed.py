"""How many loops around a reduction's initialisation and update are distributed, as arrays.

See `nest/distribution.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autosched.features.batched.along_loops import picked, picked_in_all, taken
from autosched.features.batched.autosched_1.facts import Facts
from autosched.features.batched.forms import Flags, Ints
from autosched.nest.distribution import MAX_ELEMENTS
from autosched.state.iterator import Annotation

_STILL = 1 << 62
"""Stands for the stride of a loop that does not move the address; sorts behind all strides."""
_APART = int(Annotation.VECTORIZE)
"""Loops of this kind and of later kinds (parallel loops and threads) are not distributed."""


def distributed(beside: Sequence[Facts], outer: Ints, level: Ints, where: Flags) -> Ints:
    """The depth from which on the loops around the stores become loops of each store.

    `level` loops are around all of the stores, and the loops from `outer` on enclose nothing else.
    """
    found = level.copy()
    rows = where.nonzero()[0]
    parts = [_Part.of(facts, outer, rows) for facts in beside]
    shared = (level - outer)[rows]
    for number in range(1, int(shared.max(initial=0)) + 1):
        runs = shared >= number
        parts, rows, shared = [part.of_rows(runs) for part in parts], rows[runs], shared[runs]
        taken = _are_taken(parts, shared - number)
        parts, rows, shared = [part.of_rows(taken) for part in parts], rows[taken], shared[taken]
        found[rows] -= 1
    return found


@dataclass(frozen=True, eq=False)
class _Part:
    """A store of some candidates, and its loops.

    `extent`, `stride`, `kind` and `even` (whether the loop moves the store evenly) are by rank of
    the loop, counted from the outermost loop that may be distributed. `ranks`, `strides` and
    `extents` list the loops by rising stride, those that do not move the address last.
    """

    extent: Ints
    stride: Ints
    kind: Ints
    even: Flags
    ranks: Ints
    strides: Ints
    extents: Ints

    @staticmethod
    def of(facts: Facts, outer: Ints, rows: Ints) -> _Part:
        present = picked(facts.present, rows)
        rank = picked(facts.depth[:-1], rows) - outer[rows]
        at = np.flatnonzero(present & (rank >= 0))
        loop, column = np.divmod(at, max(1, len(rows)))
        ranks = rank.take(at)
        number = int(ranks.max(initial=0)) + 1
        to = ranks * len(rows) + column
        of = loop * facts.present.shape[1] + rows[column]

        def ranked(table: Ints, default: int) -> Ints:
            found = np.full((number, len(rows)), default, np.int64)
            found.ravel()[to] = table.take(of)
            return found

        extent, stride = ranked(facts.extent, 1), ranked(facts.strides[0], 0)
        moving = np.where((extent > 1) & (stride != 0), stride, _STILL)
        order = np.lexsort((extent, moving), axis=0)
        return _Part(
            extent,
            stride,
            ranked(facts.kind, 0),
            ranked(facts.blocks[0], 0) == 0,
            order,
            taken(moving, order),
            taken(extent, order),
        )

    def of_rows(self, chosen: Flags) -> _Part:
        """The part with the `chosen` candidates only."""
        if chosen.all():
            return self
        return picked_in_all(self, chosen)

    def at(self, table: Ints, rank: Ints) -> Ints:
        """The entries of `table` for the loop of the given rank of each candidate."""
        found: Ints = table[rank, np.arange(len(rank))]
        return found


def _are_taken(parts: Sequence[_Part], rank: Ints) -> Flags:
    """Where the loop at this rank can, and should, be distributed over the parts."""
    first = parts[0]
    found: Flags = first.at(first.kind, rank) < _APART
    written = []
    for part in parts:
        inside = np.arange(len(part.kind))[:, None] >= rank
        torn = ~part.even | ((part.kind == Annotation.VECTORIZE) & (part.stride != 1))
        found = found & ~(inside & torn).any(axis=0)
        step = part.at(part.stride, rank)
        rises, axes = _axes(part, rank)
        found = found & rises & (step > 0)
        written.append(np.concatenate([step[None], axes]))
    for other in written[1:]:
        most = max(len(written[0]), len(other))
        found = found & (_filled(written[0], most) == _filled(other, most)).all(axis=0)
    inside = np.arange(len(first.kind))[:, None] >= rank
    outputs = np.where(inside & (first.stride != 0), first.extent, 1).prod(axis=0)
    found &= outputs <= MAX_ELEMENTS
    return found & is_injective(first.extent, first.stride, inside)


def _axes(part: _Part, rank: Ints) -> tuple[Flags, Ints]:
    """Whether the addresses rise along the loops inside the loop at this rank, and these loops.

    The loops are (stride, extent) lines by rising stride; loops that continue each other are
    merged.
    """
    inside = (part.ranks > rank) & (part.strides != _STILL)
    number = np.full(len(rank), -1)
    stride, extent = np.zeros((2, len(rank)), np.int64)
    found = np.zeros((len(inside), 2, len(rank)), np.int64)
    rises = np.ones(len(rank), bool)
    for here, own, times in zip(inside, part.strides, part.extents, strict=True):
        joins = here & (number >= 0) & (own == stride * extent)
        new = here & ~joins
        rises &= ~here | (own > 0)
        number = number + new
        stride = np.where(new, own, stride)
        extent = np.where(joins, extent * times, np.where(new, times, extent))
        columns = here.nonzero()[0]
        found[number[columns], 0, columns] = stride[columns]
        found[number[columns], 1, columns] = extent[columns]
    return rises, found.reshape(2 * len(found), len(rank))


def _filled(table: Ints, lines: int) -> Ints:
    """The table with lines of zeros appended, `lines` in all."""
    return np.concatenate([table, np.zeros((lines - len(table), table.shape[1]), np.int64)])


def is_injective(extent: Ints, own: Ints, inside: Flags) -> Flags:
    """`nest.loop_nest.is_injective` for the loops `inside`."""
    moving = inside & (own != 0) & (extent > 1)
    stride = np.where(moving, np.abs(own), 0)
    order = np.argsort(stride, axis=0, kind="stable")
    found = np.ones(extent.shape[1], bool)
    reach = np.ones(extent.shape[1], np.int64)
    for width, times in zip(taken(stride, order), taken(extent, order), strict=True):
        found &= (width == 0) | (width >= reach)
        reach += width * (times - 1)
    return found
