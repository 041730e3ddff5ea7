"""The built-in workloads by name: definitions with NumPy references.

workload = workloads.get("matmul")
tensors = workload.tensors(M=512, N=512, K=512)      # [A, B, C]: inputs, then outputs
inputs = workload.inputs(seed=0, M=512, N=512, K=512)
outputs = workload.reference(inputs, M=512, N=512, K=512)
"""

from __future__ import annotations

import difflib

from autosched.errors import ConfigError
from autosched.workloads import (
    added_vectors,
    convolution,
    convolution_variants,
    elementwise,
    matmul,
    pooling,
    requantised,
    winograd,
)
from autosched.workloads.type_rules import EVERY, FLOATS, TypeRules
from autosched.workloads.workload import Workload, random_inputs, shape_of

__all__ = ["WORKLOADS", "Workload", "get", "random_inputs", "shape_of"]


def _args(required: str, **defaults: int) -> dict[str, int | None]:
    return {**dict.fromkeys(required.split()), **defaults}


PRODUCTS = TypeRules(weights=True)

WORKLOADS: dict[str, Workload] = {
    "matmul": Workload(
        "matmul",
        "C[i,j] = sum_k A[i,k]*B[k,j]",
        _args("M N K"),
        matmul.matmul,
        matmul.matmul_reference,
        types=PRODUCTS,
    ),
    "batch_matmul": Workload(
        "batch_matmul",
        "Z[b,i,j] = sum_k X[b,i,k]*Y[b,k,j]",
        _args("B M N K"),
        matmul.batch_matmul,
        matmul.batch_matmul_reference,
        types=PRODUCTS,
    ),
    "dense_bias_relu": Workload(
        "dense_bias_relu",
        "relu(A(M,K) @ W(N,K)^T + bias(N))",
        _args("M N K"),
        matmul.dense_bias_relu,
        matmul.dense_bias_relu_reference,
        types=PRODUCTS,
        draw=added_vectors.bias_inputs,
    ),
    "conv1d_nlc": Workload(
        "conv1d_nlc",
        "1-D convolution of X(N,L,CI) with W(K,CI,CO)",
        _args("N L CI CO K stride padding"),
        convolution.conv1d_nlc,
        convolution.conv1d_nlc_reference,
        types=PRODUCTS,
        check=convolution.check_conv1d,
    ),
    "conv2d_nhwc": Workload(
        "conv2d_nhwc",
        "2-D convolution of X(N,H,W,CI) with K(KH,KW,CI/groups,CO)",
        _args("N H W CI CO KH KW stride padding", dilation=1, groups=1),
        convolution.conv2d_nhwc,
        convolution.conv2d_nhwc_reference,
        types=PRODUCTS,
        check=convolution.check_conv2d,
    ),
    "conv3d_ndhwc": Workload(
        "conv3d_ndhwc",
        "3-D convolution of X(N,D,H,W,CI) with K(K,K,K,CI,CO)",
        _args("N D H W CI CO K stride padding"),
        convolution.conv3d_ndhwc,
        convolution.conv3d_ndhwc_reference,
        types=PRODUCTS,
        check=convolution.check_conv3d,
    ),
    "depthwise_conv2d_nhwc": Workload(
        "depthwise_conv2d_nhwc",
        "depthwise 2-D convolution of X(N,H,W,C) with K(K,K,C)",
        _args("N H W C K stride padding"),
        convolution.depthwise_conv2d_nhwc,
        convolution.depthwise_conv2d_nhwc_reference,
        types=PRODUCTS,
        check=convolution.check_square,
    ),
    "conv2d_transpose_nhwc": Workload(
        "conv2d_transpose_nhwc",
        "transposed 2-D convolution of X(N,H,W,CI) with K(K,K,CI,CO)",
        _args("N H W CI CO K stride padding"),
        convolution_variants.conv2d_transpose_nhwc,
        convolution_variants.conv2d_transpose_nhwc_reference,
        types=PRODUCTS,
        check=convolution_variants.check_transpose,
    ),
    "conv2d_capsule_nhwijc": Workload(
        "conv2d_capsule_nhwijc",
        "2-D convolution of X(N,H,W,CAP,CAP,CI) with K(K,K,CAP,CAP,CI,CO)",
        _args("N H W CI CO K stride padding", CAP=4),
        convolution_variants.conv2d_capsule_nhwijc,
        convolution_variants.conv2d_capsule_nhwijc_reference,
        types=PRODUCTS,
        check=convolution.check_square,
    ),
    "norm_bmn": Workload(
        "norm_bmn",
        "D[b] = sqrt(sum_ij A[b,i,j]^2)",
        _args("B M N"),
        elementwise.norm_bmn,
        elementwise.norm_bmn_reference,
        types=TypeRules(FLOATS, floats=True),
        draw=elementwise.norm_inputs,
    ),
    "conv2d_winograd_nhwc": Workload(
        "conv2d_winograd_nhwc",
        "3x3 convolution of X(N,H,W,CI) by Winograd's algorithm with U(tile+2,tile+2,CI,CO)",
        _args("N H W CI CO", padding=1, tile=4, bias=0, relu=0),
        winograd.conv2d_winograd_nhwc,
        winograd.conv2d_winograd_nhwc_reference,
        types=TypeRules(winograd.TYPES, floats=True, sums=winograd.TYPES),
        choices={"tile": winograd.TILES, "bias": (0, 1), "relu": (0, 1)},
        check=winograd.check_winograd,
        draw=winograd.winograd_inputs,
    ),
    "conv2d_nchw_bn_relu": Workload(
        "conv2d_nchw_bn_relu",
        "2-D convolution of X(N,CI,H,W) with K(CO,CI,K,K), bias, scale, offset, relu",
        _args("N H W CI CO K stride padding"),
        convolution_variants.conv2d_nchw_bn_relu,
        convolution_variants.conv2d_nchw_bn_relu_reference,
        types=PRODUCTS,
        check=convolution.check_square,
        draw=added_vectors.bias_inputs,
    ),
    "dense_requantised": Workload(
        "dense_requantised",
        "A(M,K) @ W(N,K)^T of 8-bit integers, bias(N), relu, scale(N) back to 8 bits",
        _args("M N K", y_zero=0, relu=1),
        requantised.dense_requantised,
        requantised.dense_requantised_reference,
        types=TypeRules((), weights=True),
        least={"y_zero": -128},
        choices={"relu": (0, 1)},
        values={"y_zero": "out"},
        draw=requantised.draw,
    ),
    "conv2d_nhwc_requantised": Workload(
        "conv2d_nhwc_requantised",
        "conv2d_nhwc of 8-bit integers, bias(CO), relu, scale(CO) back to 8 bits",
        _args("N H W CI CO KH KW stride padding", dilation=1, groups=1, x_zero=0, y_zero=0, relu=1),
        requantised.conv2d_nhwc_requantised,
        requantised.conv2d_nhwc_requantised_reference,
        types=TypeRules((), weights=True),
        least={"padding": 0, "x_zero": -128, "y_zero": -128},
        choices={"relu": (0, 1)},
        values={"x_zero": "inputs", "y_zero": "out"},
        check=requantised.check_conv2d_requantised,
        draw=requantised.draw,
    ),
    "softmax": Workload(
        "softmax",
        "softmax over the rows of A(M,N)",
        _args("M N"),
        elementwise.softmax,
        elementwise.softmax_reference,
        types=TypeRules(FLOATS, floats=True),
        draw=elementwise.softmax_inputs,
    ),
    "transpose_batch_matmul_softmax": Workload(
        "transpose_batch_matmul_softmax",
        "attention weights softmax(Q K^T) of Q, K (B,S,H,D)",
        _args("B S H D"),
        matmul.transpose_batch_matmul_softmax,
        matmul.transpose_batch_matmul_softmax_reference,
        types=TypeRules(FLOATS, floats=True),
        draw=matmul.attention_inputs,
    ),
    "max_pool2d_nchw": Workload(
        "max_pool2d_nchw",
        "2-D maximum pooling of X(N,C,H,W)",
        _args("N C H W K stride padding"),
        pooling.max_pool2d_nchw,
        pooling.max_pool2d_nchw_reference,
        types=TypeRules(EVERY, moves=True),
        check=pooling.check_max_pool,
        draw=pooling.max_pool_inputs,
    ),
    "layer_norm": Workload(
        "layer_norm",
        "layer normalisation over the rows of A(M,N) with gamma(N), beta(N)",
        _args("M N"),
        elementwise.layer_norm,
        elementwise.layer_norm_reference,
        types=TypeRules(FLOATS, floats=True),
        draw=elementwise.layer_norm_inputs,
    ),
    "add_relu": Workload(
        "add_relu",
        "max(A + B, 0)",
        _args("M N"),
        elementwise.add_relu,
        elementwise.add_relu_reference,
    ),
}


def get(name: str) -> Workload:
    """The built-in workload `name`; ConfigError with a list of all names when there is none."""
    workload = WORKLOADS.get(name)
    if workload is None:
        close = difflib.get_close_matches(name, WORKLOADS, 1)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        raise ConfigError(
            f"unknown workload {name!r}{hint} The built-in ones are {', '.join(WORKLOADS)}"
        )
    return workload
