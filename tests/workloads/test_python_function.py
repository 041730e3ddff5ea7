"""Workloads in a user's Python file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autosched.errors import ConfigError
from autosched.workloads.python_function import PythonWorkload

SOURCE = """
from autosched import te

def scale(n=4):
    A = te.placeholder((n,), name="A")
    return [A, te.compute((n,), lambda i: A[i] * 2.0, name="B")]

def twice(n):
    return scale(n)

def twice_reference(inputs, n):
    return [inputs[0] + inputs[0]]

def backwards():
    return scale()[::-1]

def nothing():
    return 3

def fails():
    raise RuntimeError("no")
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "my_ops.py"
    path.write_text(SOURCE)
    return path


@pytest.mark.parametrize(("name", "args"), [("scale", {}), ("twice", {"n": 6})])
def test_reference(source: Path, name: str, args: dict[str, int]) -> None:
    workload = PythonWorkload.load(f"{source}:{name}", args)
    (array,) = workload.inputs(seed=1)
    (result,) = workload.reference([array])
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, 2 * array)
    assert workload.num_outputs == 1
    assert workload.to_json()["python"] == f"{source}:{name}"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "defines no function missing"),
        ("backwards", "must return the inputs, then the outputs"),
        ("nothing", "must return a list of tensors"),
        ("fails", "RuntimeError: no"),
        ("twice", "does not accept the arguments"),
    ],
)
def test_refuses(source: Path, name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PythonWorkload.load(f"{source}:{name}")


@pytest.mark.parametrize("spec", ["my_ops.py", ":f", "nowhere.py:f", "my_ops.py:not a name"])
def test_refuses_a_spec(spec: str) -> None:
    with pytest.raises(ConfigError, match="python: "):
        PythonWorkload.load(spec)


def test_a_file_that_fails_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("1/0")
    with pytest.raises(ConfigError, match="ZeroDivisionError"):
        PythonWorkload.load(f"{tmp_path / 'bad.py'}:f")
