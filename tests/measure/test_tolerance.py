"""How far outputs may differ: the type's share, more where errors are amplified before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched.driver import build_steps
from autosched.measure.check import MOST, compare, tolerance_of
from autosched.measure.tolerance import tolerances
from autosched.runtime.cpu import load
from autosched.task import Task


def attention(**sizes: Any) -> Task:
    sizes = {"B": 1, "S": 48, "H": 2, "dtype": "float16", **sizes}
    return Task.from_workload("transpose_batch_matmul_softmax", **sizes)


def tolerance(task: Task) -> float:
    inputs = task.inputs()
    (found,) = tolerances(task, inputs, task.reference(inputs))
    return found


def test_scores_that_were_rounded_err_by_more_after_an_exponential() -> None:
    """A kernel without a schedule fails with the type's tolerance. The output is checked still."""
    task = attention(D=64)
    q, k = task.inputs()
    (want,) = task.reference([q, k])
    found = load(build_steps(task.dag, (), task.target))(q, k)
    assert isinstance(found, np.ndarray)
    allowed = tolerance(task)
    assert tolerance_of(np.dtype("float16")) < allowed < MOST
    assert compare("norm", found, want) is not None
    assert compare("norm", found, want, allowed) is None
    q[0, 7, 1, 33] = 0  # a term of some scores left out
    (wrong,) = task.reference([q, k])
    assert compare("norm", wrong, want, allowed) is not None


def test_the_longer_the_sum_the_more() -> None:
    short, long = (tolerance(attention(D=size)) for size in (4, 64))
    assert short < long


@pytest.mark.parametrize(
    ("expr", "types", "more"),
    [
        ("C[i] = sum(k, A[i, k]); D[i] = exp(-abs(C[i]))", "float16", True),
        ("C[i] = sum(k, A[i, k]); D[i] = 1 / (1 + abs(C[i]))", "float16", True),
        ("C[i] = sum(k, A[i, k]); D[i] = exp(-abs(C[i]))", "float32", False),
        ("C[i] = sum(k, exp(-abs(A[i, k]))); D[i] = C[i] * C[i]", "float16", False),
        ("C[i] = sum(k, A[i, k]); D[i] = C[i] / 3", "float16", False),
        ("C[i] = sum(k, A[i, k]); D[i] = C[i] * 3", "int32", False),
        (
            "C[i] = sum(k, A[i, k]); D[i] = exp(-abs(C[i]))",
            {"A": "float32", "C": "float32", "D": "float16"},
            False,
        ),
    ],
)
def test_of_what_was_rounded_before(expr: str, types: Any, more: bool) -> None:
    """Only functions and divisors of computed floats amplify what was rounded coarsely."""
    task = Task.from_expression(expr, {"A": (30, 200)}, dtype=types)
    own = tolerance_of(task.tensors[-1].dtype.numpy)
    assert (tolerance(task) > own) == more
    assert tolerance(task) <= max(own, MOST)
