"""Declaring tensors: shapes, axis names, several outputs, refused bodies."""

from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.tir.expr import Add, IterKind, Mul, ProducerLoad, Range
from kit.te import extent_of
from kit.tir import value_of


def test_compute_names_its_axes_after_the_parameters() -> None:
    A = te.placeholder((8, 4), name="A")
    B = te.compute((4, 8), lambda i, j: A[j, i] * 2.0, name="B")
    i, j = B.op.axis
    assert [iv.var.name for iv in (i, j)] == ["i", "j"]
    assert [iv.dom.extent.value for iv in (i, j)] == [4, 8]
    assert B.op.body == (A[j, i] * 2.0,)
    assert B.op.inputs == (A,)
    assert [e.value for e in B.shape] == [4, 8]


def test_compute_names_of_star_arguments_and_overrides() -> None:
    A = te.placeholder((2, 3, 4), name="A")
    B = te.compute(A.shape, lambda *i: A(*i) + 1.0)
    assert [iv.var.name for iv in B.op.axis] == ["i0", "i1", "i2"]
    C = te.compute(A.shape, lambda n, *i: A(n, *i) + 1.0)
    assert [iv.var.name for iv in C.op.axis] == ["n", "i0", "i1"]
    D = te.compute(A.shape, lambda *i: A(*i), axis_names=["x", "y", "z"])
    assert [iv.var.name for iv in D.op.axis] == ["x", "y", "z"]


def test_compute_with_the_wrong_number_of_parameters() -> None:
    with pytest.raises(ValueError, match=r"takes 1 indices, the shape has 2"):
        te.compute((4, 4), lambda i: i)


def test_several_outputs_share_the_axes() -> None:
    A = te.placeholder((8,), name="A")
    B, C = te.compute((8,), lambda i: (A[i] + 1.0, A[i] * 2.0), name="B")
    assert B.op is C.op
    assert (B.name, C.name) == ("B.v0", "B.v1")
    assert [type(e) for e in B.op.body] == [Add, Mul]


def test_symbolic_and_wide_extents_give_the_type_of_the_axis() -> None:
    n = te.size_var("n")
    A = te.placeholder((n, te.const(4, "int64")), name="A")
    B = te.compute(A.shape, lambda i, j: A[i, j])
    assert [str(iv.var.dtype) for iv in B.op.axis] == ["int32", "int64"]
    assert B.op.axis[0].dom.extent is n
    with pytest.raises(ValueError, match="an extent is an integer"):
        te.placeholder((te.const(1.5),))


def test_reductions_must_be_whole_bodies() -> None:
    A = te.placeholder((8, 4), name="A")
    k = te.reduce_axis((0, 4), "k")
    with pytest.raises(ValueError, match="must be the whole body"):
        te.compute((8,), lambda i: te.sum(A[i, k], axis=k) + 1.0)
    with pytest.raises(ValueError, match="all the components of one reduction"):
        te.compute((8,), lambda i: (te.sum(A[i, k], axis=k), te.max(A[i, k], axis=k)))
    with pytest.raises(ValueError, match="must be the whole body"):
        te.compute((8,), lambda i: (A[i, 0], te.sum(A[i, k], axis=k)))
    with pytest.raises(ValueError, match="must be the whole body"):
        j = te.reduce_axis((0, 4), "j")
        te.compute((8,), lambda i: te.sum(te.sum(A[i, k], axis=k) * A[i, j], axis=j))


def test_thread_axis_forms() -> None:
    x = te.thread_axis("threadIdx.x")
    assert (x.dom, x.thread_tag, x.var.name, x.kind) == (
        None,
        "threadIdx.x",
        "threadIdx.x",
        IterKind.THREAD,
    )
    y = te.thread_axis((0, 32), "vthread", name="vx")
    assert (extent_of(y), y.var.name) == (32, "vx")
    assert extent_of(te.thread_axis(8, "threadIdx.y")) == 8


def test_indexing_checks_the_number_of_dimensions() -> None:
    A = te.placeholder((8, 4), name="A")
    assert isinstance(A[1, 2], ProducerLoad)
    with pytest.raises(ValueError, match="A has 2 dimensions, found 1"):
        A[1]


@pytest.mark.parametrize("index", [1.0, te.const(True), te.placeholder((4,), name="F")[0]])
def test_an_index_is_an_integer(index: Any) -> None:
    """Truth values had been masks to NumPy and -1 to a kernel."""
    A = te.placeholder((4,), "int8", name="A")
    with pytest.raises(
        TypeError, match=r"A: the index .* must be an integer, found (float32|bool)"
    ):
        A[index]
    assert str(A[A[0]].dtype) == "int8"


def test_a_domain_that_ends_before_it_begins() -> None:
    with pytest.raises(ValueError, match=r"found \(0, -3\), which ends before it begins"):
        te.reduce_axis((0, -3), "k")


@pytest.mark.parametrize(
    ("low", "high", "dtype"), [(-5, 2**31 - 1, "int32"), (-(2**62), 2**62, "int64")]
)
def test_a_domain_that_its_type_cannot_count(low: int, high: int, dtype: str) -> None:
    """Its length had wrapped: the first one had -2147483644 values."""
    most = 2**31 - 1 if dtype == "int32" else 2**63 - 1
    message = (
        rf"te.reduce_axis k: the domain has {high - low} values, expected at most {most}, which "
        f"{dtype} can count; divide it"
    )
    with pytest.raises(ValueError, match=message):
        te.reduce_axis((te.const(low, dtype), te.const(high, dtype)), "k")
    longest = te.reduce_axis((te.const(low, dtype), te.const(low + most, dtype)))
    assert longest.dom is not None
    assert value_of(longest.dom.extent) == most


@pytest.mark.parametrize("dom", [2**31, (0, 2**31), (-5, 2**31 - 1)])
def test_a_domain_of_more_threads_than_an_int32_can_count(dom: Any) -> None:
    with pytest.raises(ValueError, match=r"te.thread_axis blockIdx.x: the domain has 21474836\d\d"):
        te.thread_axis(dom, "blockIdx.x")


def test_threads_are_counted_from_0() -> None:
    with pytest.raises(ValueError, match=r"te.thread_axis threadIdx.x: .* begin at 0, found 1"):
        te.thread_axis((1, 33), "threadIdx.x")


def test_a_size_below_zero() -> None:
    with pytest.raises(ValueError, match="an extent is a number of elements, found -3"):
        te.placeholder((4, -3), name="A")


def test_sizes_of_few_bits_become_int32() -> None:
    """What is fused or flattened of them would wrap: 13 * 100 is 20 in an int8."""
    small, more = te.const(13, "int8"), te.const(100, "int16")
    A = te.placeholder((small, more), name="A")
    assert [str(e.dtype) for e in A.shape] == ["int32", "int32"]
    k = te.reduce_axis((te.const(-100, "int8"), te.const(100, "int8")), "k")
    m = te.reduce_axis(Range(te.const(0, "int8"), more), "m")
    for axis, length in ((k, 200), (m, 100)):
        assert axis.dom is not None
        assert (value_of(axis.dom.extent), str(axis.var.dtype)) == (length, "int32")
    n = te.var("n", "int16")
    with pytest.raises(ValueError, match="an int32 or int64, found n of type int16, in which ind"):
        te.placeholder((n,), name="A")


def test_a_function_is_expected() -> None:
    A = te.placeholder((4,), name="A")
    with pytest.raises(TypeError, match=r"takes a function of the indices .* found 1\.0 \(float\)"):
        te.compute((4,), 1.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r'te\.compute B: the function returned the text "A"'):
        te.compute((4,), lambda i: "A", name="B")
    assert repr(te.compute((4,), lambda i, s=2.0: A[i] * s).op.body[0]) == "A[i] * 2.0"
    assert len(te.compute((4, 4), lambda i, j=1: A[i] * j).op.axis) == 2


def test_shapes_may_be_arrays() -> None:
    assert list(map(int, te.placeholder(np.array([4, 8])).shape)) == [4, 8]
    with pytest.raises(ValueError, match="an extent is an integer"):
        te.placeholder("8")  # type: ignore[arg-type]


@pytest.mark.parametrize("domain", [8, "k", (8,), (0, 8, 2), range(8)])
def test_a_domain_is_a_pair(domain: Any) -> None:
    with pytest.raises(ValueError, match=r"te.reduce_axis k: a domain is \(low, high\), found"):
        te.reduce_axis(domain, "k")
    with pytest.raises(ValueError, match=r"te\.reduce_axis k: the ends of a domain are integers"):
        te.reduce_axis((0, 8.0), "k")
