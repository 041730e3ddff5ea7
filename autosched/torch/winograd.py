"""Convolutions of 3 x 3 windows by Winograd's algorithm, channels first or last.

What is multiplied, and the matrices, are those of `autosched.workloads.winograd`. The border is a
copy with channels last, and the way back ends in the memory format of PyTorch's convolution: both
are part of the kernel. Weights are transformed once.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

import torch

from autosched.torch.computation import Computation, Operand
from autosched.torch.convolutions import batched, borders_of, with_bias
from autosched.torch.model_graph import arguments_of, shape_of, value_of
from autosched.torch.moved import kind_of, moved_input
from autosched.torch.operands import storage_order, stored, unless_usual
from autosched.torch.windows import in_order, spread
from autosched.workloads.winograd import WINDOW, Matrix, matrices, winograd_weights

_aten = torch.ops.aten

CONVOLUTIONS = {_aten.conv2d.default, _aten.conv2d.padding}

_LEAST = 16
"""Channels: of fewer the transforms cost what the products save (56x56, one image: of 8 they take
1.05 to 1.18 of the time of a direct convolution, of 16 0.8 to 0.9; Zen 4)."""


def winograd(node: Any, tile: int, constants: Container[Any]) -> Computation | None:
    """The convolution by tiles of `tile` x `tile` results.

    None for another operation, other windows than 3 x 3 with stride 1, groups, weights that are not
    constant, other types than float32, and fewer than 16 channels.
    """
    if node.target not in CONVOLUTIONS:
        return None
    given = arguments_of(node)
    x, weight = given["input"], given["weight"]
    outputs, inputs, *kernel = shape_of(weight)
    steps = {*spread(given["stride"], 2), *spread(given["dilation"], 2), given["groups"]}
    if kernel != [WINDOW, WINDOW] or steps != {1} or weight not in constants:
        return None
    if min(inputs, outputs) < _LEAST:
        return None
    if value_of(node).dtype != torch.float32:
        return None
    batch, _, height, width = batched(x, kernel)
    (top, _), (left, _) = borders_of(given["padding"], kernel, (1, 1))
    rows, columns = shape_of(node)[2:]
    down, right = -(-rows // tile), -(-columns // tile)
    order = storage_order(node)
    axes = in_order("nohw", order)
    shape = tuple(shape_of(node)[d] for d in order)
    side = tile + WINDOW - 1
    back, _, forth = matrices(tile)
    moved = moved_input(x)
    text, source = stored("X", x, [(each,) for each in shape_of(x)])
    element = text([*"nc", (f"y - {top}",), (f"x - {left}",)])
    if moved is not None:
        element = moved.text(x, ["n", "c", f"(y - {top})", f"(x - {left})"])
    result = Computation(
        kind=f"{kind_of(moved)}winograd_conv2d",
        statements=(
            f"P[n, y, x, c] = {element} if {top} <= y and y < {top + height} and "
            f"{left} <= x and x < {left + width} else 0",
            f"B[e, r] = {_table(forth)}",
            f"D[e, n, p, x, q, c] = sum(r, P[n, {tile}*p + r, {tile}*q + x, c] * B[e, r])",
            "V[e, f, n, p, q, c] = sum(s, D[e, n, p, s, q, c] * B[f, s])",
            "M[e, f, n, p, q, o] = sum(c, V[e, f, n, p, q, c] * U[e, f, c, o])",
            f"A[i, r] = {_table(back)}",
            "S[i, f, n, p, q, o] = sum(r, M[r, f, n, p, q, o] * A[i, r])",
            "T[i, j, n, p, q, o] = sum(s, S[i, s, n, p, q, o] * A[j, s])",
            f"Y[{', '.join(axes)}] = T[h % {tile}, w % {tile}, n, h // {tile}, w // {tile}, o]",
        ),
        operands={
            **(moved.operands if moved else {"X": source}),
            "U": Operand((weight,), (side, side, inputs, outputs), Transformed(tile)),
        },
        result="Y",
        axes=axes,
        shape=shape,
        channels=("o",),
        shapes={
            "P": (batch, down * tile + WINDOW - 1, right * tile + WINDOW - 1, inputs),
            "D": (side, batch, down, side, right, inputs),
            "Y": shape,
        },
        order=unless_usual(order),
        within=() if moved is None else tuple(moved.nodes),
    )
    return with_bias(result, given["bias"])


@dataclass(frozen=True, slots=True)
class Transformed:
    """Makes the input U of weights (CO, CI, 3, 3)."""

    tile: int

    def __call__(self, weight: Any) -> Any:
        """U of the weights."""
        found = winograd_weights(weight.permute(2, 3, 1, 0).numpy(), self.tile)
        return torch.from_numpy(found)


def _table(matrix: Matrix) -> str:
    """`[[1, 0], [0.5, -1]]`."""
    rows = (", ".join(map(_number, row.tolist())) for row in matrix)
    return f"[{', '.join(f'[{row}]' for row in rows)}]"


def _number(value: float) -> str:
    return repr(int(value) if value.is_integer() else value)
