"""The operators of benchmarks/suite.py: computation, needed operations, and call in PyTorch.

`SUITE` has the twenty operators of the table. `MORE` has a second, awkward size of each built-in
operator that is there only once. `OTHERS` has shapes of networks that the other lists lack: one row
or column, little reuse, few channels, short and long rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autosched.target import Target
from autosched.task import Task
from autosched.workloads.winograd import matrices
from autosched.workloads.workload import shape_of

EXP_STEPS = 11
"""The instructions that count for an exponential.

They are those of the shortest single-precision exponential that is known to err by less than a unit
in the last place (codegen/llvm_exp.py): a multiply-add and a subtraction for the multiple of ln2 /
16, two multiply-adds that subtract it, a limit, the table's entry, four for the polynomial and its
product with the entry, and the scaling. That is AVX-512. Without its tables and scaling the
function takes eighteen instructions, eleven of which are also multiplications or multiply-adds. The
seven others (two limits, a difference, four shifts and integer operations) need none of the units
whose peak is measured, on cores that have others for them (Zen 3), so that they do not count.
"""

Call = Callable[[], Any]
Peer = Callable[[Any, list[Any], dict[str, Any]], Call]
"""A function of (torch, inputs, arguments of the workload) that returns the call to time."""


@dataclass(frozen=True)
class Operator:
    """One line of the table.

    `flops` is the number of operations that no kernel can do without; None for those of the
    definition. The peak counts a multiply-add as two operations. Each of the `singles`, operations
    that are not part of a multiply-add (a maximum, a difference), takes as long as two, and so does
    each step of the `exps` exponentials. `torch` makes the call of PyTorch.
    """

    name: str
    workload: str
    args: dict[str, Any]
    torch: Peer
    flops: float | None = None
    singles: float = 0
    exps: int = 0
    shapes: dict[str, list[int]] = field(default_factory=dict)  # shapes of an expression's tensors

    @property
    def file(self) -> str:
        """The name of the operator's record file."""
        return "_".join(re.findall(r"\w+", self.name)) + ".jsonl"

    def task(self, target: Target) -> Task:
        """The task to tune."""
        if self.shapes:
            return Task.from_expression(self.workload, self.shapes, target=target)
        return Task.from_workload(self.workload, target=target, **self.args)

    def needed_flops(self, task: Task) -> float:
        """The operations that no kernel can do without, counted as the measured peak counts."""
        flops = task.dag.flop_count if self.flops is None else self.flops
        return flops + 2 * (self.singles + EXP_STEPS * self.exps)


def moved_bytes(task: Task) -> tuple[int, int]:
    """The bytes of all inputs, and of all outputs."""
    sizes = [math.prod(shape_of(t)) * t.dtype.bits // 8 for t in task.tensors]
    return sum(sizes[: -task.num_outputs]), sum(sizes[-task.num_outputs :])


# -- in PyTorch -----------------------------------------------------------------------------------


def _matmul(torch: Any, inputs: list[Any], args: dict[str, Any]) -> Call:
    a, b = inputs
    out = torch.empty(*a.shape[:-1], b.shape[-1])
    return lambda: torch.matmul(a, b, out=out)


def _dense(torch: Any, inputs: list[Any], args: dict[str, Any]) -> Call:
    a, weight, bias = inputs
    return lambda: torch.relu_(torch.nn.functional.linear(a, weight, bias))


def _channels_last(torch: Any, x: Any) -> Any:
    """A view of N...C as torch's NC..., without moving data."""
    return x.permute(0, x.dim() - 1, *range(1, x.dim() - 1))


def _convolution(torch: Any, inputs: list[Any], args: dict[str, Any]) -> Call:
    """A channels-last convolution, with the weights in the order that PyTorch prefers."""
    x, weight = inputs
    spatial = weight.dim() - 2
    weight = weight.permute(spatial + 1, spatial, *range(spatial)).contiguous()
    if spatial == 2:
        weight = weight.contiguous(memory_format=torch.channels_last)
    x = _channels_last(torch, x)
    function = getattr(torch.nn.functional, f"conv{spatial}d")
    stride, padding = args["stride"], args["padding"]
    return lambda: function(x, weight, None, stride, padding).permute(0, *range(2, spatial + 2), 1)


def _winograd(torch: Any, inputs: list[Any], args: dict[str, Any]) -> Call:
    """A convolution with the weights from which the transformed ones were made."""
    _, weights, _ = matrices(args["tile"])
    back = torch.from_numpy(np.linalg.pinv(weights).astype(np.float32))
    weight = torch.einsum("re,sf,efio->rsio", back, back, inputs[1])
    return _convolution(torch, [inputs[0], weight], {"stride": 1, "padding": args["padding"]})


def _depthwise(torch: Any, inputs: list[Any], args: dict[str, Any]) -> Call:
    x, weight = _channels_last(torch, inputs[0]), inputs[1]
    weight = weight.permute(2, 0, 1)[:, None].contiguous(memory_format=torch.channels_last)
    stride, padding, groups = args["stride"], args["padding"], weight.shape[0]
    return lambda: torch.nn.functional.conv2d(x, weight, None, stride, padding, 1, groups).permute(
        0, 2, 3, 1
    )


def _transposed(torch: Any, inputs: list[Any], args: dict[str, Any]) -> Call:
    x, weight = _channels_last(torch, inputs[0]), inputs[1].permute(2, 3, 0, 1)
    weight = weight.contiguous(memory_format=torch.channels_last)
    stride, padding = args["stride"], args["padding"]
    return lambda: torch.nn.functional.conv_transpose2d(x, weight, None, stride, padding).permute(
        0, 2, 3, 1
    )


def _capsule(torch: Any, inputs: list[Any], args: dict[str, Any]) -> Call:
    """A convolution from (capsule column, channel in) to (capsule column, channel out).

    Rows of the capsules are separate images.
    """
    x, weight = inputs
    n, h, w, cap, _, ci = x.shape
    k, co = weight.shape[0], weight.shape[-1]
    weight = weight.permute(3, 5, 2, 4, 0, 1).reshape(cap * co, cap * ci, k, k)
    weight = weight.contiguous(memory_format=torch.channels_last)
    stride, padding = args["stride"], args["padding"]

    def call() -> Any:
        rows = x.permute(0, 3, 1, 2, 4, 5).reshape(n * cap, h, w, cap * ci)
        y = torch.nn.functional.conv2d(rows.permute(0, 3, 1, 2), weight, None, stride, padding)
        height, width = y.shape[2:]
        y = y.permute(0, 2, 3, 1).reshape(n, cap, height, width, cap, co)
        return y.permute(0, 2, 3, 1, 4, 5).contiguous()

    return call


def _batch_norm(torch: Any, inputs: list[Any], args: dict[str, Any]) -> Call:
    """A convolution with scale and offset folded into weights and bias, as in deployed models."""
    x, weight, bias, scale, offset = inputs
    weight = weight * scale[:, None, None, None]
    bias = bias * scale + offset
    stride, padding = args["stride"], args["padding"]
    return lambda: torch.relu_(torch.nn.functional.conv2d(x, weight, bias, stride, padding))


def _norm(torch: Any, inputs: list[Any], args: dict[str, Any]) -> Call:
    rows = inputs[0].reshape(inputs[0].shape[0], -1)
    return lambda: torch.linalg.vector_norm(rows, dim=1)


def _softmax(torch: Any, inputs: list[Any], args: dict[str, Any]) -> Call:
    (a,) = inputs
    out = torch.empty_like(a)
    return lambda: torch.softmax(a, 1, out=out)


def _attention(torch: Any, inputs: list[Any], args: dict[str, Any]) -> Call:
    """The attention weights in the reference's order (B * H, S, S)."""
    q, k = inputs
    s = q.shape[1]

    def call() -> Any:
        scores = torch.matmul(q.permute(0, 2, 1, 3), k.permute(0, 2, 3, 1))
        return torch.softmax(scores, -1).reshape(-1, s, s)

    return call


def _max_pool(torch: Any, inputs: list[Any], args: dict[str, Any]) -> Call:
    (x,) = inputs
    k, stride, padding = args["K"], args["stride"], args["padding"]
    return lambda: torch.nn.functional.max_pool2d(x, k, stride, padding)


def _layer_norm(torch: Any, inputs: list[Any], args: dict[str, Any]) -> Call:
    a, gamma, beta = inputs
    return lambda: torch.nn.functional.layer_norm(a, gamma.shape, gamma, beta, 1e-5)


def _add_relu(torch: Any, inputs: list[Any], args: dict[str, Any]) -> Call:
    a, b = inputs
    out = torch.empty_like(a)

    def call() -> Any:
        torch.add(a, b, out=out)
        return torch.relu_(out)

    return call


def _residual(torch: Any, inputs: list[Any], args: dict[str, Any]) -> Call:
    a, scale, offset, rest = inputs
    out = torch.empty_like(a)

    def call() -> Any:
        torch.addcmul(offset, a, scale, out=out)
        return torch.relu_(out).add_(rest)

    return call


# -- the lists ------------------------------------------------------------------------------------


def _image(size: int, k: int, stride: int = 1, padding: int = 1, **others: int) -> dict[str, Any]:
    window = {"K": k, "stride": stride, "padding": padding}
    return {"N": 1, "H": size, "W": size, **window, **others}


def _conv2d(size: int, ci: int, co: int, stride: int = 1) -> dict[str, Any]:
    image = {"N": 1, "H": size, "W": size, "stride": stride, "padding": 1}
    return {**image, "CI": ci, "CO": co, "KH": 3, "KW": 3}


def _transposed_case(name: str, size: int, ci: int, co: int, k: int) -> Operator:
    """A transposed convolution; multiplications with the inserted zeros do not count."""
    args = _image(size, k, stride=2, CI=ci, CO=co)
    flops = 2.0 * size * size * k * k * ci * co
    return Operator(name, "conv2d_transpose_nhwc", args, _transposed, flops)


def _softmax_case(name: str, m: int, n: int) -> Operator:
    return Operator(name, "softmax", {"M": m, "N": n}, _softmax, 0.0, 4.0 * m * n, exps=m * n)


def _attention_case(name: str, b: int, s: int, h: int, d: int) -> Operator:
    """The product and then the softmax of its rows."""
    scores = b * h * s * s
    args = {"B": b, "S": s, "H": h, "D": d}
    return Operator(
        name,
        "transpose_batch_matmul_softmax",
        args,
        _attention,
        flops=2.0 * d * scores,
        singles=4.0 * scores,
        exps=scores,
    )


def _max_pool_case(
    name: str, c: int, size: int, stride: int, k: int = 3, padding: int = 1
) -> Operator:
    """A max pooling over k x k windows, whose maxima are taken over rows first.

    Each row of a window takes k - 1 comparisons, and so do all rows of it together.
    """
    rows = (size + 2 * padding - k) // stride + 1
    new = min(k, stride)  # rows that the window above did not contain
    singles = (new + 1.0) * (k - 1) * c * rows * rows
    args = _image(size, k, stride, padding, C=c)
    return Operator(name, "max_pool2d_nchw", args, _max_pool, 0.0, singles)


_RESIDUAL = "Y[i, j] = max(A[i, j] * S[j] + T[j], 0) + R[i, j]"


def _residual_case(name: str, m: int, n: int) -> Operator:
    shapes = {"A": [m, n], "S": [n], "T": [n], "R": [m, n]}
    return Operator(name, _RESIDUAL, {}, _residual, 2.0 * m * n, 2.0 * m * n, shapes=shapes)


def _matmul_case(name: str, m: int, n: int, k: int) -> Operator:
    return Operator(name, "matmul", {"M": m, "N": n, "K": k}, _matmul)


def _winograd_case(name: str, size: int, channels: int) -> Operator:
    """A Winograd convolution; only the products of the tiles' elements count."""
    args = {"N": 1, "H": size, "W": size, "CI": channels, "CO": channels, "padding": 1, "tile": 4}
    flops = 2.0 * 36 * (-(-size // 4)) ** 2 * channels**2
    return Operator(name, "conv2d_winograd_nhwc", args, _winograd, flops)


def _conv2d_case(name: str, size: int, ci: int, co: int, k: int, **others: int) -> Operator:
    """A k x k convolution whose border keeps the size, unless `others` say otherwise."""
    args = {**_conv2d(size, ci, co), "KH": k, "KW": k, "padding": k // 2, **others}
    return Operator(name, "conv2d_nhwc", args, _convolution)


def _depthwise_case(name: str, size: int, k: int, c: int, stride: int = 1) -> Operator:
    args = _image(size, k, stride, k // 2, C=c)
    return Operator(name, "depthwise_conv2d_nhwc", args, _depthwise)


def _batch_norm_case(name: str, size: int, ci: int, co: int, stride: int = 1) -> Operator:
    return Operator(name, _BN, _image(size, 3, stride, CI=ci, CO=co), _batch_norm)


def _conv1d(length: int, ci: int, co: int, k: int, stride: int) -> dict[str, Any]:
    size = {"N": 1, "L": length, "CI": ci, "CO": co}
    return {**size, "K": k, "stride": stride, "padding": k // 2}


def _batch(b: int, m: int, n: int, k: int) -> dict[str, Any]:
    return {"B": b, "M": m, "N": n, "K": k}


def _rows(m: int, n: int, k: int | None = None) -> dict[str, Any]:
    return {"M": m, "N": n, **({} if k is None else {"K": k})}


def _conv3d(depth: int, size: int, ci: int, co: int) -> dict[str, Any]:
    return _image(size, 3, D=depth, CI=ci, CO=co)


def _capsules(size: int, ci: int, co: int, stride: int) -> dict[str, Any]:
    return _image(size, 3, stride, CI=ci, CO=co, CAP=4)


_BN = "conv2d_nchw_bn_relu"
_CAPSULE = "conv2d_capsule_nhwijc"

SUITE: tuple[Operator, ...] = (
    _matmul_case("matmul 1024", 1024, 1024, 1024),
    _matmul_case("matmul 500x1000x333", 500, 1000, 333),
    Operator("batch_matmul 12x128x128x64", "batch_matmul", _batch(12, 128, 128, 64), _matmul),
    Operator("dense 32x1000x2048", "dense_bias_relu", _rows(32, 1000, 2048), _dense),
    Operator("conv1d 256x64, 128", "conv1d_nlc", _conv1d(256, 64, 128, 3, 2), _convolution),
    Operator("conv2d 14x14x256, 256", "conv2d_nhwc", _conv2d(14, 256, 256), _convolution),
    Operator("conv2d 27x27x30, 50", "conv2d_nhwc", _conv2d(27, 30, 50), _convolution),
    Operator("conv3d 8x28x28x32, 32", "conv3d_ndhwc", _conv3d(8, 28, 32, 32), _convolution),
    Operator("depthwise 112x112x32", "depthwise_conv2d_nhwc", _image(112, 3, C=32), _depthwise),
    _transposed_case("transposed 8x8x256, 128", 8, 256, 128, 4),
    Operator("capsule 16x16x4x4x32", _CAPSULE, _capsules(16, 32, 32, 2), _capsule),
    Operator("conv2d_bn_relu 56x56x64", _BN, _image(56, 3, CI=64, CO=64), _batch_norm),
    Operator("norm 8x256x256", "norm_bmn", {"B": 8, "M": 256, "N": 256}, _norm),
    _softmax_case("softmax 1024x1024", 1024, 1024),
    _softmax_case("softmax 300x1001", 300, 1001),
    _attention_case("attention 12x128x64", 1, 128, 12, 64),
    _max_pool_case("max_pool 64x112x112", 64, 112, 2),
    Operator("layer_norm 512x768", "layer_norm", _rows(512, 768), _layer_norm),
    Operator("add_relu 1024x1024", "add_relu", _rows(1024, 1024), _add_relu),
    _residual_case("scale, relu, add 512x512", 512, 512),
)

MORE: tuple[Operator, ...] = (
    Operator("batch_matmul 7x97x65x63", "batch_matmul", _batch(7, 97, 65, 63), _matmul),
    Operator("dense 17x333x700", "dense_bias_relu", _rows(17, 333, 700), _dense),
    Operator("conv1d 250x30, 50", "conv1d_nlc", _conv1d(250, 30, 50, 5, 1), _convolution),
    Operator("conv3d 5x13x13x20, 28", "conv3d_ndhwc", _conv3d(5, 13, 20, 28), _convolution),
    Operator("depthwise 57x57x25", "depthwise_conv2d_nhwc", _image(57, 3, C=25), _depthwise),
    _transposed_case("transposed 7x7x100, 28", 7, 100, 28, 3),
    Operator("capsule 7x7x4x4x12", _CAPSULE, _capsules(7, 12, 20, 1), _capsule),
    Operator("conv2d_bn_relu 27x27x20", _BN, _image(27, 3, CI=20, CO=50), _batch_norm),
    Operator("norm 7x300x301", "norm_bmn", {"B": 7, "M": 300, "N": 301}, _norm),
    _attention_case("attention 5x100x50", 1, 100, 5, 50),
    _max_pool_case("max_pool 30x57x57", 30, 57, 1),
    Operator("layer_norm 197x1000", "layer_norm", _rows(197, 1000), _layer_norm),
    Operator("add_relu 501x333", "add_relu", _rows(501, 333), _add_relu),
    _residual_case("scale, relu, add 501x333", 501, 333),
)

OTHERS: tuple[Operator, ...] = (
    _winograd_case("winograd 14x14x256", 14, 256),
    _winograd_case("winograd 56x56x64", 56, 64),
    _matmul_case("matmul 1x4096x1024", 1, 4096, 1024),
    _matmul_case("matmul 4x512x512", 4, 512, 512),
    _matmul_case("matmul 4096x64x64", 4096, 64, 64),
    _matmul_case("matmul 64x64x4096", 64, 64, 4096),
    _matmul_case("matmul 128x3072x768", 128, 3072, 768),
    _matmul_case("matmul 1000x1x1000", 1000, 1, 1000),
    _matmul_case("matmul 31x33x35", 31, 33, 35),
    Operator("dense 1x1000x2048", "dense_bias_relu", _rows(1, 1000, 2048), _dense),
    Operator("dense 128x768x3072", "dense_bias_relu", _rows(128, 768, 3072), _dense),
    Operator("batch_matmul 12x128x64x128", "batch_matmul", _batch(12, 128, 64, 128), _matmul),
    Operator("batch_matmul 96x16x16x16", "batch_matmul", _batch(96, 16, 16, 16), _matmul),
    _conv2d_case("conv2d 224x224x3, 64 7x7 / 2", 224, 3, 64, 7, stride=2),
    _conv2d_case("conv2d 56x56x64, 256 1x1", 56, 64, 256, 1),
    _conv2d_case("conv2d 14x14x1024, 256 1x1", 14, 1024, 256, 1),
    _conv2d_case("conv2d 56x56x128, 128 / 2", 56, 128, 128, 3, stride=2),
    _conv2d_case("conv2d 7x7x512, 512", 7, 512, 512, 3),
    _conv2d_case("conv2d 28x28x32, 48 5x5", 28, 32, 48, 5),
    _conv2d_case("conv2d 4x14x14x64, 64", 14, 64, 64, 3, N=4),
    _depthwise_case("depthwise 112x112x96 / 2", 112, 3, 96, 2),
    _depthwise_case("depthwise 14x14x576", 14, 3, 576),
    _depthwise_case("depthwise 28x28x120 5x5", 28, 5, 120),
    _transposed_case("transposed 4x4x512, 256", 4, 512, 256, 4),
    _transposed_case("transposed 32x32x64, 3", 32, 64, 3, 4),
    _softmax_case("softmax 4096x10", 4096, 10),
    _softmax_case("softmax 8x30000", 8, 30000),
    Operator("layer_norm 4096x64", "layer_norm", _rows(4096, 64), _layer_norm),
    Operator("layer_norm 16x8192", "layer_norm", _rows(16, 8192), _layer_norm),
    _max_pool_case("max_pool 96x55x55 / 2", 96, 55, 2, padding=0),
    _max_pool_case("max_pool 64x56x56 2x2 / 2", 64, 56, 2, 2, 0),
    Operator("norm 1x1024x1024", "norm_bmn", {"B": 1, "M": 1024, "N": 1024}, _norm),
    _batch_norm_case("conv2d_bn_relu 7x7x512", 7, 512, 512),
    _batch_norm_case("conv2d_bn_relu 14x14x256", 14, 256, 256),
    _batch_norm_case("conv2d_bn_relu 224x224x3 / 2", 224, 3, 32, 2),
    Operator("conv1d 1000x16, 16 9", "conv1d_nlc", _conv1d(1000, 16, 16, 9, 1), _convolution),
    Operator("conv3d 4x56x56x3, 24", "conv3d_ndhwc", _conv3d(4, 56, 3, 24), _convolution),
    _attention_case("attention 12x384x64", 1, 384, 12, 64),
)
