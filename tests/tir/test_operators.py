"""Python's operators on expressions: what they make, and what == is as a truth value."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from autosched import te
from autosched.driver import lower
from autosched.target import cpu_target
from autosched.te.operations.compute import reduce_axis
from autosched.tir import interp, op
from autosched.tir.expr import Expr, FloatImm, IntImm, Var
from autosched.tir.operators import Comparison

I, J = Var("i"), Var("j")
X, T = Var("x", "float32"), Var("t", "bool")
K = reduce_axis((0, 8), name="k")

MADE: list[tuple[Callable[[], object], str]] = [
    (lambda: op.as_expr(I == J), "i == j"),
    (lambda: op.as_expr(I % 5 != 0), "i % 5 != 0"),
    (lambda: op.as_expr(K == 0), "k == 0"),
    (lambda: op.as_expr(3 != K), "k != 3"),  # noqa: SIM300
    (lambda: op.as_expr(I == np.int64(3)), "i == 3"),  # noqa: SIM300
    (lambda: op.as_expr(X == 1), "x == 1.0"),
    (lambda: op.as_expr(I == I), "i == i"),
    (lambda: te.all(I == 0, K != J), "i == 0 and k != j"),
    (lambda: te.any(False, I == J), "i == j"),
    (lambda: te.logical_not(I == 0), "not i == 0"),
    (lambda: te.if_then_else(I == J, X, 0), "if_then_else(i == j, x, 0.0)"),
    (lambda: te.select(I != J, 1, 2), "Select(i != j, 1, 2)"),
    (lambda: te.likely(K == J), "likely(k == j)"),
    (lambda: te.cast("int32", I == J) + 1, "int32(i == j) + 1"),
    (lambda: (I == J).astype("float32"), "float32(i == j)"),  # type: ignore[attr-defined]  # for mypy it is a bool
    (lambda: (I == 0) & (J < 3), "i == 0 and j < 3"),
    (lambda: (I == 0) | T, "i == 0 or t"),
    (lambda: T ^ (I == 0), "t != (i == 0)"),
    (lambda: True & T, "t"),
    (lambda: ~(I == 0), "not i == 0"),
    (lambda: I & 3, "bitwise_and(i, 3)"),
    (lambda: 3 | K, "bitwise_or(3, k)"),
    (lambda: I ^ J, "bitwise_xor(i, j)"),
    (lambda: ~I, "bitwise_not(i)"),
    (lambda: 1 << I, "shift_left(1, i)"),
    (lambda: K >> 2, "shift_right(k, 2)"),
    (lambda: I << J >> 1, "shift_right(shift_left(i, j), 1)"),
    (lambda: -K, "k * -1"),
    (lambda: -X, "x * -1.0"),
    (lambda: 7 - K, "7 - k"),
    (lambda: 2 / X, "2.0 / x"),
    (lambda: 7 // K % 2, "7 // k % 2"),
]


@pytest.mark.parametrize(("make", "text"), MADE, ids=[text for _, text in MADE])
def test_operators_make_expressions(make: Callable[[], object], text: str) -> None:
    made = make()
    assert isinstance(made, Expr) and repr(made) == text


def test_a_comparison_as_a_truth_value_is_of_objects() -> None:
    """Nodes that are equal are one object; `in`, `if` and dictionaries go by that."""
    assert (bool(I == I), bool(I != I), bool(I == J), bool(I != J)) == (True, False, False, True)
    assert I + 1 == I + 1 and I in {I: 0} and I not in (J, None)
    assert K in (J, K) and K not in [I, reduce_axis((0, 8), name="k")]
    assert (I == "i", I == None, K == None) == (False, False, False)  # noqa: E711


@pytest.mark.parametrize(
    ("ask", "remedy"),
    [
        (lambda: bool(I % 5 == 0), r"i % 5 == 0 is .*; join .* te\.eq\(i % 5, 0\)"),
        (lambda: I == 0 and J == 0, r"i == 0 is .* te\.eq\(i, 0\)"),
        (lambda: 1 if I != 1.5 else 2, r"i != 1\.5 is .* te\.ne\(i, 1\.5\)"),
        (lambda: K in (0, 1), r"k == 0 is .* te\.eq\(k, 0\)"),
    ],
)
def test_with_a_number_there_is_no_truth_value(ask: Callable[[], object], remedy: str) -> None:
    """It was False, whatever the values: a condition that never holds."""
    with pytest.raises(TypeError, match=remedy):
        ask()


def test_bits_are_of_integers() -> None:
    with pytest.raises(TypeError, match=r"bitwise_and takes integers or truth values, found flo"):
        _ = X & 1
    with pytest.raises(TypeError, match=r"bitwise_not takes an integer or a truth value, found f"):
        _ = ~X
    with pytest.raises(TypeError, match=r"te\.shift_left takes integers, found bool"):
        _ = T << T


def test_a_comparison_says_what_it_is() -> None:
    assert repr(Comparison(K, 3, True)) == "k == 3" and repr(Comparison(I, K, False)) == "i != k"


def test_ties_of_a_reduction_are_compared_by_value() -> None:
    """`a[1] == b[1]` was False for all values, as were conditions of a sum and of a tensor."""
    A = te.placeholder((4, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    later = te.comm_reducer(
        lambda a, b: (
            te.if_then_else(te.any(a[1] > b[1], te.all(a[1] == b[1], a[0] > b[0])), a[0], b[0]),
            te.if_then_else(a[1] >= b[1], a[1], b[1]),
        ),
        lambda index, value: (te.const(-1, index), te.min_value(value)),
    )
    index, value = te.compute((4,), lambda i: later((k.var, A[i, k]), axis=k), name="last")
    j = te.reduce_axis((0, 8), name="j")
    hits = te.compute(
        (4,),
        lambda i: te.sum(te.const(1, "int32"), axis=j, where=A[i, j] == value[i]),
        name="hits",
    )
    even = te.compute((4,), lambda i: index[i] % 2 == 0, name="even")
    s = te.create_schedule([hits.op, even.op])
    func = lower(s, [A, index, hits, even], cpu_target(), name="f")
    array = np.random.default_rng(0).integers(0, 3, (4, 8)).astype(np.float32)
    found = (np.zeros(4, np.int32), np.zeros(4, np.int32), np.zeros(4, bool))
    interp.run(func, [array, *found])
    last = 7 - array[:, ::-1].argmax(axis=1)
    np.testing.assert_array_equal(found[0], last)
    np.testing.assert_array_equal(found[1], (array == array.max(axis=1, keepdims=True)).sum(axis=1))
    np.testing.assert_array_equal(found[2], last % 2 == 0)


def test_constants_are_numbers_where_python_asks() -> None:
    A = te.placeholder((8, 3), name="A")
    rows, columns = A.shape
    assert isinstance(rows, IntImm) and isinstance(columns, IntImm)
    assert int(rows) == 8 and list(range(columns)) == [0, 1, 2] and float(columns) == 3.0
    shape: tuple[object, ...] = tuple(A.shape)
    assert rows == 8 and rows != 9 and shape == (8, 3) and rows + columns == 11
    assert bool(rows > columns) and not rows < 3
    half = FloatImm(0.5)
    assert float(half) == 0.5 and half == 0.5 and half != 1 and half and not FloatImm(0.0)


def test_powers_and_absolute_values() -> None:
    assert repr(X**2) == "x * x" and repr(X**0.5) == "sqrt(x)" and repr(I**3) == "i * (i * i)"
    assert repr(2.0**X) == "pow(2.0, x)" and repr(X**-1) == "pow(x, -1.0)" and repr(K**1) == "k"
    assert repr(abs(X)) == "fabs(x)" and repr(abs(K)) == "Select(k >= 0, k, 0 - k)"
    with pytest.raises(TypeError, match=r"i \*\* -1: an integer needs a number from 0 to 64"):
        _ = I**-1


def test_types_are_equal_to_their_names() -> None:
    """`tensor.dtype == "float16"`, in which TVM's te is written, was False."""
    kind = X.dtype
    assert kind == "float32" and kind == np.float32 and kind == np.dtype("float32")
    assert kind != "float16" and kind != "no type" and kind != 3 and kind is not None
    assert kind in ("float16", "float32") and {kind: 1}[kind] == 1


@pytest.mark.parametrize(
    "condition",
    [
        lambda a, b: a == b and a > 1,
        lambda a, b: a == b or a > 1,
        lambda a, b: not a != b,  # noqa: SIM202
        lambda a, b: all([a == b, a == b]),
        lambda a, b: True if a == b else a > 1,
    ],
)
def test_in_a_function_of_te_compute_equal_expressions_have_no_truth_value(
    condition: Callable[..., bool],
) -> None:
    """That of the objects was taken: half of the condition was gone, without a word."""
    A, B = (te.placeholder((8,), name=name) for name in "AB")
    with pytest.raises(TypeError, match=r"the truth value of A\[i\] [=!]= B\[i\] is not known"):
        te.compute((8,), lambda i: te.if_then_else(condition(A[i], B[i]), 1.0, 0.0))
    same = te.compute((8,), lambda i: A[i] if i == i else B[i])
    assert same.op.inputs == (A,)


def test_python_functions_of_expressions() -> None:
    assert repr(round(X)) == "nearbyint(x)" and round(I) is I
    assert repr(math.floor(X)) == "floor(x)" and repr(math.ceil(X)) == "ceil(x)"
    assert repr(math.trunc(X)) == "trunc(x)" and math.trunc(I) is I
    assert divmod(I, 4) == (I // 4, I % 4) and divmod(9, I) == (9 // I, 9 % I)
    assert +X is X and I.equal(3) is te.eq(I, 3)
    with pytest.raises(TypeError, match=r"round\(x, 2\): only to whole numbers"):
        round(X, 2)


def test_no_number_is_known_of_an_expression() -> None:
    with pytest.raises(TypeError, match=r"int\(\) of i, .* write te\.cast\('int32', \.\.\.\)"):
        int(I)
    with pytest.raises(TypeError, match=r"float\(\) of x, .* a function of te, e\.g\. te\.exp"):
        math.exp(X)
    assert int(IntImm(3)) == 3 and int(FloatImm(3.0)) == 3 and float(FloatImm(0.5)) == 0.5


def test_constants_are_formatted_as_numbers() -> None:
    assert f"{IntImm(8):3d}|{FloatImm(0.5):.2f}|{I:>3}|{I + 1}" == "  8|0.50|  i|i + 1"
