"""Element-wise operations of a model that follow no other operation, and what is broadcast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", "2.9", reason="models are for PyTorch 2.9 or later")
import autosched.torch  # noqa: E402
from autosched.torch import chains  # noqa: E402
from kit.torch_models import Calls, agree, drawn, filled  # noqa: E402

nn, F = torch.nn, torch.nn.functional
Tensor = Any


def of_a_row(x: Tensor, y: Tensor, row: Tensor) -> Tensor:
    return x * row + y * row


CHAINS: list[tuple[str, Callable[[Tensor, Tensor], Tensor]]] = [
    ("mul+div+erf+add+mul X[2, 6, 12]", lambda x, y: 0.5 * x * (1 + torch.erf(x / 2**0.5))),
    (
        "mul+pow+mul+add+mul+tanh+add+mul X[2, 6, 12]",
        lambda x, y: 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.04 * x.pow(3)))),
    ),
    (
        "sin+cos+sub+expm1+square+log1p X[1, 12, 12] R[1, 12, 12]",
        lambda x, y: torch.log1p((x.sin() - y.cos()).view(12, 12).expm1().unsqueeze(0).square()),
    ),
    ("mul+mul+add X[2, 6, 12] R[6, 12] R2[2, 6, 12]", lambda x, y: of_a_row(x, y, y[0])),
    (
        "mul+add+relu+mul+mul+add X[2, 6, 12] R[12] R2[6, 12] R3[6, 12] R4[1] R5[2, 72]",
        lambda x, y: (
            torch.relu(x * y[0, 0] + y[:1]) * y[0, :, :1] * y[0, 0, 0] + y[:, :1].expand(2, 6, 12)
        ),
    ),
    (  # an operand is read in the order of its memory
        "add+relu+mul X[6, 2, 12] R[2, 6, 12]",
        lambda x, y: (x.transpose(0, 1).contiguous() + y.transpose(0, 1)).relu() * 3,
    ),
    (  # a column times a row
        "mul+abs+rsqrt X[6, 12] R[12]",
        lambda x, y: (x[0, :, :1] * y[0, 0]).abs().rsqrt(),
    ),
]


def test_chains() -> None:
    model = Calls(lambda x, y: tuple(function(x, y) for _, function in CHAINS)).eval()
    report = agree(model, *drawn((2, 6, 12), (2, 6, 12)), tolerance=1e-4).report
    assert [f"{r.kind} {r.inputs}" for r in report.replaced] == [wanted for wanted, _ in CHAINS]
    assert not report.left_out


STAY: list[Callable[[Tensor], Tensor]] = [
    lambda x: x.relu(),  # alone
    lambda x: x.relu().t() * 2,  # in another order
    lambda x: (x > 0) + (x < 1) * 2,  # truth values and integers
    lambda x: x.masked_fill(x.abs().argmax() == 3, 2),  # of a mask that is computed before
    lambda x: x.to(torch.int32).sin(),
    lambda x: (x * torch.ones(4, dtype=torch.int32)).sin(),
    lambda x: x.double().relu().neg(),
    lambda x: x.relu().cumsum(0)[2, 3] * 2,  # a number
    lambda x: (lambda y: torch.stack((y, y.sin())))(x * 2),  # another reads it
]


def test_what_is_no_chain() -> None:
    found = autosched.torch.tasks_of(Calls(lambda x: [f(x) for f in STAY]).eval(), *drawn((3, 4)))
    assert not found.found
    alone = [e for e in found.left_out if e.reason.endswith("and alone it is none")]
    assert len(alone) >= len(STAY) - 2


def test_a_chain_that_is_too_long_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "_MOST", 3)
    model = Calls(lambda x: ((x + 1).sin() * 2).cos() - 1).eval()
    found = autosched.torch.tasks_of(model, *drawn((3, 4))).found
    assert [each.kind for each in found] == ["add+sin", "mul+cos+sub"]


def test_what_follows_other_operations_is_theirs() -> None:
    def function(norm: Any, conv: Any, squeeze: Any, x: Tensor) -> Tensor:
        y = F.relu(norm(x))
        factors = squeeze(y.mean((2, 3), keepdim=True)).sigmoid()
        return (y[:, :1].abs() + conv(x)) * factors + y[:, :1]

    parts = nn.BatchNorm2d(3), nn.Conv2d(3, 4, 1), nn.Conv2d(3, 4, 1)
    report = agree(filled(Calls(function, *parts)), *drawn((2, 3, 4, 5))).report
    assert [f"{r.kind} {r.inputs}" for r in report.replaced] == [
        "batch_norm+relu X[2, 3, 4, 5] f[3] u[3]",
        "mean X[6, 20]",
        "conv2d+sigmoid X[2, 3, 1, 1] W[4, 3, 1, 1] b[4]",
        "conv2d+add+mul+add X[2, 3, 4, 5] W[4, 3, 1, 1] b[4] R[2, 4, 5] R2[2, 4] R3[2, 12, 5]",
    ]


@pytest.mark.parametrize(
    ("function", "kinds"),
    [
        (lambda x, number: (x * number.item() + 1).relu() * 2, ["add+relu+mul"]),
        (lambda x, number: (x.abs() ** number.item()).exp() * 2, ["exp+mul"]),
        (lambda x, number: F.leaky_relu(x * 2 + 1, number.item()) * 2, ["mul+add"]),
        (lambda x, number: (x.softmax(-1) - number.item()).exp(), ["softmax"]),
        (lambda x, number: (x[x > 0].sum() * x + x) * number, ["mul+add+mul"]),
    ],
)
def test_numbers_that_depend_on_values_are_read_from_no_kernel(function: Any, kinds: Any) -> None:
    """They were taken for tensors: an AttributeError."""
    fast = agree(Calls(function).eval(), *drawn((2, 6)), torch.tensor(1.5))
    assert [each.kind for each in fast.report.replaced] == kinds
