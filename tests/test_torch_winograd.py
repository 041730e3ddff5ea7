"""Convolutions of models by Winograd's algorithm: which, how exact, and when they are taken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autosched.errors import ConfigError
from autosched.measure.records import Record
from autosched.measure.result import MeasureResult
from autosched.target import make_target
from autosched.task import Task
from kit.records import written_here

torch = pytest.importorskip("torch", "2.9", reason="models are for PyTorch 2.9 or later")
pytestmark = pytest.mark.usefixtures("compiled_anew")
import autosched.torch  # noqa: E402
from autosched.torch.matches import matches_of  # noqa: E402
from autosched.torch.model_graph import Constants, exported  # noqa: E402
from kit.torch_models import Calls, Residual, drawn, filled, untuned  # noqa: E402

nn, F = torch.nn, torch.nn.functional
Tensor = Any


def ways(model: Any, *inputs: Any, tile: int = 2) -> list[Task]:
    """The tasks by Winograd's algorithm."""
    found = autosched.torch.tasks_of(model, *inputs, winograd=tile).found
    return [each.task for each in found if each.kind.startswith("winograd_")]


def same(fast: Any, model: Any, *inputs: Any, tolerance: float = 1e-4) -> None:
    with torch.no_grad():
        wanted, found = model(*inputs), fast(*inputs)
    scale = float(wanted.abs().max())
    torch.testing.assert_close(found, wanted, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("tile", [2, 4, 6])
def test_a_block_with_all_that_follows(tile: int) -> None:
    model = filled(nn.Sequential(Residual(16, 16, 1), nn.Conv2d(16, 17, 3, bias=False), nn.SiLU()))
    (x,) = drawn((2, 16, 7, 10))
    fast = autosched.torch.with_kernels(model, untuned(ways(model, x, tile=tile)), x)
    assert [(r.kind, r.place) for r in fast.report.replaced] == [
        ("winograd_conv2d+batch_norm+relu", "0.first"),
        ("winograd_conv2d+batch_norm+add+relu", "0.second"),
        ("winograd_conv2d+silu", "1"),
    ]
    side = tile + 2
    assert f"U[{side}, {side}, 16, 16] f[16] u[16]" in str(fast.report)
    same(fast, model, x)


@pytest.mark.parametrize("padding", [0, 1, (2, 0), (0, 3), "same", "valid"], ids=str)
def test_borders(padding: Any) -> None:
    model, (x,) = filled(nn.Conv2d(16, 16, 3, padding=padding)), drawn((1, 16, 3, 5))
    fast = autosched.torch.with_kernels(model, untuned(ways(model, x, tile=4)), x)
    same(fast, model, x)


OTHERS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "another window": (nn.Conv2d(16, 16, (3, 1)), (1, 16, 5, 5)),
    "a larger window": (nn.Conv2d(16, 16, 5), (1, 16, 5, 5)),
    "a stride": (nn.Conv2d(16, 16, 3, (1, 2)), (1, 16, 5, 5)),
    "a dilation": (nn.Conv2d(16, 16, 3, dilation=(2, 1)), (1, 16, 5, 5)),
    "groups": (nn.Conv2d(16, 16, 3, groups=2), (1, 16, 5, 5)),
    "depthwise": (nn.Conv2d(16, 16, 3, groups=16), (1, 16, 5, 5)),
    "few channels": (nn.Conv2d(15, 16, 3), (1, 15, 5, 5)),
    "few results": (nn.Conv2d(16, 15, 3), (1, 16, 5, 5)),
    "a line": (nn.Conv1d(16, 16, 3), (1, 16, 5)),
    "a volume": (nn.Conv3d(16, 16, 3), (1, 16, 5, 5, 5)),
    "transposed": (nn.ConvTranspose2d(16, 16, 3), (1, 16, 5, 5)),
}


@pytest.mark.parametrize("case", OTHERS)
def test_other_convolutions_are_direct(case: str) -> None:
    layer, shape = OTHERS[case]
    found = autosched.torch.tasks_of(layer.eval(), *drawn(shape), winograd=4).found
    assert len(found) == 1 and "winograd" not in found[0].kind


def test_weights_that_are_no_constants_are_read_as_they_are() -> None:
    model = Calls(lambda x, w: F.conv2d(x, w)).eval()
    found = autosched.torch.tasks_of(model, *drawn((1, 16, 5, 5), (8, 16, 3, 3)), winograd=4)
    assert [each.kind for each in found.found] == ["conv2d"]


def test_tasks_are_beside_the_direct_ones_and_asked_for() -> None:
    model, (x,) = (
        filled(nn.Sequential(nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3))),
        drawn((1, 16, 6, 6)),
    )
    plain = autosched.torch.tasks_of(model, x)
    both = autosched.torch.tasks_of(model, x, winograd=4)
    assert [each.kind for each in plain.found] == ["conv2d+relu", "conv2d"]
    kinds = ["conv2d+relu", "winograd_conv2d+relu", "conv2d", "winograd_conv2d"]
    assert [each.kind for each in both.found] == kinds
    assert both.weights == [1.0] * 4 and both.tasks[::2] == plain.tasks
    several: list[Any] = [3, True, 4.0, "4", None, x]
    for wrong in several:
        with pytest.raises(ConfigError, match=r"winograd: expected 2, 4 or 6, .*found"):
            autosched.torch.tasks_of(model, x, winograd=wrong)


def test_the_faster_record_is_taken(tmp_path: Path) -> None:
    model, (x,) = filled(nn.Conv2d(16, 16, 3)), drawn((1, 16, 5, 5))
    (direct,) = autosched.torch.tasks_of(model, x).tasks
    several = [direct, *(task for tile in (2, 4) for task in ways(model, x, tile=tile))]
    for fastest, kind in zip(several, ("W[16, 16, 3, 3]", "U[4, 4, 16", "U[6, 6, 16"), strict=True):
        path = tmp_path / f"{fastest.key}.jsonl"
        seconds = [1e-3 if task is fastest else 2e-3 for task in several]
        timed = (
            Record(task.to_json(), (), MeasureResult((each,), None, checked=True))
            for task, each in zip(several, seconds, strict=True)
        )
        written_here(path, *timed)
        fast = autosched.torch.with_kernels(model, path, x)
        assert kind in fast.report.replaced[0].inputs and len(fast.report.replaced) == 1
        same(fast, model, x)


def test_what_winograd_alone_cannot_hold_is_direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tensors have more elements than the image."""
    model, (x,) = filled(nn.Conv2d(16, 16, 3, padding=1)), drawn((1, 16, 16, 16))
    monkeypatch.setattr("autosched.task.MAX_SIZE", 6000)
    found = autosched.torch.tasks_of(model, x, winograd=4)
    assert [each.kind for each in found.found] == ["conv2d"] and not found.left_out


def test_shared_weights_are_stored_once() -> None:
    layer: Any = nn.Conv2d(16, 16, 3, padding=1)
    model, (x,) = (
        filled(nn.Sequential(layer, nn.ReLU(), layer, nn.ReLU(), layer)),
        drawn((1, 16, 5, 5)),
    )
    fast = autosched.torch.with_kernels(model, untuned(ways(model, x)), x)
    same(fast, model, x)
    assert sorted(t.dim() for t in fast.state_dict().values()) == [1, 4]


def test_weights_are_those_of_then() -> None:
    model, (x,) = filled(nn.Conv2d(16, 16, 3)), drawn((1, 16, 5, 5))
    fast = autosched.torch.with_kernels(model, untuned(ways(model, x)), x)
    before = fast(x)
    with torch.no_grad():
        model.weight.zero_()
    assert torch.equal(fast(x), before)


def test_the_backend_notices_what_changes() -> None:
    first, last = nn.Conv2d(16, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
    model, (x,) = (
        filled(nn.Sequential(first, nn.BatchNorm2d(16), nn.ReLU(), last)),
        drawn((1, 16, 5, 5)),
    )
    mine = autosched.torch.backend(untuned(ways(model, x)))
    compiled = torch.compile(model, backend=mine)
    same(compiled, model, x)
    with torch.no_grad():
        last.weight.mul_(2)  # in place, as optimizers do
    same(compiled, model, x)
    model.load_state_dict({name: t + 0.5 for name, t in model.state_dict().items()})
    same(compiled, model, x)
    first.weight.data = first.weight.data.flip(0).clone()  # other memory
    same(compiled, model, x)
    assert {r.kind for r in mine.report.replaced} == {
        "winograd_conv2d+batch_norm+relu",
        "winograd_conv2d",
    }


def test_ways_are_made_tasks_where_they_are_wanted() -> None:
    """A model that is called with kernels has three ways for each convolution."""
    model = filled(nn.Sequential(nn.Conv2d(16, 16, 3), nn.BatchNorm2d(16), nn.ReLU()))
    graph = exported(model, drawn((1, 16, 5, 5)))
    (match,), _ = matches_of(graph, Constants(graph), make_target("cpu"), "none")
    assert [other.operands["U"].shape[0] for other in match.others] == [4, 6, 8]
    other = match.by(match.others[1])
    assert other.nodes == match.nodes and other.place == match.place == "0"
    assert other.task.workload.to_json() | {"layout_free": []} == {
        **json.loads(json.dumps(match.others[1].workload)),
        "layout_free": [],
    }


def test_it_is_as_exact_as_the_guide_says() -> None:
    """Largest differences from float64, relative to the largest result."""
    model, (x,) = filled(nn.Conv2d(64, 64, 3, padding=1)), drawn((1, 64, 14, 14))
    with torch.no_grad():
        model.weight.copy_(drawn((64, 64, 3, 3), seed=1)[0])
        exact = nn.functional.conv2d(
            x.double(), model.weight.double(), model.bias.double(), padding=1
        )
        for tile, most in ((2, 1e-6), (4, 2e-5), (6, 5e-5)):
            fast = autosched.torch.with_kernels(model, untuned(ways(model, x, tile=tile)), x)
            error = (fast(x).double() - exact).abs().max() / exact.abs().max()
            assert error < most, tile
