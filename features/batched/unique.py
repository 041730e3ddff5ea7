"""Find the distinct ones of many columns of numbers, by a hash of each.

Sorting the columns, or their hashes, takes several times as long.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]
# Odd: 2**64 over the golden ratio, and the constant of the degski64 mixer.
_FACTORS = np.array([[0x9E3779B97F4A7C15], [0xD6E8FEB86659FD93]], np.uint64)
_IN_CACHE = 1024  # columns whose numbers stay in a near cache
_SPREAD, _AGAIN = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
"""Odd constants of the splitmix64 generator."""


def keys_of(columns: Sequence[npt.NDArray[np.int64]]) -> Keys:
    """(2, count): two independent keys of each column of numbers.

    Each number is spread over 64 bits and multiplied by a factor of its own.
    """
    table = np.stack(columns).view(np.uint64)
    factors = _powers(len(columns))[:, :, None]
    keys = np.empty((2, table.shape[1]), np.uint64)
    for start in range(0, table.shape[1], _IN_CACHE):
        some = mixed(table[:, start : start + _IN_CACHE])
        for own, key in zip(factors, keys, strict=True):
            key[start : start + _IN_CACHE] = (some * own).sum(axis=0)
    keys ^= keys >> np.uint64(32)
    return keys


def mixed(keys: Keys) -> Keys:
    """The keys, each spread over 64 bits; 0 stays 0."""
    found = keys * _SPREAD
    found ^= found >> np.uint64(31)
    found *= _AGAIN
    found ^= found >> np.uint64(29)
    return found


def _powers(count: int) -> Keys:
    """(2, count): distinct odd numbers."""
    found: Keys = np.cumprod(np.repeat(_FACTORS, count, axis=1), axis=1, dtype=np.uint64)
    return found


def different(keys: Keys) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """The first column of each kind, in order, and the number of the kind of each column.

    Columns of one kind have both keys in common; distinct columns do so once in 2**128 pairs. Each
    column is written to a place that follows from its keys. A column that finds its own kind there
    is done; the others go on to another place.
    """
    count = keys.shape[1]
    every = np.arange(count, dtype=np.int32)
    like, rest = every.copy(), every
    table = np.empty(1 << max(1, 2 * count - 1).bit_length(), every.dtype)
    own, again = keys
    at = own
    while len(rest):
        place = (at & np.uint64(len(table) - 1)).view(np.intp)
        table[place] = rest
        found = table.take(place)
        same = (keys[0].take(found) == own) & (keys[1].take(found) == again)
        like[rest[same]] = found[same]
        other = ~same
        rest, own, again, at = (part[other] for part in (rest, own, again, at))
        at = at + again
    first = like == every
    return first.nonzero()[0], (first.cumsum() - 1)[like]
