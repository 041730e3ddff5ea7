"""Writes of a part of a tensor in its place."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch", "2.9", reason="models are for PyTorch 2.9 or later")
from torch import fx  # noqa: E402

import autosched.torch  # noqa: E402
from autosched.torch.functional import functional  # noqa: E402
from autosched.torch.in_place import write_in_place  # noqa: E402
from kit.torch_models import Cache, drawn, untuned  # noqa: E402

Tensor = Any
INDEX = torch.tensor([2, 0])
MASK = torch.tensor([True, False, True])


def checked(function: Any) -> list[str]:
    """The names of what the graph calls, which computes what the function does of fresh inputs."""
    module = functional(fx.symbolic_trace(function), drawn((3, 4), (2, 4)))
    write_in_place(module.graph)
    module.recompile()
    (x, y), (other, same) = drawn((3, 4), (2, 4)), drawn((3, 4), (2, 4))
    found, wanted = module(x, y), function(other, same)
    torch.testing.assert_close([*found, x, y], [*wanted, other, same])
    calls = [node for node in module.graph.nodes if node.op == "call_function"]
    return [str(node.target).split(".")[1] for node in calls]


@pytest.mark.parametrize(
    ("write", "names"),
    [
        (lambda x, y: x.index_copy_(0, INDEX, y), ["index_copy_"]),
        (lambda x, y: x.index_put_((INDEX,), y), ["index_put_"]),
        (lambda x, y: x.index_add_(0, INDEX, y), ["index_add_"]),
        (lambda x, y: x.scatter_(0, INDEX[None], y), ["scatter_"]),
        (lambda x, y: x.scatter_(0, INDEX[None], 3), ["scatter_"]),
        (lambda x, y: x.masked_fill_(MASK[:, None], 7), ["masked_fill_"]),
    ],
)
def test_a_part_is_written_where_it_is_computed(write: Any, names: list[str]) -> None:
    def function(x: Tensor, y: Tensor) -> Any:
        before = x.sum()
        write(x, y)
        return before, x * 2, x

    assert [name for name in checked(function) if name in ("copy_", *names)] == names


def test_slices() -> None:
    def function(x: Tensor, y: Tensor) -> Any:
        x[1:].copy_(y)
        return (x.exp(),)

    assert checked(function)[-3:] == ["slice", "copy_", "exp"]
    assert "slice_scatter" not in checked(function)


@pytest.mark.parametrize(
    "kind", ["read later", "part read later", "returned", "from itself", "whole"]
)
def test_what_stays_at_the_end(kind: str) -> None:
    def function(x: Tensor, y: Tensor) -> Any:
        if kind == "read later":
            new = x.index_copy(0, INDEX, y)
            found = new * x
        elif kind == "part read later":
            part = x[0]
            new = x.index_copy(0, INDEX, y)
            found = part * 2
        elif kind == "from itself":
            new = x.index_copy(0, INDEX, x[:2])
            found = new * 2
        else:
            new = found = x + 1 if kind == "whole" else x.index_copy(0, INDEX, y)
        return x, new, found

    def graph(module: Any) -> Any:
        """Functional, with a write of the second result to the first at its end."""
        (output,) = module.graph.find_nodes(op="output")
        x, new, found = output.args[0]
        with module.graph.inserting_before(output):
            module.graph.call_function(torch.ops.aten.copy_.default, (x, new))
        output.args = ((new if kind == "returned" else x, found),)
        return module

    module = graph(functional(fx.symbolic_trace(function), drawn((3, 4), (2, 4))))
    before = str(module.graph)
    write_in_place(module.graph)
    assert str(module.graph) == before


def test_a_cache_that_is_a_buffer() -> None:
    model, (x,) = Cache().eval(), drawn((1, 4))
    tasks = autosched.torch.tasks_of(model, x, torch.tensor([0])).tasks
    fast = autosched.torch.with_kernels(model, untuned(tasks), x, torch.tensor([0]))
    other = copy.deepcopy(model)
    for position in (3, 1, 5):
        with torch.no_grad():
            given = x + position, torch.tensor([position])
            torch.testing.assert_close(fast(*given), other(*given), rtol=1e-5, atol=1e-5)
    names = {str(n.target) for n in fast.graph_module.graph.nodes if n.op == "call_function"}
    assert "aten.index_copy_.default" in names and "aten.copy_.default" not in names
