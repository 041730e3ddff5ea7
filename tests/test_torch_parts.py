"""Parts of tensors, which kernels read where they lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", "2.9", reason="models are for PyTorch 2.9 or later")
from kit.torch_models import Calls, agree, drawn  # noqa: E402

F = torch.nn.functional
attention = F.scaled_dot_product_attention
Tensor = Any


def heads(x: Tensor, *several: int) -> list[Tensor]:
    return [t.transpose(1, 2) for t in x.view(2, 5, -1, 4).split(several, 2)]


WEIGHT: Any = torch.linspace(-1, 1, 7 * 32).view(7, 32)
PARTS: list[tuple[str, Callable[[Tensor], Tensor]]] = [
    ("sigmoid+tanh+mul X[10, 32]", lambda x: x[:, :16].sigmoid() * x[:, 16:].tanh()),
    ("sin+mul X[10, 16, 2]", lambda x: x[:, ::2].sin() * x[:, 1::2]),  # each second
    ("mul+sin X[5, 64]", lambda x: (x[1::2] * 2).sin()),
    ("mul+sin X[5, 32]", lambda x: (x[4:9, 3:7] * 2).sin()),
    ("mul+sin X[10, 16, 2]", lambda x: (x.view(10, 16, 2)[..., 1] * 2).sin()),
    ("mul+sin X[2, 160]", lambda x: (x.view(2, 5, 32)[:, 3] * 2).sin()),
    (
        "attention Q[2, 5, 8, 4] K[2, 5, 8, 4] V[2, 5, 8, 4]",
        lambda x: attention(*heads(x, 2, 3, 3)[:1] * 3),
    ),
    (
        "causal_attention Q[2, 5, 4, 2, 4] K[2, 5, 8, 4] V[2, 5, 8, 4]",  # of 2 heads each
        lambda x: attention(*heads(x, 4, 2, 2), is_causal=True, enable_gqa=True),
    ),
    (
        "attention Q[2, 5, 32] K[2, 5, 32] V[2, 5, 32]",  # of all indices, the last one too
        lambda x: attention(*x.view(2, 5, 32).split((8, 8, 16), -1)),
    ),
    (
        "batch_matmul+mul A[2, 5, 32] B[2, 5, 32]",
        lambda x: x.view(2, 5, 32)[..., :8] @ x.view(2, 5, 32)[..., 8:16].mT * 2,
    ),
    ("linear+add X[10, 32] W[7, 32] R[10, 32]", lambda x: F.linear(x, WEIGHT) + x[:, 9:16]),
    (
        "to_bfloat16+to_float32+mul+relu X[10, 32]",
        lambda x: (x[:, :7].bfloat16().float() * 2).relu(),
    ),
]


@pytest.mark.parametrize(("wanted", "function"), PARTS)
def test_parts(wanted: str, function: Callable[[Tensor], Tensor]) -> None:
    (x,) = drawn((10, 32))
    fast = agree(Calls(function).eval(), x)
    assert [f"{r.kind} {r.inputs}" for r in fast.report.replaced][-1:] == [wanted]


def test_a_part_of_what_is_a_part_itself() -> None:
    (base,) = drawn((330,))
    fast = agree(Calls(lambda x: (x[:, 1:6] * 2).sin()).eval(), base[10:].view(10, 32))
    x = torch.ones(10, 32)
    torch.testing.assert_close(fast(x), (x[:, 1:6] * 2).sin())


REST: list[Callable[[Tensor], Tensor]] = [
    lambda x: (x[1::3] * 2).sin(),  # the last third of the rows is none
    lambda x: (x.diagonal() * 2).sin(),
    lambda x: (x.unfold(1, 8, 4) * 2).sin(),  # elements that are there twice
    lambda x: (x.view(2, 5, 32)[:, 1:3, 4:7].reshape(2, 6) * 2).sin(),  # a copy
    lambda x: (x.expand(3, 10, 32)[:, :, :5] * 2).sin(),
]


@pytest.mark.parametrize("function", REST)
def test_what_is_read_as_a_copy(function: Callable[[Tensor], Tensor]) -> None:
    (x,) = drawn((10, 32))
    fast = agree(Calls(function).eval(), x)
    (kernel,) = (n for n in fast.graph_module.graph.nodes if "autosched" in str(n.target))
    assert kernel.args[0].op == "call_function"  # not the input itself, which has other elements
    torch.testing.assert_close(fast(x), function(x))
