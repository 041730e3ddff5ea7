"""Tables by (loop, candidate), worked through loop after loop: NumPy's own accumulations go through
the loops of each candidate by themselves, which takes many times as long."""

from __future__ import annotations

from itertools import pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt

_Made = TypeVar("_Made", bound=np.generic)
_Number = TypeVar("_Number", bound=np.number)
Counts = npt.NDArray[np.int16]


def sums(table: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """Of each loop and those before it."""
    found = table.copy()
    for before, own in pairwise(found):
        own += before
    return found


def sums_from_last(table: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """Of each loop and those after it."""
    return sums(table[::-1])[::-1]


def products(table: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """Of each loop and those before it."""
    found = table.copy()
    for before, own in pairwise(found):
        own *= before
    return found


def products_from_last(table: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """Of each loop and those after it."""
    return products(table[::-1])[::-1]


def marks(flags: npt.NDArray[np.bool_]) -> Counts:
    """How many are marked, of each loop and those before it."""
    return sums(flags.astype(np.int16))


def marks_from_last(flags: npt.NDArray[np.bool_]) -> Counts:
    """How many are marked, of each loop and those after it."""
    return sums_from_last(flags.astype(np.int16))


def taken(table: npt.NDArray[_Made], loops: npt.NDArray[np.integer]) -> npt.NDArray[_Made]:
    """The entries of the loops of these numbers, each candidate's own (`np.take_along_axis`)."""
    return table.take(loops * np.int64(table.shape[1]) + np.arange(table.shape[1]))


def picked(
    table: npt.NDArray[_Made], those: npt.NDArray[np.intp] | npt.NDArray[np.bool_]
) -> npt.NDArray[_Made]:
    """The entries of these candidates: `table[..., those]` has all loops of one candidate next to
    each other in memory, so that what is then done loop after loop takes twice as long."""
    if those.dtype == np.bool_:
        return table.compress(those, axis=-1)
    return table.take(those, axis=-1)
