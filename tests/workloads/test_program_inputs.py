"""Random inputs of programs show arithmetic in too few bits, and floats stay moderate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.task import Task
from autosched.tir.expr import Expr, Var
from autosched.workloads.program_inputs import program_inputs
from autosched.workloads.python_function import PythonWorkload


def drawn(expr: str, shapes: dict[str, list[int]], dtype: Any) -> dict[str, np.ndarray[Any, Any]]:
    task = Task.from_expression(expr, shapes, dtype=dtype)
    names = [tensor.name for tensor in task.tensors]
    return dict(zip(names, task.inputs(), strict=False))


@pytest.mark.parametrize(
    ("dtype", "fewer"),
    [("int64", "int32"), ("int64", "float64"), ("int32", "int16"), ("int32", "float32")],
)
@pytest.mark.parametrize("terms", [1, 64])
def test_sums_in_fewer_bits_are_wrong(dtype: str, fewer: str, terms: int) -> None:
    """So are products of elements that were narrowed."""
    shapes = {"A": [9, terms], "B": [terms, 9]}
    task = Task.from_expression("C[i, j] = sum(k, A[i, k] * B[k, j])", shapes, dtype=dtype)
    inputs = task.inputs()
    (want,) = task.reference(inputs)
    with np.errstate(invalid="ignore"):
        a, b = (array.astype(fewer) for array in inputs)
        narrowed = a.astype(dtype) @ b.astype(dtype)
        added = (a @ b).astype(dtype)
    assert (narrowed != want).mean() > 0.3
    assert (added != want).mean() > 0.3


def test_elements_of_16_bits_are_no_bytes() -> None:
    (a, *_) = drawn("B[i] = A[i] + 1", {"A": [99]}, "int16").values()
    assert (a != a.astype("int8")).mean() > 0.3 and (abs(a) <= 4).mean() > 0.3


def test_the_largest_of_a_row_is_anywhere() -> None:
    """Of integers from -4 to 4 the first 4 was always one of the first elements."""
    task = Task.from_expression("B[i] = argmax(k, A[i, k])", {"A": [40, 200]}, dtype={"A": "int32"})
    (a,) = task.inputs()
    (want,) = task.reference([a])
    assert (want > 100).mean() > 0.3


@pytest.mark.parametrize(
    "expr",
    [
        "B[i] = exp(float32(A[i]))",
        "D[i] = A[i] + 1; B[i] = exp(float32(D[i]))",
        "D[i] = sum(k < 3, A[i] * k); B[i] = sqrt(D[i] / 2)",
        "B[i] = T[(A[i] ^ 3) % 8]",
        "B[i] = where(A[i] > F[i], 1.0, F[i])",
    ],
)
def test_integers_of_which_floats_or_indices_are_made_are_small(expr: str) -> None:
    shapes = {"A": [99], "T": [8], "F": [99]}
    given = {name: shape for name, shape in shapes.items() if f"{name}[" in expr}
    types = {"A": "int32", "T": "float32", "F": "float32", "D": "int32", "B": "float32"}
    used = {name: kind for name, kind in types.items() if f"{name}[" in expr}
    found = drawn(expr, given, used)
    assert abs(found["A"]).max() <= 4


def test_lengths_of_loops_are_small() -> None:
    """A sum of as many terms as any int32 says would never end."""
    lengths = te.placeholder((40,), "int32", name="L")

    def body(i: Var) -> Expr:
        k = te.reduce_axis((0, lengths[i] * 2), "k")
        found: Expr = te.sum(k.var, axis=k)
        return found

    tensors = [lengths, te.compute((40,), body, name="S")]
    (found,) = program_inputs(tensors, 1, seed=0)
    assert abs(found).max() <= 4


SOURCE = """
from autosched import te

def double(n=99):
    A = te.placeholder((n,), "int16", name="A")
    return [A, te.compute((n,), lambda i: A[i] + A[i], name="B")]

def double_too(n=99):
    return double(n)

def double_too_reference(inputs, n=99):
    return [inputs[0] * 2.0]
"""


@pytest.mark.parametrize(("name", "small"), [("double", False), ("double_too", True)])
def test_a_reference_of_ones_own_need_not_wrap(tmp_path: Path, name: str, small: bool) -> None:
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    (a,) = PythonWorkload.load(f"{path}:{name}").inputs()
    assert (abs(a.astype("int32")).max() <= 4) == small
