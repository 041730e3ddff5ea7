"""Parts of other nodes, read where they lie: `split`, `slice`, `select` and views of these.

    q, k, v = qkv.split(32, -1);  q.view(2, 5, 4, 8).transpose(1, 2)    ->  X[a, i, b, e]
                                  k.view(2, 5, 4, 8).transpose(1, 2)    ->  X[a, j, b + 4, e]

for X = qkv as (2, 5, 12, 8). A kernel takes rows that lie one after the other: of a part it would
be given a copy at each call.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from autosched.torch.model_graph import is_contiguous, shape_of, value_of

_aten = torch.ops.aten

VIEWS = {
    _aten.view.default,
    _aten.reshape.default,
    _aten._unsafe_view.default,
    _aten.flatten.using_ints,
    _aten.unflatten.int,
    _aten.unsqueeze.default,
    _aten.squeeze.default,
    _aten.squeeze.dim,
    _aten.squeeze.dims,
    _aten.alias.default,
    _aten.detach.default,
    _aten.t.default,
    _aten.transpose.int,
    _aten.permute.default,
    _aten.slice.Tensor,
    _aten.select.int,
    _aten.split.Tensor,
    _aten.split_with_sizes.default,
    _aten.chunk.default,
    _aten.unbind.int,
    operator.getitem,
}
"""What has the memory of its input, if its own result is not contiguous."""


class Part(NamedTuple):
    """A node whose elements are some of `whole`'s: those that `indices` tell, of its `shape`."""

    whole: Any
    indices: tuple[str, ...]
    shape: tuple[int, ...]


def part_of(node: Any, axes: Sequence[tuple[str, ...]], lengths: Mapping[str, int]) -> Part | None:
    """The node as a part of a contiguous one, with the indices `axes` of each dimension.

    None where it is contiguous itself, has all elements of the other, or its rows do not lie in a
    regular grid.
    """
    value = value_of(node)
    whole = node
    while not is_contiguous(whole):
        if whole.op != "call_function" or whole.target not in VIEWS:
            return None
        whole = whole.args[0]
    left = math.prod(shape_of(whole))
    if whole is node or left == value.numel():
        return None
    offset = int(value.storage_offset()) - int(value_of(whole).storage_offset())
    wide = [d for d, size in enumerate(value.shape) if size > 1]
    steps = [
        step
        for d in sorted(wide, key=lambda d: -value.stride(d))
        for step in _steps(axes[d], int(value.stride(d)), lengths)
    ]
    indices, shape = [], []
    for axis, stride, length in steps:
        if stride == 0 or left % stride or offset // stride + length > left // stride:
            return None
        first, offset = divmod(offset, stride)
        indices.append(f"{axis} + {first}" if first else axis)
        shape.append(left // stride)
        left = stride
    if left > 1:
        indices.append(str(offset))
        shape.append(left)
    ones = [axis for d, several in enumerate(axes) if d not in wide for axis in several]
    return Part(whole, (*indices, *ones), (*shape, *[1] * len(ones)))


def _steps(
    several: Sequence[str], stride: int, lengths: Mapping[str, int]
) -> list[tuple[str, int, int]]:
    """The indices that make up a dimension, with their strides and lengths."""
    found: list[tuple[str, int, int]] = []
    for axis in reversed(several):
        found.insert(0, (axis, stride, lengths[axis]))
        stride *= lengths[axis]
    return found
