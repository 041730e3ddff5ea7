"""Loops by rising stride, one nest at a time."""

from __future__ import annotations

from autosched.features.batched.forms import Ints
from autosched.runtime.compiled_loops import compiled


@compiled
def insert(strides: Ints, extents: Ints, number: int, stride: int, extent: int) -> None:
    """Insert a loop into the `number` sorted ones, behind those of the same stride."""
    at = number
    while at > 0 and strides[at - 1] > stride:
        strides[at] = strides[at - 1]
        extents[at] = extents[at - 1]
        at -= 1
    strides[at] = stride
    extents[at] = extent
