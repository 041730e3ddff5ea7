"""The NumPy evaluation of tensor programs: reducers, branches, casts, blocks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.driver import build_steps
from autosched.errors import ConfigError
from autosched.runtime.cpu import load
from autosched.state.dag import ComputeDAG
from autosched.target import cpu_target
from autosched.te.operations.tensor import Tensor
from autosched.tir.expr import Expr, Var
from autosched.tir.op import call, cast, const, eq, ge, gt, if_then_else, le, lt, min_, ne
from autosched.workloads import evaluate as module
from autosched.workloads.evaluate import evaluate
from autosched.workloads.expression.workload import ExpressionWorkload
from autosched.workloads.workload import Array, random_inputs

argmax = te.comm_reducer(
    lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.select(x[1] >= y[1], x[1], y[1])),
    lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
    name="argmax",
)


def test_argmax_of_two_outputs() -> None:
    A = te.placeholder((5, 7), name="A")
    k = te.reduce_axis((0, 7), name="k")
    index, value = te.compute((5,), lambda i: argmax((k.var, A[i, k]), axis=k), name="B")
    (array,) = random_inputs([A])
    found = evaluate([A, index, value], [array])
    np.testing.assert_array_equal(found[0], array.argmax(axis=1))
    np.testing.assert_array_equal(found[1], array.max(axis=1))


def test_reduction_with_condition_and_shifted_axis() -> None:
    A = te.placeholder((8,), name="A")
    k = te.reduce_axis((2, 8), name="k")
    B = te.compute((1,), lambda i: te.sum(A[k], axis=k, where=k < 5), name="B")
    (array,) = random_inputs([A])
    assert evaluate([A, B], [array])[0] == pytest.approx([array[2:5].sum()])


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_reductions_begin_with_what_their_combiner_says(dtype: str) -> None:
    """The reference began with the first value: it called kernels wrong that do as is said."""
    A = te.placeholder((3, 4), dtype, name="A")
    k, r = te.reduce_axis((0, 4), name="k"), te.reduce_axis((0, 4), name="r")
    at_least_2 = te.comm_reducer(lambda x, y: te.max(x, y), lambda t: te.const(2, t), name="least")
    B = te.compute((3,), lambda i: at_least_2(A[i, k], axis=k), name="B")
    C = te.compute((3,), lambda i: te.max(A[i, r], axis=r), name="C")
    array = np.array([[1, 0, -5, 1], [3, 1, 2, 9], [-8, -7, -9, -7]], dtype)
    if dtype != "int32":
        array[2] = -np.inf
    kernel = load(build_steps(ComputeDAG([A, B, C]), (), cpu_target()))
    found = [np.empty(3, dtype), np.empty(3, dtype)]
    kernel(array, *found)
    lowest = -7 if dtype == "int32" else np.finfo(dtype).min
    for b, c in (evaluate([A, B, C], [array]), found):
        np.testing.assert_array_equal(b, [2, 9, 2])
        np.testing.assert_array_equal(c, np.array([1, 9, lowest], dtype))


def test_reductions_begin_with_an_element_of_another_tensor() -> None:
    """The reference ended in NumPy's ValueError."""
    A, D = te.placeholder((2, 3), name="A"), te.placeholder((2,), name="D")
    k = te.reduce_axis((0, 3), name="k")
    B = te.compute((2,), lambda i: te.sum(A[i, k], axis=k, init=D[i] + i), name="B")
    a, d = random_inputs([A, D])
    np.testing.assert_allclose(evaluate([A, D, B], [a, d])[0], a.sum(1) + d + [0, 1])


def test_numbers_of_64_unsigned_bits_are_not_negative() -> None:
    """The reference held them in int64: those from 2**63 on were negative."""
    A = te.placeholder((3,), "uint64", name="A")
    k = te.reduce_axis((0, 3), name="k")
    B = te.compute((1,), lambda i: te.min(A[k], axis=k), name="B")
    C = te.compute((3,), lambda i: te.select(A[i] > 2**63, A[i] // 3, A[i] >> 1), name="C")
    D = te.compute((3,), lambda i: te.cast("uint64", te.cast("float64", A[i]) * 2.0), name="D")
    a = np.array([2**64 - 1, 2**63 + 6, 6], np.uint64)
    E = te.compute((3,), lambda i: A[i] * te.const(2**63 + 1, "uint64"), name="E")
    b, c, d, e = evaluate([A, B, C, D, E], [a])
    assert b.tolist() == [6]
    assert c.tolist() == [(2**64 - 1) // 3, (2**63 + 6) // 3, 3]
    assert d.tolist() == [2**64 - 1, 2**64 - 1, 12]
    assert e.tolist() == [int(x) * (2**63 + 1) % 2**64 for x in a]


def test_sum_of_no_terms_is_zero() -> None:
    """The reference summed up all terms where the condition is the constant False."""
    A = te.placeholder((2, 3), name="A")
    k = te.reduce_axis((0, 3), name="k")
    B = te.compute((2,), lambda i: te.sum(A[i, k], axis=k, where=False), name="B")
    np.testing.assert_array_equal(evaluate([A, B], [np.ones((2, 3), np.float32)])[0], [0, 0])


@pytest.mark.parametrize(
    ("combine", "identity", "wanted"),
    [
        (lambda x, y: te.min(x + y, 10), 0, [6, 10]),
        (lambda x, y: x + y + x * y, 0, [23, 209]),
        (lambda x, y: x + y + 1, -1, [8, 17]),
        (lambda x, y: x * y * 2, 1, [48, 960]),
    ],
    ids=["saturating", "growth", "counting", "scaled"],
)
def test_reducers_of_several_operators(
    combine: Callable[[Any, Any], Any], identity: int, wanted: list[int]
) -> None:
    """The reference took them for the outermost operator alone."""
    A = te.placeholder((2, 3), "int32", name="A")
    k = te.reduce_axis((0, 3), name="k")
    reducer = te.comm_reducer(combine, lambda t: te.const(identity, t), name="several")
    B = te.compute((2,), lambda i: reducer(A[i, k], axis=k), name="B")
    array = np.array([[1, 2, 3], [4, 5, 6]], "int32")
    np.testing.assert_array_equal(evaluate([A, B], [array])[0], wanted)


def test_axes_of_length_one_and_unused_ones_count() -> None:
    A = te.placeholder((1, 4), name="A")
    k = te.reduce_axis((0, 3), name="k")
    B = te.compute((1, 4), lambda i, j: te.sum(A[i, j] * 1.0, axis=k), name="B")
    (array,) = random_inputs([A])
    np.testing.assert_allclose(evaluate([A, B], [array])[0], 3 * array)


def test_branch_not_taken_may_read_outside() -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((6,), lambda i: te.if_then_else(i < 4, A[i], 9.0), name="B")
    (array,) = random_inputs([A])
    np.testing.assert_array_equal(evaluate([A, B], [array])[0], [*array, 9, 9])


def test_integer_divisions() -> None:
    A = te.placeholder((5,), "int32", name="A")
    results = [
        te.compute((5,), lambda i: te.floordiv(A[i], 3), name="B"),
        te.compute((5,), lambda i: te.floormod(A[i], 3), name="B"),
        te.compute((5,), lambda i: te.truncdiv(A[i], 3), name="B"),
        te.compute((5,), lambda i: te.truncmod(A[i], 3), name="B"),
    ]
    array = np.array([-4, -3, 0, 4, 5], np.int32)
    found = [evaluate([A, B], [array])[0].tolist() for B in results]
    assert found == [[-2, -1, 0, 1, 1], [2, 0, 0, 1, 2], [-1, -1, 0, 1, 1], [-1, 0, 0, 1, 2]]


def test_blocks_cover_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK", 10)
    A = te.placeholder((7, 5), name="A")
    k = te.reduce_axis((0, 5), name="k")
    B = te.compute((7,), lambda i: te.max(A[i, k] * A[i, k], axis=k), name="B")
    (array,) = random_inputs([A])
    np.testing.assert_allclose(evaluate([A, B], [array])[0], (array**2).max(axis=1))


def test_missing_argument_is_named() -> None:
    A, B = te.placeholder((2,), name="A"), te.placeholder((2,), name="B")
    C = te.compute((2,), lambda i: A[i] + B[i], name="C")
    with pytest.raises(ConfigError, match="input B is not among"):
        evaluate([A, C], [np.zeros(2, np.float32)])


def test_shifts_take_their_count_modulo_the_bits() -> None:
    a, b = (te.placeholder((4,), "int32", n) for n in "ab")
    left = te.compute((4,), lambda i: te.shift_left(a[i], b[i]), "left")
    right = te.compute((4,), lambda i: te.shift_right(a[i], b[i]), "right")
    values = [np.array([1, 2**31 - 1, 2, -4], np.int32), np.array([33, 1, 2, 34], np.int32)]
    found = evaluate([a, b, left, right], values)
    assert found[0].tolist() == [2, -2, 8, -16]
    assert found[1].tolist() == [0, 2**30 - 1, 0, -1]


@pytest.mark.parametrize("name", ["bitwise_not", "bitwise_and", "shift_left"])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int32"])
def test_bits_are_those_of_the_type_before_they_are_used(name: str, dtype: str) -> None:
    """`~x` of unsigned numbers is none below zero: `min` and `//` of it tell."""
    A = te.placeholder((40,), dtype, "A")
    more = [const(3, dtype)] * (name != "bitwise_not")

    def element(i: Var) -> Expr:
        return min_(call(name, A[i], *more), A[i]) // const(3, dtype)

    C = te.compute((40,), element, "C")
    limits = np.iinfo(dtype)
    a = np.linspace(limits.min, limits.max, 40).astype(dtype)
    used = {"bitwise_not": ~a, "bitwise_and": a & 3, "shift_left": a << 3}[name].astype(dtype)
    np.testing.assert_array_equal(evaluate([A, C], [a])[0], np.minimum(used, a) // 3)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float16"])
def test_floats_that_numpy_does_not_know_keep_their_fractions(dtype: str) -> None:
    A = te.placeholder((3,), dtype, name="A")
    B = te.compute((3,), lambda i: A[i] + A[i], name="B")
    (found,) = evaluate([A, B], [np.array([0.5, -1.25, 3.5], A.dtype.numpy)])
    np.testing.assert_array_equal(found, [1, -2.5, 7])


def test_integers_made_of_floats_are_those_of_rounded_floats() -> None:
    """Kernels compute in float32, round each step, and saturate: so does the reference."""
    A, B = (te.placeholder((4,), name=name) for name in "AB")
    S = te.compute((4,), lambda i: A[i] * B[i], name="S")
    C = te.compute((4,), lambda i: cast("int8", call("ceil", S[i] - 1)), name="C")
    a, b = [0.1, 0.2, 300, np.nan], [10, 5, 2, 1]  # 0.1 * 10 is more than 1 in float64
    arrays = [np.array(values, np.float32) for values in (a, b)]
    (found,) = evaluate([A, B, C], arrays)
    assert found.tolist() == [0, 0, 127, 0]
    kernel = load(build_steps(ComputeDAG([A, B, C]), (), cpu_target(1)))
    np.testing.assert_array_equal(kernel(*arrays), found)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_what_is_only_stored_in_few_bits_is_float32_between_statements(dtype: str) -> None:
    """The reference rounded S, which no kernel does: it called all of them wrong."""
    A, B = (te.placeholder((2000,), dtype, name=name) for name in "AB")
    S = te.compute((2000,), lambda i: A[i] + B[i], name="S")
    C = te.compute((2000,), lambda i: cast("int8", call("nearbyint", S[i] * B[i])), name="C")
    rng = np.random.default_rng(0)
    arrays = [(rng.standard_normal(2000) * 4).astype(A.dtype.numpy) for _ in "AB"]
    (found,) = evaluate([A, B, C], arrays)
    kernel = load(build_steps(ComputeDAG([A, B, C]), (), cpu_target(1)))
    np.testing.assert_array_equal(kernel(*arrays), found)
    rounded = evaluate([A, B, S, C], arrays)[1]  # as an output, S has its own type
    kernel = load(build_steps(ComputeDAG([A, B, S, C]), (), cpu_target(1)))
    np.testing.assert_array_equal(kernel(*arrays)[1], rounded)
    assert (found != rounded).any()


def jumping(value: Callable[[Expr], Expr], dtype: str) -> tuple[list[Tensor], Array, Array]:
    """The tensors A and `value` of A * 0.3 * 3, the array of A, and what a kernel makes of it."""
    A = te.placeholder((2000,), dtype, name="A")
    C = te.compute((2000,), lambda i: value(A[i] * 0.3 * 3.0), name="C")
    array = (np.arange(2000) * 5 / 9).astype(A.dtype.numpy)
    return [A, C], array, load(build_steps(ComputeDAG([A, C]), (), cpu_target(1)))(array)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    "value",
    [
        *(partial(call, name) for name in ("floor", "ceil", "round", "nearbyint", "trunc")),
        lambda x: x // const(0.5, x.dtype),
        lambda x: x % const(0.5, x.dtype),
        lambda x: call("fmod", x, const(0.5, x.dtype)),
        *(
            lambda x, f=compared: if_then_else(f(x, call("nearbyint", x)), x, const(0, x.dtype))
            for compared in (lt, le, gt, ge, eq, ne)
        ),
        lambda x: cast(x.dtype, cast("int32", x)),
    ],
)
def test_where_functions_jump_is_where_those_of_rounded_floats_do(
    value: Callable[[Expr], Expr], dtype: str
) -> None:
    """Where a product is rounded to a whole number, `floor` and `>` tell."""
    tensors, array, kernel = jumping(value, dtype)
    (found,) = evaluate(tensors, [array])
    np.testing.assert_array_equal(kernel.astype(np.float64), found)


def test_the_quotient_is_rounded_before_it_jumps() -> None:
    """0.3 / 0.1 is 3 in float32, but the float64 of the two floats is a little more than 3."""
    A = te.placeholder((1000,), name="A")
    C = te.compute((1000,), lambda i: call("floor", A[i] / te.const(0.1, "float32")), name="C")
    array = np.arange(1000, dtype=np.float32) / np.float32(10)
    (found,) = evaluate([A, C], [array])
    np.testing.assert_array_equal(found, np.floor(array / np.float32(0.1)))


def test_the_larger_of_rounded_floats_is_found() -> None:
    A = te.placeholder((9, 7), name="A")
    k = te.reduce_axis((0, 7), name="k")
    index, value = te.compute((9,), lambda i: argmax((k.var, A[i, k] + 8.0), axis=k), name="B")
    array = 1 + np.arange(63, dtype=np.float32).reshape(9, 7) * np.float32(2**-23)
    found, _ = evaluate([A, index, value], [array])
    np.testing.assert_array_equal(found, (array + np.float32(8)).argmax(axis=1))


def test_sums_beside_a_jump_add_up_in_float64() -> None:
    """In float16 a sum of ones comes to a stop at 2048."""
    A = te.placeholder((4000,), "float16", name="A")
    k = te.reduce_axis((0, 4000), name="k")
    B = te.compute((1,), lambda i: te.sum(call("floor", A[k]), axis=k, where=k < 3000), name="B")
    assert evaluate([A, B], [np.ones(4000, np.float16)])[0] == [3000]


def test_what_is_changed_is_what_others_read() -> None:
    A = te.placeholder((3,), name="A")
    B = te.compute((3,), lambda i: A[i] * 2, name="B")
    C = te.compute((3,), lambda i: B[i] + 1, name="C")
    ones = np.ones(3, np.float32)
    found = evaluate([A, B, C], [ones], lambda op, tensor, values: values + 10 * (tensor is B))
    np.testing.assert_array_equal(found, [[12] * 3, [13] * 3])


def test_halves_are_rounded_away_from_zero_and_nothing_else() -> None:
    """A half added to what is just below one, or to a large odd number, is rounded itself."""
    below, odd = np.nextafter(0.5, 0), 2.0**52 + 1
    a = np.array([below, -below, odd, -odd, 0.5, -2.5, np.inf, np.nan])
    workload = ExpressionWorkload.parse("C[i] = round(A[i])", {"A": [8]}, "float64")
    (found,) = workload.reference([a])
    np.testing.assert_array_equal(found, [0, 0, odd, -odd, 1, -3, np.inf, np.nan])


def test_floor_division_of_float32_is_numpys() -> None:
    """Its quotients are rounded to float32 before they are made whole."""
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=4096) * 2.0 ** rng.integers(0, 60, 4096) for _ in range(2))
    a, b = a.astype(np.float32), b.astype(np.float32)
    for sign, function in (("//", np.floor_divide), ("%", np.mod)):
        shapes = {"A": [4096], "B": [4096]}
        workload = ExpressionWorkload.parse(f"C[i] = A[i] {sign} B[i]", shapes)
        np.testing.assert_array_equal(workload.reference([a, b])[0], function(a, b))


def test_results_too_large_for_their_type_are_infinite_without_a_warning() -> None:
    workload = ExpressionWorkload.parse("B[i] = exp(A[i] * 30)", {"A": [4]}, "float16")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (found,) = workload.reference([np.full(4, 1, "float16")])
    assert np.isposinf(found).all()
