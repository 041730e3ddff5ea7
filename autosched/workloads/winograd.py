"""2-D convolution of 3 x 3 windows by Winograd's minimal filtering algorithm.

A tile of m x m results is A^T [(G g G^T) * (B^T d B)] A, with d the (m + 2) x (m + 2) elements of
the input that they need and g a window of weights: (m + 2)^2 multiplications instead of 9 m^2, one
product of matrices for each element of the tile (Lavin and Gray, "Fast Algorithms for Convolutional
Neural Networks", 2015). What the weights become is worked out ahead (`winograd_weights`).

The matrices are those of Cook and Toom for the points 0, 1, -1, 2, -2, 1/2, -1/2 and infinity;
their largest elements grow with the tile, and with them what is rounded away.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from autosched import te
from autosched.arguments import found
from autosched.errors import ConfigError
from autosched.te.operations.operation import CONST_MATRIX, CONST_TENSOR_ATTR
from autosched.te.operations.tensor import Tensor
from autosched.tir.expr import Expr
from autosched.tir.op import all_, const, eq, if_then_else, max_, select
from autosched.workloads.types import Types
from autosched.workloads.workload import Array, output_size, shape_of, window_problem

WINDOW = 3
TILES = (2, 4, 6)
TYPES = ("float32", "float64")
"""Of sums and of U: 16 bits do not hold what the transforms magnify."""
_POINTS = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5)
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
    """The input U of `conv2d_winograd_nhwc` for weights (3, 3, CI, CO), of their type.

    U has the shape (tile + 2, tile + 2, CI, CO); it is worked out in float64. Raises ConfigError
    for another shape or tile.
    """
    weights = np.asarray(weights)
    if weights.ndim != 4 or weights.shape[:2] != (WINDOW, WINDOW):
        raise ConfigError(
            f"winograd_weights: expected weights of shape (3, 3, CI, CO), found {weights.shape}"
        )
    if tile not in TILES:
        raise ConfigError(f"winograd_weights: tile: expected 2, 4 or 6, {found(tile)}")
    _, own, _ = matrices(tile)
    wide: Matrix = np.einsum(
        "er,ns,rsio->enio", own, own, weights.astype(np.float64), optimize=True
    )
    return wide.astype(weights.dtype, order="C")


def check_winograd(
    N: int, H: int, W: int, CI: int, CO: int, padding: int, tile: int, bias: int, relu: int
) -> str | None:
    """Tiles have 2, 4 or 6 results along a side; bias and relu are there or not."""
    if tile not in TILES:
        return f"argument tile={tile} must be 2, 4 or 6"
    for name, value in (("bias", bias), ("relu", relu)):
        if value > 1:
            return f"argument {name}={value} must be 0 or 1"
    return window_problem({"H": H, "W": W}, WINDOW, padding)


def conv2d_winograd_nhwc(
    N: int,
    H: int,
    W: int,
    CI: int,
    CO: int,
    padding: int,
    tile: int,
    bias: int,
    relu: int,
    types: Types,
) -> list[Tensor]:
    """2-D convolution of 3 x 3 windows, stride 1, of weights that are transformed already; with
    `bias` one number for each channel is added, with `relu` what is negative becomes 0."""
    side = tile + WINDOW - 1
    height, width = (output_size(size, WINDOW, 1, padding) for size in (H, W))
    rows, columns = -(-height // tile), -(-width // tile)
    X = te.placeholder((N, H, W, CI), types.inputs, name="X")
    U = te.placeholder((side, side, CI, CO), types.acc, name="U")
    added = [te.placeholder((CO,), types.acc, name="bias")] if bias else []
    pad = _padded(X, padding, rows * tile + 2, columns * tile + 2)
    inverse, _, inputs = matrices(tile)
    rh, rw, ri, rj = (te.reduce_axis((0, side), name=name) for name in ("rh", "rw", "ri", "rj"))
    B, C = (_constant(inputs, name, types.acc) for name in "BC")
    R = te.compute(
        (side, N, rows, side, columns, CI),
        lambda e, n, th, w, tw, c: te.sum(
            types.wide(pad[n, th * tile + rh, tw * tile + w, c]) * B[e, rh], axis=rh
        ),
        name="R",
        attrs={CONST_TENSOR_ATTR: ["e", "rh"]},
    )
    V = te.compute(
        (side, side, N, rows, columns, CI),
        lambda e, f, n, th, tw, c: te.sum(R[e, n, th, rw, tw, c] * C[f, rw], axis=rw),
        name="V",
        attrs={CONST_TENSOR_ATTR: ["f", "rw"]},
    )
    rc = te.reduce_axis((0, CI), name="rc")
    M = te.compute(
        (side, side, N, rows, columns, CO),
        lambda e, f, n, th, tw, co: te.sum(V[e, f, n, th, tw, rc] * U[e, f, rc, co], axis=rc),
        name="M",
    )
    A, D = (_constant(inverse, name, types.acc) for name in "AD")
    S = te.compute(
        (tile, side, N, rows, columns, CO),
        lambda i, f, n, th, tw, co: te.sum(M[ri, f, n, th, tw, co] * A[i, ri], axis=ri),
        name="S",
        attrs={CONST_TENSOR_ATTR: ["i", "ri"]},
    )
    T = te.compute(
        (tile, tile, N, rows, columns, CO),
        lambda i, j, n, th, tw, co: te.sum(S[i, rj, n, th, tw, co] * D[j, rj], axis=rj),
        name="T",
        attrs={CONST_TENSOR_ATTR: ["j", "rj"]},
    )

    def result(n: Expr, h: Expr, w: Expr, co: Expr) -> Expr:
        value: Expr = T[h % tile, w % tile, n, h // tile, w // tile, co]
        for tensor in added:
            value = value + tensor[co]
        return types.narrow(max_(value, const(0, types.acc)) if relu else value)

    Y = te.compute((N, height, width, CO), result, name="Y")
    return [X, U, *added, Y]


def _padded(X: Tensor, padding: int, height: int, width: int) -> Tensor:
    """X with a border, as large as the tiles need."""
    n, h, w, c = shape_of(X)

    def element(b: Expr, y: Expr, x: Expr, k: Expr) -> Expr:
        inside = all_(y >= padding, y < h + padding, x >= padding, x < w + padding)
        return if_then_else(inside, X[b, y - padding, x - padding, k], const(0, X.dtype))

    result: Tensor = te.compute((n, height, width, c), element, name="pad")
    return result


def _constant(matrix: Matrix, name: str, dtype: str) -> Tensor:
    """A matrix that becomes numbers where its indices are unrolled."""

    def element(i: Expr, j: Expr) -> Expr:
        value = const(0.0, dtype)
        for row, column in zip(*matrix.nonzero(), strict=True):
            here = all_(eq(i, int(row)), eq(j, int(column)))
            value = select(here, const(float(matrix[row, column]), dtype), value)
        return value

    result: Tensor = te.compute(matrix.shape, element, name=name, attrs={CONST_MATRIX: True})
    return result


def conv2d_winograd_nhwc_reference(
    inputs: Sequence[Array],
    N: int,
    H: int,
    W: int,
    CI: int,
    CO: int,
    padding: int,
    tile: int,
    bias: int,
    relu: int,
) -> list[Array]:
    """The same in NumPy."""
    X, U, *added = inputs
    side = tile + WINDOW - 1
    height, width = (output_size(size, WINDOW, 1, padding) for size in (H, W))
    rows, columns = -(-height // tile), -(-width // tile)
    pad = np.zeros((N, rows * tile + 2, columns * tile + 2, CI), X.dtype)
    pad[:, padding : padding + H, padding : padding + W] = X
    tiles = np.lib.stride_tricks.sliding_window_view(pad, (side, side), axis=(1, 2))
    inverse, _, own = (matrix.astype(X.dtype) for matrix in matrices(tile))
    V = np.einsum("ea,fb,nhwcab->efnhwc", own, own, tiles[:, ::tile, ::tile], optimize=True)
    M = np.einsum("efnhwc,efco->efnhwo", V, U, optimize=True)
    Y = np.einsum("ie,jf,efnhwo->nhiwjo", inverse, inverse, M, optimize=True)
    found = Y.reshape(N, rows * tile, columns * tile, CO)[:, :height, :width]
    for array in added:
        found = found + array
    return [np.maximum(found, 0) if relu else found]


def winograd_inputs(rng: np.random.Generator, inputs: list[Array]) -> list[Array]:
    """U of random weights: what the transforms magnify cancels, as in every convolution."""
    X, U, *added = inputs
    side, _, channels, outputs = U.shape
    weights = np.round(rng.standard_normal((WINDOW, WINDOW, channels, outputs)) * 256) / 256
    return [X, winograd_weights(weights.astype(U.dtype), side - WINDOW + 1), *added]
