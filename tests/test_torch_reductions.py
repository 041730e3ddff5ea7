"""Sums and means, and root mean square normalisation as models write it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", "2.9", reason="models are for PyTorch 2.9 or later")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from kit.torch_models import Calls, agree, drawn, filled, nearer  # noqa: E402

Tensor = Any

REDUCTIONS: list[tuple[str, Callable[[Tensor], Tensor]]] = [
    ("mean X[6, 20]", lambda x: x.mean((2, 3))),
    ("mean X[6, 20]", lambda x: x.mean((-1, 2), keepdim=True)),
    ("sum+relu X[2, 3, 20]", lambda x: x.sum(1).relu()),
    ("sum+mul X[2, 3, 4, 5]", lambda x: x.sum((0, 2), keepdim=True) * 2),
    ("mean+add X[1, 120]", lambda x: x.mean() + 1),
    ("sum X[1, 120]", lambda x: x.sum()),
    ("sum X[1, 120]", lambda x: x.sum((0, 1, 2, 3), keepdim=True)),
    ("vector_norm X[2, 12, 5]", lambda x: x.norm(dim=(1, 2))),
    ("vector_norm+clamp_min X[2, 3, 20]", lambda x: x.norm(dim=1, keepdim=True).clamp_min(2)),
    ("vector_norm X[1, 120]", lambda x: torch.linalg.vector_norm(x)),
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
        "rms_norm+mul X[2, 24] R[8]",
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


UNITS: list[tuple[str, Callable[[Tensor], Tensor]]] = [
    ("normalize X[2, 3, 4, 5]", lambda x: F.normalize(x, dim=1)),
    ("normalize+relu X[2, 3, 4, 5]", lambda x: F.normalize(x.permute(0, 2, 3, 1), dim=-1).relu()),
    ("normalize X[2, 3, 4, 5]", lambda x: x / x.norm(dim=-1, keepdim=True)),
    ("normalize+mul X[2, 3, 4, 5]", lambda x: F.normalize(x[:, 1:], dim=2, eps=2.0) * 2),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_vectors_divided_by_their_norm(dtype: Any) -> None:
    model, (x,) = Calls(lambda x: tuple(each(x) for _, each in UNITS)).eval(), drawn((2, 3, 4, 5))
    fast = agree(model, x) if dtype == torch.float32 else nearer(model, dtype, x)
    kinds = [f"{r.kind} {r.inputs}".replace("bfloat16 ", "") for r in fast.report.replaced]
    assert kinds == [wanted for wanted, _ in UNITS]
    assert not fast.report.left_out


def test_heads_of_a_cosine_attention() -> None:
    def function(linear: Any, x: Tensor) -> Tensor:
        q, k, v = linear(x).reshape(2, 5, 3, 4, 6).permute(2, 0, 3, 1, 4).unbind(0)
        return (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * 3).softmax(-1) @ v

    fast = agree(filled(Calls(function, nn.Linear(24, 72))), *drawn((2, 5, 24)))
    inputs = [r.inputs for r in fast.report.replaced if r.kind == "normalize"]
    assert inputs == ["X[2, 5, 12, 6]"] * 2
    assert not fast.report.left_out


NO_UNITS: list[Callable[[Tensor], Any]] = [
    lambda x: F.normalize(x, p=1.0, dim=1),
    lambda x: F.normalize(x[0], dim=0),  # a single vector
    lambda x: x.norm(dim=1, keepdim=True) / x,
    lambda x: x / x.norm(dim=(0, 1), keepdim=True),
    lambda x: (lambda n: (x / n, n))(x.norm(dim=1, keepdim=True)),  # which is read again
    lambda x: x / x.norm(dim=1, keepdim=True).clamp_min(3.0).clamp_min(2.0),
    lambda x: x / x.norm(dim=1, keepdim=True).clamp_min(math.inf),
    lambda x: x[:1] / x.norm(dim=1, keepdim=True),
    lambda x: x / x.norm(dim=1),
]


def test_what_is_no_vector_divided_by_its_norm() -> None:
    model = Calls(lambda x: [function(x) for function in NO_UNITS]).eval()
    report = agree(model, *drawn((4, 4))).report
    assert not any("normalize" in r.kind for r in report.replaced)
