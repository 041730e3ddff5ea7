"""Sums that are the same in every version of Python."""

from __future__ import annotations

from collections.abc import Iterable


def total(values: Iterable[float]) -> float:
    """The sum from the first to the last, each step rounded; 0 without any.

    From Python 3.12 on, `sum` of floats compensates for what rounding loses: other last bits than
    before, and than those of arrays that are added up one after the other.

        >>> total([0.1] * 10)
        0.9999999999999999
    """
    found: float = 0
    for value in values:
        found += value
    return found
