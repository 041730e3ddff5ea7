"""Pads, joins and nearest upsampling that are read in the kernel behind them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", "2.9", reason="models are for PyTorch 2.9 or later")
import autosched.torch  # noqa: E402
from kit.torch_models import Calls, agree, drawn, filled, untuned  # noqa: E402

nn, F = torch.nn, torch.nn.functional
Tensor = Any


def up(x: Tensor, **how: Any) -> Tensor:
    return F.interpolate(x, **how)


def into(channels: int, window: int = 3, **more: Any) -> Any:
    return nn.Conv2d(channels, 4, window, **more)


def shuffled(conv: Any, x: Tensor, y: Tensor) -> Tensor:
    return conv(F.channel_shuffle(torch.cat((x, y[:, :2]), 1), 2))


BEFORE: list[tuple[str, Any, Callable[[Any, Tensor, Tensor], Tensor]]] = [
    ("pad+conv2d+relu", into(4), lambda c, x, y: c(F.pad(x, (1, 2, 0, 1))).relu()),
    ("pad+conv2d", into(4, padding=1, stride=2), lambda c, x, y: c(F.pad(x, (1, 2), value=2.5))),
    ("pad+conv2d", into(4), lambda c, x, y: c(nn.ZeroPad2d(1)(x))),
    ("pad+conv2d", into(4), lambda c, x, y: c(F.pad(x, (-1, 2, 0, -2)))),
    ("pad+conv2d", into(7), lambda c, x, y: c(F.pad(x, (0, 0, 0, 0, 1, 2)))),
    ("pad+pad+conv2d", into(4), lambda c, x, y: c(F.pad(F.pad(x, (1, 0)), (0, 1, 2, 2), value=1))),
    ("pad+conv2d", into(2), lambda c, x, y: c(F.pad(x[:, 1:3, ::2, -6:-1], (1, 1, 1, 1)))),
    ("pad+depthwise_conv2d", into(4, groups=4), lambda c, x, y: c(F.pad(x, (1, 1, 1, 1)))),
    ("cat+conv2d", into(8, groups=2, padding=1), lambda c, x, y: c(torch.cat((x, y), 1))),
    ("cat+conv2d+relu", into(12, 1), lambda c, x, y: c(torch.cat((x, y, x), 1)).relu()),
    ("cat+conv2d", into(4, padding=1), lambda c, x, y: c(torch.cat((x[:, :, :2], y), 2))),
    ("upsample_nearest2d+conv2d", into(4, padding=1), lambda c, x, y: c(up(x, scale_factor=2))),
    ("upsample_nearest2d+conv2d", into(4, padding=1), lambda c, x, y: c(up(x, size=(15, 7)))),
    (
        "upsample_nearest_exact2d+conv2d",
        into(4, 1),
        lambda c, x, y: c(up(x, scale_factor=(3, 1), mode="nearest-exact")),
    ),
    (
        "upsample_nearest2d+pad+cat+conv2d+relu",
        into(8, padding=1),
        lambda c, x, y: c(torch.cat((up(x, scale_factor=2), F.pad(y, (3, 4, 2, 3))), 1)).relu(),
    ),
    (
        "pad+max_pool2d",
        None,
        lambda c, x, y: F.max_pool2d(F.pad(x, (0, 1, 1, 0), value=-math.inf), 3, 2),
    ),
    ("flip+conv2d+relu", into(4, padding=1), lambda c, x, y: c(x.flip(2, -1)).relu()),
    ("roll+conv2d", into(4), lambda c, x, y: c(torch.roll(x, (1, -2, 9), (1, 2, 3)))),
    ("repeat+conv2d", into(8, padding=1, groups=2), lambda c, x, y: c(x.repeat(1, 2, 1, 3))),
    ("repeat_interleave+conv2d", into(8), lambda c, x, y: c(x.repeat_interleave(2, 1))),
    ("repeat+conv2d", into(4, padding=1), lambda c, x, y: c(x[:, :1].repeat(1, 4, 1, 1))),
    (
        "pixel_unshuffle+conv2d",
        into(16, 1),
        lambda c, x, y: c(F.pixel_unshuffle(x[..., :4, :6], 2)),
    ),
    ("pixel_shuffle+conv2d", into(1, padding=1), lambda c, x, y: c(F.pixel_shuffle(x, 2))),
    ("cat+channel_shuffle+conv2d", into(6, padding=1), shuffled),
    ("flip+max_pool2d", None, lambda c, x, y: F.max_pool2d(x.flip(3), 2)),
    ("pad+avg_pool2d", None, lambda c, x, y: F.avg_pool2d(F.pad(x[0], (0, 1, 1, 2)), 2, padding=1)),
]


@pytest.mark.parametrize(("kind", "conv", "function"), BEFORE)
def test_before_windows(kind: str, conv: Any, function: Any) -> None:
    x, y = drawn((2, 4, 5, 7), (2, 4, 5, 7))
    model = filled(Calls(function, conv or nn.Identity()))
    report = agree(model, x, y).report
    assert [r.kind for r in report.replaced] == [kind]
    assert not report.left_out


def test_one_and_three_dimensions() -> None:
    def function(line: Any, solid: Any, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return line(F.pad(x, (2, 0))), solid(up(y, scale_factor=2))

    model = filled(Calls(function, nn.Conv1d(6, 4, 3), nn.Conv3d(2, 3, 3)))
    replaced = agree(model, *drawn((2, 6, 5), (1, 2, 3, 4, 5))).report.replaced
    assert [r.kind for r in replaced] == ["pad+conv1d", "upsample_nearest3d+conv3d"]


@pytest.mark.parametrize(
    "function",
    [
        lambda c, x: c(F.pad(x, (1, 1, 1, 1), mode="reflect")),
        lambda c, x: c(torch.roll(x, 3)),
        lambda c, x: c(up(x, scale_factor=1.5)),
        lambda c, x: c(up(x, scale_factor=2, mode="bicubic")),
        lambda c, x: c(up(x[:, :, :4, :4], scale_factor=2.25)),  # 9 of 4
        lambda c, x: c(up(x[:, :, :2, :2], scale_factor=2.25)),  # 4 of 2, not each one twice
        lambda c, x: (lambda p: c(p) + p.mean())(F.pad(x, (1, 1, 1, 1))),  # another reads it
        lambda c, x: c(torch.cat((x[:, :2], x[:, 2:].bfloat16()), 1)),
        lambda c, x: F.conv2d(  # what is widened before it is joined
            torch.cat((x[:, :2].bfloat16().float(), x[:, 2:].bfloat16().float()), 1),
            c.weight.bfloat16().float(),
        ),
    ],
)
def test_what_pytorch_moves(function: Any) -> None:
    (x,) = drawn((2, 4, 5, 7))
    report = agree(filled(Calls(function, into(4))), x, tolerance=1e-4).report
    assert "conv2d" in {r.kind.partition("+")[0] for r in report.replaced}
    assert report.left_out


def turned(x: Tensor, half: int) -> Tensor:
    return torch.cat((-x[..., half:], x[..., :half]), -1)


def rotary(x: Tensor, c: Tensor, s: Tensor) -> Tensor:
    return x * c + turned(x, 4) * s


def in_pairs(x: Tensor, c: Tensor, s: Tensor) -> Tensor:
    return x * c + torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2) * s


def of_a_part(x: Tensor, c: Tensor, s: Tensor) -> Tensor:
    a, b = x[..., :4], x[..., 4:]
    return torch.cat((a * c[:, :4] + turned(a, 2) * s[:, :4], b), -1)


def of_halves(x: Tensor, c: Tensor, s: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    c, s = c[:, :4], s[:, :4]
    return torch.cat((a * c - b * s, b * c + a * s), -1)


CHAINS: list[tuple[str, Callable[[Tensor, Tensor, Tensor], Tensor]]] = [
    ("mul+neg+cat+mul+add X[2, 3, 6, 8] R[6, 8] R2[6, 8]", rotary),
    ("mul+neg+stack+mul+add X[2, 3, 6, 8] R[6, 8] R2[6, 8]", in_pairs),
    ("mul+neg+cat+mul+add+cat X[2, 3, 6, 8] R[6, 8] R2[6, 8]", of_a_part),
    ("mul+mul+sub+mul+mul+add+cat X[2, 3, 6, 8] R[6, 8] R2[6, 8]", of_halves),
    (  # the row before each
        "mul+pad+mul+add X[2, 3, 6, 8] R[6, 8] R2[6, 8]",
        lambda x, c, s: x * c + F.pad(x[:, :, :-1], (0, 0, 1, 0)) * s,
    ),
    ("pad+exp X[2, 3, 6, 8]", lambda x, c, s: F.pad(x, (1, 2, -1, 0), value=-math.inf).exp()),
    ("mul+cat+relu X[6, 8] R[6, 8]", lambda x, c, s: torch.cat((c, s, c * 2)).relu()),
    ("flip+mul+add X[2, 3, 6, 8] R[6, 8]", lambda x, c, s: x.flip(0, -1) * c + 1),
    ("roll+roll+mul+add X[2, 3, 6, 8] R[6, 8]", lambda x, c, s: (x.roll(1, 1).roll(9, 3)) * c + c),
    ("neg+repeat+exp X[6, 8]", lambda x, c, s: (-c).repeat(2, 3, 2, 1).exp()),
    (
        "pixel_shuffle+relu+add X[2, 12, 3, 4]",
        lambda x, c, s: F.pixel_shuffle(x.view(2, 12, 3, 4), 2).relu() + 1,
    ),
    ("glu X[2, 3, 6, 8]", lambda x, c, s: F.glu(x)),
    ("glu+add X[2, 3, 6, 8]", lambda x, c, s: F.glu(x, -2) + 1),
    ("silu+mul X[2, 3, 6, 8]", lambda x, c, s: (lambda a, b: F.silu(a) * b)(*x.chunk(2, -1))),
    ("mul+add X[2, 3, 6, 8]", lambda x, c, s: x[..., 1:5] * x[..., :4] + x[..., 4:]),
]


@pytest.mark.parametrize(("wanted", "function"), CHAINS)
def test_chains(wanted: str, function: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
    report = agree(Calls(function).eval(), *drawn((2, 3, 6, 8), (6, 8), (6, 8))).report
    assert [f"{r.kind} {r.inputs}" for r in report.replaced] == [wanted]
    assert not report.left_out


def test_rotary_embeddings_before_attention() -> None:
    """Of heads as a linear layer has them, whose dimensions are permuted."""

    def function(linear: Any, x: Tensor, c: Tensor, s: Tensor) -> Tensor:
        q, k, v = linear(x).view(2, 6, 3, 4, 8).permute(2, 0, 3, 1, 4).unbind(0)
        return F.scaled_dot_product_attention(rotary(q, c, s), rotary(k, c, s), v, is_causal=True)

    model = filled(Calls(function, nn.Linear(32, 96)))
    report = agree(model, *drawn((2, 6, 32), (6, 8), (6, 8))).report
    chain = "mul+neg+cat+mul+add"
    assert [r.kind for r in report.replaced] == ["linear", chain, chain, "causal_attention"]
    assert not report.left_out


def test_results_in_another_order() -> None:
    def function(x: Tensor, y: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        moved = x.permute(0, 2, 3, 1)
        return (
            (moved * b).sin() + moved[:1],
            (moved * 2 + y).exp(),
            ((moved * 2).sin().reshape(2, -1) + 1).exp(),
        )

    x, y, b = drawn((2, 3, 5, 7), (2, 5, 7, 3), (3,))
    fast = agree(model := Calls(function).eval(), x, y, b, tolerance=1e-4)
    kinds = ["mul+sin+add", "mul+add+exp", "mul+sin", "add+exp"]
    assert [r.kind for r in fast.report.replaced] == kinds
    assert [r.stride() for r in fast(x, y, b)] == [r.stride() for r in model(x, y, b)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_types(dtype: Any) -> None:
    def function(conv: Any, x: Tensor, c: Tensor, s: Tensor) -> tuple[Tensor, ...]:
        joined = torch.cat((up(x, scale_factor=2), F.pad(x, (4, 4, 3, 3), value=0.1)), 1)
        return conv(joined), rotary(x, c, s), F.glu(x)

    model = filled(Calls(function, into(6, padding=1))).to(dtype)
    inputs = [each.to(dtype) for each in drawn((2, 3, 6, 8), (6, 8), (6, 8))]
    report = agree(model, *inputs, tolerance=0.03).report
    assert len(report.replaced) == 3
    assert not report.left_out


def test_winograd() -> None:
    def function(conv: Any, x: Tensor, y: Tensor) -> Tensor:
        return conv(torch.cat((up(x, scale_factor=2), F.pad(y, (3, 4, 2, 3))), 1)).relu()

    model = filled(Calls(function, nn.Conv2d(32, 16, 3, padding=1)))
    x, y = drawn((1, 16, 5, 7), (1, 16, 5, 7))
    found = autosched.torch.tasks_of(model, x, y, winograd=4, layout_rewrite="none")
    kind = "upsample_nearest2d+pad+cat+"
    assert [e.kind for e in found.found] == [f"{kind}conv2d+relu", f"{kind}winograd_conv2d+relu"]
    fast = autosched.torch.with_kernels(model, untuned(found.tasks[1:]), x, y)
    assert len(fast.report.replaced) == 1
    torch.testing.assert_close(fast(x, y), model(x, y).detach(), rtol=1e-3, atol=1e-3)


def test_a_backend() -> None:
    def function(conv: Any, x: Tensor, c: Tensor, s: Tensor) -> Tensor:
        return conv(F.pad(rotary(x, c, s), (1, 1, 1, 1)))

    model, inputs = filled(Calls(function, into(3))), drawn((2, 3, 6, 8), (6, 8), (6, 8))
    tasks = autosched.torch.tasks_of(model, *inputs)
    mine = autosched.torch.backend(untuned(tasks.tasks))
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend=mine)(*inputs), model(*inputs))
    kinds = [r.kind for r in mine.report.replaced]
    assert kinds == ["mul+neg+cat+mul+add", "pad+conv2d"]
