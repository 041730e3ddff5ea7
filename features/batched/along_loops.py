"""Scan (loop, candidate) tables along the loops, one loop at a time.

NumPy's own accumulations scan the loops of each candidate by themselves, which takes many times as
long.
"""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Made = TypeVar("_Made", bound=np.generic)
_Tables = TypeVar("_Tables", bound="DataclassInstance")
_Number = TypeVar("_Number", bound=np.number)
Counts = npt.NDArray[np.int16]


def sums(table: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """Prefix sums over loops: row k is the sum of rows 0 to k."""
    found = table.copy()
    for before, own in pairwise(found):
        own += before
    return found


def sums_from_last(table: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """Suffix sums over loops: row k is the sum of rows k to the last."""
    return sums(table[::-1])[::-1]


def products(table: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """Prefix products over loops: row k is the product of rows 0 to k."""
    found = table.copy()
    for before, own in pairwise(found):
        own *= before
    return found


def products_from_last(table: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """Suffix products over loops: row k is the product of rows k to the last."""
    return products(table[::-1])[::-1]


def marks(flags: npt.NDArray[np.bool_]) -> Counts:
    """Row k counts the flags that are set in rows 0 to k."""
    return sums(flags.astype(np.int16))


def marks_from_last(flags: npt.NDArray[np.bool_]) -> Counts:
    """Row k counts the flags that are set in rows k to the last."""
    return sums_from_last(flags.astype(np.int16))


def taken(table: npt.NDArray[_Made], loops: npt.NDArray[np.integer]) -> npt.NDArray[_Made]:
    """For each candidate, the entries of `table` in its rows `loops` (`np.take_along_axis`)."""
    return table.take(loops * np.int64(table.shape[1]) + np.arange(table.shape[1]))


def picked(
    table: npt.NDArray[_Made], those: npt.NDArray[np.intp] | npt.NDArray[np.bool_]
) -> npt.NDArray[_Made]:
    """Select the columns `those` of `table` along its last axis.

    `table[..., those]` would put all loops of one candidate next to each other in memory; work that
    then goes loop by loop takes twice as long.
    """
    if those.dtype == np.bool_:
        return table.compress(those, axis=-1)
    return table.take(those, axis=-1)


def picked_in_all(tables: _Tables, those: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> _Tables:
    """A copy of the dataclass `tables` with the columns `those` of each of its arrays."""
    arrays = ((own.name, getattr(tables, own.name)) for own in fields(tables))
    found = {name: picked(own, those) for name, own in arrays if isinstance(own, np.ndarray)}
    return replace(tables, **found)
