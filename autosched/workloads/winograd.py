"""2-D convolution of 3 x 3 windows by Winograd's minimal filtering algorithm.

A tile of m x m results is A^T [(G g G^T) * (B^T d B)] A, where d is the (m + 2) x (m + 2) part of
the input that the tile needs and g is a window of weights. That takes (m + 2)^2 multiplications
instead of 9 m^2: one matrix product for each element of the tile (Lavin and Gray, "Fast Algorithms
for Convolutional Neural Networks", 2015). The weights are transformed ahead (`winograd_weights`).

The matrices are those of Cook and Toom for the points 0, 1, -1, 2, -2, 1/2, -1/2 and infinity.
Their largest elements grow with the tile, and so does the rounding error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched import te
from autosched.arguments import found
from autosched.errors import ConfigError
from autosched.te.operations.operation import CONST_TENSOR_ATTR
from autosched.te.operations.tensor import Tensor
from autosched.tir.expr import Expr
from autosched.tir.op import all_, const, if_then_else, max_
from autosched.workloads.constant_tensor import constant_tensor
from autosched.workloads.padding import windows
from autosched.workloads.types import Types
from autosched.workloads.workload import Array, output_size, window_problem

WINDOW = 3
TILES = (2, 4, 6)
TYPES = ("float32", "float64")
"""The types of sums and of U: 16 bits do not hold the values that the transforms magnify."""
_POINTS = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5)
_PAYS_FROM = 16
"""Channels, and tiles of 4 x 4: with fewer, transforms or the larger weights cost what the products
save (docs/torch.md has the times)."""
Matrix = npt.NDArray[np.float64]


@lru_cache(maxsize=len(TILES))
def matrices(tile: int) -> tuple[Matrix, Matrix, Matrix]:
    """A^T (tile, tile + 2), G (tile + 2, 3) and B^T (tile + 2, tile + 2)."""
    points = np.array(_POINTS[: tile + 1])
    last = len(points)
    inverse, weights = np.zeros((tile, last + 1)), np.zeros((last + 1, WINDOW))
    inputs = np.zeros((last + 1, last + 1))
    inverse[:, :last] = points ** np.arange(tile)[:, None]
    inverse[-1, last] = weights[last, -1] = 1
    for k, point in enumerate(points):
        others = np.delete(points, k)
        weights[k] = point ** np.arange(WINDOW) / np.prod(point - others)
        inputs[k, :last] = np.poly(others)[::-1]
    inputs[last] = np.poly(points)[::-1]
    return inverse, weights, inputs


def winograd_weights(weights: Array, tile: int = 4) -> Array:
    """Transform weights (3, 3, CI, CO) to the input U of `conv2d_winograd_nhwc`, of the same type.

    U has the shape (tile + 2, tile + 2, CI, CO) and is computed in float64. Raises ConfigError for
    another shape or tile.
    """
    weights = np.asarray(weights)
    if weights.ndim != 4 or weights.shape[:2] != (WINDOW, WINDOW):
        raise ConfigError(
            f"winograd_weights: expected weights of shape (3, 3, CI, CO), found {weights.shape}"
        )
    if tile not in TILES:
        raise ConfigError(f"winograd_weights: tile: expected 2, 4 or 6, {found(tile)}")
    _, own, _ = matrices(tile)
    side, channels = tile + WINDOW - 1, weights.shape[2:]
    rows = weights.reshape(WINDOW * WINDOW, -1).astype(np.float64)
    wide = (np.kron(own, own) @ rows).reshape(side, side, *channels)
    return wide.astype(weights.dtype)


@dataclass(frozen=True)
class _Sizes:
    """The arguments, and sizes that follow from them.

    - `side`: of the part of the input that a tile needs.
    - `height`, `width`: of the result.
    - `rows`, `columns`: numbers of tiles.
    """

    N: int
    H: int
    W: int
    CI: int
    CO: int
    padding: int
    tile: int
    bias: int
    relu: int

    @property
    def side(self) -> int:
        return self.tile + WINDOW - 1

    @property
    def height(self) -> int:
        return output_size(self.H, WINDOW, 1, self.padding)

    @property
    def width(self) -> int:
        return output_size(self.W, WINDOW, 1, self.padding)

    @property
    def rows(self) -> int:
        return -(-self.height // self.tile)

    @property
    def columns(self) -> int:
        return -(-self.width // self.tile)

    @property
    def padded(self) -> tuple[int, int, int, int]:
        """The shape of the padded input, extended to whole tiles."""
        edge = WINDOW - 1
        return self.N, self.rows * self.tile + edge, self.columns * self.tile + edge, self.CI


def check_winograd(**sizes: int) -> str | None:
    """Say why the sizes are impossible; None if they are fine."""
    s = _Sizes(**sizes)
    return window_problem({"H": s.H, "W": s.W}, WINDOW, s.padding)


def faster_convolution(workload: Mapping[str, Any]) -> dict[str, Any] | None:
    """The `conv2d_winograd_nhwc` that computes what `workload` does, in less time on CPUs.

    Both are `workload` entries of a record. None for another one than a `conv2d_nhwc` of float32
    with windows of 3 x 3 and stride 1, and for few channels or tiles, where it would not be faster.
    """
    args = workload.get("args", {})
    if workload.get("op") != "conv2d_nhwc" or args.get("dtype") != "float32":
        return None
    plain = {"KH": WINDOW, "KW": WINDOW, "stride": 1, "dilation": 1, "groups": 1}
    if any(args[name] != value for name, value in plain.items()):
        return None
    sizes = {name: args[name] for name in ("N", "H", "W", "CI", "CO", "padding")}
    s = _Sizes(**sizes, tile=4, bias=0, relu=0)
    if min(s.CI, s.CO, s.N * s.rows * s.columns) < _PAYS_FROM:
        return None
    return {"op": "conv2d_winograd_nhwc", "args": sizes}


def conv2d_winograd_nhwc(types: Types, **sizes: int) -> list[Tensor]:
    """2-D convolution of 3 x 3 windows, stride 1, with transformed weights.

    With `bias`, one number per channel is added; with `relu`, negative results become 0.
    """
    s = _Sizes(**sizes)
    side, tile, tiles = s.side, s.tile, (s.N, s.rows, s.columns)
    X = te.placeholder((s.N, s.H, s.W, s.CI), types.inputs, name="X")
    U = te.placeholder((side, side, s.CI, s.CO), types.acc, name="U")
    added = [te.placeholder((s.CO,), types.acc, name="bias")] if s.bias else []
    pad = _padded(X, s)
    inverse, _, inputs = matrices(tile)
    rh, rw, ri, rj = (te.reduce_axis((0, side), name=name) for name in ("rh", "rw", "ri", "rj"))
    B, C = (constant_tensor(inputs, name, types.acc, "ij") for name in "BC")
    R = te.compute(
        (side, s.N, s.rows, side, s.columns, s.CI),
        lambda e, n, th, w, tw, c: te.sum(
            types.wide(pad[n, th * tile + rh, tw * tile + w, c]) * B[e, rh], axis=rh
        ),
        name="R",
        attrs={CONST_TENSOR_ATTR: ["e", "rh"]},
    )
    V = te.compute(
        (side, side, *tiles, s.CI),
        lambda e, f, n, th, tw, c: te.sum(R[e, n, th, rw, tw, c] * C[f, rw], axis=rw),
        name="V",
        attrs={CONST_TENSOR_ATTR: ["f", "rw"]},
    )
    rc = te.reduce_axis((0, s.CI), name="rc")
    M = te.compute(
        (side, side, *tiles, s.CO),
        lambda e, f, n, th, tw, co: te.sum(V[e, f, n, th, tw, rc] * U[e, f, rc, co], axis=rc),
        name="M",
    )
    A, D = (constant_tensor(inverse, name, types.acc, "ij") for name in "AD")
    S = te.compute(
        (tile, side, *tiles, s.CO),
        lambda i, f, n, th, tw, co: te.sum(M[ri, f, n, th, tw, co] * A[i, ri], axis=ri),
        name="S",
        attrs={CONST_TENSOR_ATTR: ["i", "ri"]},
    )
    T = te.compute(
        (tile, tile, *tiles, s.CO),
        lambda i, j, n, th, tw, co: te.sum(S[i, rj, n, th, tw, co] * D[j, rj], axis=rj),
        name="T",
        attrs={CONST_TENSOR_ATTR: ["j", "rj"]},
    )

    def result(n: Expr, h: Expr, w: Expr, co: Expr) -> Expr:
        value: Expr = T[h % tile, w % tile, n, h // tile, w // tile, co]
        for tensor in added:
            value = value + tensor[co]
        return types.narrow(max_(value, const(0, types.acc)) if s.relu else value)

    Y = te.compute((s.N, s.height, s.width, s.CO), result, name="Y")
    return [X, U, *added, Y]


def _padded(X: Tensor, s: _Sizes) -> Tensor:
    def element(b: Expr, y: Expr, x: Expr, k: Expr) -> Expr:
        top, left = y - s.padding, x - s.padding
        inside = all_(y >= s.padding, y < s.H + s.padding, x >= s.padding, x < s.W + s.padding)
        return if_then_else(inside, X[b, top, left, k], const(0, X.dtype))

    result: Tensor = te.compute(s.padded, element, name="pad")
    return result


def conv2d_winograd_nhwc_reference(inputs: Sequence[Array], **sizes: int) -> list[Array]:
    """NumPy reference of `conv2d_winograd_nhwc`."""
    s = _Sizes(**sizes)
    X, U, *added = inputs
    pad = np.zeros(s.padded, X.dtype)
    pad[:, s.padding : s.padding + s.H, s.padding : s.padding + s.W] = X
    tiles = windows(pad, (1, 2), (s.side, s.side), s.tile)
    inverse, _, own = (matrix.astype(X.dtype) for matrix in matrices(s.tile))
    V = np.einsum("ea,fb,nhwcab->efnhwc", own, own, tiles, optimize=True)
    M = np.einsum("efnhwc,efco->efnhwo", V, U, optimize=True)
    Y = np.einsum("ie,jf,efnhwo->nhiwjo", inverse, inverse, M, optimize=True)
    found = Y.reshape(s.N, s.rows * s.tile, s.columns * s.tile, s.CO)[:, : s.height, : s.width]
    for array in added:
        found = found + array
    return [np.maximum(found, 0) if s.relu else found]


def winograd_inputs(rng: np.random.Generator, inputs: list[Array], types: Types) -> list[Array]:
    """Make U of random weights, so that magnified values cancel as in every convolution."""
    X, U, *added = inputs
    side, _, channels, outputs = U.shape
    weights = np.round(rng.standard_normal((WINDOW, WINDOW, channels, outputs)) * 256) / 256
    return [X, winograd_weights(weights.astype(U.dtype), side - WINDOW + 1), *added]
