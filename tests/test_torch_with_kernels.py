"""Kernels in the place of a model's operations."""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from concurrent.futures import ThreadPoolExecutor, TimeoutError
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autosched.errors import ConfigError
from autosched.measure.records import Record
from autosched.measure.result import MeasureResult
from autosched.session.tuned import TunedKernel
from autosched.state.steps import steps_from_json
from autosched.task import Task
from kit.exporting import cuda_record, record
from kit.records import write, written_here

torch = pytest.importorskip("torch", "2.9", reason="models are for PyTorch 2.9 or later")
from torch._dynamo import config, convert_frame  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402

import autosched.torch  # noqa: E402
from autosched.torch.recorded import best_by_computation  # noqa: E402
from kit.torch_models import (  # noqa: E402
    Calls,
    Counting,
    Decorated,
    Named,
    Transformer,
    Unnamed,
    agree,
    drawn,
    filled,
    small_cnn,
    untuned,
)

nn, F = torch.nn, torch.nn.functional
Tensor = Any


@pytest.mark.parametrize(("batch", "size"), [(1, 9), (3, 8)])
def test_a_small_cnn(batch: int, size: int) -> None:
    model, (x, other) = small_cnn(), drawn((batch, 3, size, size), (batch, 3, size, size))
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
    assert names_in(fast) <= {"reshape", "view", "clone"}
    with torch.no_grad():
        torch.testing.assert_close(fast(other), model(other))


def names_in(fast: Any) -> set[str]:
    """PyTorch's own operators in the graph."""
    targets = {n.target for n in fast.graph_module.graph.nodes if n.op == "call_function"}
    return {t.overloadpacket.__name__ for t in targets if t.namespace == "aten"}


@pytest.mark.parametrize(("batch", "length"), [(1, 1), (2, 5)])
def test_a_block_of_a_transformer(batch: int, length: int) -> None:
    model, (x,) = Transformer(12, 3).eval(), drawn((batch, length, 12))
    fast = agree(model, x)
    kinds = [r.kind for r in fast.report.replaced]
    assert kinds == [
        "layer_norm",
        "linear",
        "batch_matmul+div",
        "softmax",
        "batch_matmul",
        "linear+add",
        "layer_norm",
        "linear+gelu",
        "linear+add",
    ]
    compiled = torch.compile(fast, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), fast(x))


def test_inputs_that_are_stored_otherwise() -> None:
    model, (x,) = small_cnn(), drawn((2, 3, 8, 8))
    fast = agree(model, x)
    for given in (
        x.to(memory_format=torch.channels_last),
        x.mT.contiguous().mT,
        x.requires_grad_(),
    ):
        with torch.no_grad():
            torch.testing.assert_close(fast(given), model(given))
    flat = filled(Calls(lambda linear, x: linear(x.flatten(1)), nn.Linear(192, 2)))
    fast = agree(flat, x.detach())
    with torch.no_grad():  # what was a view of the example is none of this one
        given = x.to(memory_format=torch.channels_last)
        torch.testing.assert_close(fast(given), flat(given))


def test_examples_whose_elements_share_memory() -> None:
    model, (row, x, memory) = filled(nn.Linear(4, 2)), drawn((1, 4), (3, 4), (10,))
    for example in (row.expand(3, 4), memory.as_strided((3, 4), (2, 1)), memory[:1].expand(3, 4)):
        fast = agree(model, example)
        torch.testing.assert_close(fast(x), model(x).detach())


def test_examples_that_share_memory() -> None:
    layer, (x, y, z) = nn.Linear(4, 4), drawn((4, 4), (4, 4), (4, 4))
    model = filled(Calls(lambda layer, a, b, c: layer(a) @ layer(b) + c, layer))
    weight, parts = layer.weight, drawn((4, 12))[0].chunk(3, -1)
    for examples in ((x, x, x), (weight, x, weight), (weight.detach().mT, x.mT, x), parts):
        fast = agree(model, *examples)
        torch.testing.assert_close(fast(x, y, z), model(x, y, z).detach())
    named = filled(Named())
    found = agree(named, x[:, :3], x, other=x)(x[:, :3], y, other=z)
    torch.testing.assert_close(found["y"], named(x[:, :3], y, other=z)["y"].detach())


def test_an_argument_that_requires_a_gradient_gets_none() -> None:
    model, (x,) = filled(Calls(in_a_mode, nn.Linear(4, 2))), drawn((3, 4))
    fast = agree(model, x)
    with pytest.warns(UserWarning, match=r"requires a gradient, .* call it under torch\.no_grad"):
        result = fast(x.requires_grad_())
    with torch.enable_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")  # it is told once
        torch.testing.assert_close(fast(x), result)
    torch.testing.assert_close(result, model(x).detach())
    assert not result.requires_grad


def test_an_argument_that_has_a_tangent_gets_none() -> None:
    model, (x,) = filled(nn.Linear(4, 2)), drawn((3, 4))
    fast = agree(model, x)
    other = copy.deepcopy(fast)
    with pytest.warns(UserWarning, match="has a tangent .* differentiate the model as it was"):
        _, tangent = torch.func.jvp(fast, (x,), (x,))
    assert not tangent.any()
    with forward_ad.dual_level():
        other(x)
        with pytest.warns(UserWarning, match="has a tangent"), torch.no_grad():
            other(forward_ad.make_dual(x, x))


def test_errors_of_tracing_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ConfigError, match=r"cannot trace it: .*\[2, 5\]"):
        autosched.torch.tasks_of(nn.Linear(4, 4).eval(), torch.ones(2, 5))
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


def in_a_mode(linear: Any, x: Tensor) -> Tensor:
    with torch.enable_grad():
        return linear(x) * 2


def test_weights_that_were_made_in_inference_mode() -> None:
    with torch.inference_mode():
        model = filled(nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2), nn.ReLU()))
    (x,) = drawn((3, 4))
    fast = agree(model, x)
    assert [r.kind for r in fast.report.replaced] == ["linear+batch_norm+relu"]
    assert not any(buffer.is_inference() for buffer in fast.buffers())


def test_arguments_by_name() -> None:
    model = filled(Named())
    x, mask, y, z = drawn((5, 3), (5, 4), (5, 4), (5, 4))
    fast = agree(model, x, mask=mask, bias=y)
    assert [r.kind for r in fast.report.replaced] == ["linear+mul+mul+add"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # these are the same arguments
        wanted = fast(x, mask=mask, bias=y)["y"]
        for found in (fast(x, mask, bias=y), fast(bias=y, x=x, mask=mask, factor=1.0)):
            assert torch.equal(found["y"], wanted)
    with pytest.warns(UserWarning, match=r"float32\[5, 3\], mask=float32.*, found .*factor=2\.0\)"):
        same_as(model, fast, x, mask=mask, bias=y, factor=2.0)
    for given, named in (((x,), {"bias": y}), ((x, mask, y), {}), ((x, mask), {"other": y})):
        same_as(model, fast, *given, **named)
    with pytest.raises(TypeError, match="multiple values for argument 'x'"):
        fast(x, x=x, mask=mask, bias=y)
    more = agree(model, x, mask, y, bias=z)
    same_as(model, more, x, mask, z, bias=y)


def test_arguments_that_are_left_out_are_given_by_name() -> None:
    model, (x, mask) = filled(Decorated()), drawn((5, 3), (5, 4))
    agree(model, x)
    fast = agree(model, x, mask=mask)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(fast(x, mask), fast(mask=mask, x=x))


def test_arguments_without_a_name() -> None:
    model, (x, bias) = filled(Unnamed(nn.Linear(3, 4))), drawn((5, 3), (5, 4))
    fast = agree(model, x, bias=bias)
    same_as(model, fast, x, 2.0, bias)


def same_as(model: Any, fast: Any, *inputs: Any, **named: Any) -> None:
    with torch.no_grad():
        torch.testing.assert_close(fast(*inputs, **named), model(*inputs, **named))


def test_sparse_inputs_go_to_the_model() -> None:
    model, (x,) = filled(nn.Linear(3, 4)), drawn((5, 3))
    fast = agree(model, x)
    with pytest.warns(UserWarning, match=r"float32\[5, 3\] of the layout torch.sparse_coo"):
        torch.testing.assert_close(fast(x.to_sparse()), model(x).detach())


def test_nested_inputs_go_to_the_model() -> None:
    model, rows = filled(nn.Linear(3, 4)), drawn((5, 3), (2, 3))
    fast = agree(model, rows[0])
    nested = torch.nested.nested_tensor(list(rows))
    with pytest.warns(UserWarning, match=r"found \(float32 \(nested\)\)"):
        found = fast(nested)
    for each, row in zip(found.unbind(), rows, strict=True):
        torch.testing.assert_close(each, model(row).detach())
    with pytest.raises(ConfigError, match=r"example_inputs\[0\]: .* one shape, found a nested"):
        agree(model, nested)


def test_automatic_types_are_off() -> None:
    def function(first: Any, second: Any, x: Tensor) -> Tensor:
        return second(first(x[0]).expand(2, 5))  # PyTorch's product, then a kernel

    model, (x,) = filled(Calls(function, nn.Linear(4, 5), nn.Linear(5, 4))), drawn((3, 4))
    fast = agree(model, x)
    assert [r.kind for r in fast.report.replaced] == ["linear"]
    wanted = fast(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(fast(x), wanted)


def test_other_arguments_go_to_the_model() -> None:
    def function(linear: Any, x: Tensor, twice: bool = False) -> Tensor:
        return linear(x) * 2 if twice else linear(x)

    model, (x,) = filled(Calls(function, nn.Linear(3, 4))), drawn((5, 3))
    fast = agree(model, x, False)
    with pytest.warns(UserWarning, match=r"\(float32\[5, 3\], False\), found \(float32\[2, 3\], F"):
        torch.testing.assert_close(fast(x[:2], False), model(x[:2], False))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is told once
        torch.testing.assert_close(fast(x, True), model(x, True))
        torch.testing.assert_close(fast(x, 0), model(x, 0))
    double = copy.deepcopy(model).double()
    fresh = autosched.torch.with_kernels(model, kernels(model, x, False), x, False)
    fresh._model = (double,)
    with pytest.warns(UserWarning, match=r"found \(float64\[5, 3\], False\)") as told:
        assert fresh(x.double(), False).dtype == torch.float64
    assert [each.filename for each in told] == [__file__]


def kernels(model: Any, *inputs: Any) -> list[TunedKernel]:
    tasks = autosched.torch.tasks_of(model, *inputs, layout_rewrite="none")
    return untuned(tasks.tasks)


def test_weights_are_those_of_then() -> None:
    model, (x,) = filled(nn.Linear(3, 4)), drawn((2, 3))
    fast = agree(model, x)
    before = fast(x)
    with torch.no_grad():
        model.weight.zero_()
    assert torch.equal(fast(x), before)
    assert set(fast.state_dict()) == {f"graph_module.autosched_linear_{i}" for i in "Wb"}


def test_weights_that_no_kernel_reads_are_those_of_then() -> None:
    model = filled(nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 4), nn.GroupNorm(2, 4)))
    number = torch.tensor([3, 0])
    fast = agree(model, number)
    before = fast(number)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert torch.equal(fast(number), before)


def test_shared_weights_are_stored_once() -> None:
    layer: Any = nn.Linear(4, 4)
    embedding: Any = nn.Embedding(4, 4)
    embedding.weight = layer.weight
    model = filled(nn.Sequential(embedding, layer, nn.ReLU(), layer))
    tensors = agree(model, torch.tensor([3, 0])).state_dict().values()
    assert len({tensor.data_ptr() for tensor in tensors}) == 2  # weight and bias


def test_shared_weights_are_stored_once_in_each_order() -> None:
    def function(layer: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        return layer(layer(x)), layer(layer(x[:2]))

    model, (x,) = filled(Calls(function, nn.Linear(16, 16))), drawn((3, 16))
    first, second = autosched.torch.tasks_of(model, x).tasks
    records = [TunedKernel(first, record(first, PACKED)), *untuned([second])]
    fast = autosched.torch.with_kernels(model, records, x)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-4)
    assert sorted(t.dim() for t in fast.state_dict().values()) == [1, 2, 3]


def test_normalisations_that_differ_in_what_is_added_to_the_variance() -> None:
    def function(conv: Any, norm: Any, x: Tensor) -> tuple[Tensor, ...]:
        mean, variance = norm.running_mean, norm.running_var
        return tuple(F.batch_norm(conv(x), mean, variance, eps=eps) for eps in (1e-5, 0.5))

    model = filled(Calls(function, nn.Conv2d(2, 3, 2), nn.BatchNorm2d(3)))
    report = agree(model, *drawn((1, 2, 4, 4))).report
    assert len({r.operator for r in report.replaced}) == 1


@pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning")
def test_copies_and_pickles(monkeypatch: pytest.MonkeyPatch) -> None:
    model, (x,) = filled(nn.Sequential(nn.Linear(3, 4), nn.GroupNorm(2, 4))), drawn((2, 3))
    fast = agree(model, x)
    stored = pickle.dumps(fast)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for each in (copy.deepcopy(fast), pickle.loads(stored)):
            assert torch.equal(each(x), fast(x)) and each.report == fast.report
    other = agree(filled(copy.deepcopy(model), seed=1), x)
    other.load_state_dict(fast.state_dict())
    assert torch.equal(other(x), fast(x))
    monkeypatch.setattr("autosched.torch.tuned_module.registered", dict)
    with pytest.raises(ConfigError, match=r"process has no linear_\w+, group_norm_\w+; call"):
        pickle.loads(stored)


def noisy(linear: Any, x: Tensor) -> Tensor:
    return linear(x) + torch.rand(4)


def branching(linear: Any, x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)) + linear(x)


def test_what_reads_no_argument_is_computed_at_each_call_of_a_copy() -> None:
    """State that the model keeps, random numbers, and branches that are graphs themselves."""
    x, y = drawn((2, 3), (2, 3), seed=1)
    others = (noisy, nn.Linear(3, 4)), (branching, nn.Linear(3, 3))
    models: dict[Any, Any] = {each: filled(Calls(each, part)) for each, part in others}
    models[Counting] = Counting().eval()
    for function, model in models.items():
        found = autosched.torch.tasks_of(model, x, layout_rewrite="none")
        fast = autosched.torch.with_kernels(model, untuned(found.tasks), x)
        for copied in (copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
            assert [*copied.state_dict()] == [*fast.state_dict()]
            calls = []
            for each in (copied, copy.deepcopy(fast)):
                torch.manual_seed(0)
                calls.append([each(given) for given in (x, x, y, -x)])
            for result, wanted in zip(*calls, strict=True):
                assert torch.equal(result, wanted)
            assert torch.equal(calls[0][0], calls[0][1]) == (function is branching)


def names_in_order(fast: Any) -> list[str]:
    """The operations of the graph in their order, operators without their marks."""
    calls = (node for node in fast.graph_module.graph.nodes if node.op == "call_function")
    return [re.sub(r"_\w{8}\.default$", "", str(each.target)) for each in calls]


def test_one_view_at_most_is_between_two_kernels() -> None:
    def function(first: Any, norm: Any, last: Any, x: Tensor) -> Tensor:
        q, k, v = first(norm(x)).view(2, 3, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        return last(F.dropout(y.reshape(2, 3, 8).unsqueeze(1).squeeze(1), 0.5, False).clone())

    parts = nn.Linear(8, 24), nn.LayerNorm(8), nn.Linear(8, 5)
    fast = agree(filled(Calls(function, *parts)), *drawn((2, 3, 8)))
    assert names_in_order(fast) == [
        *("aten.reshape.default", "autosched.layer_norm", "autosched.linear"),
        *("aten.reshape.default", "autosched.attention", "aten.reshape.default"),
        *("autosched.linear", "aten.reshape.default"),
    ]


def test_views_that_are_no_identity_stay() -> None:
    def function(first: Any, last: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        y = first(x).view(2, 3, 4, 5)
        for _ in range(4):  # all four are none together, no two of them are
            y = y.permute(1, 2, 3, 0)
        return last(y), last(y.permute(0, 2, 1, 3).transpose(1, 3).reshape(24, 5).contiguous())

    fast = agree(filled(Calls(function, nn.Linear(8, 20), nn.Linear(5, 4))), *drawn((6, 8)))
    assert names_in_order(fast).count("autosched.linear") == 3


def test_threads_that_call_at_once() -> None:
    model, inputs = filled(nn.Sequential(nn.Linear(16, 16), nn.Softmax(-1))), drawn(*[(8, 16)] * 4)
    fast = agree(model, inputs[0])
    wanted = [fast(x) for x in inputs]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            assert all(map(torch.equal, pool.map(fast, inputs), wanted))


def test_a_buffer_that_the_model_writes_is_no_constant() -> None:
    model, (x,) = Counting().eval(), drawn((2, 3))
    tasks = autosched.torch.tasks_of(model, x).tasks
    assert [task.layout.text for task in tasks] == ["none"]
    fast = autosched.torch.with_kernels(model, untuned(tasks), x)
    found = [fast(x) for _ in range(3)]  # which leave the model's own buffer as it is
    for each in found:
        torch.testing.assert_close(each, model(x))


def test_constants_are_worked_out_once() -> None:
    def function(linear: Any, x: Tensor) -> Tensor:
        chosen = linear.weight.t()[torch.tensor([2, 0, 1])].masked_fill(linear.weight > 0.5, 3)
        return F.linear(x, chosen[:, :3] * 2 + 1, linear.bias[:3])

    model, (x,) = filled(Calls(function, nn.Linear(3, 3))), drawn((2, 3))
    assert autosched.torch.tasks_of(model, x).tasks[0].layout.text == "pre-transformed"
    assert names_in(agree(model, x)) == set()


@pytest.mark.parametrize("normalised", ["weight_norm", "spectral_norm"])
def test_normalised_weights_are_worked_out_once(normalised: str) -> None:
    linear = getattr(nn.utils.parametrizations, normalised)(nn.Linear(3, 4))
    assert not names_in(agree(filled(nn.Sequential(linear)), *drawn((2, 3))))


def test_angles_are_worked_out_once() -> None:
    def function(linear: Any, x: Tensor) -> Tensor:
        angles = torch.outer(torch.arange(5.0), torch.rsqrt(linear.bias))
        return linear(x) * torch.cos(angles)

    assert not names_in(agree(filled(Calls(function, nn.Linear(4, 3))), *drawn((5, 4))))


def test_masks_and_positions_are_worked_out_once() -> None:
    def function(linear: Any, table: Any, x: Tensor) -> Tensor:
        places = torch.arange(5)[None]
        joined = torch.diff(places, prepend=places[:, :1] - 1) != 1
        parts = joined.cumsum(-1)
        kept = places[..., None].new_ones((), dtype=torch.bool) & (parts == parts.mT)
        kept = kept & (places <= places.mT) & torch.ones_like(x[0, :, :1], dtype=torch.bool)
        y = linear(x) + table(places) + table(torch.zeros_like(x[..., 0], dtype=torch.long))
        return F.scaled_dot_product_attention(y, y, y, kept)

    model, (x,) = filled(Calls(function, nn.Linear(4, 4), nn.Embedding(6, 4))), drawn((1, 5, 4))
    fast = agree(model, x)
    assert [r.kind for r in fast.report.replaced] == ["linear+add+add", "masked_attention"]
    assert names_in(fast) == {"reshape"}  # of the input and the result
    same_as(model, fast, -x)


def test_a_bias_of_positions_is_worked_out_once() -> None:
    def function(first: Any, second: Any, x: Tensor) -> Tensor:
        places = torch.stack(torch.meshgrid(torch.arange(3.0), torch.arange(4.0), indexing="ij"))
        bias = second(F.relu(first(places.flatten(1).t()))).sigmoid()
        table = torch.split(bias.t().view(2, 3, 4), [1, 1])[1]
        return x @ x.mT * 2 + F.interpolate(table[None], (5, 5), mode="bilinear")[0]

    model = filled(Calls(function, nn.Linear(2, 3), nn.Linear(3, 2)))
    fast = agree(model, *drawn((1, 5, 4)))
    assert [r.kind for r in fast.report.replaced] == ["batch_matmul+mul+add"]
    assert names_in(fast) <= {"reshape", "view"}


def test_standardised_weights_are_worked_out_once() -> None:
    def function(conv: Any, x: Tensor) -> Tensor:
        weight = F.batch_norm(conv.weight.reshape(1, 4, -1), None, None, training=True, momentum=0)
        return F.conv2d(x, weight.reshape_as(conv.weight), conv.bias)

    model, (x,) = filled(Calls(function, nn.Conv2d(3, 4, 3))), drawn((1, 3, 5, 5))
    assert autosched.torch.tasks_of(model, x).tasks[0].layout.text == "pre-transformed"
    assert not names_in(agree(model, x))


def test_what_is_filled_may_depend_on_values() -> None:
    def function(linear: Any, x: Tensor) -> tuple[Tensor, ...]:
        chosen = torch.nonzero(x.flatten())
        number = x.max().item()
        return linear(x) * torch.full_like(x, number), torch.ones_like(chosen)

    model, (x,) = filled(Calls(function, nn.Linear(4, 4))), drawn((3, 4))
    fast = agree(model, x)
    same_as(model, fast, x * 2)


PACKED = steps_from_json([["SP", 2, 1, 16, [8], 1], ["RE", 2, [0, 1, 3, 2]], ["AN", 2, 0, 3]])


def test_weights_are_stored_as_each_kernel_expects_them() -> None:
    model, (x,) = filled(nn.Linear(8, 16)), drawn((3, 8))
    (task,) = autosched.torch.tasks_of(model, x).tasks
    packed = TunedKernel(task, record(task, PACKED))
    fast = autosched.torch.with_kernels(model, packed, x)
    plain = autosched.torch.with_kernels(model, kernels(model, x), x)
    other = autosched.torch.with_kernels(model, untuned([task]), x)
    weights = [dict(f.named_buffers())["graph_module.autosched_linear_W"] for f in (fast, plain)]
    assert weights[0].shape != weights[1].shape == (16, 8)
    for each in (fast, plain, other):
        torch.testing.assert_close(each(x), model(x).detach())
    assert len({each.report.replaced[0].operator for each in (fast, plain, other)}) == 3


def test_a_kernel_that_would_have_to_store_an_input_at_each_call() -> None:
    model, (x, y) = Calls(torch.mm).eval(), drawn((3, 8), (8, 16))
    (task,) = autosched.torch.tasks_of(model, x, y).tasks
    workload = {**task.workload.to_json(), "layout_free": ["B"]}
    moved = Task.from_json_workload(workload, task.target, "pre-transformed")
    both = [TunedKernel(moved, record(moved, PACKED)), *untuned(kernels_of_softmax(x))]
    softmax = Calls(lambda x, y: (torch.mm(x, y), x.softmax(-1))).eval()
    report = autosched.torch.with_kernels(softmax, both, x, y).report
    assert [r.kind for r in report.replaced] == ["softmax"]
    assert [each.reason for each in report.left_out if each.operation.startswith("matmul")] == [
        "its record needs a copy of B in another order at each call"
    ]


def kernels_of_softmax(x: Tensor) -> list[Task]:
    return autosched.torch.tasks_of(Calls(lambda x: x.softmax(-1)).eval(), x).tasks


def timed(task: Task, seconds: float, steps: Any = ()) -> Record:
    return Record(task.to_json(), steps, MeasureResult((seconds,), None, checked=True))


def test_the_fastest_record_of_a_file_and_operations_without_one(tmp_path: Path) -> None:
    model, (x,) = filled(nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 2))), drawn((3, 8))
    packed = autosched.torch.tasks_of(model, x).tasks[0]
    plain = autosched.torch.tasks_of(model, x, layout_rewrite="none").tasks[0]
    for faster, shape in ((plain, (16, 8)), (packed, None)):
        times = {plain.key: 2e-3, packed.key: 2e-3, faster.key: 1e-3}
        path = tmp_path / f"{faster.key}.jsonl"
        written_here(path, timed(plain, times[plain.key]), timed(packed, times[packed.key], PACKED))
        fast = autosched.torch.with_kernels(model, path, x)
        torch.testing.assert_close(fast(x), model(x).detach())
        weight = dict(fast.named_buffers())["graph_module.autosched_linear_W"]
        assert (tuple(weight.shape) == (16, 8)) == (shape is not None)
    assert str(fast.report).splitlines()[0] == "1 call of 1 kernel, 1 operation left to PyTorch"
    assert "  1x  linear  no record of X[3, 16] W[2, 16] b[2]  1" in str(fast.report)
    assert "1 call of 1 kernel" in repr(fast)


def test_records_of_this_machine_come_first(tmp_path: Path) -> None:
    """Of several files and orders of the weights, however fast the others were."""
    model, (x,) = filled(nn.Linear(8, 16)), drawn((3, 8))
    packed, plain = (
        autosched.torch.tasks_of(model, x, layout_rewrite=each).tasks[0]
        for each in ("pre-transformed", "none")
    )
    elsewhere = {"far": {"cpu": "another CPU"}}
    times = {"packed": timed(packed, 1e-4, PACKED), "plain": timed(plain, 1e-4)}
    far = [
        write(tmp_path / f"{name}.jsonl", [replace(each, environment="far")], elsewhere)
        for name, each in times.items()
    ]
    here = written_here(tmp_path / "here.jsonl", timed(packed, 1e-3, PACKED))
    emptied = Record(plain.to_json(), (), MeasureResult((1e-6,), None, cache_flush=1, checked=True))
    cold = written_here(tmp_path / "cold.jsonl", emptied)
    for files in ([*far, here, cold], [cold, here, *reversed(far)]):
        (best,) = best_by_computation(files).values()
        assert best.origin is not None and best.origin.file == here
    (best,) = best_by_computation(far[0]).values()
    assert best.origin is not None and not best.origin.here


def test_threads_that_make_models_at_once() -> None:
    models, (x,) = [filled(nn.Linear(4, 4 + i)) for i in range(6)], drawn((2, 4))
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda model: autosched.torch.tasks_of(model, x), models))
    assert [len(each.tasks) for each in found] == [1] * 6


def test_a_model_is_traced_while_nothing_is_compiled() -> None:
    model, (x,) = filled(nn.Linear(4, 4)), drawn((2, 4))
    with ThreadPoolExecutor(1) as pool:
        with convert_frame.compile_lock:  # PyTorch's, held by a thread that compiles
            found = pool.submit(autosched.torch.tasks_of, model, x)
            with pytest.raises(TimeoutError):
                found.result(0.5)
        assert len(found.result().tasks) == 1
    refused: list[bool] = []

    def function(x: Tensor) -> Tensor:
        refused.append(config.error_on_nested_fx_trace)  # what other threads call of torch.compile
        return x.softmax(-1)

    autosched.torch.tasks_of(Calls(function).eval(), x)
    assert refused == [False] and config.error_on_nested_fx_trace


def test_records_that_do_not_serve(tmp_path: Path) -> None:
    model, (x,) = filled(nn.Linear(8, 16)), drawn((3, 8))
    with pytest.raises(
        ConfigError, match="tuned for CUDA; operators are made of kernels for the CPU"
    ):
        autosched.torch.with_kernels(model, written_here(tmp_path / "cuda.jsonl", cuda_record()), x)
    other = kernels(model, x[:2])
    with pytest.raises(ConfigError, match=r"some of the 1 operation of .*, found Y\[i, j\] = sum"):
        autosched.torch.with_kernels(model, other, x)
    double: Any = filled(nn.Linear(8, 16)).double()
    with pytest.raises(ConfigError, match=r"found none \(linear: input_1 is float64, expected flo"):
        autosched.torch.with_kernels(double, other, x.double())


def test_equal_kernels_are_one_operator_and_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[TunedKernel] = []

    def noted(tuned: TunedKernel) -> Any:
        built.append(tuned)
        return build(tuned)

    build = TunedKernel.build
    monkeypatch.setattr(TunedKernel, "build", noted)
    block = filled(nn.Sequential(*(nn.Linear(29, 29) for _ in range(3))))
    report = agree(block, *drawn((2, 29))).report
    assert len({r.operator for r in report.replaced}) == 1
    assert str(report).startswith("3 calls of 1 kernel, 0 operations left to PyTorch\n  3x  linear")
    agree(copy.deepcopy(block), *drawn((2, 29)))
    assert len(built) == 1


def test_it_stays_in_inference_and_as_it_was_tuned() -> None:
    model, (x,) = filled(nn.Sequential(nn.Linear(4, 4), nn.Dropout())), drawn((2, 4))
    fast = agree(model, x)
    whole = nn.Sequential(fast)
    with pytest.warns(UserWarning, match=r"stays in inference .*; train the model as it was"):
        whole.train()
    assert not fast.training and not fast.graph_module.training
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is told once
        whole.train().eval()
    for change in (whole.double, whole.bfloat16, lambda: fast.to("meta")):
        with pytest.raises(ConfigError, match=r"_W is float32 on cpu, .* would become .*: convert"):
            change()
    image, (y,) = filled(nn.Conv2d(3, 4, 2)), drawn((1, 3, 4, 4))
    with pytest.raises(
        ConfigError, match=r"strides \(12, 4, 2, 1\) and would become .* \(12, 1, 6, 3"
    ):
        agree(image, y).to(memory_format=torch.channels_last)
    torch.testing.assert_close(fast.float().cpu().share_memory()(x), model(x).detach())


def test_what_a_run_found_for_a_task() -> None:
    model, (x,) = filled(nn.Linear(3, 4)), drawn((2, 3))
    result = autosched.tune(autosched.torch.tasks_of(model, x).tasks, trials=1)
    for records in (result, result[0], list(result), result[0].best):
        same_as(model, autosched.torch.with_kernels(model, records, x), x)
    assert autosched.torch.register(result[0], name="of_a_task")


def test_evaluation_goes_through() -> None:
    model, (x,) = filled(nn.Linear(3, 4)), drawn((2, 3))
    whole = nn.Sequential(agree(model, x)).eval()
    torch.testing.assert_close(whole(x), model(x).detach())
