"""Reductions: combiners, identities, conditions, tuples."""

from collections.abc import Callable
from typing import Any

import pytest

from autosched import te
from autosched.te.operations.reduction import Reducer
from autosched.te.operations.tensor import Tensor
from autosched.tir.expr import IterVar, Max, Reduce
from kit.tir import number_of

A = te.placeholder((8, 4), "int8", name="A")


def _rows(dtype: str = "float32") -> tuple[Tensor, IterVar]:
    return te.placeholder((8, 4), dtype, name="A"), te.reduce_axis((0, 4), "k")


@pytest.mark.parametrize(
    ("reduce", "dtype", "identity"),
    [
        (te.sum, "float32", 0.0),
        (te.prod, "int32", 1),
        (te.max, "int8", -128),
        (te.min, "int32", 2**31 - 1),
        (te.max, "float16", -65504.0),
    ],
)
def test_identities(reduce: Reducer, dtype: str, identity: float) -> None:
    A, k = _rows(dtype)
    B = te.compute((8,), lambda i: reduce(A[i, k], axis=k))
    (body,) = B.op.body
    assert isinstance(body, Reduce)
    assert number_of(body.combiner.identity[0]) == identity
    assert str(body.dtype) == dtype
    assert B.op.reduce_axis == (k,)
    assert B.op.root_iter_vars == (*B.op.axis, k)


def test_equal_reductions_are_one_object() -> None:
    A, k = _rows()
    assert te.sum(A[0, k], axis=k) is te.sum(A[0, k], axis=[k])


def test_condition_and_init() -> None:
    A, k = _rows()
    body = te.sum(A[0, k], axis=k, where=k.var < 3, init=te.const(5.0))
    assert body.condition is (k.var < 3)
    assert body.init[0].value == 5.0


@pytest.mark.parametrize(("combine", "neutral"), [(lambda x, y: x + y, 0), (lambda x, y: x * y, 1)])
def test_a_sum_begins_once_with_what_is_not_neutral(
    combine: Callable[[Any, Any], Any], neutral: int
) -> None:
    """Each part of one that rfactor, or threads, had cut began with it."""
    A, k = _rows("int32")
    from_5 = te.comm_reducer(combine, lambda t: te.const(5, t))
    body = from_5(A[0, k], axis=k)
    assert body.init == (te.const(5),)
    assert body.combiner.identity == (te.const(neutral),)
    assert from_5(A[0, k], axis=k, init=3).init == (te.const(3),)
    assert from_5(A[0, k], axis=k) is body


def test_argmax_is_one_reduction_with_two_components() -> None:
    A, k = _rows()
    argmax = te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.select(x[1] >= y[1], x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
        name="argmax",
    )
    index, value = te.compute((8,), lambda i: argmax((k.var, A[i, k]), axis=k), name="arg")
    first, second = index.op.body
    assert (str(index.dtype), str(value.dtype)) == ("int32", "float32")
    assert first.combiner is second.combiner
    assert (first.value_index, second.value_index) == (0, 1)
    assert first.source == second.source == (k.var, A[index.op.axis[0], k])


def test_two_expressions_are_combined_directly() -> None:
    A, _ = _rows()
    assert isinstance(te.max(A[0, 0], A[0, 1]), Max)
    assert te.max(3, 4).value == 4


def test_only_reduce_axes_can_be_reduced() -> None:
    A, _ = _rows()
    B = te.compute((8,), lambda i: A[i, 0])
    with pytest.raises(ValueError, match=r"reduces over te\.reduce_axis"):
        te.sum(A[0, 0], axis=B.op.axis[0])
    with pytest.raises(ValueError, match="needs the axis"):
        te.sum(A[0, 0])


def test_several_operands_are_combined() -> None:
    """The third one, in the place of a condition, was left out."""
    A, _ = _rows()
    assert repr(te.max(A[0, 0], A[0, 1], 2.0)) == "max(max(A[0, 0], A[0, 1]), 2.0)"
    assert te.sum(A[0, 0], 1) is A[0, 0] + 1
    with pytest.raises(ValueError, match=r"te.max: where= and init= need a reduction .*A\[0, 1\]"):
        te.max(A[0, 0], A[0, 1], where=A[0, 0] > 0)


def test_arguments_by_position() -> None:
    A, k = _rows()
    named = te.sum(A[0, k], axis=k, where=k.var < 3, init=1)
    assert te.sum(A[0, k], k, k.var < 3, 1) is named and te.sum(A[0, k], [k], k.var < 3, 1) is named
    with pytest.raises(TypeError, match="takes an expression, axis, where and init, each once"):
        te.sum(A[0, k], k, axis=k)


def test_an_axis_is_a_reduce_axis_once() -> None:
    """`axis=1`, as in NumPy, added 1."""
    A, k = _rows()
    with pytest.raises(ValueError, match=r"te\.sum reduces over te\.reduce_axis, found 1"):
        te.sum(A[0, k], axis=1)
    with pytest.raises(
        ValueError, match=r"te\.sum needs the axis to reduce over, a te\.reduce_axis"
    ):
        te.sum(A[0, k])
    with pytest.raises(ValueError, match=r"te\.sum reduces over each axis once, found"):
        te.sum(A[0, k], axis=[k, k])


def test_what_a_reduction_begins_with_has_its_type() -> None:
    A, k = _rows("int32")
    assert te.sum(A[0, k], axis=k, init=2.0).init == (te.const(2),)
    with pytest.raises(ValueError, match=r"const: 0\.5 is no int32"):
        te.sum(A[0, k], axis=k, init=0.5)
    with pytest.raises(ValueError, match=r"te\.sum: init= has 2 values, 1 are reduced"):
        te.sum(A[0, k], axis=k, init=(1, 2))
    with pytest.raises(TypeError, match="found str 'x'"):
        te.sum(A[0, k], axis=k, init="x")


@pytest.mark.parametrize(
    ("combine", "message"),
    [
        (lambda x, y: (x[0] + y[0],), r"combiner of 2 values returns a tuple of 2, found \(x_0 \+"),
        (lambda x, y: x[0] + y[0], r"combiner of 2 values returns a tuple of 2, found x_0 \+ y_0"),
        (
            lambda x, y: (x[0] + A[0, 0], x[1]),
            r"reads A\[0, 0\], expected an expression of x_0, x_1",
        ),
    ],
    ids=["one", "no_tuple", "load"],
)
def test_what_no_combiner_may_make(combine: Callable[[Any, Any], Any], message: str) -> None:
    """Kernels could not be built, or the message was that of Python or of a later stage."""
    k = te.reduce_axis((0, 4), "k")
    two = te.comm_reducer(combine, lambda t, u: (te.const(0, t), te.const(0, u)), name="two")
    with pytest.raises(ValueError, match=rf"te\.two: the .*{message}"):
        two((A[0, k], A[0, k]), axis=k)


def test_what_a_combiner_makes_has_the_type_of_the_values() -> None:
    """The interpreter and GPUs were given int32 to store in int8."""
    k = te.reduce_axis((0, 4), "k")
    wide = te.comm_reducer(lambda x, y: te.min(x.astype("int32") + y, 100), lambda t: 0)
    B = te.compute((8,), lambda i: wide(A[i, k], axis=k))
    assert B.dtype == "int8" == B.op.body[0].combiner.result[0].dtype


def test_an_identity_has_a_value_for_each() -> None:
    k = te.reduce_axis((0, 4), "k")
    two = te.comm_reducer(lambda x, y: (x[0], y[1]), lambda t, u: te.const(0, t), name="two")
    with pytest.raises(ValueError, match=r"two: the identity of 2 values returns a tuple of 2"):
        two((A[0, k], A[0, k]), axis=k)
