"""What follows an operation behind views, and what it reads there."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", "2.9", reason="models are for PyTorch 2.9 or later")
from torch.utils._pytree import tree_leaves  # noqa: E402

from kit.torch_models import Calls, agree, drawn, filled  # noqa: E402

nn, F = torch.nn, torch.nn.functional
Tensor = Any


def patches(conv: Any, x: Tensor, table: Tensor) -> list[Tensor]:
    rows = (conv(x).flatten(2).transpose(1, 2) for _ in range(3))
    return [
        F.gelu(next(rows)),
        next(rows) * 2 + table[:, :1],
        next(rows) + table,
        conv(x).permute(0, 2, 3, 1) * 2 + table.view(4, 4, 6)[:, :1],
        conv(x).view(-1, 2, 3, 4, 4).transpose(1, 2).relu()
        * table.view(16, 3, 2)[0, ..., None, None],
    ]


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("last", [False, True])
def test_views_that_permute_are_between(batch: int, last: bool) -> None:
    x, table = drawn((batch, 3, 8, 8), (1, 16, 6))
    memory_format = torch.channels_last if last else torch.contiguous_format
    model = filled(Calls(patches, nn.Conv2d(3, 6, 2, 2))).to(memory_format=memory_format)
    inputs = x.contiguous(memory_format=memory_format), table
    fast = agree(model, *inputs)
    assert [r.kind for r in fast.report.replaced] == [
        "conv2d+gelu",
        "conv2d+mul+add",
        "conv2d+add",
        "conv2d+mul+add",
        "conv2d+relu+mul",
    ]
    with torch.no_grad():
        pairs = zip(tree_leaves(fast(*inputs)), tree_leaves(model(*inputs)), strict=True)
    assert all(found.stride() == wanted.stride() for found, wanted in pairs)


@pytest.mark.parametrize("last", [False, True])
def test_copies_and_other_channels_are_not_between(last: bool) -> None:
    """Dimension 1 has as many elements as there are channels, and is something else."""

    def function(conv: Any, norm: Any, prelu: Any, x: Tensor) -> list[Tensor]:
        return [
            conv(x).transpose(1, 2).contiguous().relu(),
            norm(conv(x).transpose(1, 2)),
            prelu(conv(x).transpose(1, 2)),
            conv(x).transpose(1, 2).reshape(-1, 4).relu(),
        ]

    parts = nn.Conv2d(3, 4, 2, 2), nn.BatchNorm2d(4), nn.PReLU(4)
    memory_format = torch.channels_last if last else torch.contiguous_format
    model = filled(Calls(function, *parts)).to(memory_format=memory_format)
    (x,) = drawn((2, 3, 8, 8))
    report = agree(model, x.contiguous(memory_format=memory_format)).report
    assert {r.kind for r in report.replaced} == {"conv2d"}
    assert len(report.left_out) == 4


SHAPES = [(1, 5, 4), (3, 1, 4), (3, 5, 1), (1, 5, 1), (3, 1, 1), (5, 4), (4,), (2, 1, 5, 4)]


def test_tables_for_some_dimensions_of_rows() -> None:
    def function(linear: Any, x: Tensor, *tables: Tensor) -> list[Tensor]:
        *few, last = tables
        y = linear(x).relu().view(3, 5, 2, 2).transpose(1, 2) * 2
        wide = linear(torch.stack((x, x * 2))) * last
        heads = linear(x).view(3, 5, 2, 2) - few[5].view(5, 2, 2)[:, :1]
        return [
            *(linear(x) + table for table in few),
            y + few[5].view(5, 2, 2).transpose(0, 1),
            wide,
            heads,
        ]

    model = filled(Calls(function, nn.Linear(3, 4)))
    report = agree(model, *drawn((3, 5, 3), *SHAPES)).report
    kinds = [r.kind for r in report.replaced]
    assert kinds.count("linear+add") == len(SHAPES) - 1
    assert {*kinds} >= {"linear+relu+mul+add", "linear+mul", "linear+sub"}
