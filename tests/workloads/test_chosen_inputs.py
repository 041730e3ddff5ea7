"""Inputs that the user chose: every form, what is recorded, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.cli.read_config import load_config
from autosched.errors import ConfigError
from autosched.task import Task

EXPR = "C[i] = A[I[i]] * 2"
SHAPES = {"A": [50], "I": [400]}
DTYPES = {"A": "float32", "I": "int32"}
GENERATOR = """
import numpy as np

def make(rng, shape, dtype):
    return rng.exponential(2.0, shape).astype(dtype)

def fails(rng, shape, dtype):
    return np.zeros(shape).nothing

def other_type(rng, shape, dtype):
    return np.zeros(shape, "float64")
"""


def gather() -> Task:
    return Task.from_expression(EXPR, SHAPES, dtype=DTYPES)


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gen.py").write_text(GENERATOR)
    np.save(tmp_path / "a.npy", np.arange(50, dtype=np.float32))
    np.save(tmp_path / "long.npy", np.arange(51, dtype=np.float32))
    (tmp_path / "text.npy").write_text("no array")


@pytest.mark.parametrize(
    ("name", "entry", "low", "high"),
    [
        ("A", {"uniform": [3, 4]}, 3, 4),
        ("A", {"normal": [100, 0.5]}, 90, 110),
        ("A", {"integers": [-2, 2]}, -2, 2),
        ("A", {"constant": 1.5}, 1.5, 1.5),
        ("A", {"file": "a.npy"}, 0, 49),
        ("A", {"function": "gen.py:make"}, 0, 1e3),
        ("I", {"integers": [7, 9]}, 7, 9),
        ("I", {"constant": 49}, 49, 49),
    ],
)
def test_every_form(name: str, entry: dict[str, Any], low: float, high: float) -> None:
    """In range, in the tensor's type, the same every time and in another process; its own task."""
    plain = gather()
    task = plain.with_inputs({name: entry})
    names = [tensor.name for tensor in task.tensors]
    k = names.index(name)
    made = task.inputs()[k]
    assert made.min() >= low and made.max() <= high
    assert made.dtype == plain.inputs()[k].dtype and made.shape == plain.inputs()[k].shape
    again = Task.from_json(task.to_json())
    assert again == task and again.key == task.key != plain.key
    for one, two in zip(again.inputs(), task.inputs(), strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(task.inputs()[1 - k], plain.inputs()[1 - k])
    assert f"chosen inputs {name}" in task.name
    assert "inputs" not in plain.to_json()
    if low < high and "file" not in entry:
        assert not np.array_equal(task.inputs(seed=1)[k], made)


def test_both_ends_of_integers_occur() -> None:
    made = gather().with_inputs({"I": {"integers": [0, 3]}}).inputs()
    assert {0, 3} <= set(made[1].tolist()) <= {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("name", "entry", "message"),
    [
        ("B", {"constant": 1}, "inputs: B: expected one of the inputs A, I"),
        ("C", {"constant": 1}, "inputs: C: expected one of the inputs A, I"),
        ("A", {"unifrom": [0, 1]}, "inputs: A: expected one of uniform, normal, integers"),
        ("A", {"constant": 1, "uniform": [0, 1]}, "inputs: A: expected one of uniform"),
        ("A", {"uniform": [1]}, r"inputs: A: uniform: expected \[low, high\]"),
        ("A", {"uniform": [2, 1]}, "inputs: A: uniform: expected low, then high"),
        ("A", {"uniform": [-1e308, 1e308]}, "inputs: A: uniform: expected a range up to 1.8e.308"),
        ("A", {"normal": [0, -1]}, "inputs: A: normal: expected a deviation of at least 0"),
        ("A", {"integers": [0.5, 1]}, "inputs: A: integers: expected whole numbers"),
        ("A", {"constant": "one"}, "inputs: A: constant: expected a number"),
        ("A", {"file": "none.npy"}, "inputs: A: cannot read none.npy: No such file"),
        ("A", {"file": "text.npy"}, r"inputs: A: text.npy is no \.npy file"),
        ("A", {"file": "long.npy"}, r"inputs: A: expected shape \(50,\), found \(51,\)"),
        ("A", {"function": "gen.py:nothing"}, "inputs: A: gen.py defines no function nothing"),
        ("A", {"function": "gen.py:fails"}, "inputs: A: gen.py:8: fails failed: AttributeErr"),
        ("A", {"function": "gen.py:other_type"}, "inputs: A: expected float32, found float64"),
        ("I", {"uniform": [0, 1]}, "inputs: I: uniform is for floats, this input is int32"),
        ("I", {"integers": [0, 900]}, "inputs: I: it is read as .* 0 to 49, found 0 to 900"),
        ("A", {"integers": [0, 1e30]}, "inputs: A: integers: expected numbers of 64 bits"),
        ("I", {"constant": -1}, "inputs: I: it is read as an index from 0 to 49, found -1"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_line(
    tmp_path: Path, name: str, entry: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        gather().with_inputs({name: entry})
    path = tmp_path / "mine.yaml"
    path.write_text(
        f"workload: {{expr: '{EXPR}', shapes: {SHAPES}, dtype: {DTYPES}}}\n"
        f"inputs:\n  {name}: {entry}\n"
    )
    with pytest.raises(ConfigError, match=rf"mine\.yaml:3: {message}"):
        load_config(path)


def test_a_constant_is_finite() -> None:
    with pytest.raises(ConfigError, match="A: constant: expected a finite number, found -inf"):
        gather().with_inputs({"A": {"constant": float("-inf")}})


def test_a_file_that_changed_is_another_task(tmp_path: Path) -> None:
    task = gather().with_inputs({"A": {"file": "a.npy"}})
    np.save(tmp_path / "a.npy", np.ones(50, np.float32))
    with pytest.raises(ConfigError, match=r"a\.npy no longer holds what was recorded"):
        Task.from_json(task.to_json()).inputs()
    assert gather().with_inputs({"A": {"file": "a.npy"}}).key != task.key


def test_a_function_that_does_something_else_is_another_task(tmp_path: Path) -> None:
    """A replay elsewhere says so, whether the function differs or is missing."""
    task = gather().with_inputs({"A": {"function": "gen.py:make"}})
    entry = task.to_json()
    (tmp_path / "gen.py").write_text(GENERATOR.replace("2.0", "3.0"))
    with pytest.raises(ConfigError, match=r"A: gen\.py:make is not the function that was recorded"):
        Task.from_json(entry).inputs()
    assert gather().with_inputs({"A": {"function": "gen.py:make"}}).key != task.key
    (tmp_path / "gen.py").write_text(f"# a comment\n{GENERATOR}")
    np.testing.assert_array_equal(Task.from_json(entry).inputs()[0], task.inputs()[0])
    (tmp_path / "gen.py").unlink()
    with pytest.raises(ConfigError, match=r"A: there is no file gen\.py"):
        Task.from_json(entry).inputs()


def test_a_configuration_with_inputs(tmp_path: Path) -> None:
    path = tmp_path / "mm.yaml"
    path.write_text(
        "workload: {op: matmul, args: {M: 8, N: 8, K: 8}}\n"
        "inputs: {A: {uniform: [1, 2]}, B: {constant: 3}}\n"
    )
    a, b = load_config(path).task().inputs()
    assert a.min() >= 1 and a.max() <= 2 and (b == 3).all()


def test_integers_must_all_fit_whichever_are_drawn() -> None:
    """One in a million would do harm in another run: the ends say it, not the draw."""
    with pytest.raises(ConfigError, match="I: it is read as an index from 0 to 49, found 0 to 50"):
        gather().with_inputs({"I": {"integers": [0, 50]}})
    task = Task.from_expression("C[i] = A[i] + 1", {"A": (2,)}, dtype="int8")
    with pytest.raises(ConfigError, match="inputs: A: 0 to 128 do not fit int8"):
        task.with_inputs({"A": {"integers": [0, 128]}})
