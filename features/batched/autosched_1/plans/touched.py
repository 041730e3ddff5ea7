"""What sets of loops touch: `memory_walk._touched` for many sets at once.

The result depends on which loops a set has, not on their order, and orders and tiles of one nest
have most sets in common. A set is therefore identified by the sum of its loops' hashes, and
computed once. The sequences of loops that move one access are also the same in many nests, so that
sets are made once for each distinct sequence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosched.features.batched.along_loops import marks_from_last, taken
from autosched.features.batched.autosched_1.plans.page_places import Places
from autosched.features.batched.forms import Flags, Ints
from autosched.features.batched.unique import Keys, different, mixed
from autosched.nest.core import PAGE

_Intp = npt.NDArray[np.intp]
_FAR = np.int64(1) << 62  # larger than any stride
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2**64 over the golden ratio: multiples by n and m are at least 2**62 / |n - m| apart."""
_FACTORS = np.array([0xD6E8FEB86659FD93, 0x94D049BB133111EB], np.uint64)
"""Constants of the degski64 mixer and of the splitmix64 generator.

They are 3 more than multiples of 8, so that no large power of 2 divides their powers less 1, and
loops that change places change the sum.
"""


@dataclass(eq=False)
class Moving:
    """Loops that move accesses, outermost first.

    By (loop, access, nest): the bytes of a `stride`, and whether the loop `moves` the access. By
    (loop, nest): `extents`. By access: the bytes of an element (`elements`).
    """

    stride: Ints
    moves: Flags
    extents: Ints
    elements: Ints


@dataclass(eq=False)
class Touched:
    """What the innermost loops of each distinct sequence touch, by (number of loops, sequence).

    `needed` is the capacity in bytes of a cache that has room for all lines. `sequence` has the
    number of the sequence of each (access, nest), which consists of the loops that move the access.
    """

    sequence: _Intp
    moves: Flags
    lines: Ints
    runs: Ints
    pages: Ints
    needed: Ints

    def levels(self) -> Iterator[tuple[int, _Intp]]:
        """Yield each level, innermost first, with the positions in the tables of what is touched
        from there inwards, by (access, nest)."""
        sequences = self.lines.shape[1]
        at = self.sequence
        yield len(self.moves), at
        for level in range(len(self.moves) - 1, -1, -1):
            at = at + self.moves[level] * np.intp(sequences)
            yield level, at


def touched(moving: Moving, line: int) -> Touched:
    """What each access of each nest touches, with lines of `line` bytes."""
    first, which = different(_keys_of_sequences(moving))
    sequences = _sequences(moving, first)
    sets, own = _sets(sequences)
    found = _of_sets(sequences, sets, line)
    tables = (found.lines, found.runs, found.pages, found.needed)
    return Touched(
        which.reshape(moving.moves.shape[1:]), moving.moves, *[table.take(own) for table in tables]
    )


def _keys_of_sequences(moving: Moving) -> Keys:
    """(2, access and nest): keys of the sequence of loops that move an access.

    The product of extent and stride is below 2**62, so that each pair of them gives its own number.
    """
    keys = np.empty((2, *moving.moves.shape[1:]), np.uint64)
    keys[:] = moving.elements.astype(np.uint64)[:, None]
    for stride, moves, extent in zip(moving.stride, moving.moves, moving.extents, strict=True):
        counts = moves.astype(np.uint64)
        loop = (extent.astype(np.uint64) * _GOLDEN + stride.view(np.uint64)) * counts
        for key, factor in zip(keys, _FACTORS, strict=True):
            key *= counts * (factor - np.uint64(1)) + np.uint64(1)
            key += loop
    keys ^= keys >> np.uint64(32)
    return keys.reshape(2, -1)


@dataclass(eq=False)
class _Sequences:
    """Loops that move an access, innermost first, without gaps.

    By (loop, sequence): `stride` and `extent`, 0 and 1 after the last loop. By sequence: the
    `number` of loops, and the bytes of an `element`.
    """

    stride: Ints
    extent: Ints
    number: Ints
    element: Ints


def _sequences(moving: Moving, those: _Intp) -> _Sequences:
    """The sequences of these (access, nest) pairs, given as flat positions."""
    loops = len(moving.stride)
    access, nest = np.divmod(those, moving.extents.shape[1])
    moves = moving.moves.reshape(loops, -1).take(those, axis=1)
    place = marks_from_last(moves)
    number = place[0].astype(np.int64)
    shape = int(number.max(initial=0)), len(those)
    stride, extent = np.zeros(shape, np.int64), np.ones(shape, np.int64)
    some = np.flatnonzero(moves)
    at = (place.take(some) - 1) * np.intp(len(those)) + some % len(those)
    stride.ravel()[at] = moving.stride.reshape(loops, -1).take(those, axis=1).take(some)
    extent.ravel()[at] = moving.extents.take(nest, axis=1).take(some)
    return _Sequences(stride, extent, number, moving.elements[access])


@dataclass(eq=False)
class _Sets:
    """The innermost loops of sequences: how many (`number`) of which `sequence`; small sets
    first."""

    number: _Intp
    sequence: _Intp


def _sets(sequences: _Sequences) -> tuple[_Sets, _Intp]:
    """The distinct sets, and the number of each by (number of loops, sequence)."""
    loops, count = sequences.stride.shape
    keys = np.empty((2, loops + 1, count), np.uint64)
    keys[:, 0] = sequences.element.astype(np.uint64) * _GOLDEN
    loop = mixed(sequences.extent.astype(np.uint64) * _GOLDEN + sequences.stride.view(np.uint64))
    loop *= sequences.stride != 0
    for k, (own, again) in enumerate(zip(loop, mixed(loop), strict=True)):
        np.add(keys[0, k], own, out=keys[0, k + 1])
        np.add(keys[1, k], again, out=keys[1, k + 1])
    asked = np.flatnonzero(np.arange(loops + 1)[:, None] <= sequences.number)
    first, which = different(keys.reshape(2, -1).take(asked, axis=1))
    own = np.zeros(keys[0].shape, np.intp)
    own.ravel()[asked] = which
    number, sequence = np.divmod(asked[first], count)
    return _Sets(number, sequence), own


@dataclass(eq=False)
class _Found:
    """What each set touches; the fields are as in `Touched`."""

    lines: Ints
    runs: Ints
    pages: Ints
    needed: Ints


def _of_sets(sequences: _Sequences, sets: _Sets, line: int) -> _Found:
    """What the loops of each set touch, taken in the order of their strides."""
    number = sets.number
    inside = np.arange(int(number.max(initial=0)))[:, None] < number
    stride = np.where(inside, sequences.stride[: len(inside)].take(sets.sequence, axis=1), _FAR)
    order = stride.argsort(axis=0, kind="stable")
    extent = sequences.extent.take(order * np.intp(len(sequences.number)) + sets.sequence)
    element = sequences.element[sets.sequence]
    return _counted(_Runs(taken(stride, order), extent, number, element, line), line)


class _Runs:
    """Runs of neighbouring lines.

    `span` are the bytes of one run. `gaps` are the distances between runs: (sets that have them,
    distance in bytes, number of runs).
    """

    def __init__(self, stride: Ints, extent: Ints, number: _Intp, element: Ints, line: int) -> None:
        """`stride` and `extent` are by rising stride; sets of few loops come first."""
        self.span = element
        self.gaps: list[tuple[_Intp, Ints, Ints]] = []
        self._line = line
        self._gap, self._times = np.zeros_like(element), np.ones_like(element)
        begins = np.searchsorted(number, np.arange(len(stride)), side="right")
        for own, strides, extents in zip(begins.tolist(), stride, extent, strict=True):
            self._add(own, strides[own:], extents[own:])
        self._close(np.flatnonzero(self._gap))

    def _add(self, begin: int, stride: Ints, extent: Ints) -> None:
        """Add one loop to each of the sets from number `begin` on."""
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


def _counted(runs: _Runs, line: int) -> _Found:
    """What the runs of each set, and their gaps, touch."""
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
    return _Found(lines, number, page_runs * -(-page_span // PAGE), needed)
