"""The tasks of models: what they compute is what PyTorch computes; what is left out, and why."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from autosched.errors import ConfigError
from autosched.target import cuda_target

torch = pytest.importorskip("torch", "2.9", reason="models are for PyTorch 2.9 or later")
import autosched.torch  # noqa: E402
from kit.torch_models import Calls, agree, drawn, filled  # noqa: E402

nn, F = torch.nn, torch.nn.functional
Tensor = Any

CONVOLUTIONS: list[tuple[str, Any, tuple[int, ...]]] = [
    ("conv2d", nn.Conv2d(3, 5, (3, 2), (2, 1), (1, 0)), (2, 3, 9, 7)),
    ("conv2d", nn.Conv2d(3, 5, 3, 1, 2, dilation=2, bias=False), (1, 3, 7, 6)),
    ("conv2d", nn.Conv2d(1, 1, 1), (1, 1, 1, 1)),
    ("conv2d", nn.Conv2d(6, 9, 3, padding=1, groups=3), (2, 6, 5, 5)),
    ("depthwise_conv2d", nn.Conv2d(5, 5, 3, 2, 1, groups=5), (2, 5, 7, 7)),
    ("conv2d", nn.Conv2d(3, 6, 3, groups=3), (1, 3, 5, 5)),
    ("conv2d", nn.Conv2d(2, 3, 4, padding="same", dilation=3), (1, 2, 6, 5)),
    ("conv1d", nn.Conv1d(2, 3, 4, padding="valid"), (1, 2, 6)),
    ("conv1d", nn.Conv1d(3, 4, 3, 2, 1), (2, 3, 8)),
    ("conv3d", nn.Conv3d(2, 3, 2, (1, 2, 1), 1), (1, 2, 4, 5, 3)),
    ("conv_transpose2d", nn.ConvTranspose2d(3, 5, 3, 2, 1, output_padding=1), (2, 3, 4, 5)),
    (
        "conv_transpose2d",
        nn.ConvTranspose2d(4, 6, (3, 2), (1, 3), groups=2, dilation=2, bias=False),
        (1, 4, 3, 4),
    ),
    ("conv_transpose1d", nn.ConvTranspose1d(2, 3, 4, 2, 1), (1, 2, 5)),
]


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
def test_convolutions() -> None:
    kinds, parts, shapes = zip(*CONVOLUTIONS, strict=True)

    def function(*given: Any) -> tuple[Tensor, ...]:
        return tuple(part(x) for part, x in zip(given, given[len(parts) :], strict=False))

    report = agree(filled(Calls(function, *parts)), *drawn(*shapes)).report
    assert tuple(r.kind for r in report.replaced) == kinds


WINDOWS = [
    (size, kernel, stride, padding, ceil, border)
    for size, kernel in ((5, 2), (6, 3))
    for stride in (1, 2, 3)
    for padding in (0, 1)
    for ceil in (False, True)
    for border in (False, True)
]


def test_means_over_windows_that_reach_beyond_the_image() -> None:
    def function(x: Tensor) -> list[Tensor]:
        rows = (
            F.avg_pool2d(x[:, :, :size] * 2, (kernel, 2), (stride, 1), (padding, 0), ceil, border)
            for size, kernel, stride, padding, ceil, border in WINDOWS
        )
        both = F.avg_pool2d(x, 3, 2, 1, True, False), F.avg_pool3d(x, 3, 2, 1, True, False)
        return [*rows, *both, F.avg_pool1d(x[0], 3, 2, 1, True, False)]

    report = agree(Calls(function).eval(), *drawn((2, 3, 6, 4))).report
    assert not report.left_out or {r.operation for r in report.left_out} == {"mul"}


def poolings(x: Tensor) -> tuple[Tensor, ...]:
    return (
        F.max_pool2d(x, 3, 2, 1),
        F.max_pool2d(x, (2, 3), ceil_mode=True),
        F.max_pool2d(x, 2, 3, 1, dilation=2, ceil_mode=True),
        F.avg_pool2d(x, 3, 2, 1),
        F.avg_pool2d(x, (2, 1)),
        torch.max_pool2d(x, [3], [2]),  # one number for both axes
        F.avg_pool2d(x, [2]),
        F.adaptive_avg_pool2d(x, (3, 1)),
        F.max_pool1d(x[0], 3, 1, 1),
        F.avg_pool1d(x[0], 2),
    )


def test_poolings() -> None:
    x = drawn((2, 3, 9, 8))[0] - 5  # a border of zeros would have the largest number
    report = agree(Calls(poolings).eval(), x).report
    kinds = ["max_pool2d"] * 3 + ["avg_pool2d"] * 2 + ["max_pool2d"] + ["avg_pool2d"] * 2
    assert [r.kind for r in report.replaced] == [*kinds, "max_pool1d", "avg_pool1d"]


def products(w: Any, x: Tensor, y: Tensor, square: Tensor) -> tuple[Tensor, ...]:
    q, k = (z.view(2, 5, 3, 4).transpose(1, 2) for z in (x, y))
    return (
        w(x),
        x @ w.weight.t(),
        x.permute(0, 2, 1) @ y,
        q @ k.transpose(-1, -2),
        torch.bmm(x, y.mT),
        torch.mm(square, square.t()),
        torch.addmm(square[0], square, square),
        square @ square.transpose(0, 1).contiguous().t(),
        square @ x[:, :3],  # one matrix for all of a batch
        q[:, :, None] @ k[:1, None].mT,
        torch.baddbmm(x[0, :, :5], x, y.mT, beta=0.5, alpha=3).relu(),
        torch.baddbmm(x[0, :, :5] * math.nan, x, y.mT, beta=0),
        torch.einsum("bthd,bshd->bhts", q, k),
        torch.einsum(
            "bhts,bshd->bthd", q, x[:1, :4].reshape(1, 4, 3, 4)
        ).relu(),  # in its own order
        torch.einsum("ij, bj", w.weight, x[:, 0]),
    )


def test_products() -> None:
    model = filled(Calls(products, nn.Linear(12, 7)))
    inputs = drawn((2, 5, 12), (2, 5, 12), (3, 3))
    report = agree(model, *inputs).report
    kinds = ["linear", "matmul", *["batch_matmul"] * 3, *["matmul"] * 3]
    kinds += [*["batch_matmul"] * 2, "batch_matmul+mul+add+relu", "batch_matmul+mul"]
    kinds += ["einsum", "einsum+relu", "einsum"]
    assert [r.kind for r in report.replaced] == kinds
    assert "A[2, 5, 3, 4] B[2, 5, 3, 4]" in str(report)  # as they are before they are permuted


def test_softmax_and_normalisations() -> None:
    def function(norm: Any, squares: Any, x: Tensor) -> tuple[Tensor, ...]:
        far = x + 1000  # a difference of squares would lose all digits
        masked = torch.where(x > 0, x, -torch.inf)
        return (
            norm(far),
            F.layer_norm(x, (3, 7), eps=0.5),
            masked.softmax(-1),
            x.softmax(2),
            squares(x * 1e-4),
            F.rms_norm(x, (3, 7), eps=0.5),
            x.softmax(1).relu(),
            masked.log_softmax(-1),
            (x * 300).log_softmax(0),  # of exponentials that are zeros
        )

    model, (x,) = filled(Calls(function, nn.LayerNorm(7), nn.RMSNorm(7))), drawn((2, 3, 7))
    x[0, :, 0] = 1
    report = agree(model, x, tolerance=1e-4).report
    assert [r.kind for r in report.replaced] == [
        "gt+where",
        *["layer_norm"] * 2,
        *["softmax"] * 2,
        *["rms_norm"] * 2,
        *("softmax+relu", "log_softmax", "log_softmax"),
    ]


def test_normalisations_of_groups() -> None:
    def function(group: Any, channel: Any, norm: Any, x: Tensor) -> tuple[Tensor, ...]:
        return (
            F.silu(group(x + 1000)),
            norm(group(x)) * x[:, :, :1, :1],
            norm(channel(x)),
            F.instance_norm(x).relu(),
            group(x[:, :, 0, 0]),
            F.group_norm(x, 6, eps=0.5),
        )

    parts = nn.GroupNorm(3, 6), nn.InstanceNorm2d(6, affine=True), nn.BatchNorm2d(6)
    model = filled(Calls(function, *parts))
    assert [r.kind for r in agree(model, *drawn((2, 6, 3, 4)), tolerance=1e-3).report.replaced] == [
        "group_norm+silu",
        "group_norm+batch_norm+mul",
        "instance_norm+batch_norm",
        "instance_norm+relu",
        "group_norm",
        "group_norm",
    ]


UNARY: list[Callable[[Tensor], Tensor]] = [
    F.relu,
    F.relu6,
    F.gelu,
    lambda x: F.gelu(x, approximate="tanh"),
    F.silu,
    F.hardswish,
    F.hardsigmoid,
    lambda x: F.leaky_relu(x, 0.2),
    lambda x: F.elu(x, 0.7),
    lambda x: F.hardtanh(x, -0.5, 0.25),
    lambda x: x.clamp(max=0.5),
    lambda x: x.clamp_min(-0.5),
    torch.sigmoid,
    torch.tanh,
    torch.exp,
    torch.abs,
    torch.square,
    torch.reciprocal,
    lambda x: x.abs().sqrt(),
    lambda x: x.pow(4),
    lambda x: x.abs().pow(0.5),
    lambda x: x.abs().pow(-0.5),
    lambda x: x**-1,
    lambda x: x**-2,
    F.selu,
    lambda x: F.celu(x, 0.7),
    F.softplus,
    lambda x: F.softplus(x, 2, 3),
    F.mish,
    F.logsigmoid,
    torch.exp2,
    lambda x: x.abs().log2(),
    torch.sinh,
    torch.cosh,
    torch.atan,
    lambda x: F.prelu(x, x.new_tensor([0.2])),
    lambda x: F.prelu(x, torch.arange(6.0)),
    lambda x: torch.maximum(torch.minimum(x, torch.arange(6.0) - 3), torch.full((4, 1), -1.0)),
    lambda x: -x,
    lambda x: 1 - x,
    lambda x: x - 2.5,
    lambda x: x * -3 + 1,
    lambda x: x / 7,
    lambda x: x * x,
    lambda x: F.dropout(x.view(4, 2, 3).unsqueeze(1), 0.5, False).squeeze().relu(),
]


def test_what_follows_an_operation() -> None:
    model = filled(Calls(lambda w, x: tuple(f(w(x)) for f in UNARY), nn.Linear(5, 6)))
    (x,) = drawn((4, 5))
    x[1:] = -x[1:].abs()
    fast = agree(model, x)
    assert len(fast.report.replaced) == len(UNARY) and not fast.report.left_out
    assert all("+" in r.kind for r in fast.report.replaced)
    x[0, 0] = math.nan
    with torch.no_grad():
        torch.testing.assert_close(fast(x), model(x), equal_nan=True)


def test_sums_with_other_tensors() -> None:
    def function(first: Any, second: Any, x: Tensor) -> tuple[Tensor, ...]:
        a = torch.relu(first(x) + second(x))
        return a, a - first(x), second(x) / (a + 2), second(x).view(2, 3, 4) * a.view(2, 3, 4)

    model, (x,) = filled(Calls(function, nn.Linear(5, 4), nn.Linear(5, 4))), drawn((6, 5))
    kinds = ["linear+add+relu", "linear", "linear+sub", "linear+div", "linear+mul"]
    assert [r.kind for r in agree(model, x).report.replaced] == kinds


def test_batch_normalisation() -> None:
    def function(conv: Any, group: Any, linear: Any, norm: Any, x: Tensor) -> tuple[Tensor, ...]:
        def normed(y: Tensor) -> Tensor:
            return F.batch_norm(y, norm.running_mean, norm.running_var, norm.weight, norm.bias)

        rows = linear(x.flatten(1))
        plain = F.batch_norm(group(x), norm.running_mean, norm.running_var)
        return (
            normed(conv(x)).relu(),
            normed(group(x)),
            plain,
            normed(rows),
            normed(linear(x.flatten(1)).view(3, 4, 2)),  # whose channels are rows and columns
        )

    parts = nn.Conv2d(2, 4, 2), nn.Conv2d(2, 4, 2, groups=2), nn.Linear(18, 4), nn.BatchNorm2d(4)
    model, (x,) = filled(Calls(function, *parts)), drawn((6, 2, 3, 3))
    report = agree(model, x).report
    convolutions = ["conv2d+batch_norm", "conv2d+batch_norm+relu", "conv2d+batch_norm"]
    kinds = ["linear+batch_norm", *convolutions, "linear"]
    assert [r.kind for r in report.replaced] == kinds
    assert [(each.operation, each.reason) for each in report.left_out] == [
        (
            "_native_batch_norm_legit_no_training",
            "it cannot be part of a kernel before it, and alone it is none",
        )
    ]


def test_tasks_weights_and_places() -> None:
    block = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.LayerNorm(6))
    (x,) = drawn((3, 6))
    found = autosched.torch.tasks_of(block.eval(), x)
    assert found.weights == [2.0, 1.0]
    assert [each.places for each in found.found] == [("0", "2"), ("4",)]
    assert [task.layout.text for task in found.tasks] == ["pre-transformed", "none"]
    assert str(found).splitlines() == [
        "2 tasks, 0 operations left to PyTorch",
        "  2x  linear+relu  X[3, 6] W[6, 6] b[6]  0, 2",
        "  1x  layer_norm   X[3, 6] g[6] b[6]     4",
    ]
    plain = autosched.torch.tasks_of(block, x, layout_rewrite="none").tasks[0]
    assert plain.layout.text == "none" and plain.key != found.tasks[0].key


LEFT_OUT: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "another order": (
        lambda x: F.rms_norm(x.to(memory_format=torch.channels_last), (5,)),
        r"its result is stored in another order: strides \(60, 1, 15, 3\)",
    ),
    "a type": (lambda x: torch.mm(x[0, 0].double(), x[0, 0].double().t()), "is float64, expected"),
    "one image": (lambda x: F.conv2d(x[0], x), "its input has 3 dimensions, 4 are expected"),
    "three tensors": (lambda x: torch.einsum("a,a,a->a", *x[0, 0, :3]), "it is of 3 tensors"),
    "one index twice": (lambda x: torch.einsum("iiab,cb->ac", x, x[0, 0]), "repeats an index"),
    "indices not told": (
        lambda x: torch.einsum("...a,ab->...b", x, x[0, 0].t()),
        "has an ellipsis",
    ),
    "nothing added up": (
        lambda x: torch.einsum("i,j->ij", x[0, 0, 0], x[0, 0, 0]),
        "it sums over no index",
    ),
    "of one tensor": (
        lambda x: torch.einsum("ij,kj->k", x[0, 0], x[0, 0]),
        "only one of its tensors has",
    ),
    "a number of two": (lambda x: torch.einsum("i,i->", x[0, 0, 0], x[0, 0, 0]), "it has 0 ind"),
    "a row": (lambda x: F.linear(x, x[0, 0, 0]), "its weight has one dimension, at least 2"),
    "one for all": (
        lambda x: F.linear(x[0, 0], x[0, 0], x[0, 0, 0, :1]),
        r"its bias has the shape \(1,\), \(4,\) is expected",
    ),
    "a number": (
        lambda x: x[0, 0, 0, 0].softmax(0),
        "its input is a number, at least one dimension",
    ),
    "a vector": (lambda x: x @ x[0, 0, 0], "one of its operands is a vector"),
    "statistics that are given": (
        lambda x: F.instance_norm(x, x[0, 0, 0, :3], x[0, 0, 0, 1:4], use_input_stats=False),
        "it normalises with means and variances that are given",
    ),
    "along nothing": (lambda x: x[0, 0, 0, 0].mean(), "it reduces no dimension"),
    "a divisor": (lambda x: F.avg_pool2d(x, 2, divisor_override=3), "it has a divisor_override"),
    "windows that differ": (
        lambda x: F.adaptive_avg_pool2d(x, 3),
        r"its windows differ in size: \(4, 5\) is not a multiple of \(3, 3\)",
    ),
    "a wide border": (
        lambda x: F.conv_transpose2d(x, x[:, :2, :1, :1], padding=1),
        "its padding 1 is larger than its window's border",
    ),
    "factors": (
        lambda x: torch.addmm(x[0, 0, 0, :4], x[0, 0], x[0, 0].t(), alpha=2),
        "it has factors alpha or beta",
    ),
    "a column": (
        lambda x: torch.addmm(x[0, 0, :, :1], x[0, 0], x[0, 0].t()),
        r"what it adds has the shape \(4, 1\), \(4,\) is expected",
    ),
    "no kernel before": (lambda x: x * 2, "before it, and alone it is none"),
    "no rule": (lambda x: x.cumsum(0), "there is no rule for it here"),
}


def test_what_is_left_out() -> None:
    model = Calls(lambda x: [function(x) for function, _ in LEFT_OUT.values()]).eval()
    found = autosched.torch.tasks_of(model, *drawn((3, 3, 4, 5)))
    assert not found.found
    reasons = [each.reason for each in found.left_out]
    for name, (_, wanted) in LEFT_OUT.items():
        assert any(re.search(wanted, each) for each in reasons), name
    assert re.search(r"left to PyTorch:\n(.*\n)*  1x  rms_norm +its result is stored", str(found))


FOLLOWERS_THAT_STAY: list[Callable[[Tensor], Any]] = [
    lambda y: y + y.relu(),  # another reads it
    lambda y: y.t().reshape(4, 4).contiguous().relu(),  # in another order
    lambda y: y.view(1, 2, 2, 4).contiguous(memory_format=torch.channels_last).relu(),
    lambda y: y + torch.ones(2, 4, 4),  # broadcast itself
    lambda y: torch.add(y, torch.ones(4, 4), alpha=2),
    lambda y: y * math.inf,
    lambda y: y.clamp(min=math.inf),
    lambda y: y.clamp(max=-math.inf),
    lambda y: y**5,
    lambda y: F.softplus(y, threshold=math.inf),
    lambda y: F.prelu(y.view(2, 2, 4), torch.ones(2)),  # for each second of a kernel's rows
    lambda y: F.dropout(y, 1.0, True).relu(),  # in training
    lambda y: torch.ops.aten.elu(y, 1, 2),
    lambda y: y.double().relu(),
    lambda y: F.batch_norm(y, None, None, training=True),
    lambda y: F.batch_norm(y, torch.ones(4).cumprod(0), torch.ones(4).cumprod(0)),  # no constants
]


def test_what_does_not_follow_an_operation() -> None:
    model = filled(Calls(lambda w, x: [f(w(x)) for f in FOLLOWERS_THAT_STAY], nn.Linear(3, 4)))
    fast = agree(model, *drawn((4, 3)))
    assert {r.kind for r in fast.report.replaced} == {"linear", "relu+add"}
    assert len(fast.report.left_out) >= len(FOLLOWERS_THAT_STAY) - 1


def test_sizes_that_depend_on_values() -> None:
    def function(linear: Any, x: Tensor) -> tuple[Tensor, ...]:
        y = linear(x[x[:, 0] > 0])
        maps = y[:, :, None, None]
        image = F.interpolate(maps.contiguous(memory_format=torch.channels_last), scale_factor=2)
        masks = torch.where(y > 0, y * 2, 0), torch.ones_like(y) * 2 + 1
        others = torch.cat((y, y), 1) * 2 + 1, F.relu(y * 2), F.glu(y), y.softmax(-1)
        return linear(x) * 2, image * 2 + 1, *masks, *others

    model = filled(Calls(function, nn.Linear(3, 4)))
    fast = agree(model, *drawn((6, 3)))
    assert [r.kind for r in fast.report.replaced] == ["linear+mul"]
    assert "linear has sizes that are not known: (u0, 4)" in str(fast.report)


def test_numbers_that_are_read_from_a_tensor() -> None:
    def function(w: Any, x: Tensor) -> tuple[Tensor, ...]:
        number = x.max().item()
        return w(x).clamp(max=number), number - w(x), F.leaky_relu(w(x), number), w(x) + number

    fast = agree(filled(Calls(function, nn.Linear(3, 4))), *drawn((4, 3)))
    assert {r.kind for r in fast.report.replaced} == {"linear"}


def unwritten(x: Tensor) -> Tensor:
    raise NotImplementedError


def test_what_is_refused() -> None:
    (x,) = drawn((2, 3))
    linear: Any = nn.Linear(3, 3)
    with pytest.raises(ConfigError, match=r"one in training; call model\.eval"):
        autosched.torch.tasks_of(linear, x)
    linear.eval()
    with pytest.raises(ConfigError, match=r"model: expected a torch.nn.Module, found <function"):
        autosched.torch.tasks_of(F.relu, x)
    with pytest.raises(ConfigError, match=r"target: expected a CPU, found cuda"):
        autosched.torch.tasks_of(linear, x, target=cuda_target("sm_90"))
    with pytest.raises(ConfigError, match=r"example_inputs\[1\]: expected a tensor .* found \["):
        autosched.torch.tasks_of(linear, x, [x])
    with pytest.raises(ConfigError, match=r"mask: expected a tensor or a number, found \["):
        autosched.torch.tasks_of(linear, x, mask=[x])
    with pytest.raises(
        ConfigError, match=r"arguments of the model, forward\(input: .*too many pos"
    ):
        autosched.torch.tasks_of(linear, x, x)
    with pytest.raises(ConfigError, match=r"\[0\]: .* \(tuple\); give the arguments one by one"):
        autosched.torch.tasks_of(linear, (x,))
    with pytest.raises(ConfigError, match=r"\(ndarray\); torch\.from_numpy makes a tensor"):
        autosched.torch.tasks_of(linear, x.numpy())
    with pytest.raises(ConfigError, match=r"layout_rewrite: expected one of none, .*, found 'n'"):
        autosched.torch.tasks_of(linear, x, layout_rewrite="n")
    builtin = Calls(F.relu).eval()
    builtin.forward = torch.square  # a function of C++ does not tell its parameters
    with pytest.raises(ConfigError, match=r"cannot trace it: no signature found"):
        autosched.torch.tasks_of(builtin, x)
    with pytest.raises(ConfigError, match=r"torch\.export cannot trace it: "):
        autosched.torch.tasks_of(Calls(lambda x: x if x.sum() > 0 else -x).eval(), x)
    with pytest.raises(ConfigError, match=r"cannot trace it: NotImplementedError; try"):
        autosched.torch.tasks_of(Calls(unwritten).eval(), x)
    with pytest.raises(ConfigError, match=r"it writes to its input .*x\.clone\(\)"):
        autosched.torch.tasks_of(Calls(lambda x: x.add_(1)).eval(), x)


def test_a_module_that_was_exported() -> None:
    """It calls itself in training, and refuses eval()."""
    (x,) = drawn((2, 3))
    program = torch.export.export(filled(nn.Sequential(nn.Linear(3, 3), nn.Dropout())), (x,))
    assert [r.kind for r in agree(program.module(), x).report.replaced] == ["linear"]
    with pytest.raises(ConfigError, match=r"found an ExportedProgram; give its module\(\)"):
        autosched.torch.tasks_of(program, x)


def test_a_layer_that_assigns_its_weights_anew_is_no_matter() -> None:
    model = Calls(lambda gru, linear, x: linear(gru(x)[0]), nn.GRU(3, 4), nn.Linear(4, 2)).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # PyTorch's, of self.parts.0._flat_weights
        fast = agree(model, *drawn((2, 5, 3)))
    assert [r.kind for r in fast.report.replaced] == ["linear"]


def test_what_no_kernel_can_hold_is_left_out() -> None:
    product = Calls(torch.matmul).eval()
    found = autosched.torch.tasks_of(product, torch.ones(70000, 1), torch.ones(1, 70000))
    assert not found.tasks
    assert "4900000000 elements, at most 2147483647 can be indexed" in found.left_out[0].reason
