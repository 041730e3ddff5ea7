"""Arithmetic on plain numbers and NumPy arrays alike.

A formula of this package works on one candidate or on a whole population: its arguments are
numbers, or arrays that broadcast against each other.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]


@overload
def largest(*values: float) -> float: ...
@overload
def largest(*values: float | Array) -> float | Array: ...
def largest(*values: float | Array) -> float | Array:
    """The largest of the values, elementwise where some of them are arrays."""
    for value in values:
        if type(value) is np.ndarray:
            return reduce(np.maximum, values)
    return max(values)
