"""The pad stage of convolutions and pooling, and its NumPy counterpart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from autosched import te
from autosched.te.operations.tensor import Tensor
from autosched.tir.expr import Expr
from autosched.tir.op import all_, const, if_then_else
from autosched.workloads.workload import Array, shape_of


def pad(
    X: Tensor,
    padding: Mapping[int, int],
    value: Expr | None = None,
    axis_names: Sequence[str] | None = None,
) -> Tensor:
    """X with `padding[axis]` elements of `value` (default 0) on both sides of each axis.

    X itself where every padding is 0. The stage is called `pad`.
    """
    widths = {axis: width for axis, width in padding.items() if width}
    if not widths:
        return X
    shape = shape_of(X)
    fill = const(0, X.dtype) if value is None else value

    def element(*i: Expr) -> Expr:
        inside = [
            bound
            for axis, width in widths.items()
            for bound in (i[axis] >= width, i[axis] < shape[axis] + width)
        ]
        source = [v - widths.get(axis, 0) for axis, v in enumerate(i)]
        return if_then_else(all_(*inside), X[tuple(source)], fill)

    padded = [size + 2 * widths.get(axis, 0) for axis, size in enumerate(shape)]
    result: Tensor = te.compute(padded, element, name="pad", axis_names=axis_names)
    return result


def pad_array(array: Array, padding: Mapping[int, int], value: float = 0) -> Array:
    """The NumPy counterpart of `pad`."""
    widths = [(padding.get(axis, 0),) * 2 for axis in range(array.ndim)]
    return np.pad(array, widths, constant_values=value)


def windows(
    array: Array, axes: Sequence[int], kernel: Sequence[int], stride: int, dilation: int = 1
) -> Array:
    """All windows over `axes`: the window axes come last, in the order of `axes`."""
    spans = [dilation * (k - 1) + 1 for k in kernel]
    view = np.lib.stride_tricks.sliding_window_view(array, spans, axis=tuple(axes))
    index: list[slice] = [slice(None)] * array.ndim
    for axis in axes:
        index[axis] = slice(None, None, stride)
    return np.asarray(view[(*index, *(slice(None, None, dilation) for _ in axes))])
