"""What functions of the user's may return for an array."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from autosched.errors import ConfigError
from autosched.task import Task
from autosched.workloads.given_array import given_array


class Closed:
    """As a tensor of PyTorch that requires a gradient."""

    def __array__(self, *args: Any, **named: Any) -> Any:
        raise RuntimeError("Can't call numpy() on it.\nUse detach() first")


@pytest.mark.parametrize(
    "value",
    [
        [[1.0, 2.0], [3.0, 4.0]],
        np.ones(3, np.int8)[::2],
        np.ones((2, 2), bool).T,
        np.ones(2, ml_dtypes.bfloat16),
        2.5,
    ],
)
def test_numbers_are_taken(value: Any) -> None:
    found = given_array("here", value)
    np.testing.assert_array_equal(found, np.asarray(value))
    assert found.flags.c_contiguous


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            np.ma.array([1.0, 2.0], mask=[False, True]),
            "without a mask, found a masked one; return its ",
        ),
        (np.ones(2, np.complex64), "expected real numbers, found complex64; return its .real"),
        ([1j], "expected real numbers, found complex128"),
        (["1.5", "2"], "expected an array of numbers, found elements of the type <U3"),
        (np.array(["2026-11-29"], "datetime64[D]"), "found elements of the type datetime64"),
        (np.array([1, None]), "found an array of objects"),
        ([1, None], "found a list"),
        (None, "found None"),
        ({"B": 1}, "found a dict"),
        ([[1.0, 2.0], [3.0]], "expected an array of numbers, found a list: "),
        (Closed(), "found a Closed: Can't call numpy.. on it. Use detach.. first"),
    ],
)
def test_what_holds_no_numbers_is_refused(value: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^here: .*{message}"):
        given_array("here", value)


FILE = """
import numpy as np
from autosched import te

def double(n, how):
    A = te.placeholder((n,), name="A")
    return [A, te.compute((n,), lambda i: A[i] * 2.0, name="B")]

def double_reference(inputs, n, how):
    return [ways[how](inputs[0] * 2)]

def double_inputs(rng, n, how):
    return {"A": ways[how](rng.random(n, np.float32))} if how == "rows" else {}

def make(rng, shape, dtype):
    return np.ma.zeros(shape, dtype)

ways = {
    "mask": lambda x: np.ma.array(x, mask=x > 1),
    "complex": lambda x: x + 1j,
    "text": lambda x: x.astype(str),
    "shape": lambda x: x[:, None],
    "one": lambda x: x[0],
    "rows": lambda x: [x[:2].tolist(), 1.0],
}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the file above, in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ops.py").write_text(FILE)
    return "ops.py"


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("mask", "expected an array without a mask"),
        ("complex", "expected real numbers, found complex64"),
        ("text", "found elements of the type <U"),
        ("shape", r"expected shape \(4,\), found \(4, 1\)"),
        ("one", r"expected shape \(4,\), found \(\)"),
    ],
)
def test_a_reference_names_the_output(file: str, how: str, message: str) -> None:
    """Imaginary parts, masks and text were dropped, or read as numbers, without a word."""
    task = Task.from_python(f"{file}:double", n=4, how=how)
    with pytest.raises(ConfigError, match=rf"python: ops\.py:9: double_reference: B: .*{message}"):
        task.reference(task.inputs())


def test_inputs_name_the_tensor(file: str) -> None:
    with pytest.raises(ConfigError, match=r"ops\.py:12: double_inputs: A: .*numbers, found a list"):
        Task.from_python(f"{file}:double", n=4, how="rows").inputs()
    task = Task.from_python(f"{file}:double", n=4, how="one")
    with pytest.raises(ConfigError, match="inputs: A: expected an array without a mask"):
        task.with_inputs({"A": {"function": f"{file}:make"}})
