"""The operators of benchmarks/suite.py: what they compute, need, and are called in PyTorch.

`SUITE` has the twenty operators of the table, `MORE` a second, awkward size of each built-in
operator that is there only once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from autosched.target import Target
from autosched.task import Task
from autosched.workloads.workload import shape_of

EXP_STEPS = 11
"""Instructions of the shortest single-precision exponential that is known to err by less than a
unit in the last place (codegen/llvm_exp.py): a multiply-add and a subtraction for the multiple of
ln2 / 16, two multiply-adds that take it off, a limit, the table's entry, four for the polynomial
and its product with the entry, and the scaling. That is AVX-512. Without its tables and scaling it
takes eighteen, of which eleven as well are multiplications or multiply-adds: the seven others (two
limits, a difference, four shifts and integer operations) need none of the units whose peak is
measured, on cores that have others for them (Zen 3), so that no more is counted there."""

Call = Callable[[], Any]
Peer = Callable[[Any, list[Any], dict[str, Any]], Call]
"""(torch, inputs, arguments of the workload) -> the call that is timed."""


@dataclass(frozen=True)
class Operator:
    """One line of the table.

    `flops` are the operations that no kernel can do without; None: those of its definition. The
    peak counts a multiply-add as two, so each of the `singles`, operations that are no part of one
    (a maximum, a difference), takes as long as two; so do the steps of `exps` exponentials.
    `torch` makes the call of PyTorch.
    """

    name: str
    workload: str
    args: dict[str, Any]
    torch: Peer
    flops: float | None = None
    singles: float = 0
    exps: int = 0
    shapes: dict[str, list[int]] = field(default_factory=dict)  # of an expression

    @property
    def file(self) -> str:
        """The name of its file of records."""
        return "_".join(re.findall(r"\w+", self.name)) + ".jsonl"

    def task(self, target: Target) -> Task:
        """What is tuned."""
        if self.shapes:
            return Task.from_expression(self.workload, self.shapes, target=target)
        return Task.from_workload(self.workload, target=target, **self.args)

    def needed_flops(self, task: Task) -> float:
        """Operations that no kernel can do without, in those of the measured peak."""
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
    """N...C as torch's NC..., without moving anything."""
    return x.permute(0, x.dim() - 1, *range(1, x.dim() - 1))


def _convolution(torch: Any, inputs: list[Any], args: dict[str, Any]) -> Call:
    """Channels last; the weights in the order that PyTorch prefers."""
    x, weight = inputs
    spatial = weight.dim() - 2
    weight = weight.permute(spatial + 1, spatial, *range(spatial)).contiguous()
    if spatial == 2:
        weight = weight.contiguous(memory_format=torch.channels_last)
    x = _channels_last(torch, x)
    function = getattr(torch.nn.functional, f"conv{spatial}d")
    stride, padding = args["stride"], args["padding"]
    return lambda: function(x, weight, None, stride, padding).permute(0, *range(2, spatial + 2), 1)


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
    """As a convolution: (capsule column, channel in) to (capsule column, channel out).

    Rows of the capsules are images of their own.
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
    """Scale and offset are folded into the weights and the bias, as deployed models have them."""
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
    """In the reference's order (B * H, S, S)."""
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
    """No multiplication with the inserted zeros is needed."""
    args = _image(size, k, stride=2, CI=ci, CO=co)
    flops = 2.0 * size * size * k * k * ci * co
    return Operator(name, "conv2d_transpose_nhwc", args, _transposed, flops)


def _softmax_case(name: str, m: int, n: int) -> Operator:
    return Operator(name, "softmax", {"M": m, "N": n}, _softmax, 0.0, 4.0 * m * n, exps=m * n)


def _attention_case(name: str, b: int, s: int, h: int, d: int) -> Operator:
    """The product, then softmax of its rows."""
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


def _max_pool_case(name: str, c: int, size: int, stride: int) -> Operator:
    """Of 3 x 3 windows, the largest of rows first: two comparisons for each of three, then two."""
    rows = (size + 2 - 3) // stride + 1
    shared = min(3, stride)  # rows that the window above has not been through
    singles = (2.0 * shared + 2) * c * rows * rows
    args = _image(size, 3, stride, C=c)
    return Operator(name, "max_pool2d_nchw", args, _max_pool, 0.0, singles)


_RESIDUAL = "Y[i, j] = max(A[i, j] * S[j] + T[j], 0) + R[i, j]"


def _residual_case(name: str, m: int, n: int) -> Operator:
    shapes = {"A": [m, n], "S": [n], "T": [n], "R": [m, n]}
    return Operator(name, _RESIDUAL, {}, _residual, 2.0 * m * n, 2.0 * m * n, shapes=shapes)


def _matmul_case(name: str, m: int, n: int, k: int) -> Operator:
    return Operator(name, "matmul", {"M": m, "N": n, "K": k}, _matmul)


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
