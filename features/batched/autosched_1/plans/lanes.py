"""Choose which loops of many nests become lanes: `nest/lanes.py` for arrays of nests."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import compress
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from autosched.features.batched.along_loops import picked_in_all
from autosched.features.batched.forms import Flags, Ints
from autosched.nest.lanes import LEAST_LANES, output_lanes
from autosched.nest.loop_nest import InnerLoop, LoopNest
from autosched.runtime.compiled_loops import compiled

_Intp = npt.NDArray[np.intp]
_Made = TypeVar("_Made", bound=np.generic)


@dataclass(eq=False)
class Nests:
    """Nests with one number of reads (`nest.loop_nest.LoopNest`).

    By (loop, nest): `there` tells whether the nest has the loop; `extent`, `own` strides of the
    store, `conditional`, `lanes`. By (read, loop, nest): strides `reads`, and `blocks`. By nest:
    `width`, `lane` (the distance between stored lanes), `closed`. By (read, nest): `steps` and
    `apart`.
    """

    there: Flags
    extent: Ints
    own: Ints
    conditional: Flags
    lanes: Ints
    reads: Ints
    blocks: Ints
    width: Ints
    lane: Ints
    closed: Flags
    steps: Ints
    apart: Flags

    @property
    def count(self) -> int:
        """The number of nests."""
        return len(self.width)

    @property
    def iterations(self) -> Ints:
        """The number of iterations when each computes one element."""
        found: Ints = self.width * np.where(self.there, self.extent, 1).prod(axis=0)
        return found

    @property
    def gathered(self) -> Flags:
        """(read, nest): whether the lanes are neither one common element nor neighbours."""
        found: Flags = (self.width > 1) & ((self.steps != 0) & (self.steps != 1) | self.apart)
        return found

    @property
    def reduces(self) -> Flags:
        """(loop, nest): the reduction loops, which leave the stored element where it is."""
        found: Flags = self.there & (self.own == 0)
        return found

    def of(self, those: _Intp | Flags) -> Nests:
        """Copy these nests."""
        return picked_in_all(self, those)

    def only(self, those: Flags) -> Nests:
        """Select these nests; the object itself if they are all."""
        return self if those.all() else self.of(those)


_BY_LOOP = ("there", "extent", "own", "conditional", "lanes", "reads", "blocks")


def joined(parts: list[Nests]) -> Nests:
    """The nests of all parts, one part after the other, with the most loops that a part has."""
    most = max(len(part.extent) for part in parts)
    found = []
    for field in fields(Nests):
        tables = [getattr(part, field.name) for part in parts]
        if field.name in _BY_LOOP:
            tables = [longer(table, most) for table in tables]
        found.append(np.concatenate(tables, axis=-1))
    return Nests(*found)


def longer(table: npt.NDArray[_Made], most: int) -> npt.NDArray[_Made]:
    """The table with lines for loops that are not there appended, `most` in all."""
    missing = most - table.shape[-2]
    if not missing:
        return table
    found = np.zeros((*table.shape[:-2], most, table.shape[-1]), table.dtype)
    found[..., : table.shape[-2], :] = table
    return found


def scheduled(nests: Nests, vector: Flags) -> None:
    """Turn the loop that the schedule vectorises into lanes, and drop loops that run once."""
    nests.there &= nests.extent > 1
    marked = nests.there & vector
    loop = len(marked) - 1 - np.argmax(marked[::-1], axis=0)
    every = np.arange(nests.count)
    count = nests.extent[loop, every]
    takes = marked.any(axis=0) & (nests.own[loop, every] != 0)
    takes &= nests.lanes[loop, every] % count == 0
    those = takes.nonzero()[0]
    at = loop[those], those
    nests.width[those] = nests.extent[at]
    nests.lane[those] = nests.own[at]
    nests.closed[those] = nests.conditional[at]
    nests.steps[:, those] = nests.reads[:, *at]
    nests.apart[:, those] = nests.blocks[:, *at] % nests.width[those] > 0
    nests.there[at] = False


@dataclass(eq=False)
class Parts:
    """The nests that other nests become: `of` is the nest that each is a part of, `order` its place
    among these parts."""

    nests: Nests
    of: _Intp
    order: _Intp


def parts_of(nests: Nests, fit: int, folds: Flags) -> Parts:
    """The nests that replace `nests`, with vectors of up to `fit` lanes (`output_lanes`).

    Where a nest `folds` and lanes along a reduction are possible at all, it is computed by itself.
    """
    every = np.arange(nests.count)
    wide = nests.of(every)
    _widen(wide, fit)
    few = 2 * wide.width < fit
    asked = folds & (few | wide.gathered.any(axis=0)) & _may_fold(nests, fit)
    loop, rest = _rest(nests, fit)
    cut = ~asked & (few | _is_long(wide, nests, fit)) & (rest > 0)
    plain = (~asked & ~cut).nonzero()[0]
    some = wide if len(plain) == len(every) else wide.of(plain)
    found = [Parts(some, plain, np.zeros(len(plain), np.intp))]
    those = cut.nonzero()[0]
    for number in range(2):
        if len(those):
            part = nests.of(those)
            at = loop[those], np.arange(len(those))
            part.extent[at] = rest[those] if number else part.extent[at] - rest[those]
            inner = parts_of(part, fit, folds[those])
            found.append(Parts(inner.nests, those[inner.of], number * _MOST_PARTS + inner.order))
    one_by_one = asked.nonzero()[0]
    if len(one_by_one):
        found.append(_asked(nests, fit, one_by_one))
    if len(found) == 1:
        return found[0]
    return Parts(
        joined([part.nests for part in found]),
        np.concatenate([part.of for part in found]),
        np.concatenate([part.order for part in found]),
    )


_MOST_PARTS = 16
"""More than the number of parts of one half of a nest that is cut in two."""


@compiled
def _widen(nests: Nests, fit: int) -> None:
    """Take lanes from the loop whose stride is the current width, as long as there is one."""
    for n in range(len(nests.width)):
        width = nests.width[n]
        takes = 1
        while takes and width < fit:
            loop = len(nests.extent) - 1
            for k in range(len(nests.extent) - 1, -1, -1):
                if nests.there[k, n] and nests.own[k, n] == width and nests.extent[k, n] > 1:
                    loop = k
            takes = (
                nests.there[loop, n] and nests.own[loop, n] == width and nests.extent[loop, n] > 1
            )
            # The number of lanes (`nest.lanes.lanes_from`).
            limit = fit // width
            count = nests.extent[loop, n] & -nests.extent[loop, n]
            if count >= limit:
                count = 1
                while 2 * count <= limit:
                    count *= 2
            elif nests.extent[loop, n] <= limit and nests.extent[loop, n] > 2 * count:
                count = nests.extent[loop, n]
            takes = takes and count > 1 and nests.lanes[loop, n] % max(count, 1) == 0
            if width > 1:
                takes = takes and not nests.closed[n] and not nests.conditional[loop, n]
                for a in range(len(nests.reads)):
                    takes = takes and nests.reads[a, loop, n] == nests.steps[a, n] * width
                    takes = takes and nests.blocks[a, loop, n] == 0 and not nests.apart[a, n]
            if takes:
                for a in range(len(nests.reads)):
                    if width == 1:
                        nests.steps[a, n] = nests.reads[a, loop, n]
                        nests.apart[a, n] = nests.blocks[a, loop, n] % count > 0
                    nests.reads[a, loop, n] *= count
                    if nests.blocks[a, loop, n] != 0:
                        nests.blocks[a, loop, n] = max(1, nests.blocks[a, loop, n] // count)
                if width == 1:
                    nests.closed[n] = nests.conditional[loop, n]
                nests.extent[loop, n] //= count
                nests.own[loop, n] *= count
                width *= count
                nests.width[n] = width


def _may_fold(nests: Nests, fit: int) -> Flags:
    """Where some reduction loop may give lanes.

    All reads along it are neighbours or one element, and it has iterations for enough lanes, alone
    or with another such loop. A long loop counts because it is cut to whole vectors.
    """
    near = ((nests.reads == 0) | (nests.reads == 1)).all(axis=0)
    power = nests.extent & -nests.extent
    long = nests.extent >= fit
    even = nests.reduces & ((power > 1) | long)
    enough = long | (power >= min(fit, LEAST_LANES)) | (even.sum(axis=0) > 1)
    found: Flags = (even & near & enough).any(axis=0)
    return found


def _rest(nests: Nests, fit: int) -> tuple[_Intp, Ints]:
    """The loop over consecutive outputs, and how many of its iterations fill no whole vector.

    The number is 0 where all of them fill whole vectors, and where none do.
    """
    along = nests.there & (nests.own == nests.width)
    loop = np.argmax(along, axis=0)
    extent = nests.extent[loop, np.arange(nests.count)]
    rest = extent % np.maximum(1, fit // nests.width)
    return loop, np.where(along.any(axis=0) & (rest < extent), rest, 0)


def _is_long(wide: Nests, nests: Nests, fit: int) -> Flags:
    """`nest.lanes._is_long`."""
    along = nests.there & (nests.own == nests.width)
    long = (along & (nests.extent * nests.width >= 2 * fit)).any(axis=0)
    found: Flags = (wide.width < fit) & long
    return found


def _asked(nests: Nests, fit: int, those: _Intp) -> Parts:
    parts = [_output_lanes(nest, fit) for nest in each_of(nests, those)]
    sizes = [len(own) for own in parts]
    order = [k for own in parts for k in range(len(own))]
    every = _put_together([nest for own in parts for nest in own])
    return Parts(every, np.repeat(those, sizes), np.array(order, np.intp))


@lru_cache(maxsize=20_000)
def _output_lanes(nest: LoopNest, fit: int) -> tuple[LoopNest, ...]:
    return tuple(output_lanes(nest, fit, folds=True))


def each_of(nests: Nests, those: _Intp, vector: Flags | None = None) -> list[LoopNest]:
    """These nests one by one; `vector` marks the loops that the schedule vectorises."""
    some = nests.of(those)
    marks = np.zeros_like(some.there) if vector is None else vector[:, those]
    tables = (some.extent, some.own, some.reads, marks, some.blocks, some.lanes, some.conditional)
    loops = [
        [
            InnerLoop(extent, own, tuple(read), mark, tuple(blocks), lanes, conditional)
            for extent, own, read, mark, blocks, lanes, conditional in zip(*table, strict=True)
        ]
        for table in zip(*[table.T.tolist() for table in tables], strict=True)
    ]
    there = some.there.T.tolist()
    by_nest = (some.width, some.steps, some.lane, some.apart, some.closed)
    return [
        LoopNest(tuple(compress(own, mask)), width, tuple(step), lane, tuple(apart), closed)
        for own, mask, (width, step, lane, apart, closed) in zip(
            loops, there, zip(*[table.T.tolist() for table in by_nest], strict=True), strict=True
        )
    ]


def _put_together(every: list[LoopNest]) -> Nests:
    """The arrays of these nests."""
    most, reads = max(len(nest.loops) for nest in every), len(every[0].steps)
    none = (0,) * reads
    empty = InnerLoop(1, 0, none)
    loops = [[*nest.loops, *[empty] * (most - len(nest.loops))] for nest in every]
    sizes = np.array([len(nest.loops) for nest in every])
    numbers = [
        [(p.extent, p.stride, p.conditional, p.lanes, *p.reads, *(p.blocks or none)) for p in own]
        for own in loops
    ]
    table = np.array(numbers, np.int64).reshape(len(every), most, 4 + 2 * reads).transpose(2, 1, 0)
    nests = [(n.width, n.own, n.closed, *n.steps, *(n.apart or none)) for n in every]
    width, lane, closed, *rest = np.array(nests, np.int64).T
    steps = np.array(rest, np.int64).reshape(2 * reads, len(every))
    return Nests(
        np.arange(most)[:, None] < sizes,
        table[0].copy(),
        table[1].copy(),
        table[2].astype(bool),
        table[3].copy(),
        table[4 : 4 + reads].copy(),
        table[4 + reads :].copy(),
        width.copy(),
        lane.copy(),
        closed.astype(bool),
        steps[:reads].copy(),
        steps[reads:].astype(bool),
    )
