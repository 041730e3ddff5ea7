"""A convolution of 1x1 windows with the sum or product before it: the gate of a channel.

    conv(x * gate)  ->  P[n, c, h, w] = X[n, c, h, w] * R[n, c, 0, 0]
                        Y[n, o, h, w] = sum(c, r < 1, s < 1, P[n, c, h + r, w + s] * W[o, c, r, s])

By itself the operation would be left to PyTorch. Longer chains are kernels of their own: read in
the convolution they gain nothing that could be measured (batch normalisation and ReLU: 0.64 to 1.46
of the time, 0.99 in the median). Nor does it gain where channels are last (0.91 to 1.14) and in
images of 7x7 (1.0 to 1.6), whereas images of 14x14 to 112x112 take 0.25 to 0.83 of the time.
"""

from __future__ import annotations

import math
from collections.abc import Container
from typing import Any

import torch

from autosched.torch.chains import chain
from autosched.torch.computation import Computation, NoRuleError
from autosched.torch.convolutions import borders_of, convolution
from autosched.torch.model_graph import arguments_of, shape_of
from autosched.torch.moved import COMPUTED, MOVES, Elements
from autosched.torch.operands import has_channels_last
from autosched.torch.windows import spread

_aten = torch.ops.aten

_LEAST_IMAGE = 128
"""Gates of images with fewer elements are left to PyTorch."""

_CONVOLUTIONS = {
    getattr(getattr(_aten, f"conv{rank}d"), kind)
    for rank in (1, 2, 3)
    for kind in ("default", "padding")
}


def gated(
    node: Any, taken: Container[Any], constants: Container[Any]
) -> tuple[Computation, tuple[Any, ...]] | None:
    """The convolution `node` with the operation before it, and their nodes; None where there is no
    such operation, something else reads its result, or it belongs to a chain.
    """
    if node.target not in _CONVOLUTIONS or not _has_single_elements(node):
        return None
    x = arguments_of(node)["input"]
    if x.op != "call_function" or x.target not in COMPUTED or not _is_alone(x, taken, constants):
        return None
    if has_channels_last(node) or math.prod(shape_of(x)[2:]) < _LEAST_IMAGE:
        return None
    computation = convolution(node, Elements(taken=taken, constants=constants, only_moved=False))
    within = computation.within
    if not within or any(each.target in MOVES for each in within):
        return None
    return computation, (*within, node)


def _has_single_elements(node: Any) -> bool:
    """Whether each of its results is of one element of each channel, of all channels."""
    given = arguments_of(node)
    kernel = shape_of(given["weight"])[2:]
    borders = borders_of(given["padding"], kernel, spread(given["dilation"], len(kernel)))
    return {*kernel} == {1} and given["groups"] == 1 and not any(map(any, borders))


def _is_alone(node: Any, taken: Container[Any], constants: Container[Any]) -> bool:
    """Whether the operation is part of no chain."""
    try:
        chain(node, taken, constants)
    except NoRuleError:
        return True
    return False
