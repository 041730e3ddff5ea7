"""Which lines of a page are touched, as numbers of sets of lines.

`memory_walk.touched_again` for many strides at once.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from autosched.features.batched.forms import Ints
from autosched.nest.core import PAGE
from autosched.nest.memory_walk import touched_again

_Intp = npt.NDArray[np.intp]
_Bits = npt.NDArray[np.uint64]
_MOST_KNOWN = 200_000  # cached results, of about 100 bytes each
_FEW, _AT_ONCE = 40, 256  # fewer sets than 40 are faster one by one; at most 256 go at once


class Places:
    """For each nest, the number of a set of page lines."""

    def __init__(self, slots: int, run: Ints) -> None:
        """Begin with the first lines of a page of `slots` lines: for each nest, as many as
        `run`."""
        if _sets_of(slots).known > _MOST_KNOWN:
            _sets_of.cache_clear()
        self._slots, self._sets = slots, _sets_of(slots)
        self._of = np.minimum(run, slots)

    def spread(self, nests: _Intp, stride: Ints, times: Ints) -> None:
        """Let these nests touch their lines `times` times, each time `stride` bytes further."""
        of = self._of[nests]
        some = np.flatnonzero((times > 1) & (of != self._slots))
        if len(some):
            stride = stride[some]
            apart = np.minimum(times[some], PAGE // np.clip(stride & -stride, 1, PAGE))
            keys = (of[some] * PAGE + stride % PAGE) * (PAGE + 1) + apart
            self._of[nests[some]] = self._sets.spread(keys)

    def room(self) -> Ints:
        """How many lines of a page each nest touches."""
        found: Ints = self._sets.sizes[self._of]
        return found


class _Sets:
    """Sets of page lines by number, as bits, and a cache of the sets that they spread to.

    Set number k is the first k lines, up to all lines; other sets follow.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._sets = [(1 << k) - 1 for k in range(slots + 1)]
        self._numbers = {places: k for k, places in enumerate(self._sets)}
        self._keys: Ints = np.array([np.iinfo(np.int64).max])  # in rising order
        self._becomes: Ints = np.zeros(1, np.int64)
        self.sizes: Ints = np.arange(slots + 1)

    @property
    def known(self) -> int:
        """The number of cached results."""
        return len(self._keys)

    def spread(self, keys: Ints) -> Ints:
        """The numbers of the sets for the keys (set * PAGE + stride) * (PAGE + 1) + times."""
        at = self._keys.searchsorted(keys)
        missing = self._keys[at] != keys
        if missing.any():
            self._learn(np.unique(keys[missing]))
            at = self._keys.searchsorted(keys)
        return self._becomes[at]

    def _learn(self, keys: Ints) -> None:
        rest, times = np.divmod(keys, PAGE + 1)
        of, stride = np.divmod(rest, PAGE)
        sets = [self._sets[k] for k in of.tolist()]
        if self._slots > 64 or len(keys) < _FEW:
            each = zip(sets, stride.tolist(), times.tolist(), strict=True)
            found = [touched_again(*one, self._slots) for one in each]
        else:
            found = _touched_again(np.array(sets, np.uint64), stride, times, self._slots).tolist()
        becomes = [self._number(places) for places in found]
        where = self._keys.searchsorted(keys)
        self._keys = np.insert(self._keys, where, keys)
        self._becomes = np.insert(self._becomes, where, becomes)
        more = [places.bit_count() for places in self._sets[len(self.sizes) :]]
        self.sizes = np.concatenate([self.sizes, np.array(more, np.int64)])

    def _number(self, places: int) -> int:
        found = self._numbers.setdefault(places, len(self._sets))
        if found == len(self._sets):
            self._sets.append(places)
        return found


_sets_of = lru_cache(_Sets)


def _touched_again(sets: _Bits, stride: Ints, times: Ints, slots: int) -> _Bits:
    """`memory_walk.touched_again` of each set; a page has at most 64 lines."""
    parts = range(0, len(sets), _AT_ONCE)
    each = (slice(k, k + _AT_ONCE) for k in parts)
    shifts = np.concatenate([_shifts(stride[own], times[own], slots) for own in each])
    every = np.uint64((1 << slots) - 1)
    found = sets.copy()
    for k in range(1, slots):
        moved = sets << np.uint64(k) | sets >> np.uint64(slots - k)
        found |= moved * (shifts >> np.uint64(k) & np.uint64(1))
    return found & every


def _shifts(stride: Ints, times: Ints, slots: int) -> _Bits:
    """By how many lines each set's repetitions are shifted, as a bit mask of the shifts."""
    starts = np.cumsum(times) - times
    number = np.arange(times.sum()) - np.repeat(starts, times)
    by = number * np.repeat(stride, times) % PAGE // (PAGE // slots) % slots
    found: _Bits = np.bitwise_or.reduceat(np.uint64(1) << by.astype(np.uint64), starts)
    return found
