"""Graphs of torch.compile as PyTorch's own operators, without operations in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", "2.9", reason="models are for PyTorch 2.9 or later")
from torch import fx  # noqa: E402

from autosched.torch.functional import NotFunctionalError, functional  # noqa: E402
from autosched.torch.model_graph import Constants  # noqa: E402
from kit.torch_models import drawn  # noqa: E402

F = torch.nn.functional
Tensor = Any
CONSTANT = torch.tensor([1.0, 2.0])


def traced(function: Callable[..., Any], *inputs: Any) -> Any:
    return functional(fx.symbolic_trace(function), inputs)


def calls(module: Any) -> list[str]:
    return [str(n.target) for n in module.graph.nodes if n.op == "call_function"]


def test_what_is_written_to_an_input_is_written_at_the_end() -> None:
    def function(x: Tensor, y: Tensor) -> Any:
        x[0].add_(1)
        return x, x.relu_() * y, 3, None

    found = traced(function, *drawn((2, 3), (2, 3)))
    assert calls(found) == [
        "aten.select.int",
        "aten.add.Tensor",
        "aten.select_scatter.default",
        "aten.relu.default",
        "aten.mul.Tensor",
        "aten.copy_.default",
    ]
    x, y, other = *drawn((2, 3), (2, 3)), drawn((2, 3))[0]
    results = found(x, y)
    torch.testing.assert_close([*results, x], [*function(other, y), other])
    assert results[0] is x


def test_operations_stay_as_they_are_called() -> None:
    def function(x: Tensor) -> Any:
        hidden = F.dropout(F.linear(x, x), 0.5, False)
        return (F.layer_norm(F.dropout(hidden, 0.5, True), (2,)),)

    graph = fx.symbolic_trace(function)
    with graph.graph.inserting_after(next(iter(graph.graph.nodes))):
        graph.graph.call_function(torch._C._set_grad_enabled, (False,))
    graph.recompile()
    found = functional(graph, drawn((2, 2)))
    names = ["linear.default", "clone.default", "dropout.default", "layer_norm.default"]
    assert calls(found) == [f"aten.{name}" for name in names]


def under_autocast(on: bool) -> Any:
    """A product under `torch.autocast`, as torch.compile writes it."""
    module = fx.symbolic_trace(lambda x: (x @ x,))
    _, product, output = module.graph.nodes
    with module.graph.inserting_before(product):
        given = "cpu", torch.bfloat16, on, None
        begun = module.graph.call_function(torch.amp.autocast_mode._enter_autocast, given)
    with module.graph.inserting_before(output):
        module.graph.call_function(torch.amp.autocast_mode._exit_autocast, (begun,))
    return fx.GraphModule(module, module.graph)


def test_conversions_that_are_turned_off_are_left_out() -> None:
    inputs = drawn((2, 2))
    assert calls(functional(under_autocast(False), inputs)) == ["aten.matmul.default"]
    with pytest.raises(NotFunctionalError, match=r"autocast .*is no operation on tensors"):
        functional(under_autocast(True), inputs)
    with (
        torch.autocast("cpu", dtype=torch.bfloat16),
        pytest.raises(NotFunctionalError, match=r"converted by torch\.autocast"),
    ):
        functional(under_autocast(False), inputs)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: (x.add_(1)[0],), "a result is a part of what is written"),
        (lambda x: (x.add_(1), x.t_()), "an input becomes another tensor"),
        (lambda x: (x.set_(torch.zeros(3, 3)),), "set_"),
        (lambda x: (x.numpy(),), "numpy"),
    ],
)
def test_more_than_is_written_is_refused(function: Any, message: str) -> None:
    (x,) = drawn((3, 3))
    before = x.clone()
    with pytest.raises(NotFunctionalError, match=message):
        traced(function, x)
    assert torch.equal(x, before)


def test_inputs_keep_their_strides_and_constants_their_values() -> None:
    def function(x: Tensor) -> Any:
        return x.reshape(-1), x * CONSTANT

    for x in (torch.randn(2, 2).T, torch.randn(2, 1).expand(2, 2), torch.randn(4, 4)[1:3, 1:3]):
        for result, wanted in zip(traced(function, x)(x), function(x), strict=True):
            torch.testing.assert_close(result, wanted)
            assert result.stride() == wanted.stride()


def test_numbers_that_a_graph_has_are_constants() -> None:
    graph = fx.symbolic_trace(lambda x: (x * 1,))
    _, product, _ = graph.graph.nodes
    with graph.graph.inserting_before(product):
        product.update_arg(1, graph.graph.call_function(torch.tensor, ([1.0, 2.0],)))
    graph.recompile()
    found = functional(graph, drawn((3, 2)))
    (product,) = found.graph.find_nodes(op="call_function", target=torch.ops.aten.mul.Tensor)
    assert product.args[1] in Constants(found)
