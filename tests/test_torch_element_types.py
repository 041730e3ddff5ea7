"""Models in bfloat16 and float16, of several types, and under automatic types."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from autosched.errors import ConfigError

torch = pytest.importorskip("torch", "2.9", reason="models are for PyTorch 2.9 or later")
pytestmark = pytest.mark.usefixtures("compiled_anew")
from test_torch_attention import ATTENTIONS, K, Q, V  # noqa: E402
from test_torch_chains import CHAINS  # noqa: E402

import autosched.torch  # noqa: E402
from autosched.torch.element_types import rounded, widened  # noqa: E402
from kit.torch_models import (  # noqa: E402
    Calls,
    Transformer,
    agree,
    drawn,
    filled,
    nearer,
    small_cnn,
    untuned,
)

nn, F = torch.nn, torch.nn.functional
Tensor = Any
BF16, F16 = torch.bfloat16, torch.float16


def texts(model: Any, *inputs: Any) -> list[str]:
    found = autosched.torch.tasks_of(model, *inputs).tasks
    return [task.workload.to_json()["expr"] for task in found]


def test_elements_are_read_in_float32() -> None:
    text = "sum(k, X[i, 2*k] * W[k] + X2[i] * aX[i]) if X[0] > 0 else W"
    assert widened(text, ["X", "W"]) == (
        "sum(k, float32(X[i, 2*k]) * float32(W[k]) + X2[i] * aX[i]) if float32(X[0]) > 0 else W"
    )
    assert widened(text, []) is text
    assert rounded("a + b", "float16") == "float16(a + b)"
    assert rounded("a + b", "float32") == "a + b"


@pytest.mark.parametrize("dtype", [BF16, F16])
def test_models(dtype: Any) -> None:
    """Each kernel computes in float32 and rounds once."""
    cnn = small_cnn()
    cnn[-1] = nn.Identity()  # of a softmax the results are zeros and ones
    report = nearer(cnn, dtype, *drawn((2, 3, 9, 9))).report
    assert len(report.replaced) == 7 and not report.left_out
    report = nearer(Transformer(12, 3), dtype, *drawn((2, 5, 12))).report
    assert len(report.replaced) == 9 and not report.left_out
    name = str(dtype).removeprefix("torch.")
    assert f"linear+add        {name} X[10, 48] W[12, 48] b[12] R[10, 12]" in str(report)


@pytest.mark.parametrize("dtype", [BF16, F16])
def test_single_operations(dtype: Any) -> None:
    def function(*inputs: Tensor) -> tuple[Tensor, ...]:
        q, x, image = inputs[0], inputs[5], inputs[7]
        return (
            *(each(*inputs[:5]) for _, each in ATTENTIONS),
            *(each(*inputs[5:7]) for _, each in CHAINS),
            x.softmax(-1),
            F.layer_norm(x, (6, 12)),
            F.rms_norm(x, (12,)),
            q @ q.mT,
            F.conv2d(image, image[:, :, :3, :3], stride=2, padding=1, dilation=2),
            F.conv_transpose2d(image, image[:3, :, :3, :3], stride=2, padding=1),
            F.conv2d(image, image[:, :1].mT[:, :, :3, :3].expand(3, 1, 3, 3), groups=3),
            F.avg_pool2d(image, 3, 2, 1),
        )

    shapes = Q, K, V, (2, 4, 5, 7), (2, 5, 36), (2, 6, 12), (2, 6, 12), (3, 3, 9, 9)
    report = nearer(Calls(function), dtype, *drawn(*shapes)).report
    assert len(report.replaced) == len(ATTENTIONS) + len(CHAINS) + 8
    assert not report.left_out


def test_a_border_and_a_copy_stay_narrow() -> None:
    """What only moves is read by a product of numbers of 16 bits."""
    model: Any = filled(nn.Conv2d(1, 2, 2, padding=1, bias=False)).bfloat16()
    x = drawn((1, 1, 3, 3))[0].bfloat16()
    assert texts(model, x) == [
        "P[n, c, h, w] = X[n, c, h - 1, w - 1] if 1 <= h and h < 4 and 1 <= w and w < 4 else 0\n"
        "Y[n, o, h, w] = bfloat16(sum(c, r < 2, s < 2, "
        "float32(P[n, c, h + r, w + s]) * float32(W[o, c, r, s])))"
    ]


def test_convolutions_of_16_bits_are_direct() -> None:
    model, (x,) = nn.Conv2d(16, 16, 3).eval().bfloat16(), drawn((1, 16, 5, 5))
    found = autosched.torch.tasks_of(model, x.bfloat16(), winograd=2).found
    assert [each.kind for each in found] == ["conv2d"]


def test_both_sides_of_a_product_of_attention_are_narrow() -> None:
    model = Calls(lambda q: F.scaled_dot_product_attention(q, q, q)).eval()
    (text,) = texts(model, drawn((1, 3, 4))[0].bfloat16())
    assert "\nE[a, i, j] = bfloat16(exp(S[a, i, j] - m[a, i]))\n" in text
    assert "\nA[a, i, f] = sum(j, float32(E[a, i, j]) * float32(V[a, j, f]))\n" in text


def test_a_maximum_of_nothing_is_what_pytorch_has() -> None:
    x = torch.full((1, 1, 2, 2), -torch.inf, dtype=BF16)
    model = Calls(lambda x: F.max_pool2d(x, 2, 1, 1)).eval()
    assert torch.equal(agree(model, x.zero_())(x - torch.inf), model(x - torch.inf))


def test_of_a_sum_each_term_counts() -> None:
    """Sums are of float32: of 4096 ones in bfloat16 they would stop growing at 256."""
    model = Calls(lambda x, w: (x @ w, x.softmax(-1), F.avg_pool1d(x[None], 4096))).eval()
    x = torch.ones(1, 4096, dtype=BF16)
    small = x[:, :12] / 1024
    norm = Calls(lambda x: F.rms_norm(x, (12,))).eval()
    assert torch.equal(agree(norm, small, tolerance=1e-2)(small), norm(small))
    product, parts, mean = agree(model, x, x.t().contiguous())(x, x.t().contiguous())
    assert product.item() == 4096 and parts[0, 0].item() == 2**-12 and mean.item() == 1


CONVERSIONS: list[tuple[str, Callable[..., Tensor]]] = [
    # what is read in float32 is read as it lies
    (
        "layer_norm+to_bfloat16 bfloat16 X[3, 8]",
        lambda x, y: F.layer_norm(x.float(), (8,)).to(BF16),
    ),
    ("matmul bfloat16 A[3, 8] float16 B[3, 8]", lambda x, y: x.float() @ y.float().t()),
    ("matmul+to_float32+mul bfloat16 A[3, 8] B[3, 8]", lambda x, y: (x @ x.t()).float() * 3),
    (
        "to_float32+mul+to_float16+to_float32+sub bfloat16 X[3, 8] R[8]",
        lambda x, y: (x.float() * x[0]).half().float() - x,
    ),
    ("to_bfloat16+mul+add float16 X[3, 8] bfloat16 R[3, 8]", lambda x, y: y.to(BF16) * 3 + x),
    ("sin+mul bfloat16 X[3, 8] float16 R[3]", lambda x, y: x.sin() * y[:, :1].contiguous()),
]


def test_conversions_belong_to_kernels() -> None:
    model = Calls(lambda x, y: tuple(f(x, y) for _, f in CONVERSIONS)).eval()
    x, y = drawn((3, 8), (3, 8))
    report = agree(model, x.to(BF16), y.half(), tolerance=1e-2).report
    assert [f"{r.kind} {r.inputs}" for r in report.replaced] == [text for text, _ in CONVERSIONS]
    assert not report.left_out


def test_a_value_that_is_rounded_on_purpose_is() -> None:
    model, (x,) = Calls(lambda x: (x * 1.001).to(BF16).float() - x).eval(), drawn((4, 8))
    assert agree(model, x, tolerance=0.0).report.replaced[0].inputs == "X[4, 8]"


def test_a_result_that_is_rounded_on_purpose_is() -> None:
    def function(linear: Any, x: Tensor) -> tuple[Tensor, ...]:
        return x.to(BF16).float(), (x * 3).half().float(), linear(x).to(BF16).float()

    model, (x,) = filled(Calls(function, torch.nn.Linear(1, 8))), drawn((4, 1))
    assert len(agree(model, x, tolerance=0.0).report.replaced) == 3


def test_a_kernel_reads_what_is_rounded_before_it_and_views() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x.to(BF16).softmax(-1), y.float().view(4, 6).softmax(-1)

    x, y = drawn((3, 8), (3, 8))
    report = agree(Calls(function).eval(), x, y.half(), tolerance=1e-2).report
    assert [each.inputs for each in report.replaced] == ["bfloat16 X[3, 8]", "X[4, 6]"]
    assert [each.operation for each in report.left_out] == ["_to_copy"] * 2


STAY: list[Callable[[Tensor], Tensor]] = [
    lambda x: x.float(),  # alone
    lambda x: x.double().sin().neg(),
    lambda x: x.to(torch.int32).float().relu(),
    lambda x: (x + 1).to(torch.int8) * 2,
    lambda x: (x[None, None] * 2).to(BF16, memory_format=torch.channels_last),
    lambda x: (lambda y: (torch.stack((y, y)), y @ y.t()))(x.float())[0],  # another reads it
]


def test_what_is_no_conversion_of_a_kernel() -> None:
    model = Calls(lambda x: [f(x) for f in STAY]).eval()
    found = autosched.torch.tasks_of(model, drawn((3, 4))[0].half())
    assert [each.kind for each in found.found] == []
    text = str(found)
    assert "is float64, expected float32 or bfloat16 or float16" in text
    assert "is int32, expected float32 or bfloat16 or float16" in text
    assert "_to_copy  it cannot be part of a kernel before it, and alone it is none" in text


def test_a_reason_tells_the_type() -> None:
    model, (x,) = filled(nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))), drawn((2, 4))
    of_norm = untuned(autosched.torch.tasks_of(model[1].bfloat16(), x.bfloat16()).tasks)
    of_float32 = untuned(autosched.torch.tasks_of(model[0], x).tasks)
    report = autosched.torch.with_kernels(
        model.bfloat16(), [*of_norm, *of_float32], x.bfloat16()
    ).report
    assert "linear  no record of bfloat16 X[2, 4] W[4, 4] b[4]" in str(report)


def test_weights_that_layers_share_are_stored_once() -> None:
    def function(first: Any, second: Any, x: Tensor) -> Tensor:
        return second(first(x)) + F.linear(x, first.weight)

    model = Calls(function, nn.Linear(4, 4), nn.Linear(4, 4))
    model.parts[1].weight = model.parts[0].weight
    fast = nearer(filled(model), BF16, *drawn((3, 4)))
    assert sum(b.shape == (4, 4) for b in fast.graph_module.buffers()) == 1


def test_another_type_is_refused_and_its_own_is_not() -> None:
    model, x = filled(nn.Linear(4, 4)).bfloat16(), drawn((2, 4))[0].bfloat16()
    fast = agree(model, x, tolerance=1e-2)
    for change in (fast.float, fast.half, fast.double):
        with pytest.raises(
            ConfigError, match=r"_W is bfloat16 on cpu, .* would become .*: convert"
        ):
            change()
    assert torch.equal(fast.bfloat16()(x), fast.to(BF16)(x))
    told = r"for the arguments \(bfloat16\[2, 4\]\), found \(float16\[2, 4\]\)"
    with pytest.warns(UserWarning, match=told), pytest.raises(RuntimeError):
        fast(x.half())  # as the model does


def test_automatic_types_are_those_of_the_trace() -> None:
    """Conversions that `torch.autocast` makes are part of the graph, in the model or around it."""

    def function(block: Any, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=BF16):
            return block(x)

    (x,) = drawn((2, 5, 12))
    block = filled(Transformer(12, 3))
    wanted = [
        *("layer_norm+to_bfloat16", "linear", "batch_matmul+div", "softmax", "batch_matmul"),
        *("linear+add", "layer_norm+to_bfloat16", "linear+gelu", "linear+add"),
    ]
    inside = agree(Calls(function, block).eval(), x, tolerance=2e-2)
    with torch.autocast("cpu", dtype=BF16):
        around = agree(block, x, tolerance=2e-2)
    for fast in (inside, around):
        assert [r.kind for r in fast.report.replaced] == wanted
        assert not fast.report.left_out
    assert torch.equal(inside(x), around(x))
    with torch.autocast("cpu", dtype=BF16):
        assert torch.equal(inside(x), around(x))


def test_what_is_left_of_automatic_types_is_as_it_was_traced() -> None:
    def function(linear: Any, x: Tensor) -> Tensor:
        y = linear(x)
        with torch.autocast("cpu", enabled=False):
            return y.float() @ x[0]  # of a vector, PyTorch's

    model, (x,) = filled(Calls(function, nn.Linear(4, 4))), drawn((3, 4))
    automatic = torch.autocast("cpu", dtype=BF16)
    with automatic, torch.no_grad():
        wanted = model(x)
        fast = agree(model, x, tolerance=2e-2)
        mine = autosched.torch.backend(untuned(autosched.torch.tasks_of(model, x).tasks))
        compiled = torch.compile(model, backend=mine)
        assert fast(x).dtype == compiled(x).dtype == wanted.dtype == torch.float32
        torch.testing.assert_close(compiled(x), wanted, rtol=2e-2, atol=2e-2)
    assert [each.kind for each in mine.report.replaced] == ["linear+to_float32"]
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))


def test_the_backend_has_kernels_for_each_type() -> None:
    model = filled(nn.Sequential(nn.Linear(12, 16), nn.GELU(), nn.Linear(16, 4)))
    (x,) = drawn((3, 12))
    narrow = copy.deepcopy(model).bfloat16()
    with torch.autocast("cpu", dtype=BF16):
        automatic = autosched.torch.tasks_of(model, x).tasks
    known = [*autosched.torch.tasks_of(narrow, x.bfloat16()).tasks, *automatic]
    mine = autosched.torch.backend(untuned(list({task.key: task for task in known}.values())))
    with torch.no_grad():
        compiled = torch.compile(narrow, backend=mine)
        for _ in range(2):
            wanted = narrow(x.bfloat16())
            torch.testing.assert_close(compiled(x.bfloat16()), wanted, rtol=2e-2, atol=2e-2)
            narrow[0].weight.mul_(2)
            narrow[2].weight.data = narrow[2].weight / 3  # in other memory
        compiled = torch.compile(model, backend=mine)
        torch.testing.assert_close(compiled(x), model(x))
        for _ in range(2):
            with torch.autocast("cpu", dtype=BF16):
                found, wanted = compiled(x), model(x)
            torch.testing.assert_close(found, wanted, rtol=2e-2, atol=2e-2)
            model[0].weight.mul_(2)
    kinds = [[each.kind for each in report.replaced] for report in mine.reports]
    assert kinds[0] == kinds[-1] == ["linear+gelu", "linear"] and [] in kinds


def test_the_type_of_another_tensor() -> None:
    def function(linear: Any, x: Tensor) -> tuple[Tensor, ...]:
        wide = x.float()
        y = linear(x).relu().type_as(x) * 2
        return y, (wide * torch.rsqrt(wide + 9) * 2).type_as(x), (x * 2 + 1).type_as(wide)

    model, (x,) = filled(Calls(function, nn.Linear(4, 3))).bfloat16(), drawn((5, 4))
    fast = agree(model, x.bfloat16(), tolerance=0.05)
    assert sorted(r.kind for r in fast.report.replaced) == [
        "add+rsqrt+mul+mul+to_bfloat16",
        "linear+relu+mul",
        "mul+add+to_float32",
    ]
    assert not fast.report.left_out
