"""Models whose images are stored channels last (`torch.channels_last`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", "2.9", reason="models are for PyTorch 2.9 or later")
import autosched  # noqa: E402
import autosched.torch  # noqa: E402
from kit.torch_models import Calls, agree, drawn, filled, nearer, small_cnn, untuned  # noqa: E402

nn, F = torch.nn, torch.nn.functional
Tensor = Any
LAST = torch.channels_last


def images(*shapes: Any) -> list[Tensor]:
    return [x.to(memory_format=LAST) for x in drawn(*shapes)]


def last(model: Any) -> Any:
    return model.to(memory_format=LAST)


def as_pytorch(model: Any, *inputs: Tensor, **how: Any) -> Any:
    """The report of the model with kernels, whose results are stored as PyTorch's are.

    Nothing is copied for that: between kernels there are views alone.
    """
    fast = agree(model, *inputs, **how)
    with torch.no_grad():
        results, wanted = fast(*inputs), model(*inputs)
    if isinstance(results, torch.Tensor):
        results, wanted = (results,), (wanted,)
    for found, expected in zip(results, wanted, strict=True):
        assert found.stride() == expected.stride()
    return fast.report


def copies_in(fast: Any) -> list[str]:
    """The calls of PyTorch's that write a tensor."""
    free = {"permute", "reshape", "view", "as_strided", "getitem", "transpose", "flatten"}
    targets = (n.target for n in fast.graph_module.graph.nodes if n.op == "call_function")
    names = [t.overloadpacket.__name__ for t in targets if getattr(t, "namespace", "") == "aten"]
    return [name for name in names if name not in free]


@pytest.mark.parametrize(("batch", "size"), [(1, 9), (3, 8)])
def test_a_small_cnn(batch: int, size: int) -> None:
    model, (x, other) = last(small_cnn()), images((batch, 3, size, size), (batch, 3, size, size))
    fast = agree(model, x)
    assert [r.kind for r in fast.report.replaced] == [
        "conv2d+batch_norm+relu",
        "conv2d+batch_norm+relu",
        "conv2d+batch_norm+add+relu",
        "conv2d",
        "max_pool2d",
        "avg_pool2d",
        "linear",
        "softmax",
    ]
    assert not fast.report.left_out
    assert not copies_in(fast)
    wide = -(-size // 2)
    assert f"X[{batch}, {wide}, {wide}, 7] W[3, 3, 7, 7]" in str(fast.report)
    for given in (x, other, other.contiguous()):  # the last is copied
        with torch.no_grad():
            torch.testing.assert_close(fast(given), model(given))


def weights(channels: int, outputs: int, window: Any = 3, **how: Any) -> Any:
    return nn.Conv2d(channels, outputs, window, **how)


CONVOLUTIONS: list[Callable[[], Any]] = [
    lambda: weights(17, 32, padding=1),
    lambda: weights(17, 1, 1),
    lambda: weights(17, 3, (2, 3), stride=(1, 2), padding="valid"),
    lambda: weights(17, 5, padding="same", dilation=2, bias=False),
    lambda: weights(17, 17, padding=2, stride=2, groups=17),
    lambda: weights(17, 34, groups=17),
    nn.Sequential,
    lambda: nn.ConvTranspose2d(17, 3, 3, stride=2, padding=1, output_padding=1),
    lambda: nn.ConvTranspose2d(17, 34, (2, 3), groups=17, dilation=(2, 1)),
]


@pytest.mark.parametrize("batch", [1, 3])
def test_convolutions(batch: int) -> None:
    def function(*given: Any) -> tuple[Tensor, ...]:
        *layers, x = given
        return tuple(layer(x) for layer in layers)

    layers = [make() for make in CONVOLUTIONS if make is not nn.Sequential]
    (x,) = images((batch, 17, 7, 6))
    report = as_pytorch(last(filled(Calls(function, *layers))), x, tolerance=1e-4)
    kinds = ["conv2d"] * 4 + ["depthwise_conv2d", "conv2d"] + ["conv_transpose2d"] * 2
    assert [r.kind for r in report.replaced] == kinds


@pytest.mark.parametrize(("batch", "channels"), [(1, 1), (3, 3), (1, 32), (3, 1)])
def test_channels_and_batches(batch: int, channels: int) -> None:
    def function(grouped: Any, plain: Any, x: Tensor) -> tuple[Tensor, ...]:
        return grouped(x).relu(), plain(x), F.max_pool2d(x, 2), plain(x[..., :1, :1])

    grouped = weights(channels, 2 * channels, groups=channels, padding=1)
    model = filled(Calls(function, grouped, weights(channels, 17, 1)))
    (x,) = drawn((batch, channels, 5, 7))
    as_pytorch(model, torch.empty_like(x, memory_format=LAST).copy_(x))
    as_pytorch(last(model), x)  # the format of the weights counts as well


def test_one_channel_leaves_the_format_to_the_strides() -> None:
    model = last(filled(weights(4, 1)))
    report = as_pytorch(model, *images((2, 4, 5, 6)))
    assert [r.inputs for r in report.replaced] == ["X[2, 5, 6, 4] W[3, 3, 4, 1] b[1]"]


def test_poolings_and_means() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        return (
            F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
            F.max_pool2d(x, (2, 1), dilation=(2, 1)),
            F.avg_pool2d(x, 3, 1, 1),
            F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
            F.adaptive_avg_pool2d(x, 1),
            F.adaptive_avg_pool2d(x, (3, 2)),
            x.mean((2, 3)),
            x.mean((2, 3), keepdim=True),
            x.sum(1),
            x.sum(0),
            x.mean((0, 2), keepdim=True),
            x.mean(),
        )

    (x,) = images((3, 17, 9, 8))
    report = as_pytorch(Calls(function).eval(), x)
    kinds = ["max_pool2d"] * 2 + ["avg_pool2d"] * 4 + ["mean"] * 2 + ["sum"] * 2 + ["mean"] * 2
    assert [r.kind for r in report.replaced] == kinds


def test_normalisations() -> None:
    def function(groups: Any, each: Any, norm: Any, x: Tensor) -> tuple[Tensor, ...]:
        rows = norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)  # as ConvNeXt has it
        return groups(x).relu(), each(x), x.softmax(1) * x, x.log_softmax(2), rows + x

    layers = nn.GroupNorm(3, 6), nn.InstanceNorm2d(6), nn.LayerNorm(6)
    report = as_pytorch(filled(Calls(function, *layers)), *images((2, 6, 4, 5)))
    kinds = ["layer_norm+add", "group_norm+relu", "instance_norm", "softmax+mul", "log_softmax"]
    assert [r.kind for r in report.replaced] == kinds
    inputs = [r.inputs for r in report.replaced]
    assert inputs[3:] == ["X[2, 4, 5, 6]"] * 2  # as it is, though the results are contiguous


def test_what_pytorch_traces_as_contiguous() -> None:
    def function(conv: Any, x: Tensor) -> tuple[Tensor, ...]:
        part, turned = x[:, 1:], x.mT  # not dense, and of no format
        return (
            conv(F.channel_shuffle(x, 2)),
            torch.roll(x, (1, 2), (2, 3)) * 2 + 1,
            torch.roll(part, 1, 1) * 2 + 1,
            torch.roll(turned, 1, 1).exp() + 1,
        )

    as_pytorch(last(filled(Calls(function, weights(4, 3)))), *images((2, 4, 5, 6)))

    def scaled(x: Tensor) -> tuple[Tensor, ...]:
        return x * 2 + 1, torch.cat((x * 2, x.contiguous()), 1) * 3

    as_pytorch(Calls(scaled).eval(), drawn((5, 6, 3))[0].permute(2, 0, 1)[None])


AROUND: dict[str, Callable[[Any, Tensor, Tensor], Tensor]] = {
    "conv2d+add+relu": lambda c, x, y: (c(x) + y).relu(),
    "conv2d+mul+add": lambda c, x, y: c(x) * y.mean((2, 3), keepdim=True) + x,
    "conv2d+mul": lambda c, x, y: c(x) * y[:, :1],  # a part of another tensor
    "conv2d+add": lambda c, x, y: c(x) + y[0, 0],  # fewer dimensions
    "conv2d+gt+where": lambda c, x, y: torch.where(y > 0, c(x), 2.0),
    "conv2d": lambda c, x, y: c(x).contiguous() * 2,  # the copy is PyTorch's
    "conv2d+silu": lambda c, x, y: F.silu(c(x)).flatten(2).transpose(1, 2),
    "upsample_nearest2d+conv2d": lambda c, x, y: c(F.interpolate(x, scale_factor=2)),
    "cat+conv2d": lambda c, x, y: c(torch.cat((x[:, :3], y[:, 3:]), 1)),
    "pad+max_pool2d": lambda c, x, y: F.max_pool2d(F.pad(x, (0, 1, 1, 0)), 2),
    "add+mul": lambda c, x, y: (x + y) * y,
    "pixel_shuffle+add": lambda c, x, y: (
        F.pixel_shuffle(c(x), 2) + F.interpolate(y[:, :1], (10, 12))
    ),
    "mul+cat": lambda c, x, y: torch.cat((x, y.sigmoid() * y), 1),
}


@pytest.mark.parametrize("kind", AROUND)
def test_what_follows_and_is_read_through(kind: str) -> None:
    model = last(filled(Calls(AROUND[kind], weights(4, 4, padding=1))))
    x, y = images((2, 4, 5, 6), (2, 4, 5, 6))
    report = as_pytorch(model, x, y)
    assert kind in {r.kind for r in report.replaced}


def test_a_residual_of_another_format() -> None:
    model = last(filled(Calls(AROUND["conv2d+add+relu"], weights(4, 4, padding=1))))
    x, y = drawn((2, 4, 5, 6), (2, 4, 5, 6))
    report = as_pytorch(model, x, y)
    assert [r.kind for r in report.replaced] == ["conv2d+add+relu"]


@pytest.mark.parametrize("size", [(1, 1), (1, 4)])
def test_formats_that_sizes_leave_open(size: tuple[int, int]) -> None:
    def function(conv: Any, squeezed: Any, x: Tensor) -> tuple[Tensor, ...]:
        y = conv(x)
        scale = torch.sigmoid(squeezed(F.relu(F.adaptive_avg_pool2d(y, 1))))
        upsampled = F.interpolate(scale, scale_factor=2, mode="bilinear")
        one = F.hardswish(y[:, :1] * 2)
        return y, y * scale, scale, upsampled * 2 + 1, one, one + 1, F.relu6(y).contiguous() + y

    model = filled(Calls(function, weights(3, 5, padding=1), weights(5, 5, 1)))
    (x,), (image,) = images((1, 3, *size)), drawn((*size, 3))
    as_pytorch(model, x)
    as_pytorch(last(model), x)
    as_pytorch(model, image.permute(2, 0, 1)[None])


def test_a_row_of_patches_as_an_image() -> None:
    """A view whose size of 1 PyTorch traces with another stride than it computes."""

    def function(conv: Any, linear: Any, x: Tensor) -> tuple[Tensor, ...]:
        y = linear(x).transpose(1, 2).reshape(1, 4, 2, 3)
        z = conv(y)
        return z, z.flatten(2).transpose(1, 2) * 2 + 1

    model = filled(Calls(function, weights(4, 5, padding=1), nn.Linear(3, 4)))
    assert as_pytorch(model, *drawn((1, 6, 3))).replaced


def test_a_choice_of_maps_of_one_element_has_the_strides_of_pytorchs() -> None:
    def upsampled(x: Tensor, y: Tensor) -> Tensor:
        return F.interpolate(torch.where(x > y, x * 2, y), scale_factor=2) * 2 + 1

    assert as_pytorch(Calls(upsampled).eval(), *images((2, 4, 1, 1), (2, 4, 1, 1))).replaced


def test_parts_of_a_map_of_one_element_begin_where_they_lie() -> None:
    """Strides that were settled lost the place: `bias` was read as `gain`."""
    model = last(filled(nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 8, 1))))

    def film(convolutions: Any, x: Tensor) -> Tensor:
        pooled = F.adaptive_avg_pool2d(x, 1)
        gain, bias = convolutions[1](pooled).sigmoid().chunk(2, 1)
        return (convolutions[0](x) * gain + bias).relu()

    agree(Calls(film, model).eval(), *images((2, 4, 6, 6)))

    def slices(x: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        y = x.relu()
        part = y[:, 2:]
        return y, h * y[:, :3] + y[:, 3:], part[:, 1:] * 2 + part[:, :3]

    agree(Calls(slices).eval(), *images((8, 6, 1, 1), (8, 3, 1, 1)))


def test_an_input_whose_format_is_open_is_not_copied() -> None:
    model, (x,) = last(filled(weights(3, 4))), images((1, 3, 5, 6))
    fast = agree(model, x)
    (image,) = drawn((5, 6, 3))
    seen: list[int] = []

    def see(module: Any, inputs: Any) -> None:
        seen.append(inputs[0].data_ptr())

    fast.graph_module.register_forward_pre_hook(see)
    given = image.permute(2, 0, 1)[None]
    with torch.no_grad():
        torch.testing.assert_close(fast(given), model(given))
    assert seen == [image.data_ptr()]
    keys = [task.key for task in autosched.torch.tasks_of(model, given).tasks]
    assert keys == [task.key for task in autosched.torch.tasks_of(model, x).tasks]


@pytest.mark.parametrize("rank", [1, 3])
def test_one_and_three_dimensions(rank: int) -> None:
    def function(conv: Any, turned: Any, x: Tensor) -> tuple[Tensor, ...]:
        y = conv(x)
        return y, turned(y).relu(), pools[rank](y, 2)

    pools = {1: F.max_pool1d, 3: F.max_pool3d}
    kinds = {1: (nn.Conv1d, nn.ConvTranspose1d), 3: (nn.Conv3d, nn.ConvTranspose3d)}[rank]
    model = filled(Calls(function, kinds[0](3, 4, 3, padding=1), kinds[1](4, 2, 2, stride=2)))
    if rank == 3:
        (x,) = drawn((2, 3, 4, 5, 6))
        model = model.to(memory_format=torch.channels_last_3d)
        x = x.to(memory_format=torch.channels_last_3d)
    else:
        x = drawn((2, 6, 3))[0].transpose(1, 2)
    report = as_pytorch(model, x)
    assert [r.kind for r in report.replaced] == [
        f"conv{rank}d",
        f"conv_transpose{rank}d+relu",
        f"max_pool{rank}d",
    ]


def test_equal_computations_are_one_task_however_weights_are_stored() -> None:
    layer, (x,) = filled(weights(3, 4)), images((2, 3, 5, 6))
    contiguous = autosched.torch.tasks_of(layer, x)
    assert [t.key for t in contiguous.tasks] == [
        t.key for t in autosched.torch.tasks_of(last(layer), x).tasks
    ]
    both = nn.Sequential(weights(3, 3, padding=1), last(weights(3, 3, padding=1))).eval()
    assert autosched.torch.tasks_of(both, x).weights == [2.0]


def test_weights_are_stored_once_and_stay_what_they_are_for_pytorch() -> None:
    def function(conv: Any, x: Tensor) -> tuple[Tensor, ...]:
        shared = F.conv2d(x.double(), conv.weight.double())  # this one is PyTorch's
        return conv(x), conv(x).relu(), shared

    model = last(filled(Calls(function, weights(3, 4, bias=False))))
    fast = agree(model, *images((2, 3, 5, 6)))
    kept = [b for b in fast.graph_module.buffers() if b.dim() == 4]
    assert sorted(tuple(b.shape) for b in kept) == [(3, 3, 3, 4), (4, 3, 3, 3)]
    assert [b.stride() for b in kept if b.shape[0] == 4] == [model.parts[0].weight.stride()]


def test_weights_that_an_input_changes() -> None:
    model = Calls(lambda x, w: F.conv2d(x, w * 2).relu()).eval()
    x, w = images((2, 3, 5, 6), (4, 3, 3, 3))
    as_pytorch(model, x, w)
    as_pytorch(model, x, w.contiguous())


def test_tuned_for_pre_transformed_weights(tmp_path: Path) -> None:
    model = last(filled(nn.Sequential(weights(3, 8, padding=1), nn.ReLU(), weights(8, 17, 1))))
    (x,) = images((1, 3, 8, 8))
    found = autosched.torch.tasks_of(model, x)
    assert [task.layout.text for task in found.tasks] == ["pre-transformed"] * 2
    records = tmp_path / "model.jsonl"
    autosched.tune(found.tasks, trials=8, records=records)
    fast = autosched.torch.with_kernels(model, records, x)
    assert len(fast.report.replaced) == 2
    with torch.no_grad():
        torch.testing.assert_close(fast(x), model(x))
        assert fast(x).stride() == model(x).stride()


def test_by_winograd() -> None:
    model = last(filled(nn.Sequential(weights(16, 17, padding=1), nn.BatchNorm2d(17), nn.ReLU())))
    (x,) = images((2, 16, 7, 6))
    tasks = autosched.torch.tasks_of(model, x, winograd=4, layout_rewrite="none").tasks
    fast = autosched.torch.with_kernels(model, untuned(tasks[1:]), x)
    assert [r.kind for r in fast.report.replaced] == ["winograd_conv2d+batch_norm+relu"]
    with torch.no_grad():
        found, wanted = fast(x), model(x)
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3)
    assert found.stride() == wanted.stride()


def test_in_bfloat16() -> None:
    model, (x,) = last(small_cnn()), images((2, 3, 8, 8))
    fast = nearer(model, torch.bfloat16, x)
    assert not fast.report.left_out
    assert not copies_in(fast)


def test_in_the_backend() -> None:
    model, (x,) = last(small_cnn()), images((2, 3, 8, 8))
    records = untuned(autosched.torch.tasks_of(model, x, layout_rewrite="none").tasks)
    mine = autosched.torch.backend(records)
    compiled = torch.compile(model, backend=mine)
    with torch.no_grad():
        for _ in range(2):  # the second has other weights
            found, wanted = compiled(x), model(x)
            torch.testing.assert_close(found, wanted)
            assert len(mine.report.replaced) == 8 and not mine.report.left_out
            model[0].weight.mul_(0.5)
        torch.testing.assert_close(compiled(x.contiguous()), model(x.contiguous()))
