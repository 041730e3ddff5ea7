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


PRODUCT = "C[i, j] = sum(k, A[i, k] * B[k, j])"


@pytest.mark.parametrize(
    ("args", "least", "most"),
    [
        ({"dtype": "float32"}, 2e-4, 2e-4),
        ({"dtype": "bfloat16"}, 0.1, 0.2),  # 2 * 2**-8 * sqrt(300)
        ({"dtype": "bfloat16", "acc_dtype": "float32"}, 2**-7, 2**-7 + 3e-4),  # one conversion
        ({"dtype": "bfloat16", "acc_dtype": "float32", "out_dtype": "float32"}, 2e-4, 2e-4),
        ({"in_dtype": "float8_e5m2"}, 2e-4, 2e-4),
        ({"in_dtype": "float16", "acc_dtype": "float16", "out_dtype": "float32"}, 0.016, 0.02),
        ({"in_dtype": "int8"}, 0, 0),
        ({"in_dtype": "int8", "acc_dtype": "float32"}, 2e-4, 2e-4),
    ],
)
def test_of_types_and_lengths_of_sums(args: dict[str, Any], least: float, most: float) -> None:
    found = tolerance(Task.from_workload("matmul", M=3, N=4, K=300, **args))
    assert least <= found <= most


@pytest.mark.parametrize(
    ("value", "inexact"),
    [
        ("rint(C[i] * s[i]) + 3", False),
        ("C[i] * s[i] + 3", False),  # not fused where it becomes an integer
        ("exp(s[i])", True),
        ("S[i] * 2", True),
        ("P[i] * 2", False),
        ("max(s[i], 2) / 3", False),
    ],
)
def test_integers_made_of_floats_are_equal_unless_kernels_round_them_differently(
    value: str, inexact: bool
) -> None:
    expr = "C[i] = sum(k, A[i, k]); S[i] = sum(k, F[i, k]); P[i] = s[i] * s[i] + 1"
    types = {"A": "int8", "C": "int32", "s": "float32", "F": "float32", "D": "int8"}
    shapes = {"A": (5, 9), "F": (5, 9), "s": (5,)}
    task = Task.from_expression(f"{expr}; D[i] = int8({value})", shapes, dtype=types)
    inputs = task.inputs()
    allowed = tolerances(task, inputs, task.reference(inputs))[-1]
    assert (allowed > 0) == inexact
    want = np.array([-3, 0, 100], np.int8)
    assert (compare("D", want + np.int8(1), want, allowed) is None) == inexact
    assert compare("D", want + np.int8(5), want, allowed) is not None


@pytest.mark.parametrize(
    ("value", "inexact"),
    [
        ("X[i] + R[i]", True),
        ("bfloat16(float32(X[i]) + float32(R[i]))", False),  # rounded in every kernel
        ("max(X[i], R[i])", False),
    ],
)
def test_kernels_for_gpus_round_bfloat16_where_it_goes_through_memory(
    value: str, inexact: bool
) -> None:
    expr = f"H[i] = {value}; D[i] = int8(rint(H[i]))"
    types = {"X": "bfloat16", "R": "bfloat16", "H": "bfloat16", "D": "int8"}
    shapes = {"X": (9,), "R": (9,), "H": (9,)}
    cpu, gpu = (
        Task.from_expression(expr, shapes, dtype=types, target=target) for target in ("cpu", "cuda")
    )
    assert tolerance(cpu) == 0
    assert (tolerance(gpu) > 0) == inexact
