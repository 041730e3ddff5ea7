"""Attention in a model is one kernel, which computes what PyTorch computes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", "2.9", reason="models are for PyTorch 2.9 or later")
import autosched.torch  # noqa: E402
from kit.torch_models import Calls, agree, drawn, filled  # noqa: E402

nn, F = torch.nn, torch.nn.functional
attention = F.scaled_dot_product_attention
Tensor = Any
Q, K, V = (2, 4, 5, 3), (2, 4, 7, 3), (2, 4, 7, 6)


def heads(x: Tensor) -> list[Tensor]:
    return [part.view(2, 5, 4, 3).transpose(1, 2) for part in x.chunk(3, -1)]


def repeated(x: Tensor, heads: int = 2, dimension: int = -3) -> Tensor:
    """The first heads, so often that there are 4, one beside its copies or after all others."""
    times = 4 // heads
    shape = [2, heads, *x.shape[2:]]
    shape.insert(len(shape) + 1 + dimension, times)
    return x[:, :heads].unsqueeze(dimension).expand(shape).reshape(2, 4, *x.shape[2:])


ATTENTIONS: list[tuple[str, Callable[..., Tensor]]] = [
    (
        "attention Q[2, 4, 5, 3] K[2, 4, 7, 3] V[2, 4, 7, 6]",
        lambda q, k, v, mask, qkv: attention(q, k, v, scale=0.3),
    ),
    (
        "causal_attention Q[5, 3] K[7, 3] V[7, 6]",
        lambda q, k, v, mask, qkv: attention(q[0, 0], k[0, 0], v[0, 0], is_causal=True),
    ),
    (
        "masked_attention Q[4, 5, 3] K[4, 7, 3] M[4, 35] V[4, 7, 6]",
        lambda q, k, v, mask, qkv: attention(q[0], k[0], v[0], mask[0, :, :1]),
    ),
    (
        "masked_attention Q[2, 4, 5, 3] K[2, 4, 7, 3] M[7] V[2, 4, 7, 6]",
        lambda q, k, v, mask, qkv: attention(q, k, v, mask[:1, :1, :1].expand(2, 4, 5, 7)),
    ),
    (  # heads that share keys
        "causal_attention Q[2, 2, 2, 5, 3] K[2, 4, 7, 3] V[2, 4, 7, 6]",
        lambda q, k, v, mask, qkv: attention(
            q, k[:, :2], v[:, :2], is_causal=True, enable_gqa=True
        ),
    ),
    (
        "masked_attention Q[2, 2, 2, 5, 3] K[2, 4, 7, 3] M[2, 2, 35] V[2, 4, 7, 6]",
        lambda q, k, v, mask, qkv: attention(
            q, k[:, :2], v[:, :2], mask[0, :, :1], enable_gqa=True
        ),
    ),
    (
        "attention Q[2, 4, 5, 3] K[2, 28, 3] V[2, 28, 6]",
        lambda q, k, v, mask, qkv: attention(q, k[:, :1], v[:, :1], enable_gqa=True),
    ),
    (  # heads that were repeated are read before that
        "masked_attention Q[2, 2, 2, 5, 3] K[2, 4, 7, 3] M[2, 2, 35] V[2, 4, 7, 6]",
        lambda q, k, v, mask, qkv: attention(q, *map(repeated, (k, v)), mask[0, :, :1]),
    ),
    (
        "attention Q[2, 4, 5, 3] K[2, 28, 3] V[2, 28, 6]",
        lambda q, k, v, mask, qkv: attention(q, *(repeated(x, 1) for x in (k, v))),
    ),
    (  # other copies
        "attention Q[2, 4, 5, 3] K[2, 4, 7, 3] V[2, 4, 7, 6]",
        lambda q, k, v, mask, qkv: attention(q, *(repeated(x, 2, -4) for x in (k, v))),
    ),
    (  # heads beside each other are read and stored as they lie
        "attention Q[2, 5, 12, 3] K[2, 5, 12, 3] V[2, 5, 12, 3]",
        lambda q, k, v, mask, qkv: attention(*heads(qkv)).transpose(1, 2).reshape(2, 5, 12),
    ),
]


def test_masks_scales_heads_and_dimensions() -> None:
    model = Calls(lambda *inputs: tuple(function(*inputs) for _, function in ATTENTIONS)).eval()
    report = agree(model, *drawn(Q, K, V, (2, 4, 5, 7), (2, 5, 36))).report
    assert [f"{r.kind} {r.inputs}" for r in report.replaced] == [text for text, _ in ATTENTIONS]
    assert not report.left_out


def test_heads_that_are_repeated_one_after_the_other() -> None:
    def function(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
        return [
            attention(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, dim=-3)),
            attention(q, k.repeat_interleave(2, 1), (v * 2).repeat(1, 2, 1, 1)),  # in turns
            attention(q[:, :2], k.repeat_interleave(2, -2), v.repeat_interleave(2, -2)),
        ]

    fast = agree(Calls(function).eval(), *drawn(Q, (2, 2, 7, 3), (2, 2, 7, 6)))
    assert [f"{r.kind} {r.inputs}" for r in fast.report.replaced] == [
        "attention Q[2, 2, 2, 5, 3] K[2, 2, 7, 3] V[2, 2, 7, 6]",
        "mul+repeat X[2, 2, 7, 6]",
        "attention Q[2, 4, 5, 3] K[2, 4, 7, 3] V[2, 4, 7, 6]",
        "attention Q[2, 4, 5, 3] K[2, 2, 14, 3] V[2, 2, 14, 6]",
    ]
    assert [each.operation for each in fast.report.left_out] == ["repeat_interleave"] * 3


def test_rows_that_a_mask_leaves_nothing_of_are_zeros() -> None:
    def function(masks: Any, q: Tensor, k: Tensor, v: Tensor, seen: Tensor) -> tuple[Tensor, ...]:
        return attention(q, k, v, masks.added), attention(q, k, v, seen)

    seen = torch.tensor([[True] * 7, [False] * 7, [True, False] * 3 + [False], *[[True] * 7] * 2])
    masks = nn.Module()
    masks.register_buffer("added", torch.zeros(5, 7).masked_fill(~seen, -torch.inf))
    model, inputs = Calls(function, masks).eval(), (*drawn(Q, K, V), seen)
    fast = agree(model, *inputs)
    assert [r.kind for r in fast.report.replaced] == ["masked_attention"] * 2
    for each in fast(*inputs):
        assert torch.equal(each[:, :, 1], torch.zeros(2, 4, 6))
    q = inputs[0].clone()
    q[0, 0, 0, 0] = math.nan
    with torch.no_grad():
        torch.testing.assert_close(fast(q, *inputs[1:]), model(q, *inputs[1:]), equal_nan=True)


LEFT_OUT: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "random": (lambda q: attention(q, q, q, dropout_p=0.5), "at random: dropout_p=0.5"),
    "broadcast": (lambda q: attention(q[:1], q, q), "which does not fit"),
    "many": (
        lambda q: attention(*[q.view(1, 1, 1, 2, 4, 5, 3)] * 3),
        "has 5 dimensions of batches",
    ),
    "a scale": (
        lambda q: attention(q, q, q, scale=math.inf),
        "its scale must be a constant, finite number, found inf",
    ),
    "a type": (lambda q: attention(*[q.double()] * 3), "is float64, expected float32"),
}


def test_what_is_left_out() -> None:
    model = Calls(lambda q: [function(q) for function, _ in LEFT_OUT.values()]).eval()
    found = autosched.torch.tasks_of(model, *drawn(Q))
    assert not found.found
    reasons = [each.reason for each in found.left_out if each.operation.startswith("scaled")]
    assert all(wanted in reason for (_, wanted), reason in zip(LEFT_OUT.values(), reasons))
    assert len(reasons) == len(LEFT_OUT)


def test_layers_of_pytorch() -> None:
    """Their fast path in inference would say nothing of their operations. A mask is a constant."""

    def function(layer: Any, attend: Any, x: Tensor) -> tuple[Tensor, ...]:
        return layer(x, src_mask=torch.ones(5, 5).bool().triu(1)), *attend(x, x, x)

    layer = nn.TransformerEncoderLayer(12, 2, 16, batch_first=True, activation="gelu")
    model = filled(Calls(function, layer, nn.MultiheadAttention(12, 2)))
    report = agree(model, *drawn((2, 5, 12))).report
    assert [r.kind for r in report.replaced] == [
        *("linear", "masked_attention", "linear", "layer_norm"),
        *("linear+gelu", "linear+add", "layer_norm"),
        # one that tells its weights
        *("linear", "batch_matmul", "softmax", "batch_matmul", "linear", "mean"),
    ]
    assert {each.operation for each in report.left_out} == {"add", "mul"}
