"""Sums and means, and root mean square normalisation as models write it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", "2.6", reason="models are for PyTorch 2.6 or later")
from kit.torch_models import Calls, agree, drawn, nearer  # noqa: E402

Tensor = Any

REDUCTIONS: list[tuple[str, Callable[[Tensor], Tensor]]] = [
    ("mean X[6, 20]", lambda x: x.mean((2, 3))),
    ("mean X[6, 20]", lambda x: x.mean((-1, 2), keepdim=True)),
    ("sum+relu X[2, 3, 20]", lambda x: x.sum(1).relu()),
    ("sum+mul X[2, 3, 4, 5]", lambda x: x.sum((0, 2), keepdim=True) * 2),
    ("mean+add X[1, 120]", lambda x: x.mean() + 1),
    ("sum X[1, 120]", lambda x: x.sum()),
    ("sum X[1, 120]", lambda x: x.sum((0, 1, 2, 3), keepdim=True)),
]


def test_sums_and_means() -> None:
    model = Calls(lambda x: tuple(function(x) for _, function in REDUCTIONS)).eval()
    report = agree(model, *drawn((2, 3, 4, 5))).report
    assert [f"{r.kind} {r.inputs}" for r in report.replaced] == [wanted for wanted, _ in REDUCTIONS]
    assert not report.left_out


def square(x: Tensor) -> Tensor:
    return x.square().mean(-1, keepdim=True)


NORMS: list[Callable[[Tensor, Tensor], Tensor]] = [
    lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-3) * w,
    lambda x, w: w * (torch.rsqrt(1e-3 + x.square().mean(2, True)) * x),
    lambda x, w: x / (1e-3 + (x * x).mean((1, 2), True)).sqrt() * w,  # of rows of 24
]


def test_root_mean_squares_that_are_written_out() -> None:
    model = Calls(lambda x, w: tuple(function(x, w) for function in NORMS)).eval()
    report = agree(model, *drawn((2, 3, 8), (8,))).report
    assert [f"{r.kind} {r.inputs}" for r in report.replaced] == [
        "rms_norm+mul X[6, 8] R[8]",
        "rms_norm+mul X[6, 8] R[8]",
        "rms_norm X[2, 24]",
    ]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_root_mean_squares_in_float32(dtype: Any) -> None:
    def function(x: Tensor, w: Tensor) -> Tensor:
        wide = x.float()
        return w * (wide * torch.rsqrt(square(wide) + 1e-3)).to(x.dtype)

    model, inputs = Calls(function).eval(), drawn((6, 32), (32,))
    name = str(dtype).removeprefix("torch.")
    (replaced,) = nearer(model, dtype, *inputs).report.replaced
    assert f"{replaced.kind} {replaced.inputs}" == f"rms_norm+to_{name}+mul {name} X[6, 32] R[32]"


OTHERS: list[Callable[[Tensor, Tensor], Any]] = [
    lambda x, y: x * torch.rsqrt(x.square().mean(0, keepdim=True) + 1e-3),  # of columns
    lambda x, y: x * torch.rsqrt(x.square().mean(-1) + 1e-3),
    lambda x, y: y * torch.rsqrt(square(x) + 1e-3),  # of another
    lambda x, y: (lambda m: (x * torch.rsqrt(m + 1e-3), m))(square(x)),  # which is read again
    lambda x, y: (lambda s: (x * torch.rsqrt(s.mean(-1, True) + 1e-3), s))(x.square()),
    lambda x, y: (square(x) + 1e-3).sqrt() / x,
    lambda x, y: x * (square(x) + 1e-3).sqrt(),
    lambda x, y: x * torch.rsqrt(x.abs().pow(3).mean(-1, True) + 1e-3),
    lambda x, y: x * torch.rsqrt((x * y).mean(-1, True).abs() + 1e-3),
    lambda x, y: x * torch.rsqrt(torch.add(square(x), 1e-3, alpha=2)),
    lambda x, y: x[:1] * torch.rsqrt(square(x) + 1e-3),
    lambda x, y: (lambda r: r * r)(torch.rsqrt(square(x) + 1e-3)),
    lambda x, y: x * torch.rsqrt(square(x) + y[:, :1].square()),
    lambda x, y: [part.mean(-1, keepdim=True) + 1 for part in x.chunk(2, -1)],
]


@pytest.mark.parametrize("function", OTHERS)
def test_what_is_no_normalisation(function: Callable[[Tensor, Tensor], Any]) -> None:
    report = agree(Calls(function).eval(), *drawn((8, 8), (8, 8)), tolerance=1e-4).report
    assert not any("rms_norm" in r.kind for r in report.replaced)
