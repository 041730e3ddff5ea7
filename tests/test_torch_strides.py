"""Results have the strides that PyTorch's operations give them, which traces do not always tell."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", "2.9", reason="models are for PyTorch 2.9 or later")
from kit.torch_models import Calls, agree, drawn, filled  # noqa: E402

nn, F = torch.nn, torch.nn.functional
Tensor = Any


def check_strides(model: Any, *inputs: Tensor) -> None:
    """The model with kernels computes the same, stored in the same way."""
    fast = agree(model, *inputs)
    with torch.no_grad():
        pairs = zip(fast(*inputs), model(*inputs), strict=True)
    assert all(found.stride() == wanted.stride() for found, wanted in pairs)


@pytest.mark.parametrize("batch", [1, 2])
def test_einsum_with_sizes_of_1(batch: int) -> None:
    def function(a: Tensor, b: Tensor) -> list[Tensor]:
        masks = torch.einsum("bqc,bchw->bqhw", a, b)  # as Mask2Former has it
        return [masks, masks.relu() * 2, torch.einsum("bhid,bhjd->bhij", a[:, None], a[:, None])]

    check_strides(Calls(function).eval(), *drawn((batch, 4, 6), (batch, 6, 5, 7)))


@pytest.mark.parametrize("batch", [1, 2])
def test_batch_normalisation_of_what_is_permuted(batch: int) -> None:
    def function(conv: Any, norm: Any, x: Tensor) -> list[Tensor]:
        normed = F.batch_norm(
            conv(x).transpose(0, 3), norm.running_mean, norm.running_var, norm.weight, norm.bias
        )
        return [normed, normed * (x.sum() + 1), norm(conv(x).flatten(2))]

    model = filled(Calls(function, nn.Conv2d(3, 4, 2, 2), nn.BatchNorm1d(4)))
    (x,) = drawn((batch, 3, 8, 6))
    for memory_format in torch.contiguous_format, torch.channels_last:
        stored = x.contiguous(memory_format=memory_format)
        check_strides(model.to(memory_format=memory_format), stored)


def test_what_was_traced_as_a_view_may_be_a_copy() -> None:
    """PatchTST normalises so, and flattens what comes out."""

    def function(linear: Any, norm: Any, x: Tensor) -> list[Tensor]:
        y = norm(linear(x).transpose(1, 2)).transpose(1, 2)
        return [y.reshape(2, -1), y.reshape(4, -1).relu() * 2]

    model = filled(Calls(function, nn.Linear(3, 4), nn.BatchNorm1d(4)))
    check_strides(model, *drawn((2, 6, 3)))
