"""The backend of torch.compile: kernels where there are records, PyTorch for the rest."""

from __future__ import annotations

import tomllib
import warnings
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from autosched.cache_folder import VARIABLE
from autosched.errors import ConfigError
from autosched.measure.records import Record
from autosched.measure.result import MeasureResult
from autosched.session.tuned import TunedKernel
from kit.exporting import cuda_record, record
from kit.records import written_here

torch = pytest.importorskip("torch", "2.9", reason="models are for PyTorch 2.9 or later")
pytestmark = pytest.mark.usefixtures("compiled_anew")
from torch import fx  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import autosched.torch  # noqa: E402
from autosched.torch import compiled_graph  # noqa: E402
from kit.torch_models import Broken, Calls, Counting, Pieces, Residual, drawn, filled, untuned  # noqa: E402

nn, F = torch.nn, torch.nn.functional
Tensor = Any
GROUP = "torch_dynamo_backends"


def backend_for(model: Any, *inputs: Any) -> Any:
    """A backend with kernels for all of the model's tasks, whose weights may be moved."""
    return autosched.torch.backend(untuned(autosched.torch.tasks_of(model, *inputs).tasks))


def kinds(report: Any) -> list[str]:
    return [each.kind for each in report.replaced]


def same(compiled: Any, model: Any, *inputs: Any) -> None:
    with torch.no_grad():
        torch.testing.assert_close(compiled(*inputs), model(*inputs), rtol=1e-5, atol=1e-5)


def test_a_cnn_has_the_kernels_of_its_tasks_and_weights_as_they_are_now() -> None:
    model = filled(nn.Sequential(Residual(3, 4, 1), nn.Flatten(), nn.Linear(64, 5)))
    (x,) = drawn((2, 3, 4, 4))
    mine = backend_for(model, x)
    compiled = torch.compile(model, backend=mine)
    same(compiled, model, x)
    assert [(each.kind, each.place) for each in mine.report.replaced] == [
        ("conv2d+batch_norm+relu", "0.first"),
        ("conv2d+batch_norm+add+relu", "0.second"),
        ("conv2d", "0.down"),
        ("linear", "2"),
    ]
    assert not mine.report.left_out
    with torch.no_grad():
        model[0].second.weight.mul_(2)
        model[0].norm.running_mean.add_(0.3)
        model[2].bias.data = model[2].bias + 1  # in other memory
    same(compiled, model, x)
    with torch.inference_mode():
        torch.testing.assert_close(compiled(x), model(x))


def test_what_is_computed_from_weights_is_computed_anew() -> None:
    model = filled(Calls(lambda linear, x: F.linear(x, linear.weight * 2), nn.Linear(3, 4)))
    (x,) = drawn((2, 3))
    compiled = torch.compile(model, backend=backend_for(model, x))
    same(compiled, model, x)
    with torch.no_grad():
        model.parts[0].weight.mul_(3)
    same(compiled, model, x)


def test_statistics_that_batch_normalisation_changes() -> None:
    """PyTorch does not count what it writes to them in training."""
    model = filled(nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU()))
    x, other = drawn((2, 2, 6, 6), (2, 2, 6, 6))
    mine = backend_for(model, x)
    compiled = torch.compile(model, backend=mine)
    same(compiled, model, x)
    for train in (model, compiled):
        model.train()
        with torch.no_grad():
            train(other * 3)
        model.eval()
        same(compiled, model, x)
    assert kinds(mine.report)[0] == "conv2d+batch_norm+relu" and len(mine.reports) == 2


def test_numbers_that_a_graph_is_given() -> None:
    """Of a module where sizes are left open, and of a call from the second one on."""
    norm = filled(nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.LeakyReLU(0.3)))
    x, other, y = drawn((2, 2, 6, 6), (1, 2, 7, 5), (2, 4))
    mine = backend_for(norm, x)
    compiled = torch.compile(norm, backend=mine, dynamic=True)
    same(compiled, norm, x)
    assert kinds(mine.report) == ["conv2d+batch_norm+leaky_relu"] and not mine.report.left_out
    same(compiled, norm, other)
    norm[1].eps = 0.5
    same(compiled, norm, x)

    model = filled(Calls(lambda linear, x, factor: linear(x) * factor, nn.Linear(4, 3)))
    mine = backend_for(model, y, 2.5)
    compiled = torch.compile(model, backend=mine)
    for factor in (1.5, 2.5, 3.5, 2.5):
        same(compiled, model, y, factor)
    assert [kinds(each) for each in mine.reports] == [[], ["linear+mul"], []]


def test_what_is_computed_again_for_gradients() -> None:
    """PyTorch computed all of a model that calls torch.utils.checkpoint."""

    def function(first: Any, second: Any, x: Tensor) -> Tensor:
        y = checkpoint(lambda x: first(x).relu(), x, use_reentrant=False)
        return second(y)

    model, (x,) = filled(Calls(function, nn.Linear(3, 4), nn.Linear(4, 5))), drawn((2, 3))
    mine = backend_for(model, x)
    same(torch.compile(model, backend=mine), model, x)
    assert kinds(mine.report) == ["linear+relu", "linear"] and not mine.report.left_out


def test_the_attention_of_a_layer_of_pytorch() -> None:
    model = nn.TransformerEncoderLayer(12, 3, 16, batch_first=True).eval()
    (x,) = drawn((2, 5, 12))
    found = autosched.torch.tasks_of(model, x).found
    mine = autosched.torch.backend(untuned([e.task for e in found if e.kind == "attention"]))
    same(torch.compile(model, backend=mine, fullgraph=True), model, x)
    assert kinds(mine.report) == ["attention"] and len(mine.report.left_out) == 7


PACKED = [["SP", 2, 1, 16, [8], 1], ["RE", 2, [0, 1, 3, 2]], ["AN", 2, 0, 3]]


def packed(task: Any) -> TunedKernel:
    """A record whose kernel wants its weights stored in another order."""
    from autosched.state.steps import steps_from_json

    return TunedKernel(task, record(task, steps_from_json(PACKED)))


def test_weights_in_another_order_are_stored_anew_when_they_change() -> None:
    model, (x,) = filled(nn.Linear(8, 16)), drawn((3, 8))
    mine = autosched.torch.backend(packed(autosched.torch.tasks_of(model, x).tasks[0]))
    compiled = torch.compile(model, backend=mine)
    same(compiled, model, x)
    with torch.no_grad():
        model.weight.add_(1)
    same(compiled, model, x)
    model.load_state_dict({"weight": torch.ones(16, 8), "bias": torch.zeros(16)})
    same(compiled, model, x)
    assert len(mine.reports) == 1 and kinds(mine.report) == ["linear"]


def test_layers_that_share_a_graph_have_weights_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, (x,) = filled(nn.Sequential(Broken(), Broken(), Broken())), drawn((3, 16))
    task = autosched.torch.tasks_of(Calls(lambda m, x: m(x).relu(), model[0].linear).eval(), x)
    mine = autosched.torch.backend(packed(task.tasks[0]))
    monkeypatch.setattr(compiled_graph, "MOST_WEIGHTS", 2)
    compiled = torch.compile(model, backend=mine)
    with pytest.warns(UserWarning, match="for 2 sets of weights, others are computed by PyTorch"):
        same(compiled, model, x)
    same(compiled, model, x)
    assert kinds(mine.report) == ["linear+relu"] * 2


def test_a_perceptron_in_pieces_and_other_lengths() -> None:
    """Several graphs, and sizes that torch.compile leaves open from the second length on."""

    model, inputs = filled(Pieces()), drawn((2, 5, 12), (2, 7, 12), (2, 6, 12))
    whole = Calls(lambda first, x: x + first(x), model.first).eval()
    tasks = [
        *autosched.torch.tasks_of(whole, inputs[0]).tasks,
        *autosched.torch.tasks_of(model.last, inputs[0]).tasks,
        *autosched.torch.tasks_of(model.last, inputs[2]).tasks,
    ]
    mine = autosched.torch.backend(untuned(tasks))
    compiled = torch.compile(model, backend=mine)
    same(compiled, model, inputs[0])
    assert [kinds(each) for each in mine.reports] == [["linear+gelu", "linear+add"], ["linear"]]
    assert "  1x  softmax  no record of X[10, 4]" in str(mine.reports[1])
    for other in inputs[1:]:
        same(compiled, model, other)
    assert [len(each.replaced) for each in mine.reports] == [2, 1, 0, 0, 0, 1]
    assert str(mine.report).startswith("4 calls of ")


def test_shapes_beyond_the_most_are_pytorchs(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = filled(nn.Linear(3, 4)), drawn(*((i, 3) for i in (2, 3, 4, 5)))
    mine = backend_for(model, inputs[0])
    monkeypatch.setattr(compiled_graph, "MOST_SHAPES", 2)
    compiled = torch.compile(model, backend=mine, dynamic=True)
    same(compiled, model, inputs[0])
    same(compiled, model, inputs[1])
    with pytest.warns(UserWarning, match="kernels for 2 sets of shapes and numbers, others"):
        same(compiled, model, inputs[2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is told once
        same(compiled, model, inputs[3])
    same(compiled, model, inputs[0])
    assert [kinds(each) for each in mine.reports] == [["linear"], []]


def test_gradients_are_pytorchs() -> None:
    model, (x,) = filled(nn.Linear(3, 4)), drawn((2, 3))
    mine = backend_for(model, x)
    compiled = torch.compile(model, backend=mine)
    with pytest.warns(UserWarning, match=r"asked for gradients, .* call it under torch\.no_grad"):
        compiled(x).sum().backward()
    assert torch.equal(model.weight.grad, x.sum(0).expand(4, 3))
    assert not mine.reports
    same(compiled, model, x)
    assert kinds(mine.report) == ["linear"]


def twice(compiled: Any, model: Any, *inputs: Tensor) -> None:
    """Results are the same, and so is what inputs are then, in whose memory results are."""
    for _ in range(2):
        mine, others = [x.clone() for x in inputs], [x.clone() for x in inputs]
        with torch.no_grad():
            found, wanted = compiled(*mine), model(*others)
        torch.testing.assert_close([*found, *mine], [*wanted, *others], rtol=1e-5, atol=1e-5)
        for result, other in zip(found, wanted, strict=True):
            where = [result.untyped_storage().data_ptr() == x.data_ptr() for x in mine]
            assert where == [other.untyped_storage().data_ptr() == x.data_ptr() for x in others]


def test_a_graph_that_writes_to_its_inputs() -> None:
    """No kernel computed anything of it."""

    def function(linear: Any, x: Tensor, y: Tensor) -> Any:
        y[0].mul_(2)
        return linear(x.add_(1)) + y, x, x.relu()

    model, inputs = filled(Calls(function, nn.Linear(4, 4))), drawn((2, 4), (2, 4))
    plain = filled(Calls(lambda linear, x, y: linear(x) + y, nn.Linear(4, 4)))
    mine = backend_for(plain, *inputs)
    compiled = torch.compile(model, backend=mine)
    twice(compiled, model, *inputs)
    assert kinds(mine.report) == ["linear+add"]
    (memory, other) = drawn((3, 4), (3, 4))
    other.copy_(memory)
    with torch.no_grad():  # what is written to one is read from the other
        found, wanted = compiled(memory[:2], memory[1:]), model(other[:2], other[1:])
    torch.testing.assert_close([*found, memory], [*wanted, other], rtol=1e-5, atol=1e-5)


def test_weights_that_a_graph_writes_to() -> None:
    model, (x,) = Counting().eval(), drawn((2, 3))
    mine = backend_for(model, x)
    compiled = torch.compile(model, backend=mine)
    for count in (2, 3, 4):
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), (x.sum(1) * count)[:, None].expand(2, 4))
        assert torch.equal(model.weight, torch.full((4, 3), float(count)))
    assert kinds(mine.report) == ["linear"]


def test_a_graph_that_returns_a_part_of_what_it_writes_to_is_pytorchs() -> None:
    def function(linear: Any, x: Tensor) -> Any:
        return linear(x.add_(1)), x[0]

    model, inputs = filled(Calls(function, nn.Linear(4, 4))), drawn((4, 4))
    mine = backend_for(model.parts[0], *inputs)
    twice(torch.compile(model, backend=mine), model, *inputs)
    assert not mine.report.replaced
    assert "the whole graph  model: it writes to its input L_" in str(mine.report)
    assert "args_" not in str(mine.report)
    assert str(mine.report).endswith("x.clone()")  # without places, which a graph has none of


def test_other_threads_call_what_is_compiled_while_a_graph_is_traced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PyTorch took their calls for exported ones: KeyError 'custom', if both came together."""
    model, (x,) = filled(nn.Linear(3, 4)), drawn((2, 3))
    compiled = torch.compile(model, backend=backend_for(model, x))
    other = torch.compile(torch.exp, backend="eager")
    torch.testing.assert_close(other(x), x.exp())
    found: list[Any] = []

    def meanwhile(graph: Any, *inputs: Any) -> Any:
        with ThreadPoolExecutor(1) as pool:
            found.append(pool.submit(other, x).result())
        found.append(torch.compiler.is_exporting())
        return run(graph, *inputs)

    run = fx.Interpreter.run
    monkeypatch.setattr(fx.Interpreter, "run", meanwhile)
    same(compiled, model, x)
    result, exporting, *_ = found
    torch.testing.assert_close(result, x.exp())
    assert not exporting


def test_threads_that_call_new_shapes_at_once() -> None:
    model, inputs = filled(nn.Linear(3, 4)), drawn(*((i, 3) for i in range(2, 8)))
    compiled = torch.compile(model, backend=backend_for(model, inputs[0]), dynamic=False)
    same(compiled, model, inputs[0])
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda x: same(compiled, model, x), inputs * 20))


def test_records_by_option_and_of_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
    value = project["project"]["entry-points"][GROUP]["autosched"]
    found = EntryPoint("autosched", value, GROUP).load()
    monkeypatch.setattr(autosched.torch.backend(), "_reports", [])
    model, (x,) = filled(nn.Linear(3, 4)), drawn((2, 3))
    (task,) = autosched.torch.tasks_of(model, x).tasks
    line = Record(task.to_json(), (), MeasureResult((1e-3,), None, checked=True))
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(Exception, match=r"expected records for the CPU in the cache .* has none"):
        torch.compile(model, backend=found)(x)
    written_here(tmp_path / "matmul-00.jsonl", cuda_record())
    with pytest.raises(Exception, match=r"expected records for the CPU in the cache .* has none"):
        torch.compile(model, backend=found)(x)
    path = written_here(tmp_path / f"linear-{task.key}.jsonl", line)
    for options in (None, {"records": str(path)}):
        torch.compiler.reset()
        same(torch.compile(model, backend=found, options=options), model, x)
    assert [kinds(each) for each in autosched.torch.backend().reports] == [["linear"]] * 2
    with pytest.raises(
        ConfigError, match=r"options: expected \{'records': 'model\.jsonl'\}, found"
    ):
        autosched.torch.backend()(None, (), options={"record": str(path)})


def test_the_fast_path_of_a_layer_is_told() -> None:
    """Without a gradient `torch.compile` sees nothing of its operations."""
    layer = filled(nn.TransformerEncoderLayer(16, 4, 16, batch_first=True))
    (x,) = drawn((2, 5, 16))
    for enabled in (True, False):
        torch.compiler.reset()
        torch.backends.mha.set_fastpath_enabled(enabled)
        mine = backend_for(layer, x)
        try:
            same(torch.compile(layer, backend=mine), layer, x)
        finally:
            torch.backends.mha.set_fastpath_enabled(True)
        reasons = [each.reason for each in mine.report.left_out]
        assert any("set_fastpath_enabled(False)" in reason for reason in reasons) == enabled
        assert ("attention" in kinds(mine.report)) != enabled
