"""The sum or product before a convolution of 1x1 windows, computed in its kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", "2.6", reason="models are for PyTorch 2.6 or later")
from kit.torch_models import Calls, Excited, agree, drawn, filled, nearer  # noqa: E402

nn = torch.nn
Tensor = Any


@pytest.mark.parametrize("more", [{}, {"stride": 2}, {"bias": False}, {"padding": "same"}])
def test_gate(more: Any) -> None:
    report = agree(filled(Excited(5, **more)), *drawn((2, 5, 13, 11))).report
    assert not report.left_out
    assert report.replaced[-1].kind == "mul+conv2d+add"


@pytest.mark.parametrize(
    "more", [{"window": 3, "padding": 1}, {"window": (1, 2)}, {"padding": 1}, {"groups": 1}]
)
def test_windows_without_gate(more: Any) -> None:
    model = filled(Excited(6, **more))
    report = agree(model, *drawn((1, 6, 13, 11))).report
    kinds = [each.kind for each in report.replaced]
    folded = more == {"groups": 1}
    assert ("mul+conv2d+add" in kinds) == folded
    assert [each.operation for each in report.left_out] == ([] if folded else ["mul"])


BEFORE: list[tuple[str, Callable[[Any, Tensor, Tensor], Tensor]]] = [
    ("mul+conv2d", lambda c, x, y: c(x * y)),
    ("add+conv2d", lambda c, x, y: c(x + y)),
    ("sub+conv2d", lambda c, x, y: c(y - x)),
    ("div+conv2d", lambda c, x, y: c(x / y)),
    ("neg+conv2d", lambda c, x, y: c(-x)),
    ("mul+conv2d", lambda c, x, y: c(x * x)),
    ("mul+conv2d", lambda c, x, y: c(0.5 * x)),
    ("mul+conv2d", lambda c, x, y: c(x * y[:1, :, :1, :1])),
    ("mul+conv2d", lambda c, x, y: c(x * y[0, 0, 0])),
    ("mul+conv2d", lambda c, x, y: c(x * y[0, 0, 0, 0])),
    ("mul+conv2d", lambda c, x, y: c(x * y.mean((2, 3))[:, :, None, None].expand_as(x))),
    ("mul+conv2d", lambda c, x, y: c(x[..., 1:] * y[..., :-1])),
    ("mul+conv2d", lambda c, x, y: c(x.transpose(2, 3) * y.transpose(2, 3))),
    ("mul+conv2d+add", lambda c, x, y: c(x * y) + y[:, :1]),
]


@pytest.mark.parametrize(("kind", "function"), BEFORE)
def test_operations(kind: str, function: Any) -> None:
    x, y = drawn((2, 4, 13, 11), (2, 4, 13, 11))
    report = agree(filled(Calls(function, nn.Conv2d(4, 3, 1))), x, y, tolerance=1e-4).report
    assert kind in [each.kind for each in report.replaced]
    assert not report.left_out


def test_one_and_three_dimensions() -> None:
    def function(line: Any, solid: Any, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return line(x * x[:, :, :1]), solid(y * y[:, :, :1, :1, :1])

    model = filled(Calls(function, nn.Conv1d(6, 4, 1), nn.Conv3d(2, 3, 1)))
    replaced = agree(model, *drawn((2, 6, 131), (1, 2, 3, 7, 7))).report.replaced
    assert [each.kind for each in replaced] == ["mul+conv1d", "mul+conv3d"]


@pytest.mark.parametrize(
    ("function", "kinds"),
    [
        (lambda c, d, x: (lambda z: c(z) + d(z))(x * x[:, :, :1, :1]), ["conv2d", "conv2d+add"]),
        (lambda c, d, x: (lambda z: (c(z), z))(x * x[:, :, :1, :1]), ["conv2d"]),
        (lambda c, d, x: c((x * x[:, :, :1, :1]).relu()), ["mul+relu", "conv2d"]),
        (lambda c, d, x: c(x.tanh() * x[:, :, :1, :1]), ["tanh+mul", "conv2d"]),
        (lambda c, d, x: c(d(x) * x), ["conv2d+mul", "conv2d"]),
        (lambda c, d, x: c(torch.cat((x[:, :1], x[:, 1:]), 1) * x), ["cat+mul", "conv2d"]),
        (lambda c, d, x: c(x * torch.cat((x[:, :1, :1], x[:, 1:, :1]), 1)), ["conv2d"]),
        (lambda c, d, x: c(x * (x > 0)), ["gt+mul", "conv2d"]),
    ],
)
def test_what_stays_apart(function: Any, kinds: list[str]) -> None:
    """What is read elsewhere, belongs to the kernel before or to a chain, or to PyTorch."""
    (x,) = drawn((2, 4, 13, 11))
    model = filled(Calls(function, nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)))
    replaced = agree(model, x, tolerance=1e-4).report.replaced
    assert sorted(each.kind for each in replaced) == sorted(kinds)


@pytest.mark.parametrize(
    ("shape", "format"),
    [((2, 4, 7, 7), torch.contiguous_format), ((2, 4, 13, 11), torch.channels_last)],
)
def test_images_without_gain(shape: Any, format: Any) -> None:
    model = filled(Excited(4)).to(memory_format=format)
    (x,) = drawn(shape)
    report = agree(model, x.to(memory_format=format)).report
    assert [each.operation for each in report.left_out] == ["mul"]


def test_groups() -> None:
    model = filled(Calls(lambda c, x: c(x * x[:, :, :1, :1]), nn.Conv2d(4, 4, 1, groups=2)))
    assert [each.kind for each in agree(model, *drawn((1, 4, 13, 11))).report.replaced] == [
        "conv2d"
    ]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_16_bits(dtype: Any) -> None:
    """The product is rounded, as PyTorch's is."""
    model = Calls(lambda c, x: c(x * x[:, :, :1, :1].sigmoid()), nn.Conv2d(5, 4, 1))
    fast = nearer(filled(model), dtype, *drawn((2, 5, 13, 11)))
    assert [each.kind for each in fast.report.replaced] == ["mul+conv2d"]


def test_place() -> None:
    """A task is told where its convolution is."""
    fast = agree(filled(Excited(4)), *drawn((1, 4, 13, 11)))
    assert fast.report.replaced[-1].place == "together"
