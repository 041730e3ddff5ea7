"""Sums that are the same in every version of Python."""

from __future__ import annotations

from collections.abc import Iterable


def total(values: Iterable[float]) -> float:
    """The sum from the first value to the last, each step rounded; 0 for no values.

    From Python 3.12 on, `sum` of floats compensates rounding errors. Its last bits differ from
    earlier versions, and from arrays that are added up one after the other.

        >>> total([0.1] * 10)
        0.9999999999999999
    """
    found: float = 0
    for value in values:
        found += value
    return found
