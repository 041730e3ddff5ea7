"""Kernels of a model that follow one another as one call, past PyTorch's dispatcher."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", "2.9", reason="models are for PyTorch 2.9 or later")
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import autosched.torch  # noqa: E402
from autosched.runtime.parallel import on_workers  # noqa: E402
from autosched.runtime.sequence import sequence  # noqa: E402
from autosched.torch import sequences  # noqa: E402
from kit.torch_models import (  # noqa: E402
    Calls,
    Cell,
    Transformer,
    agree,
    drawn,
    filled,
    small_cnn,
    untuned,
)

nn, F = torch.nn, torch.nn.functional
Tensor = Any


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of kernels of the sequences that are made."""
    found: list[int] = []

    def noted(steps: Any, shapes: Any) -> Any:
        found.append(len(steps))
        return sequence(steps, shapes)

    monkeypatch.setattr("autosched.torch.sequences.sequence", noted)
    return found


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """For each call of a sequence that PyTorch's operators computed, the number of its inputs."""
    found: list[int] = []

    def noted(self: Any, given: Any) -> Any:
        found.append(len(given))
        return before(self, given)

    before = sequences._Sequence._one_by_one
    monkeypatch.setattr(sequences._Sequence, "_one_by_one", noted)
    return found


def test_kernels_with_views_between_them_are_one_call(
    made: list[int], one_by_one: list[int]
) -> None:
    (x,) = drawn((2, 5, 12))
    fast = agree(Transformer(12, 3).eval(), x)
    assert made == [5, 4]  # PyTorch moves the heads between them
    agree(small_cnn(), *drawn((1, 3, 8, 8)))
    assert made[2:] == [8]
    one_by_one.clear()
    with torch.inference_mode():
        torch.testing.assert_close(fast(x), fast.graph_module(x)[0], rtol=0, atol=0)
    assert not one_by_one


def test_what_pytorch_computes_stands_between_two_calls(made: list[int]) -> None:
    def function(first: Any, second: Any, x: Tensor) -> tuple[Tensor, ...]:
        y = first(x).relu()
        z = torch.cumsum(y, 1)
        return second(z).relu(), y.view(-1), second(y), z

    model = filled(Calls(function, nn.Linear(6, 8), nn.Linear(8, 8)))
    fast = agree(model, *drawn((3, 6)))
    assert made == [1, 2]
    assert [r.operation for r in fast.report.left_out] == ["cumsum"]


def test_a_model_of_kernels_alone_leaves_pytorchs_threads_asleep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[Any] = []

    def noted(call: Any) -> Any:
        found.append(call)
        return on_workers(call)

    monkeypatch.setattr("autosched.torch.direct.on_workers", noted)
    agree(filled(Calls(lambda layer, x: layer(x).view(-1), nn.Linear(6, 8))), *drawn((3, 6)))
    assert len(found) == 1
    model = Calls(lambda layer, x: torch.cumsum(layer(x), 1), nn.Linear(6, 8))
    agree(filled(model), *drawn((3, 6)))
    assert len(found) == 1


def test_an_operator_that_takes_tensors_by_name_only() -> None:
    with torch.library._scoped_library("autosched_test", "DEF") as library:
        library.define("next(*, Tensor x) -> Tensor")
        library.impl("next", lambda *, x: x + 1, "CompositeExplicitAutograd")
        torch.library.register_fake("autosched_test::next", lambda *, x: x + 1, lib=library)

        def function(linear: Any, x: Tensor) -> Tensor:
            return torch.ops.autosched_test.next(x=linear(x)).relu()

        agree(filled(Calls(function, nn.Linear(6, 8))), *drawn((3, 6)))


def test_what_does_not_read_a_result_stands_before_the_call(made: list[int]) -> None:
    def function(first: Any, second: Any, x: Tensor) -> Tensor:
        y = first(x)
        flipped = torch.cumsum(x, 0)
        return second(y) + flipped.sum()

    agree(filled(Calls(function, nn.Linear(6, 8), nn.Linear(8, 8))), *drawn((3, 6)))
    assert made == [3]  # the sum, too


def test_views_of_results_that_are_returned() -> None:
    def function(first: Any, second: Any, x: Tensor) -> tuple[Tensor, ...]:
        y = first(x).view(2, 2, 8)
        return y, second(y).view(4, 8), y.view(-1), y[0], x.view(-1)

    model = filled(Calls(function, nn.Linear(6, 8), nn.Linear(8, 8)))
    fast, (x,) = agree(model, *drawn((4, 6))), drawn((4, 6), seed=1)
    with torch.no_grad():
        found, wanted = fast(x), model(x)
        torch.testing.assert_close(found, wanted)
        found[0][0] = 7.0
    assert found[2][0] == 7 and found[3][0, 0] == 7
    assert found[4].data_ptr() == x.data_ptr()


def test_an_input_that_kernels_read_in_several_shapes(made: list[int]) -> None:
    def function(linear: Any, x: Tensor) -> tuple[Tensor, ...]:
        return linear(x.view(6, 6)), linear(x.view(3, 12)[:, :6].relu())

    agree(filled(Calls(function, nn.Linear(6, 6))), *drawn((2, 3, 6)))
    assert made


def test_channels_last_is_no_end_of_a_sequence(made: list[int]) -> None:
    """A result is permuted for one reader, and permuted back for others."""
    model = small_cnn().to(memory_format=torch.channels_last)
    (x,) = drawn((2, 3, 8, 8))
    agree(model, x.to(memory_format=torch.channels_last))
    assert made == [8]


def test_a_part_of_a_result_is_no_argument_of_the_same_call(made: list[int]) -> None:
    model = filled(
        Calls(lambda a, b, x: b(a(x)[1:3].softmax(-1)), nn.Linear(6, 8), nn.Linear(8, 8))
    )
    agree(model, *drawn((4, 6)))
    assert sum(made) == 3


@pytest.mark.parametrize("kind", ["new", "in place"])
def test_buffers_are_written_in_order(kind: str) -> None:
    model, inputs = filled(Cell(kind)), [drawn((2, 4), seed=k)[0] for k in range(4)]
    fast = agree(copy.deepcopy(model), inputs[0])
    other = copy.deepcopy(model)
    fast.graph_module.load_state_dict(
        {
            name: other.state if "state" in name else value
            for name, value in fast.graph_module.state_dict().items()
        }
    )
    with torch.no_grad():
        for x in inputs:
            torch.testing.assert_close(fast(x), other(x))


def two_layers() -> Any:
    return filled(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8)))


def test_inputs_that_ask_for_gradients(one_by_one: list[int]) -> None:
    model, (x,) = two_layers(), drawn((3, 6))
    fast = agree(model, x)
    one_by_one.clear()
    wanted = model(x).detach()
    for given in (nn.Parameter(x), x.clone().requires_grad_()):
        with torch.no_grad():
            torch.testing.assert_close(fast(given), wanted)
    assert not one_by_one


def test_a_first_call_that_shows_nothing_is_not_the_recorded_one(made: list[int]) -> None:
    """That of a user's own kind of tensor goes through the operators, which return this kind."""
    marked = type("Marked", (torch.Tensor,), {})
    model, (x,) = two_layers(), drawn((3, 6))
    fast = copy.deepcopy(agree(model, x))
    made.clear()
    with torch.no_grad():
        found = fast(x.as_subclass(marked))
        assert type(found) is marked and not made
        torch.testing.assert_close(fast(x), model(x))
    assert made == [2]


def test_what_does_not_fit_is_computed_by_the_operators(one_by_one: list[int]) -> None:
    """The sign of a conjugate's imaginary part is kept apart from its memory."""
    model, (x,) = two_layers(), drawn((3, 6))
    fast = agree(model, x)
    one_by_one.clear()
    negated = torch.complex(torch.zeros_like(x), x).conj().imag
    assert negated.is_neg()
    with torch.no_grad():
        torch.testing.assert_close(fast(negated.contiguous()), model(negated))
        lazy = torch._neg_view(x.clone())
        torch.testing.assert_close(fast(lazy), model(lazy))
    assert one_by_one == [1]


def test_weights_that_change(one_by_one: list[int]) -> None:
    model, other, (x,) = two_layers(), filled(two_layers(), seed=1), drawn((3, 6))
    fast, newer = agree(model, x), agree(other, x)
    fast.load_state_dict(newer.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(fast(x), other(x))
        for name, tensor in fast.graph_module.named_buffers():
            setattr(fast.graph_module, name, torch.zeros_like(tensor))
        assert not fast(x).any()
    assert not copy.deepcopy(fast)(x).any()


def test_a_graph_that_is_edited(made: list[int]) -> None:
    model, (x,) = two_layers(), drawn((3, 6))
    fast = agree(model, x)
    with torch.no_grad():
        wanted = fast(x)
        graph = fast.graph_module.graph
        (output,) = (node for node in graph.nodes if node.op == "output")
        with graph.inserting_before(output):
            negated = graph.call_function(torch.neg, (output.args[0][0],))
        output.args = ((negated,),)
        fast.graph_module.recompile()
        for _ in range(2):
            torch.testing.assert_close(fast(x), -wanted, rtol=0, atol=0)
        fast.graph_module = copy.deepcopy(agree(model, x).graph_module)
        for _ in range(2):
            torch.testing.assert_close(fast(x), wanted, rtol=0, atol=0)
    assert made == [2, 2, 2, 2]


def test_another_module_in_the_place_of_the_graph() -> None:
    fast, (x,) = agree(two_layers(), *drawn((3, 6))), drawn((3, 6))
    graph, other = fast.graph_module, Calls(lambda x: (-x,))
    with torch.no_grad():
        wanted = fast(x)
        for module in (other, torch.jit.trace(other, x)):
            fast.graph_module = module
            for _ in range(2):
                torch.testing.assert_close(fast(x), -x, rtol=0, atol=0)
        fast.graph_module = graph
        graph.forward = other.forward
        torch.testing.assert_close(fast(x), -x, rtol=0, atol=0)
        del graph.forward
        torch.testing.assert_close(fast(x), wanted, rtol=0, atol=0)


WRITING: dict[str, Callable[[Any, Any], Any]] = {
    "method": lambda graph, x: graph.call_method("mul_", (x, 2)),
    "function": lambda graph, x: graph.call_function(operator.imul, (x, 2)),
    "operator": lambda graph, x: graph.call_function(torch.ops.aten.mul_, (x, 2)),
    "module": lambda graph, x: graph.call_module("negative", (x,)),
}


@pytest.mark.parametrize("how", WRITING)
def test_a_graph_that_is_made_to_write_to_its_input(how: str) -> None:
    """After the first kernel has read it, and before the last one waits for the first."""
    model, (x,) = two_layers(), drawn((3, 6))
    module = agree(model, x).graph_module
    module.add_module("negative", nn.Threshold(0, 7, inplace=True))
    (given,) = (node for node in module.graph.nodes if node.op == "placeholder")
    with module.graph.inserting_after(next(iter(given.users))):
        WRITING[how](module.graph, given)
    module.recompile()
    fast = agree(model, x)
    fast.graph_module = module
    with torch.no_grad():
        for _ in range(2):
            written, wanted = x.clone(), x.clone()
            torch.testing.assert_close(fast(written), module(wanted)[0], rtol=0, atol=0)
            torch.testing.assert_close(written, wanted, rtol=0, atol=0)
            assert not torch.equal(written, x)


def test_a_function_in_a_graph_that_looks_at_a_result() -> None:
    model, (x,) = two_layers(), drawn((3, 6))
    module = (fast := agree(model, x)).graph_module
    seen: list[Tensor] = []

    def look(result: Tensor) -> None:
        seen.append(result)

    (given,) = (node for node in module.graph.nodes if node.op == "placeholder")
    first = next(iter(given.users))
    with module.graph.inserting_after(first):
        module.graph.call_function(look, (first,))
    module.recompile()
    with torch.no_grad():
        for _ in range(3):
            fast(x)
        wanted = model[:2](x)
    assert len(seen) == 3
    for each in seen:
        torch.testing.assert_close(each, wanted)


def test_compiled_graphs_take_the_same_way(made: list[int], one_by_one: list[int]) -> None:
    model, (x,) = two_layers(), drawn((3, 6))
    records = untuned(autosched.torch.tasks_of(model, x, layout_rewrite="none").tasks)
    compiled = torch.compile(model, backend=autosched.torch.backend(records))
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(compiled(x), model(x))
        model[2].weight.mul_(2)
        torch.testing.assert_close(compiled(x), model(x))
        model[2].weight.data = torch.ones(8, 8)
        torch.testing.assert_close(compiled(x), model(x))
    assert made == [2, 2]
    assert len(one_by_one) <= 1  # the first finds no threads yet


def test_weights_that_become_parameters() -> None:
    model, other, (x,) = two_layers(), filled(two_layers(), seed=1), drawn((3, 6))
    fast, newer = agree(model, x), agree(other, x)
    weights = {name: nn.Parameter(tensor) for name, tensor in newer.state_dict().items()}
    fast.load_state_dict(weights, assign=True)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), newer(x), rtol=0, atol=0)


class Watching(TorchFunctionMode):  # type: ignore[misc]  # of Any, where PyTorch is missing
    """Calls what it sees."""

    def __torch_function__(self, function: Any, kinds: Any, args: Any = (), kw: Any = None) -> Any:
        return function(*args, **(kw or {}))


class Dispatching(TorchDispatchMode):  # type: ignore[misc]  # of Any, where PyTorch is missing
    """Calls what it sees."""

    def __torch_dispatch__(self, function: Any, kinds: Any, args: Any = (), kw: Any = None) -> Any:
        return function(*args, **(kw or {}))


def profiled(fast: Any, x: Tensor) -> Tensor:
    with torch.profiler.profile() as profile:
        found = fast(x)
    names = {event.name for event in profile.events()}
    assert {f"autosched::{r.operator}" for r in fast.report.replaced} <= names
    return found


def within(mode: Callable[[], Any]) -> Callable[[Any, Tensor], Tensor]:
    def watched(fast: Any, x: Tensor) -> Tensor:
        with mode():
            found: Tensor = fast(x)
        return found

    return watched


def hooked(fast: Any, x: Tensor) -> Tensor:
    seen: list[Any] = []
    handle = fast.graph_module.register_forward_hook(lambda *given: seen.append(given))
    found: Tensor = fast(x)
    handle.remove()
    assert len(seen) == 1
    return found


def hooked_everywhere(fast: Any, x: Tensor) -> Tensor:
    seen: list[Any] = []
    register = nn.modules.module.register_module_forward_hook
    handle = register(lambda module, *_: seen.append(module))
    found: Tensor = fast(x)
    handle.remove()
    assert fast.graph_module in seen
    return found


WATCHED: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "profiled": profiled,
    "hooked": hooked,
    "hooked everywhere": hooked_everywhere,
    "functions": within(Watching),
    "dispatched": within(Dispatching),
    "traced": lambda fast, x: torch.jit.trace(fast, torch.zeros_like(x), check_trace=False)(x),
    "exported": lambda fast, x: torch.export.export(fast, (torch.zeros_like(x),)).module()(x),
    "compiled": lambda fast, x: torch.compile(fast, backend="eager", fullgraph=True)(x),
    "made": lambda fast, x: make_fx(fast)(torch.zeros_like(x))(x),
}


@pytest.mark.parametrize("how", WATCHED)
def test_who_watches_sees_each_kernel(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, (x,) = two_layers(), drawn((3, 6))
    fast = agree(model, x)
    with torch.no_grad():
        wanted = fast(x)
        monkeypatch.setattr(fast._direct, "_known", None)
        torch.testing.assert_close(WATCHED[how](fast, x), wanted, rtol=0, atol=0)
