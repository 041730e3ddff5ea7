"""Which of many columns of numbers are different, by a hash of each: sorting whole columns takes
several times as long."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]
_FACTORS = (
    (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB),
    (0xD6E8FEB86659FD93, 0xA0761D6478BD642F, 0xE7037ED1A0B428DB),
)
"""Odd numbers: of the splitmix64 generator and of wyhash."""


def mixed(key: Keys, a: npt.NDArray[np.int64], b: npt.NDArray[np.int64], way: int) -> Keys:
    """A number that follows from the key, a and b; `way` 0 and 1 have nothing in common."""
    one, two, three = map(np.uint64, _FACTORS[way])
    found = (key ^ (a.astype(np.uint64) * one)) * two
    found ^= found >> np.uint64(29)
    found = (found + b.astype(np.uint64)) * three
    found ^= found >> np.uint64(32)
    return found


def keys_of(columns: Sequence[npt.NDArray[np.int64]]) -> Keys:
    """(2, count): two keys of each column of numbers."""
    keys = np.zeros((2, columns[0].shape[-1]), np.uint64)
    for a, b in zip(columns[::2], [*columns[1::2], columns[0]], strict=False):
        for way in range(2):
            keys[way] = mixed(keys[way], a, b, way)
    return keys


def different(keys: Keys) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """The first of each kind, and the kind of each. Two of one kind have both keys in common:
    different columns do so once in 2**128 pairs."""
    _, first, which = np.unique(keys[0], return_index=True, return_inverse=True)
    if (keys[1] == keys[1][first][which]).all():
        return first, which
    _, first, which = np.unique(keys.T, axis=0, return_index=True, return_inverse=True)
    return first, which.reshape(-1)
