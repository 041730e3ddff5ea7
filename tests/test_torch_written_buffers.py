"""Models that write buffers or attributes: results are memory of their own, models stay whole."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

torch = pytest.importorskip("torch", "2.9", reason="models are for PyTorch 2.9 or later")
import autosched  # noqa: E402
import autosched.torch  # noqa: E402
from autosched.errors import ConfigError  # noqa: E402
from kit.torch_models import Cell, Growing, Looking, drawn, untuned  # noqa: E402

Tensor = Any


def with_kernels(model: Any, x: Tensor) -> Any:
    tasks = autosched.torch.tasks_of(model, x)
    return autosched.torch.with_kernels(model, untuned(tasks.tasks), x)


@pytest.mark.parametrize(
    "kind", ["new", "part of new", "old and copied", "in place", "in other strides"]
)
def test_later_calls_do_not_change_results(kind: str) -> None:
    """What torch.export returned was the buffer itself."""
    torch.manual_seed(0)
    model = Cell(kind).eval()
    xs = drawn((2, 4), (2, 4), (2, 4))
    fast = with_kernels(model, xs[0])
    with torch.no_grad():
        found = [fast(x) for x in xs]
        wanted = [copy.deepcopy(model(x)) for x in xs]
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    first = found[0][0] if isinstance(found[0], tuple) else found[0]
    with torch.no_grad():
        first.fill_(7)  # of the caller's, not the state
        torch.testing.assert_close(fast(xs[0]), model(xs[0]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["old", "part of old"])
def test_the_old_value_of_a_buffer_is_refused_beside_its_new_one(kind: str) -> None:
    """torch.export returns the new one."""
    with pytest.raises(
        ConfigError, match=r"assigns its buffer state anew .*self\.state\.clone\(\)"
    ):
        autosched.torch.tasks_of(Cell(kind).eval(), *drawn((2, 4)))


def test_attributes_that_a_model_sets_do_not_stay_after_tracing() -> None:
    """They were tensors without values, which nothing could copy."""
    model = Looking().eval()
    (x,) = drawn((2, 3, 4))
    fast = with_kernels(model, x)
    assert not hasattr(model, "weights") and model.calls == 0
    for each in (copy.deepcopy(model), copy.deepcopy(fast), pickle.loads(pickle.dumps(model))):
        with torch.no_grad():
            torch.testing.assert_close(each(x), model(x), rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        kept = model.weights
        model(x * 2)
        with_kernels(model, x)
    assert type(model.weights) is torch.Tensor and model.weights is not kept


def test_a_buffer_that_grows_in_the_call_is_told() -> None:
    """The advice was to try torch.export, which takes the model."""
    model = Growing().eval()
    (x,) = drawn((2, 3, 4))
    with pytest.raises(ConfigError, match=r"buffer angles changes its shape .*call the model once"):
        autosched.torch.tasks_of(model, x)
    with torch.no_grad():
        wanted = model(x)
        torch.testing.assert_close(with_kernels(model, x)(x), wanted, rtol=1e-5, atol=1e-5)
