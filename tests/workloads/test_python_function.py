"""Workloads in a user's Python file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autosched.errors import ConfigError
from autosched.task import Task
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

def only_the_output():
    return scale()[1]

def leaves_one_out():
    A, B = scale()
    C = te.placeholder((4,), name="C")
    return [A, te.compute((4,), lambda i: B[i] + C[i], name="D")]
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
        (
            "only_the_output",
            r"must return every input that it reads, .*; A is missing among \['B'\]",
        ),
        ("leaves_one_out", "C is missing among"),
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


@pytest.mark.parametrize(
    ("old", "new"),
    [("* 2.0", "* 2.5"), ("A[i] * 2.0", "A[3 - i] * 2.0"), ("(n,), name", '(n,), "float64", name')],
)
def test_an_edited_body_is_another_task(source: Path, old: str, new: str) -> None:
    entry = Task.from_json_workload({"python": f"{source}:scale"}, "cpu").to_json()
    assert Task.from_json(entry).key == entry["key"]
    source.write_text(SOURCE.replace(old, new))
    edited = Task.from_json_workload({"python": f"{source}:scale"}, "cpu")
    assert edited.key != entry["key"]
    with pytest.raises(ConfigError, match="no longer declares the computation"):
        Task.from_json(entry)
    source.write_text(SOURCE.replace("def nothing", "# a comment\ndef nothing"))
    assert Task.from_json(entry).key == entry["key"]
