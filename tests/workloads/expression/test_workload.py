"""Expression workloads: what they compute, how lengths follow, what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from ruamel.yaml import YAML

from autosched.driver import build_steps
from autosched.errors import ConfigError
from autosched.runtime.cpu import load
from autosched.search.space import SearchSpace
from autosched.task import Task
from autosched.te.operations.operation import ComputeOp
from autosched.tir.dtype import DType
from autosched.workloads.expression.syntax import statements_of
from autosched.workloads.expression.workload import ExpressionWorkload
from autosched.workloads.source import source_from_json
from autosched.workloads.workload import shape_of
from kit.types import Array

SHAPES = {"A": [8, 4], "B": [4, 6]}


def run(
    expr: str, shapes: dict[str, list[int]], dtype: str = "float32"
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    workload = ExpressionWorkload.parse(expr, shapes, dtype)
    inputs = workload.inputs(seed=5)
    return inputs, workload.reference(inputs)


def test_matmul() -> None:
    (a, b), (c,) = run("C[i, j] = sum(k, A[i, k] * B[k, j])", SHAPES)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)


def test_statements_build_on_each_other_and_leave_several_outputs() -> None:
    expr = """
    C[i, j] = sum(k, A[i, k] * B[k, j])
    D[i, j] = max(C[i, j] * 2, 0) if i > 0 else exp(C[i, j]); Z[x] = max(r, A[x, r])
    """
    (a, b), (d, z) = run(expr.replace("\n    ", "\n"), SHAPES)
    c = a.astype(float) @ b
    expected = np.maximum(2 * c, 0)
    expected[0] = np.exp(c[0])
    np.testing.assert_allclose(d, expected, rtol=1e-5)
    np.testing.assert_array_equal(z, a.max(axis=1))


def test_a_statement_s_text_is_its_part_of_the_expression() -> None:
    """Also after letters of several bytes, and over lines of any ending."""
    expr = "é[i] = A[i] + 1; C[i] = é[i] * (A[i] +\r\n  1);\tD[i] = C[i]\rü[i] = (\n D[i]\f) # é"
    assert [statement.text for statement in statements_of(expr)] == [
        "é[i] = A[i] + 1",
        "C[i] = é[i] * (A[i] + 1)",
        "D[i] = C[i]",
        "ü[i] = ( D[i] )",
    ]


def test_length_follows_from_a_window() -> None:
    expr = "Y[n, x] = sum(r, X[n, 2*x + r] * W[r])"
    (x, w), (y,) = run(expr, {"X": [3, 11], "W": [4]})
    windows = np.lib.stride_tricks.sliding_window_view(x, 4, axis=1)[:, ::2]
    np.testing.assert_allclose(y, windows @ w, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("expr", "length"),
    [
        ("Y[y] = sum(r, P[y + r] * W[r]) + sum(k, P[y + 1] * V[k])", 8),
        ("Y[y] = sum(r, P[y + r] * W[r]) + P[y + 5]", 5),
        ("Y[y] = sum(r, P[y + r] * W[r]) - max(k, P[2*y + k] * V[k])", 4),
        ("Y[y] = sum(r, P[y + r] * W[r]) * S[y]", 6),
        ("Y[y] = sum(r, sum(s, P[y + r] * U[r, s])) - sum(k, P[2*y + k] * V[k])", 4),
        ("Y[y] = sum(k, P[y + 1] * V[k] * P[2*y + k])", 4),
        ("Y[y] = sum(r, P[y + r]) / 3 - S[y]", 6),
    ],
)
def test_reads_in_all_reductions_of_a_statement_stay_inside(expr: str, length: int) -> None:
    shapes = {"P": [10], "W": [3], "V": [4], "S": [6], "U": [3, 2]}
    own = {name: shape for name, shape in shapes.items() if f"{name}[" in expr}
    workload = ExpressionWorkload.parse(expr, own)
    made = {t.op.name: shape_of(t) for t in workload.tensors()}
    assert made["Y"] == (length,)
    inputs = workload.inputs()
    given = ExpressionWorkload.parse(expr, {**own, "Y": [length]})
    np.testing.assert_array_equal(workload.reference(inputs), given.reference(inputs))
    with pytest.raises(ConfigError, match=r"reads elements|needs"):
        ExpressionWorkload.parse(expr, {**own, "Y": [length + 1]})


def test_reductions_that_may_not_agree_are_refused() -> None:
    expr = "Y[i] = sum(k, A[i, k]) + sum(k, B[i, k])"
    with pytest.raises(ConfigError, match=r"index i has length 4, but Y_sum2\[i\] needs 5"):
        ExpressionWorkload.parse(expr, {"A": [4, 3], "B": [5, 3]})


def test_shape_of_the_result_can_be_given() -> None:
    expr = "P[i] = X[i - 1] if 1 <= i and i < 9 else 0.0"
    (x,), (p,) = run(expr, {"X": [8], "P": [10]})
    np.testing.assert_array_equal(p, np.pad(x, 1))


def test_functions_and_operators() -> None:
    expr = "B[i] = pow(abs(A[i]), 0.5) + tanh(-A[i]) / 2 - min(A[i], 0.25) + A[i // 2 * 2 % 8]"
    (a,), (b,) = run(expr, {"A": [8]})
    i = np.arange(8)
    expected = abs(a) ** 0.5 + np.tanh(-a) / 2 - np.minimum(a, 0.25) + a[i // 2 * 2 % 8]
    np.testing.assert_allclose(b, expected, rtol=1e-5)


def test_plain_data_and_dtype() -> None:
    workload = ExpressionWorkload.parse("C[i] = A[i] + 1", {"A": [4]}, "int32")
    assert ExpressionWorkload.parse(**workload.to_json()) == workload
    assert [shape_of(t) for t in workload.tensors()] == [(4,), (4,)]
    assert workload.num_outputs == 1
    assert workload.reference(workload.inputs())[0].dtype == np.int32


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        ("C[i] = A[i", "not an expression at column"),
        ("", "empty"),
        ("import os", "expected NAME"),
        ("C[i] = __import__('os').system('x')", "Attribute is not allowed"),
        ("C[i] = A.T[i, 0]", "only tensors can be indexed|Attribute is not allowed"),
        ("C[i] = A[i, 0].x", "Attribute is not allowed"),
        ("C[i] = [x for x in A][i]", "not allowed|only tensors"),
        ("C[i] = lambda: 1", "Lambda is not allowed"),
        ("C[i] = A[i, 0] @ 2", "@ is not allowed; a matrix product is"),
        ("C[i] = A[i, 0] * 'x'", "'x' is not a number"),
        ("C[i] = A[i, j]", "j is neither an index"),
        ("C[i] = A[i, 1.0] + B[0, 0]", r"the index 1\.0 must be an integer, found 1\.0"),
        ("C[i] = A[i, 1 / 2] + B[0, 0]", r"the index 1 / 2 must be an integer, found 0\.5"),
        ("C[i] = A[i]", "has 1 indices, the tensor has 2"),
        ("C[i, i] = A[i, i]", "distinct names"),
        ("C[i] = A[i - 1, 0] + A[i, 0]", "reads elements -1..6 of an axis of length 8"),
        ("C[i] = sum(A[i, k], k)", "takes its indices first"),
        ("C[i] = sum(k, A[i, k] * Q[k])", "shape of input Q is not given"),
        ("C[i] = sum(k, A[i, k]); C[i] = A[i, 0]", "assigned twice"),
        ("C[i] = exp(A[i, 0], 1)", "exp takes 1 argument, found 2"),
        ("C[i, j] = A[i, 0]", "length of index j does not follow"),
        ("C[i, k] = A[i, k] * B[k, i]", "index i has length 8, but"),
        ("C[i] = C[i] + A[i, 0]", "reads itself"),
        ("D[i] = A[i, 0]" + "+(1" * 500 + ")" * 500, "nested too deeply|too many nested"),
        ("\udce9[i] = A[i, 0]", r"can't encode character '\\udce9' in position 0"),
    ],
)
def test_refuses(expr: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ExpressionWorkload.parse(expr, {"A": [8, 4], "B": [4, 6]})


@pytest.mark.parametrize("shape", [[], [0], [2.5], "8", [True], None])
def test_refuses_shapes(shape: object) -> None:
    with pytest.raises(ConfigError, match="list of positive integers"):
        ExpressionWorkload.parse("C[i] = A[i]", {"A": shape})  # type: ignore[dict-item]


def test_refuses_a_shape_that_is_not_used() -> None:
    with pytest.raises(ConfigError, match="Q does not occur"):
        ExpressionWorkload.parse("C[i] = A[i]", {"A": [4], "Q": [4]})


# -- ranges, operators, types --------------------------------------------------------------------


def test_differences_have_the_valid_range() -> None:
    (a,), (d,) = run("D[i] = A[i + 1] - A[i]", {"A": [9]})
    np.testing.assert_allclose(d, np.diff(a), rtol=1e-6)


def test_a_stencil_in_two_dimensions() -> None:
    expr = "B[i, j] = A[i, j+1] + A[i+2, j+1] + A[i+1, j] + A[i+1, j+2] - 4 * A[i+1, j+1]"
    (a,), (b,) = run(expr, {"A": [7, 9]})
    want = a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] - 4 * a[1:-1, 1:-1]
    np.testing.assert_allclose(b, want, rtol=1e-5)


@pytest.mark.parametrize(
    ("expr", "shape", "want"),
    [
        ("D[i] = A[i]", [4], slice(0, 4)),
        ("D[i] = A[i + 3]", [4], slice(3, 7)),
        ("D[i] = A[2 * i + 1]", [3], slice(1, 6, 2)),
        ("D[i] = A[2 * i]", None, slice(0, None, 2)),
        ("D[i] = A[i + 3]", None, slice(3, None)),
    ],
)
def test_a_crop(expr: str, shape: list[int] | None, want: slice) -> None:
    (a,), (d,) = run(expr, {"A": [9]} | ({"D": shape} if shape else {}))
    np.testing.assert_array_equal(d, a[want])


def test_several_reductions_in_one_value() -> None:
    expr = "Y[i, j] = (A[i, j] - mean(k, A[i, k])) / sqrt(mean(r, A[i, r] ** 2) + 1e-5)"
    (a,), (y,) = run(expr, {"A": [6, 10]})
    x = a.astype(float)
    want = (x - x.mean(1, keepdims=True)) / np.sqrt((x**2).mean(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)


def test_a_reduction_inside_a_reduction_and_one_of_no_index() -> None:
    expr = "Y[i] = max(j, A[i, j] * sum(k, B[j, k])) / sum(p, q, B[p, q])"
    (a, b), (y,) = run(expr, SHAPES)
    want = (a * b.sum(1)).max(1) / b.sum(dtype=float)
    np.testing.assert_allclose(y, want, rtol=1e-4)


def test_accumulation_reduces_over_what_is_on_the_right_alone() -> None:
    (a, b), (c,) = run("C[i, j] += A[i, k] * B[k, j]", SHAPES)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("value", "want"),
    [
        ("where(A[i] > 0, A[i], 0)", lambda a: np.where(a > 0, a, 0)),
        ("A[i] ** 3 + A[i] ** 2", lambda a: a**3 + a**2),
        ("abs(A[i]) ** 0.5 + abs(A[i]) ** 1.5", lambda a: abs(a) ** 0.5 + abs(a) ** 1.5),
        ("A[i] * sqrt(2)", lambda a: a * np.sqrt(2)),
        ("(A[i] > 0) & (A[i] < 1) | (A[i] < -1)", lambda a: ((a > 0) & (a < 1)) | (a < -1)),
        ("(A[i] > 0) ^ (A[i] > 1)", lambda a: (a > 0) ^ (a > 1)),
        ("not A[i] > 0", lambda a: ~(a > 0)),
        ("A[i] + i / 4", lambda a: a + np.arange(12) / 4),
        ("clip(A[i], -0.5, 0.5) + relu(A[i])", lambda a: np.clip(a, -0.5, 0.5) + np.maximum(a, 0)),
        ("A[i] if 0 < A[i] <= 1 else -1", lambda a: np.where((a > 0) & (a <= 1), a, -1)),
        ("A[i] * (3 ** 2 // 2) - 2 ** -1", lambda a: a * 4 - 0.5),
        (" + ".join(["A[i]"] * 400), lambda a: 400 * a),
    ],
)
def test_operators(value: str, want: Callable[[Array], Array]) -> None:
    (a,), (y,) = run(f"Y[i] = {value}", {"A": [12]})
    np.testing.assert_allclose(y, want(a.astype(float)), rtol=1e-5, atol=1e-6)


def test_integers_and_bits() -> None:
    expr = "Y[i] = (A[i] & 3) + (A[i] | 8) * (A[i] ^ 5) + (A[i] << 2) + (A[i] >> 1) + ~A[i]"
    workload = ExpressionWorkload.parse(expr, {"A": [16]}, "int32")
    (a,) = workload.inputs()
    (y,) = workload.reference([a])
    want = (a & 3) + (a | 8) * (a ^ 5) + (a << 2) + (a >> 1) + ~a
    np.testing.assert_array_equal(y, want)


def test_a_type_for_every_tensor() -> None:
    expr = """C[i, j] = sum(k, A[i, k] * B[k, j])
D[i, j] = int8(clip(round(C[i, j] * S[j]), -128, 127))"""
    types = {"A": "int8", "B": "int8", "S": "float32", "C": "int32", "D": "int8"}
    workload = ExpressionWorkload.parse(expr, SHAPES | {"S": [6]}, types)
    a, b, s = workload.inputs()
    assert [x.dtype.name for x in (a, b, s)] == ["int8", "int8", "float32"]
    (d,) = workload.reference([np.full_like(a, 100), np.full_like(b, 100), np.full_like(s, 1e-3)])
    assert d.dtype == np.int8 and (d == 40).all()
    assert ExpressionWorkload.parse(**workload.to_json()) == workload


LARGE = [0, 255, 257, 2049, 2**24 + 1, -1]


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "bfloat16", "float16", "float32"])
@pytest.mark.parametrize(
    ("condition", "want"),
    [
        ("L[i] == M[j]", lambda m, n, j: m == n),
        ("L[i] + 1 <= M[j]", lambda m, n, j: m + 1 <= n),
        ("L[i] == 257 + j", lambda m, n, j: m == 257 + j),
        ("j < L[i] and not M[j] > 256", lambda m, n, j: (j < m) & ~(n > 256)),
        ("(L[i] & 1) == 1", lambda m, n, j: (m & 1) == 1),
        ("L[i] > 2048.5", lambda m, n, j: m > 2048.5),
    ],
)
def test_integers_in_conditions_stay_integers(
    condition: str, want: Callable[[Array, Array, Array], Array], dtype: str
) -> None:
    """The type of the result does not hold them: 257 is 256 in bfloat16."""
    types = {"L": "int32", "M": "int32", "D": dtype}
    shapes = {"L": [6], "M": [6], "D": [6, 6]}
    read = {name for name in shapes if name in f"D {condition}"}
    workload = ExpressionWorkload.parse(
        f"D[i, j] = where({condition}, 1, 0)",
        {name: shapes[name] for name in sorted(read)},
        {name: types[name] for name in sorted(read)},
    )
    m = np.array(LARGE, np.int32)
    n = np.array([m[1] + 1, *m[1:]], np.int32)
    values: dict[str, Array] = {"L": m, "M": n}
    arrays = [values[name] for name in workload.program.inputs]
    (found,) = workload.reference(arrays)
    expected = want(m[:, None], n, np.arange(6))
    np.testing.assert_array_equal(found.astype(bool), np.broadcast_to(expected, (6, 6)))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "float16"])
def test_signed_and_unsigned_integers_are_compared_as_numbers(dtype: str) -> None:
    types = {"A": "int8", "B": "uint8", "D": dtype}
    workload = ExpressionWorkload.parse("D[i] = A[i] < B[i]", {"A": [3], "B": [3]}, types)
    a, b = np.array([-1, -128, 5], np.int8), np.array([5, 128, 5], np.uint8)
    assert workload.reference([a, b])[0].astype(int).tolist() == [1, 1, 0]


MEETING: dict[str, Callable[[Array, Array], Array]] = {
    "max(A[i], B[i])": np.maximum,
    "A[i] + B[i]": np.add,
    "B[i] - A[i]": np.subtract,
    "A[i] * B[i]": np.multiply,
    "B[i] // A[i]": np.floor_divide,
    "A[i] | B[i]": np.bitwise_or,
    "where(B[i] > 9, A[i], B[i])": lambda a, b: np.where(b > 9, a, b),
}


@pytest.mark.parametrize("dtype", ["int8", "int16", "int64"])
@pytest.mark.parametrize("value", MEETING)
def test_signed_and_unsigned_integers_meet_where_they_do_in_numpy(value: str, dtype: str) -> None:
    shapes = {"A": [4], "B": [4]}
    workload = ExpressionWorkload.parse(f"D[i] = {value}", shapes, {"A": dtype, "B": "uint8"})
    values: dict[str, Array] = {
        "A": np.array([-1, -128, 5, 127], dtype),
        "B": np.array([5, 255, 5, 200], np.uint8),
    }
    ordered = (values["B"], values["A"]) if value.startswith("B") else (values["A"], values["B"])
    (found,) = workload.reference([values[name] for name in workload.program.inputs])
    expected = MEETING[value](*ordered)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_integers_are_compared_with_floats_in_32_bits() -> None:
    """2049 is 2048 in float16."""
    types = {"X": "float16", "L": "int32", "D": "float16"}
    workload = ExpressionWorkload.parse("D[i] = L[i] > X[i]", {"L": [2], "X": [2]}, types)
    labels, x = np.array([2049, 2048], np.int32), np.array([2048, 2048], np.float16)
    assert workload.reference([labels, x])[0].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("value", "body"),
    [
        ("where(A[i] > 0, A[i], 0)", "if_then_else(A[i] > 0.0, A[i], 0.0)"),
        ("where(i < 4, A[i], 0)", "if_then_else(i < 4, A[i], 0.0)"),
        ("where(H[i] * H[i] > A[i], 1, 0)", "float32(H[i]) * float32(H[i]) > A[i]"),
        ("relu(A[i]) + L[i]", "max(A[i], 0.0) + float32(L[i])"),
    ],
)
def test_conditions_of_one_type_and_values_are_typed_as_before(value: str, body: str) -> None:
    types = {"A": "float32", "H": "float16", "L": "int32", "Y": "float32"}
    used = {name: types[name] for name in types if f"{name}[" in f"Y[ {value}"}
    shapes = {name: [8] for name in used if name != "Y"}
    workload = ExpressionWorkload.parse(f"Y[i] = {value}", shapes, used)
    op = workload.tensors()[-1].op
    assert isinstance(op, ComputeOp) and body in repr(op.body[0])


@pytest.mark.parametrize("key", ["\u00b5", "\u03bc"])
def test_names_are_those_that_python_reads(key: str) -> None:
    """The micro sign in a text is the Greek letter."""
    expr = "C[i] = \u00b5[i] * \u03bc[i]"
    entry = {"expr": expr, "shapes": {key: [3]}, "dtype": {key: "int8"}, "layout_free": [key]}
    task = Task.from_json_workload(entry, "cpu").with_inputs({key: {"constant": 7}})
    assert task.reference(task.inputs())[0].tolist() == [49] * 3
    assert Task.from_json(task.to_json()) == task


def test_one_name_in_two_spellings_is_refused() -> None:
    with pytest.raises(ConfigError, match="shapes: \u03bc is given twice"):
        ExpressionWorkload.parse("C[i] = \u00b5[i]", {"\u00b5": [3], "\u03bc": [3]})
    task = Task.from_expression("C[i] = \u00b5[i]", {"\u00b5": [3]})
    chosen = {"constant": 1}
    with pytest.raises(
        ConfigError, match=r"inputs: .*: the same input is also given under another name"
    ):
        task.with_inputs({"\u00b5": chosen, "\u03bc": chosen})


def test_a_gather_reads_inside() -> None:
    types = {"I": "int32", "T": "float32"}
    workload = ExpressionWorkload.parse("Y[n, d] = T[I[n], d]", {"I": [50], "T": [7, 3]}, types)
    t, i = workload.inputs(seed=1)
    assert i.min() == 0 and i.max() == 6
    np.testing.assert_array_equal(workload.reference([t, i])[0], t[i])


def test_literals_and_index_arithmetic_do_not_wrap() -> None:
    shapes, types = {"A": [50000]}, {"A": "int64"}
    workload = ExpressionWorkload.parse("B[i] = A[i] + 65536 * 65536 + i * i", shapes, types)
    (a,) = workload.inputs()
    i = np.arange(50000)
    np.testing.assert_array_equal(workload.reference([a])[0], a + 2**32 + i * i)
    third = ExpressionWorkload.parse("B[i] = A[i] * 0.1", {"A": [3]}, "float64")
    np.testing.assert_array_equal(third.reference([np.ones(3)])[0], np.full(3, 0.1))


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("1 << 40", 1 << 40),
        ("(1 << 40) - 1 & (1 << 33) - 1", (1 << 33) - 1),
        ("(1 << 40) ^ 5 | 2", (1 << 40) ^ 5 | 2),
        ("~(1 << 40) >> 3", ~(1 << 40) >> 3),
        ("max(2147483647, 1) + 1", 1 << 31),
        ("max(65536, 1) * min(65536, 70000)", 1 << 32),
        ("clip(1 << 40, 0, 1 << 35) + relu(-3)", 1 << 35),
        ("1 ** 999999999 + (-1) ** 99", 0),
    ],
)
def test_what_is_made_of_literals_is_worked_out_without_a_type(value: str, number: int) -> None:
    """Shifts and extrema of literals were computed in int32."""
    workload = ExpressionWorkload.parse(f"B[i] = A[i] + ({value})", {"A": [2]}, "int64")
    found = workload.reference([np.array([0, 7])])[0]
    np.testing.assert_array_equal(found, [number, number + 7])


@pytest.mark.parametrize(
    "value",
    ["i ** 2", "square(i)", "max(i, 0) * i", "abs(5 - i) * abs(i - 5)", "min(i, 70000) * i"],
)
def test_index_arithmetic_of_functions_does_not_wrap(value: str) -> None:
    workload = ExpressionWorkload.parse(f"B[i] = A[i] + {value}", {"A": [80_000]}, "float64")
    i = np.arange(80_000)
    want = {"i": i, "max": np.maximum, "min": np.minimum, "abs": np.abs, "square": np.square}
    found = workload.reference([np.zeros(80_000)])[0]
    np.testing.assert_array_equal(found, eval(value, want))
    at = ExpressionWorkload.parse(
        f"B[i] = 1 if {value} > 3000000000 else 0", {"B": [80_000]}, "int32"
    )
    np.testing.assert_array_equal(at.reference([])[0], eval(value, want) > 3_000_000_000)


@pytest.mark.parametrize(
    ("value", "want"),
    [
        ("1 if A[i] < 1000 else 0", [1, 1, 1]),
        ("max(A[i], -1000)", [1, -4, 96]),
        ("clip(A[i], -1000, 1000.0)", [1, -4, 96]),
        ("A[i] * 1000", [448, -448, 448]),
        ("A[i] / 1024", [0, -1 / 256, 3 / 32]),
    ],
)
def test_a_literal_that_narrow_floats_do_not_hold_is_one_of_float32(
    value: str, want: list[float]
) -> None:
    """It became NaN in 8 bits, and infinite in 16."""
    text = f"B[i] = clip({value}, -448, 448)" if "*" in value else f"B[i] = {value}"
    workload = ExpressionWorkload.parse(text, {"A": [3]}, "float8_e4m3fn")
    a = np.array([1, -4, 96], ml_dtypes.float8_e4m3fn)
    found = workload.reference([a])[0]
    np.testing.assert_array_equal(found.astype(float), np.array(want).astype(a.dtype).astype(float))
    half = ExpressionWorkload.parse("B[i] = A[i] * 100000 / 100000", {"A": [3]}, "float16")
    found = half.reference([a.astype(np.float16)])[0]
    np.testing.assert_array_equal(found, a.astype(np.float16))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_the_mean_of_more_numbers_than_the_type_counts(dtype: str) -> None:
    """The number of terms was rounded to the type: NaN, infinite, or another number."""
    kind = DType(dtype).numpy
    a = np.zeros((1, 70_001))
    a[0, :100] = 0.5
    workload = ExpressionWorkload.parse(
        "B[i] = mean(j, A[i, j])", {"A": [1, 70_001]}, {"A": dtype, "B": dtype}
    )
    found = workload.reference([a.astype(kind)])[0]
    np.testing.assert_array_equal(found, np.array([50 / 70_001]).astype(kind))


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        ("C[i] = A[i][0]", r"write A\[i, j\], not A\[i\]\[j\]"),
        ("C[i] = A.T[0, i]", "swaps its indices"),
        ("C[i] = np.exp(A[i, 0])", r"write exp\(...\) without np"),
        ("C[i] = A[i, :]", "every axis has an index"),
        ("C[i] = A[i, ...]", "every axis has an index"),
        ("C[i] = sum(A[i, k] for k in range(4))", "a reduction is sum"),
        ("C[i] = dot(A[i, 0], 1)", "a matrix product is sum"),
        ("C[i] = maximum(A[i, 0], 1)", r"max\(a, b\)"),
        ("C[i] = sqr(A[i, 0])", "did you mean sqrt"),
        ("C = sum(i, k, A[i, k])", r"give it an axis of length 1, C\[o\]"),
        ("for i in range(3): pass", "write none"),
        ("C[i] = A[i, k]", r"k is neither .* sum\(k, \.\.\.\)"),
        ("C[i] -= A[i, 0]", r"expected =, \+= or \*="),
        ("C[i] += A[i, 0]", "there are none"),
        ("C[i] = A[i, 0] > 0 & A[i, 1] > 0", "need parentheses"),
        ("C[i] = A[i, 0] * 9 ** 99", "does not fit"),
        ("C[i] = A[i, 0] + 1 // 0", "zero"),
        ("C[i] = " + "-(" * 150 + "A[i, 0]" + ")" * 150, "nested"),
        (
            "C[i] = A[i // 2 + 7, 0]",
            "does not follow",
        ),
        ("C[i] = mean(A[i, k])", "takes its indices first"),
        ("C[i] = sum(k, A[i, k] * sum(k, A[k, i]))", "or of a reduction around it"),
        ("C[i] = sum(k < True, A[i, k])", "takes its indices first"),
        ("C[i] = A[i, 0] * None", "None is not a number"),
        ("C[i] = A[i, 0] * (-8) ** 0.5", "a root of a negative number"),
        ("C[i] = A[i, 0] * 9.0 ** 999", r"9\.0 \*\* 999 does not fit"),
        ("C[i] = A[i, 0] * 2 ** 99999", r"2 \*\* 99999 does not fit"),
        ("C[i] = int32(A[i, 0]) + (1 << 64)", "a shift by 64 bits: expected 0 to 63"),
        ("C[i] = int32(A[i, 0]) + (1.0 << 2)", "LShift needs integers"),
        ("C[o] = sum((i, k), A[i, k])", r"first, .* sum\(k, r < 3, A\[i, k \+ r\]\)"),
        ("C[i] = sum(k < 5, A[i, k])", r"index k has length 5, but A\[i, k\] needs 4$"),
        ("C[i] = sum(k < 0, A[i, 0])", "k < 0: expected a length from 1 to"),
        ("C[i] = sum(k < 9 ** 9, A[i, 0])", "takes its indices first"),
        ("C[i] = sum(k <= 3, A[i, k])", "takes its indices first"),
        ("C[i] = sum(k, int32(A[i, 0]) >> k)", r"give it, e.g. sum\(k < 8, \.\.\.\), or"),
        ("C[i] = A[i, i]", r"to stop short, give the shape of C too"),
        ("C[i] = A[i, 0] + sum(k, A[k, k])", r"to stop short, write sum\(k < 4, \.\.\.\)"),
    ],
)
def test_says_what_to_write_instead(expr: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ExpressionWorkload.parse(expr, {"A": [8, 4]})


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ({"A": "int8"}, "type of input B is missing"),
        ({"A": "int9", "B": "int8"}, "dtype: A: expected one of"),
        ({"A": "int8", "B": "int8", "Q": "int8"}, "found 'Q'"),
        ({"A": "int32", "B": "int32", "C": "int32"}, "/ is a division of floats"),
        ("complex64", "dtype: expected one of"),
    ],
)
def test_refuses_types(types: str | dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ExpressionWorkload.parse("C[i, j] = sum(k, A[i, k] / B[k, j])", SHAPES, types)


@pytest.mark.parametrize(
    "subscripts",
    [
        "ij,jk->ik",
        "ij,jk",
        "bhid,bhjd->bhij",
        "ii->i",
        "abc->cab",
        "ij->j",
        "a,b,c->abc",
    ],
)
def test_einsum(subscripts: str) -> None:
    sizes = {"b": 2, "h": 3, "i": 4, "d": 5, "j": 6, "k": 7, "a": 3, "c": 2}
    operands = subscripts.partition("->")[0].split(",")
    shapes = {f"X{n}": [sizes[x] for x in part] for n, part in enumerate(operands)}
    workload = ExpressionWorkload.parse_einsum(subscripts, shapes)
    arrays = workload.inputs()
    want = np.einsum(subscripts, *(x.astype(float) for x in arrays))
    np.testing.assert_allclose(workload.reference(arrays)[0], want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("...qd,...kd->...qk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("...ij,jk->...ik", [(2, 3, 4, 5), (5, 6)]),
        ("...ij,...jk->...ik", [(4, 5), (2, 3, 5, 6)]),
        ("b...,b->b...", [(4, 3, 2), (4,)]),
        ("a...z,z...", [(4, 3, 2, 5), (5, 2)]),
        ("i...->...", [(7, 3)]),
        ("...ij,jk->ik", [(4, 5), (5, 6)]),
        ("i...,i->i", [(7,), (7,)]),
    ],
)
def test_einsum_of_axes_without_names(subscripts: str, shapes: list[tuple[int, ...]]) -> None:
    named = {f"X{n}": shape for n, shape in enumerate(shapes)}
    workload = ExpressionWorkload.parse_einsum(subscripts, named)
    arrays = workload.inputs()
    want = np.einsum(subscripts, *(x.astype(float) for x in arrays))
    np.testing.assert_allclose(workload.reference(arrays)[0], want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("subscripts", "message"),
    [
        ("...a,a...->", "the result needs ... too"),
        ("ijk...,jk->ik...", r"ijk... names 3 axes, its operand has 2"),
        ("..ij,jk->ik", "expected letters, found '..ij'"),
        ("i...j...,jk->ik", r"\.\.\. occurs twice in an operand"),
        ("ij->ik", "has 1 operands, shapes has 2"),
        ("ij,jk->iz", "'z' of the result is in no operand"),
        ("ij,jk->ii", "a letter occurs twice"),
        ("i1,jk->ik", "expected letters"),
        ("ij,,jk", "3 operands"),
        (",ij->j", "expected letters, found an operand without indices"),
        ("ij,ij->", r"the result has no letters; .* out\[o\] = sum\(i, j, \.\.\.\), and shapes"),
        ("ij,ij", "the result has no letters; a single number is an `expr`"),
    ],
)
def test_einsum_refuses(subscripts: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ExpressionWorkload.parse_einsum(subscripts, {"A": [2, 2], "B": [2, 2]})


def test_the_documentation_s_examples_are_workloads() -> None:
    text = (Path(__file__).parents[3] / "docs" / "expressions.md").read_text()
    blocks = re.findall(r"```yaml\n(.*?)```", text, flags=re.S)
    assert len(blocks) == 3
    for block in blocks:
        assert source_from_json(YAML(typ="safe").load(block)["workload"]).tensors()


def test_the_shape_of_a_result_is_that_of_the_reductions_inside_it() -> None:
    expr = "Y[h] = sum(y, A[2 * h + y]) * 0.5 + max(y, A[2 * h + y])"
    with pytest.raises(ConfigError, match=r"index h does not .* give the shape of Y too"):
        ExpressionWorkload.parse(expr, {"A": [10]})
    (values,), (found,) = run(expr, {"A": [10], "Y": [4]})
    windows = np.stack([values[start : start + 7 : 2] for start in range(4)])
    np.testing.assert_allclose(found, windows.sum(0) * 0.5 + windows.max(0), rtol=1e-5)
    with pytest.raises(ConfigError, match="Y: expected a size under shapes for each index"):
        ExpressionWorkload.parse(expr, {"A": [10], "Y": [4, 1]})
    with pytest.raises(
        ConfigError,
        match=r"index y does not follow from the shapes; give it, e.g. sum\(y < 8, \.\.\.\)",
    ):
        ExpressionWorkload.parse("Y[h] = 2 * sum(y, A[h // 2 + y // 2])", {"A": [10], "Y": [4]})


def test_a_reduction_says_how_far_its_index_runs_in_those_inside_it() -> None:
    """Also where nothing is read at the index alone."""
    expr = "Y[i] = sum(k < 5, max(l < 3, A[i + l] * k) + min(l < 2, max(m < 4, A[i + m] - l) + k))"
    (a,), (y,) = run(expr, {"A": [16], "Y": [4]})
    wanted = [
        sum(
            max(a[i : i + 3] * k) + min(max(a[i : i + 4] - n) + k for n in range(2))
            for k in range(5)
        )
        for i in range(4)
    ]
    np.testing.assert_allclose(y, wanted, rtol=1e-5)


def test_an_index_may_say_how_far_it_runs() -> None:
    (values,), (found,) = run("Y[x] = sum(r < 3, A[x + r])", {"A": [10]})
    np.testing.assert_allclose(found, np.convolve(values, np.ones(3), "valid"), rtol=1e-5)
    (values,), (found,) = run(
        "Y[i] = 2 * sum(k < 2, r, A[i, k, r]) + max(k, A[i, k, 0])", {"A": [4, 3, 5]}
    )
    expected = 2 * values[:, :2].sum((1, 2)) + values[:, :, 0].max(1)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    (values,), (found,) = run("Y[i] = sum(k < 31, A[i] >> k & 1)", {"A": [20]}, "int32")
    assert found.tolist() == [int(value & 2**31 - 1).bit_count() for value in values]


def test_einsum_is_for_whole_axes() -> None:
    """NumPy's would go on where the expression stops."""
    product, shapes = "C[i, j] = sum(k, A[i, k] * B[k, j])", {"A": [8, 4], "B": [4, 6]}
    assert ExpressionWorkload.parse(product, shapes).numpy_version() is not None
    assert ExpressionWorkload.parse(product, {**shapes, "C": [8, 5]}).numpy_version() is None
    part = ExpressionWorkload.parse(product.replace("k,", "k < 3,", 1), shapes)
    assert part.numpy_version() is None


@pytest.mark.parametrize("exponent", ["float32(k)", "B[k]"])
def test_exponents_that_are_no_literals(exponent: str) -> None:
    (a, b), (found,) = run(
        f"Y[i, k] = abs(A[i]) ** {exponent} + B[k]", {"A": [5], "B": [4], "Y": [5, 4]}
    )
    powers = np.arange(4) if exponent == "float32(k)" else b
    np.testing.assert_allclose(found, abs(a)[:, None] ** powers + b, rtol=1e-5)


@pytest.mark.parametrize(
    "text",
    [
        "m[i] = max(k, T[i, k]); D[i, k] = where(T[i, k] == m[i], 1, 0)",
        "D[i, k] = where(T[i, k] == A[i, k] * B[i, k] + c[k], 1, 0)",
    ],
    ids=["where the largest is", "computed once more"],
)
def test_where_the_last_bit_decides_does_not_depend_on_the_schedule(text: str) -> None:
    """T is stored in some, and computed where it is read in others."""
    shapes = {"A": (16, 33), "B": (16, 33), "c": (33,)}
    task = Task.from_expression(f"T[i, k] = A[i, k] * B[i, k] + c[k]; {text}", shapes)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-9, 9, shape) / np.float32(10) for shape in shapes.values()]
    arrays = [array.astype(np.float32) for array in arrays]
    (wanted,) = task.reference(arrays)
    for steps in [(), *SearchSpace(task).sample(np.random.default_rng(0), 3)]:
        kernel = load(build_steps(task.dag, steps, task.target))
        np.testing.assert_array_equal(kernel(*arrays), wanted)
