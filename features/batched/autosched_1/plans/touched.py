"""What sets of loops touch, of many at once: `memory_walk._touched` for arrays of them.

It depends on which loops these are, not on their order, and orders and tiles of one nest have most
sets in common: a set is known by the sum of its loops' hashes, and asked for once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosched.features.batched.along_loops import Counts, marks_from_last, taken
from autosched.features.batched.autosched_1.plans.page_places import Places
from autosched.features.batched.autosched_1.plans.unique import Keys, different, mixed
from autosched.features.batched.forms import Flags, Ints
from autosched.nest.core import PAGE

_Intp = npt.NDArray[np.intp]
_FAR = np.int64(1) << 62  # beyond the stride of every loop
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2**64 over the golden ratio: multiples by n and m are 2**62 / |n - m| apart and more."""


@dataclass(eq=False)
class Moving:
    """Loops, outermost first, that move accesses: the bytes of a `stride` and whether it `moves` by
    (loop, access, nest), `extents` by (loop, nest), the bytes of an element by access."""

    stride: Ints
    moves: Flags
    extents: Ints
    elements: Ints


@dataclass(eq=False)
class Touched:
    """What each different set of loops touches, and `sets` by (level, access, nest): the number of
    that from a level inwards. `needed` are the bytes of a cache that has room for all lines."""

    sets: _Intp
    lines: Ints
    runs: Ints
    pages: Ints
    needed: Ints


def touched(moving: Moving, line: int) -> Touched:
    """Of each access of each nest, with lines of `line` bytes."""
    loops, moves = len(moving.stride), moving.moves
    asked = np.ones((loops + 1, *moves.shape[1:]), bool)
    asked[:-1] = moves
    number = marks_from_last(asked) - 1  # the last level is a single iteration
    at = np.flatnonzero(asked)
    first, which = _by_number(*different(_keys_of(moving).reshape(2, -1)[:, at]), number.take(at))
    sets = np.empty(asked.shape, np.intp)
    sets.ravel()[at] = which
    for k in range(loops - 1, -1, -1):
        np.copyto(sets[k], sets[k + 1], where=~moves[k])
    return _of_sets(moving, at[first], number.take(at[first]), sets, line)


def _by_number(first: _Intp, which: _Intp, number: Counts) -> tuple[_Intp, _Intp]:
    """Those of few loops first."""
    order = np.argsort(number[first], kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order], place[which]


def _keys_of(moving: Moving) -> Keys:
    """(2, level, access, nest): the keys of the loops from each level inwards.

    Extents and strides give one number for each different pair, as their product is below 2**62.
    """
    loops, accesses, count = moving.stride.shape
    loop = moving.extents.astype(np.uint64)[:, None] * _GOLDEN
    keys = np.empty((2, loops + 1, accesses, count), np.uint64)
    keys[0, :-1] = mixed(loop + moving.stride.view(np.uint64)) * moving.moves
    keys[1, :-1] = mixed(keys[0, :-1])
    keys[:, -1] = moving.elements.astype(np.uint64)[:, None] * _GOLDEN
    for k in range(loops - 1, -1, -1):
        keys[:, k] += keys[:, k + 1]
    return keys


def _of_sets(moving: Moving, at: _Intp, number: Counts, sets: _Intp, line: int) -> Touched:
    """Of sets that are found `at` (level, access, nest), and have that `number` of loops."""
    loops, accesses, count = moving.stride.shape
    level, place = np.divmod(at, accesses * count)
    access, nest = np.divmod(place, count)
    inside = moving.moves.reshape(loops, -1).take(place, axis=1)
    inside &= np.arange(loops)[:, None] >= level
    stride = moving.stride.reshape(loops, -1).take(place, axis=1)
    stride[~inside] = _FAR
    order = stride.argsort(axis=0)[: number.max(initial=0)]
    stride = taken(stride, order)
    extents = moving.extents[order, nest]
    return _counted(_Runs(stride, extents, number, moving.elements[access], line), sets, line)


class _Runs:
    """Runs of neighbouring lines: bytes of each one's `span`, and `gaps` between them: those sets,
    how many bytes apart the runs are, and how many."""

    def __init__(
        self, stride: Ints, extent: Ints, number: Counts, element: Ints, line: int
    ) -> None:
        """Loops by rising stride; sets of few loops come first."""
        self.span = element
        self.gaps: list[tuple[_Intp, Ints, Ints]] = []
        self._line = line
        self._gap, self._times = np.zeros_like(element), np.ones_like(element)
        begins = np.searchsorted(number, np.arange(len(stride)), side="right")
        for own, strides, extents in zip(begins.tolist(), stride, extent, strict=True):
            self._add(own, strides[own:], extents[own:])
        self._close(np.flatnonzero(self._gap))

    def _add(self, begin: int, stride: Ints, extent: Ints) -> None:
        """A loop to each of the sets from `begin` on."""
        span, gap, times = (own[begin:] for own in (self.span, self._gap, self._times))
        apart = gap != 0
        near = ~apart & (stride <= np.maximum(span, self._line))
        span += near * (stride * (extent - 1))
        meets = apart & (stride < gap * times)
        some = np.flatnonzero(meets)
        times[some] += -(-stride[some] // gap[some]) * (extent[some] - 1)
        begun = np.flatnonzero(~near & ~meets)
        self._close(begin + begun[apart[begun]])
        gap[begun], times[begun] = stride[begun], extent[begun]

    def _close(self, those: _Intp) -> None:
        if len(those):
            self.gaps.append((those, self._gap[those], self._times[those]))


def _counted(runs: _Runs, sets: _Intp, line: int) -> Touched:
    """What the runs of each set and what is between them touch."""
    run = -(-runs.span // line)
    number, page_runs = np.ones((2, len(run)), np.int64)
    page_span = runs.span.copy()
    places = Places(max(1, PAGE // line), run)
    for those, stride, times in runs.gaps:
        number[those] *= times
        near = stride < PAGE
        page_span[those] += near * (stride * (times - 1))
        page_runs[those] *= np.where(near, 1, times)
        places.spread(those, stride, times)
    lines, room = number * run, places.room()
    needed = np.where(lines > room, -(-lines // room) * PAGE, 0)
    return Touched(sets, lines, number, page_runs * -(-page_span // PAGE), needed)
