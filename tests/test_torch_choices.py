"""Masks, comparisons and choices in kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", "2.9", reason="models are for PyTorch 2.9 or later")
import autosched.torch  # noqa: E402
from kit.torch_models import Calls, Causal, agree, drawn, filled, untuned  # noqa: E402

nn, F = torch.nn, torch.nn.functional
Tensor = Any

SCORES: list[tuple[str, Callable[[Tensor, Tensor], Tensor]]] = [
    ("div+eq+masked_fill M[2, 7]", lambda s, m: (s / 2).masked_fill(m == 0, -math.inf)),
    ("bitwise_not+masked_fill M[2, 7]", lambda s, m: s.masked_fill(~m.bool(), -1e9)),
    (  # a constant
        "masked_fill M[5, 7]",
        lambda s, m: s.masked_fill(torch.tril(torch.ones(5, 7)) == 0, -math.inf),
    ),
    (
        "masked_fill M[5, 7]",
        lambda s, m: s.masked_fill(torch.arange(7) > torch.arange(5)[:, None], -math.inf),
    ),
    (
        "and+where M[5, 7] M2[2, 7]",
        lambda s, m: torch.where(
            torch.ones(5, 7, dtype=torch.bool).tril() & m.bool(), s, torch.finfo(s.dtype).min
        ),
    ),
    (  # of lengths
        "ge+masked_fill M[7] M2[2]",
        lambda s, m: s.masked_fill(torch.arange(7) >= m.sum(-1, keepdim=True), -math.inf),
    ),
    ("masked_fill M[2, 7]", lambda s, m: s.masked_fill(m.bool().expand(2, 3, 5, 7), 2)),
    ("masked_fill M[1] M2[2, 7]", lambda s, m: s.masked_fill(m.bool(), torch.tensor(-1e4))),
]


@pytest.mark.parametrize(("wanted", "function"), SCORES, ids=[kind for kind, _ in SCORES])
def test_masks_of_scores(wanted: str, function: Callable[[Tensor, Tensor], Tensor]) -> None:
    def attention(q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
        return function(q @ k.mT, mask).softmax(-1)

    mask = torch.tensor([[1, 1, 0, 1, 0, 0, 0], [0] * 7]).view(2, 1, 1, 7)  # a row of nothing
    q, k = drawn((2, 3, 5, 4), (2, 3, 7, 4))
    first, _ = agree(Calls(attention).eval(), q, k, mask).report.replaced
    inputs = "A[2, 3, 5, 4] B[2, 3, 7, 4]"
    kinds, _, masks = wanted.partition(" ")
    assert first.kind == f"batch_matmul+{kinds}"
    assert first.inputs == f"{inputs} {masks.replace('M', 'R')}"


CHOSEN: list[tuple[str, Callable[[Tensor, Tensor, Tensor], Tensor]]] = [
    ("mul+gt+where", lambda x, y, b: torch.where(x > y, x * 2, y)),
    (
        "mul+exp+mul+add+gt+and+where",
        lambda x, y, b: torch.where((x * 2 > y + 1) & b, x * 2, y.exp()),
    ),
    ("where+mul", lambda x, y, b: torch.where(b.expand(x.shape), 1.0, 0.0) * x),
    ("gt+where+mul", lambda x, y, b: torch.where(x > 0, 2, 0.5) * x),
    (
        "logical_not+lt+or+where+add",
        lambda x, y, b: torch.where(b.logical_not() | (x < 0), 1, x) + 1,
    ),
    ("mul+add", lambda x, y, b: x * b + 1),
    ("ge+mul+add", lambda x, y, b: (x >= 0) * x + 1),
    ("gt+mul+sin", lambda x, y, b: ((x > 0) * 2.5).sin()),
    ("mul+eq+masked_fill", lambda x, y, b: (x * 2).masked_fill(b == False, 3)),  # noqa: E712
    ("mul+le+masked_fill", lambda x, y, b: (x * 2).masked_fill(-b.to(torch.int8) <= -1, 3)),
    ("ne+where+add", lambda x, y, b: torch.where(x != x, y, x) + 1),
    ("eq+where+add", lambda x, y, b: torch.where(x == -math.inf, 1.0, x) + 1),
    ("isnan+where+add", lambda x, y, b: torch.where(torch.isnan(x), y, x) + 1),
    ("add+isinf+or+masked_fill+add", lambda x, y, b: (x + 0).masked_fill(x.isinf() | b, 2) + 1),
    ("add+isfinite+bitwise_not+masked_fill", lambda x, y, b: (x + 1).masked_fill(~x.isfinite(), 0)),
    ("mul+nan_to_num+add", lambda x, y, b: (x * 2).nan_to_num() + y),
    ("nan_to_num+add", lambda x, y, b: torch.nan_to_num(x, 0.5, math.inf, -1) + y),
    ("masked_fill+mul", lambda x, y, b: x[0, :1].masked_fill(b, 2) * 3),  # it broadcasts
    (
        "exp+masked_fill+mul",
        lambda x, y, b: x.exp().masked_fill((y[0] > 1).t().contiguous().t(), 2) * 3,
    ),
    ("exp+masked_fill+mul", lambda x, y, b: x.exp().masked_fill((y[0, :, :1] > 1)[:, :1], 2) * 3),
]


@pytest.mark.parametrize(("kind", "function"), CHOSEN)
def test_choices(kind: str, function: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
    x, y = drawn((3, 5, 9), (3, 5, 9))
    x[0, 0, :4] = torch.tensor([math.nan, math.inf, -math.inf, 0])
    b = torch.tensor([True, False, False, True, True])[:, None]
    report = agree(Calls(function).eval(), x, y, b, tolerance=1e-4).report
    assert kind in [r.kind for r in report.replaced]


STAY: list[Callable[[Tensor, Tensor], Any]] = [
    lambda x, b: torch.where(b, x, 0).cumsum(0),  # alone
    lambda x, b: (x * 2).masked_fill(b, math.nan),
    lambda x, b: (x > 0) * (x < 1),  # truth values
    lambda x, b: torch.where(b[:1], 1.0, 0.0) * x,
    lambda x, b: x.masked_fill(x[:1] == 0, 2),
    lambda x, b: torch.where(b, x, x.double()).exp(),
]


def test_what_stays() -> None:
    x = drawn((5, 9))[0]
    model = Calls(lambda x, b: [function(x, b) for function in STAY]).eval()
    found = autosched.torch.tasks_of(model, x, x > 0)
    assert not found.found
    assert len(found.left_out) >= len(STAY)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y, i: (x * 2).masked_fill(i == 0.5, 3),  # an integer and a number that is none
        lambda x, y, i: (x * 2).masked_fill(x > y.bfloat16(), 3),
        lambda x, y, i: (x * 2).masked_fill(x > i, 3),
        lambda x, y, i: (x * 2).masked_fill(i.to(torch.uint8) > -1, 3),  # PyTorch takes it as 255
        lambda x, y, i: (x * 2).masked_fill(i.to(torch.uint8) > torch.tensor(-1), 3),
        lambda x, y, i: (x * 2).masked_fill((x > 0).logical_and(i), 3),
        lambda x, y, i: ((x * 2).masked_fill(mask := x > 0, 3), mask),  # something else reads it
    ],
)
def test_comparisons_that_pytorch_computes(function: Any) -> None:
    x, y = drawn((5, 9), (5, 9))
    report = agree(Calls(function).eval(), x, y, torch.arange(9)).report
    assert [r.kind for r in report.replaced] in (["mul+masked_fill"], ["mul+gt+masked_fill"])
    assert report.left_out


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_types(dtype: Any) -> None:
    def function(linear: Any, x: Tensor) -> Tensor:
        y = torch.where(x > 0.1, x, 0.3 * x) * 2  # 0.1 in the type of x
        return y + linear(x).masked_fill(x[0, :, :1] == 0.1, -100)

    (x,) = drawn((3, 5, 4))
    x[0, :3, :1], x[1, 0] = 0.1, 0.1
    model = filled(Calls(function, nn.Linear(4, 4))).to(dtype)
    report = agree(model, x.to(dtype), tolerance=0.02).report
    assert [r.kind for r in report.replaced] == ["mul+gt+where+mul", "linear+eq+masked_fill+add"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_numbers_that_are_none_in_narrow_types(dtype: Any) -> None:
    x = torch.tensor([math.nan, math.inf, -math.inf, 1, 6e4]).to(dtype)
    model = Calls(lambda x: (x.nan_to_num() + 1, x.masked_fill(~x.isfinite(), 1) + 1)).eval()
    if dtype == torch.bfloat16:
        report = agree(model, x, tolerance=0.02).report
        kinds = ["nan_to_num+add", "isfinite+bitwise_not+masked_fill+add"]
        assert [r.kind for r in report.replaced] == kinds
    else:  # 12e4 is infinite for PyTorch, and none in a kernel
        assert {"isfinite", "nan_to_num"} <= {
            each.operation for each in autosched.torch.tasks_of(model, x).left_out
        }


def test_a_mask_that_changes() -> None:
    model, (x,) = Causal(5).eval(), drawn((2, 5, 4))
    tasks = autosched.torch.tasks_of(model, x)
    mine = autosched.torch.backend(untuned(tasks.tasks))
    fast = torch.compile(model, backend=mine)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), model(x))
        model.mask[:, 0] = 0
        model.mask[:, 1] = 1
        torch.testing.assert_close(fast(x), model(x))
    assert len(mine.report.replaced) == 2
