"""Convolutions, channels last: 1-D, 2-D, 3-D and depthwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autosched import te
from autosched.te.operations.tensor import Tensor
from autosched.tir.expr import Expr
from autosched.workloads.padding import pad, pad_array, windows
from autosched.workloads.types import Types
from autosched.workloads.workload import Array, layout_free, output_size, window_problem


def check_conv1d(N: int, L: int, CI: int, CO: int, K: int, stride: int, padding: int) -> str | None:
    """Say why the window does not fit; None if it does."""
    return window_problem({"L": L}, K, padding)


def conv1d_nlc(
    N: int, L: int, CI: int, CO: int, K: int, stride: int, padding: int, types: Types
) -> list[Tensor]:
    """1-D convolution, channels last."""
    X = te.placeholder((N, L, CI), types.inputs, name="X")
    W = te.placeholder((K, CI, CO), types.weights, name="W")
    P = pad(X, {1: padding})
    rl = te.reduce_axis((0, K), name="rl")
    rc = te.reduce_axis((0, CI), name="rc")
    Y = te.compute(
        (N, output_size(L, K, stride, padding), CO),
        lambda n, l, co: te.sum(
            types.wide(P[n, l * stride + rl, rc]) * types.wide(W[rl, rc, co]), axis=[rl, rc]
        ),
        name=types.before("Y"),
        attrs=layout_free(W),
    )
    return [X, W, types.output(Y, "Y")]


def conv1d_nlc_reference(
    inputs: Sequence[Array], N: int, L: int, CI: int, CO: int, K: int, stride: int, padding: int
) -> list[Array]:
    """NumPy reference of `conv1d_nlc`."""
    X, W = inputs
    view = windows(pad_array(X, {1: padding}), (1,), (K,), stride)
    return [np.einsum("nlcr,rco->nlo", view, W, optimize=True)]


@dataclass(frozen=True, slots=True)
class Conv2d:
    """The sizes of a 2-D convolution, by the names of its arguments."""

    N: int
    H: int
    W: int
    CI: int
    CO: int
    KH: int
    KW: int
    stride: int
    padding: int
    dilation: int
    groups: int

    def problem(self) -> str | None:
        """Say why the sizes are impossible; None if they are fine.

        The window must fit, and the groups must divide the channels.
        """
        for name, channels in (("CI", self.CI), ("CO", self.CO)):
            if channels % self.groups:
                return f"argument {name}={channels} must be a multiple of groups={self.groups}"
        height, width = (self.dilation * (size - 1) + 1 for size in (self.KH, self.KW))
        return window_problem({"H": self.H}, height, self.padding) or window_problem(
            {"W": self.W}, width, self.padding
        )

    def output_shape(self) -> tuple[int, int, int, int]:
        """The shape of the output: N, height, width and channels."""
        height, width = (
            output_size(size, window, self.stride, self.padding, self.dilation)
            for size, window in ((self.H, self.KH), (self.W, self.KW))
        )
        return self.N, height, width, self.CO


def check_conv2d(**sizes: int) -> str | None:
    """Say why the sizes are impossible, see `Conv2d.problem`; None if they are fine."""
    return Conv2d(**sizes).problem()


def conv2d_nhwc(types: Types, **sizes: int) -> list[Tensor]:
    """2-D convolution, channels last, with dilation and groups."""
    X, K, Y = conv2d(Conv2d(**sizes), types, types.before("Y"))
    return [X, K, types.output(Y, "Y")]


def conv2d(
    sizes: Conv2d, types: Types, name: str, border: Expr | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """X, K and their convolution, which has the accumulator's type and is called `name`.

    The border is filled with `border`, by default 0.
    """
    groups, stride, dilation = sizes.groups, sizes.stride, sizes.dilation
    group_in, group_out = sizes.CI // groups, sizes.CO // groups
    X = te.placeholder((sizes.N, sizes.H, sizes.W, sizes.CI), types.inputs, name="X")
    K = te.placeholder((sizes.KH, sizes.KW, group_in, sizes.CO), types.weights, name="K")
    P = pad(X, {1: sizes.padding, 2: sizes.padding}, border)
    rh = te.reduce_axis((0, sizes.KH), name="rh")
    rw = te.reduce_axis((0, sizes.KW), name="rw")
    rc = te.reduce_axis((0, group_in), name="rc")
    Y = te.compute(
        sizes.output_shape(),
        lambda n, h, w, co: te.sum(
            types.wide(
                P[
                    n,
                    h * stride + rh * dilation,
                    w * stride + rw * dilation,
                    rc if groups == 1 else co // group_out * group_in + rc,
                ]
            )
            * types.wide(K[rh, rw, rc, co]),
            axis=[rh, rw, rc],
        ),
        name=name,
        attrs=layout_free(K),
    )
    return X, K, Y


def conv2d_nhwc_reference(inputs: Sequence[Array], **sizes: int) -> list[Array]:
    """NumPy reference of `conv2d_nhwc`."""
    s = Conv2d(**sizes)
    X, K = inputs
    padded = pad_array(X, {1: s.padding, 2: s.padding})
    view = windows(padded, (1, 2), (s.KH, s.KW), s.stride, s.dilation)
    n, h, w = view.shape[:3]
    view = view.reshape(n, h, w, s.groups, s.CI // s.groups, s.KH, s.KW)
    K = K.reshape(s.KH, s.KW, s.CI // s.groups, s.groups, s.CO // s.groups)
    Y = np.einsum("nhwgcrs,rscgo->nhwgo", view, K, optimize=True)
    return [Y.reshape(n, h, w, s.CO)]


def check_conv3d(
    N: int, D: int, H: int, W: int, CI: int, CO: int, K: int, stride: int, padding: int
) -> str | None:
    """Say why the window does not fit; None if it does."""
    return window_problem({"D": D, "H": H, "W": W}, K, padding)


def conv3d_ndhwc(
    N: int,
    D: int,
    H: int,
    W: int,
    CI: int,
    CO: int,
    K: int,
    stride: int,
    padding: int,
    types: Types,
) -> list[Tensor]:
    """3-D convolution, channels last."""
    X = te.placeholder((N, D, H, W, CI), types.inputs, name="X")
    weight = te.placeholder((K, K, K, CI, CO), types.weights, name="K")
    P = pad(X, {1: padding, 2: padding, 3: padding})
    rd, rh, rw = (te.reduce_axis((0, K), name=name) for name in ("rd", "rh", "rw"))
    rc = te.reduce_axis((0, CI), name="rc")
    sizes = [output_size(size, K, stride, padding) for size in (D, H, W)]
    Y = te.compute(
        (N, *sizes, CO),
        lambda n, d, h, w, co: te.sum(
            types.wide(P[n, d * stride + rd, h * stride + rh, w * stride + rw, rc])
            * types.wide(weight[rd, rh, rw, rc, co]),
            axis=[rd, rh, rw, rc],
        ),
        name=types.before("Y"),
        attrs=layout_free(weight),
    )
    return [X, weight, types.output(Y, "Y")]


def conv3d_ndhwc_reference(
    inputs: Sequence[Array],
    N: int,
    D: int,
    H: int,
    W: int,
    CI: int,
    CO: int,
    K: int,
    stride: int,
    padding: int,
) -> list[Array]:
    """NumPy reference of `conv3d_ndhwc`."""
    X, weight = inputs
    padded = pad_array(X, {1: padding, 2: padding, 3: padding})
    view = windows(padded, (1, 2, 3), (K, K, K), stride)
    return [np.einsum("ndhwcxyz,xyzco->ndhwo", view, weight, optimize=True)]


def check_square(H: int, W: int, K: int, padding: int, **others: int) -> str | None:
    """Say why the K x K window does not fit; None if it does."""
    return window_problem({"H": H, "W": W}, K, padding)


def depthwise_conv2d_nhwc(
    N: int, H: int, W: int, C: int, K: int, stride: int, padding: int, types: Types
) -> list[Tensor]:
    """Depthwise 2-D convolution, channels last."""
    X = te.placeholder((N, H, W, C), types.inputs, name="X")
    weight = te.placeholder((K, K, C), types.weights, name="K")
    P = pad(X, {1: padding, 2: padding})
    rh = te.reduce_axis((0, K), name="rh")
    rw = te.reduce_axis((0, K), name="rw")
    Y = te.compute(
        (N, output_size(H, K, stride, padding), output_size(W, K, stride, padding), C),
        lambda n, h, w, c: te.sum(
            types.wide(P[n, h * stride + rh, w * stride + rw, c]) * types.wide(weight[rh, rw, c]),
            axis=[rh, rw],
        ),
        name=types.before("Y"),
        attrs=layout_free(weight),
    )
    return [X, weight, types.output(Y, "Y")]


def depthwise_conv2d_nhwc_reference(
    inputs: Sequence[Array], N: int, H: int, W: int, C: int, K: int, stride: int, padding: int
) -> list[Array]:
    """NumPy reference of `depthwise_conv2d_nhwc`."""
    X, weight = inputs
    view = windows(pad_array(X, {1: padding, 2: padding}), (1, 2), (K, K), stride)
    return [np.einsum("nhwcrs,rsc->nhwc", view, weight, optimize=True)]
