"""How far outputs may differ: the type's share, more where errors are amplified before."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from autosched.driver import build_steps
from autosched.measure.check import MOST, Allowed, Seen, Tolerance, compare, tolerance_of
from autosched.measure.tolerance import tolerances
from autosched.runtime.cpu import load
from autosched.task import Task
from autosched.workloads import random_inputs


def attention(**sizes: Any) -> Task:
    sizes = {"B": 1, "S": 48, "H": 2, "dtype": "float16", **sizes}
    return Task.from_workload("transpose_batch_matmul_softmax", **sizes)


def tolerance(task: Task) -> Tolerance:
    inputs = task.inputs()
    (found,) = tolerances(task, inputs, task.reference(inputs))
    return found


def test_scores_that_were_rounded_err_by_more_after_an_exponential() -> None:
    """A kernel without a schedule fails with the type's tolerance. The output is checked still."""
    task = attention(D=64)
    q, k = random_inputs(task.tensors[:2])  # scores of deviation 8
    (want,) = task.reference([q, k])
    found = load(build_steps(task.dag, (), task.target))(q, k)
    assert isinstance(found, np.ndarray)
    (allowed,) = tolerances(task, [q, k], [want])
    assert tolerance_of(np.dtype("float16")) < allowed.relative < MOST
    assert compare("norm", found, want) is not None
    assert compare("norm", found, want, allowed) is None
    q[0, 7, 1, 33] = 0  # a term of some scores left out
    (wrong,) = task.reference([q, k])
    assert compare("norm", wrong, want, allowed) is not None


def test_scores_of_hundreds_in_float16_are_told_to_be_inexact() -> None:
    """A kernel without a schedule errs by half, and the warning says what can be told."""
    task = attention(D=64, H=3)
    q, k = (6 * array for array in random_inputs(task.tensors[:2]))
    (want,) = task.reference([q, k])
    found = np.empty_like(want)
    load(build_steps(task.dag, (), task.target))(q, k, found)
    (allowed,) = tolerances(task, [q, k], [want])
    assert allowed.relative > MOST
    seen = Allowed.of(want, allowed).seen("norm", found, want)
    assert isinstance(seen, Seen) and seen.error > MOST
    assert seen.warning is not None and "proves little" in seen.warning


def test_errors_of_few_elements_are_drawn_more_than_once() -> None:
    """Of 2% of the outputs, scores that err towards each other are not in every draw."""
    task = attention(D=64, H=3)
    q, k = (8 * array for array in random_inputs(task.tensors[:2]))
    (want,) = task.reference([q, k])
    found = np.empty_like(want)
    load(build_steps(task.dag, (), task.target))(q, k, found)
    (allowed,) = tolerances(task, [q, k], [want])
    assert allowed.relative > 1
    assert isinstance(Allowed.of(want, allowed).seen("norm", found, want), Seen)


def test_the_longer_the_sum_the_more() -> None:
    short, long = (tolerance(attention(D=size)).relative for size in (4, 64))
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
    assert (tolerance(task).relative > own) == more


def test_a_sum_of_exponentials_errs_by_its_own_size() -> None:
    """It does not cancel, as sums of products do: other, larger sums say nothing about it."""
    task = Task.from_expression(
        "M[i] = max(k, A[i, k]); E[i, j] = exp(A[i, j] - M[i]); S[i] = sum(k, E[i, k]); "
        "B[i, j] = E[i, j] / S[i]",
        {"A": (20, 1000)},
        dtype="float16",
    )
    (a,) = task.inputs()
    a[1::2, 7] = 30  # sums of 1 beside sums of 20
    (found,) = tolerances(task, [a], task.reference([a]))
    assert found.relative == tolerance_of(np.dtype("float16"), 1000)


PRODUCT = "C[i, j] = sum(k, A[i, k] * B[k, j])"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn"])
def test_what_is_moved_or_the_largest_of_several_was_not_rounded(dtype: str) -> None:
    """Queries and keys are transposed in their type, and everything else is float32."""
    task = attention(D=64, dtype=dtype, acc_dtype="float32")
    assert tolerance(task).relative < 1e-3
    task = Task.from_expression(
        "M[i] = max(k, A[i, k]); E[i, j] = exp(float32(A[i, j]) - float32(M[i]))",
        {"A": (30, 200)},
        dtype={"A": dtype, "M": dtype, "E": "float32"},
    )
    assert tolerance(task).relative == 2e-4


@pytest.mark.parametrize(
    ("args", "least", "most", "rounding"),
    [
        ({"dtype": "float32"}, 2e-4, 2e-4, 0),
        ({"dtype": "bfloat16"}, 0.1, 0.2, 0),  # 2 * 2**-8 * sqrt(300)
        ({"dtype": "bfloat16", "acc_dtype": "float32"}, 2e-4, 2e-4, 2**-7),
        ({"dtype": "bfloat16", "acc_dtype": "float32", "out_dtype": "float32"}, 2e-4, 2e-4, 0),
        ({"in_dtype": "float8_e5m2"}, 2e-4, 2e-4, 0),
        ({"in_dtype": "float16", "acc_dtype": "float16", "out_dtype": "float32"}, 0.016, 0.02, 0),
        ({"in_dtype": "int8"}, 0, 0, 0),
        ({"in_dtype": "int8", "acc_dtype": "float32"}, 2e-4, 2e-4, 0),
    ],
)
def test_of_types_and_lengths_of_sums(
    args: dict[str, Any], least: float, most: float, rounding: float
) -> None:
    found = tolerance(Task.from_workload("matmul", M=3, N=4, K=300, **args))
    assert least <= found.relative <= most
    assert found.rounding == rounding


def test_what_a_result_was_made_of_may_have_been_rounded_before() -> None:
    """Only the last conversion rounds by a share of the element itself."""
    expr = "H[i, j] = bfloat16(2.5 * A[i, j]); S[i] = bfloat16(sum(k, float32(H[i, k])))"
    types = {"A": "float32", "H": "bfloat16", "S": "bfloat16"}
    found = tolerance(Task.from_expression(expr, {"A": (30, 200)}, dtype=types))
    assert found.relative == pytest.approx(2e-4 + 2**-7) and found.rounding == 2**-7


@pytest.mark.parametrize(
    "expr",
    [
        "C[i, j] = sum(k, float32(A[i, k]) * float32(bfloat16(H[k, j])))",
        "R[k, j] = bfloat16(H[k, j]); C[i, j] = sum(k, float32(A[i, k]) * float32(R[k, j]))",
    ],
)
def test_sums_of_products_with_a_rounded_factor(expr: str) -> None:
    """The worst of two million elements; right kernels were called wrong."""
    dtype = {"A": "bfloat16", "H": "float32", "R": "bfloat16", "C": "float32"}
    if "R" not in expr:
        del dtype["R"]
    shapes = {"A": [2048, 16], "H": [16, 1024]}
    task = Task.from_expression(expr, shapes=shapes, dtype=dtype)
    given = task.inputs()
    a, h = (given[[t.op.name for t in task.tensors].index(name)] for name in "AH")
    want = a.astype("float32") @ h.astype("float32")
    found = a.astype("float32") @ h.astype(ml_dtypes.bfloat16).astype("float32")
    (tolerance,) = tolerances(task, given, [want])
    assert compare("C", found, want, tolerance) is None
    wrong = a[:, 1:].astype("float32") @ h[1:].astype("float32")
    assert compare("C", wrong, want, tolerance) is not None


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_results_that_are_rounded_once_are_neighbours_however_small_they_are(dtype: str) -> None:
    """A term left out shows where results are small, whatever the type they are rounded to."""
    task = Task.from_workload("matmul", M=60, N=80, K=300, dtype=dtype, acc_dtype="float32")
    a, b = task.inputs()
    (want,) = task.reference([a, b])
    (allowed,) = tolerances(task, [a, b], [want])
    exact = a.astype(float) @ b.astype(float)
    signs = np.random.default_rng(0).choice((-1.0, 1.0), exact.shape)
    beside = (exact + 2e-3 * signs).astype(want.dtype)
    assert (beside != want).any()
    assert isinstance(Allowed.of(want, allowed).seen("C", beside, want), Seen)
    a[:, 7] = 0
    (wrong,) = task.reference([a, b])
    assert compare("C", wrong, want, allowed) is not None


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
    assert (allowed.relative > 0) == inexact
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
    assert tolerance(cpu).relative == 0
    assert (tolerance(gpu).relative > 0) == inexact
