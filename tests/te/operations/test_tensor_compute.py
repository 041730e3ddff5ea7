"""Calls of tensor intrinsics in te.compute: regions, arguments, what the operation knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from autosched import te
from autosched.te.operations.graph import replace_inputs
from autosched.te.operations.tensor import Tensor
from autosched.tir.expr import IntImm
from kit.intrinsics import axpy, gemv, vadd

A = te.placeholder((4, 8), name="A")
B = te.placeholder((4, 8), name="B")
H = te.placeholder((4, 8), "float16", name="H")


def test_regions_of_tensors() -> None:
    i = te.var("i")
    region = A[i, 2:6]
    assert isinstance(region, te.TensorRegion)
    assert repr(region) == "A[i:i + 1, 2:6]"
    assert repr(A[:, i * 2 : i * 2 + 2]) == "A[0:4, i * 2:i * 2 + 2]"
    assert [r.extent for r in A[:, i * 2 : i * 2 + 2].ranges] == [IntImm(4), IntImm(2)]
    with pytest.raises(ValueError, match="A has 2 dimensions, found 1 indices"):
        A[0:2]
    with pytest.raises(ValueError, match="slice of dimension 0 has step 2; regions have no steps"):
        A[0:4:2, 0]


def test_the_operation() -> None:
    alpha, row = te.placeholder((4,), name="alpha"), axpy(8)
    C = te.compute((4, 8), lambda i: row(A[i, :], alpha[i]), name="C")
    op = C.op
    assert isinstance(op, te.TensorComputeOp)
    assert [iv.var.name for iv in op.root_iter_vars] == ["i"]
    assert op.inputs == (A, alpha)
    assert (C.shape, C.dtype) == (A.shape, A.dtype)
    assert repr(op) == "TensorComputeOp(C)"


def test_names_of_axes_may_be_given() -> None:
    C = te.compute((4, 8), lambda i: vadd(8)(A[i, :], B[i, :]), axis_names=["row"])
    assert [iv.var.name for iv in C.op.root_iter_vars] == ["row"]


WRONG: Any = "B"
REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda i: vadd(8)(A[i, :]), r"expected 2 regions of tensors \(x, y\), found 1"),
    (lambda i: vadd(8)(A[i, :], B[i, :], 2.0), r"expected 0 scalars \(none\), found 1"),
    (lambda i: axpy(8)(A[i, :]), r"expected 1 scalars \(alpha\), found 0"),
    (lambda i: axpy(8)(A[i, :], i), "scalar alpha is float32, found i of type int32; convert it"),
    (lambda i: vadd(8)(A[i, :], H[i, :]), "input y is float32, found H.* of type float16"),
    (lambda i: vadd(8)(A[i, 0:4], B[i, 0:4]), "x has shape .*8.*, which A.* does not fit"),
    (lambda i: vadd(8)(A, B), "its last extents must be these and all before them 1"),
    (lambda i: vadd(4)(A[i, 0:4], B[i, 0:4]), "z has shape .*4.*, which what is left"),
    (lambda i: vadd(8)(A[i, :], WRONG), r"expected regions of tensors such as A\[i, 0:8\]"),
    (
        lambda i: vadd(8)(A[i, :], B[i, :], reduce_axis=te.reduce_axis((0, 2), "r")),
        "cannot go on with a reduction over r, because it has no reduce_update",
    ),
    (
        lambda i: gemv(8, 4)(te.placeholder((8, 4)), te.placeholder((4,)), reduce_axis=[i]),
        "expected te.reduce_axis, found i",
    ),
]


@pytest.mark.parametrize(("body", "message"), REFUSED)
def test_refused_calls(body: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        te.compute((4, 8), body, name="C")


def test_fewer_indices_are_for_intrinsics_only() -> None:
    with pytest.raises(ValueError, match="takes 1 indices, the shape has 2 dimensions"):
        te.compute((4, 8), lambda i: A[i, 0], name="C")


def test_domains_of_reductions_and_scalars_that_reduce_are_refused() -> None:
    W, x = te.placeholder((8, 4)), te.placeholder((4,))

    def ragged(i: Any) -> Any:
        return gemv(8, 4)(W, x, reduce_axis=te.reduce_axis((0, i + 1), "r"))

    with pytest.raises(ValueError, match="domain of reduction axis r depends on another axis"):
        te.compute((4, 8), ragged, name="C")
    k = te.reduce_axis((0, 4), "k")
    with pytest.raises(ValueError, match="a scalar is a reduction"):
        te.compute((4, 8), lambda i: axpy(8)(A[i, :], te.sum(x[k], axis=k)), name="C")


def declared(**options: Any) -> te.TensorIntrin:
    x = te.placeholder((8,), name="x")
    z = te.compute((8,), lambda i: x[i] * 2.0, name="z")

    def call(ins: Any, outs: Any, *scalars: Any) -> Any:
        return te.call_extern("f", ins[0].data, outs[0].data)

    if "binds" in options:
        options["binds"] = options["binds"](x)
    return te.decl_tensor_intrin(z.op, call, "twice", **options)


def test_parameters_of_buffers() -> None:
    made = declared(default_buffer_params={"offset_factor": 8, "data_alignment": 16})
    assert [(b.offset_factor, b.data_alignment) for b in made.buffers] == [(8, 16)] * 2
    own = te.decl_buffer((8,), "float32", "own", "shared", strides=[2], offset_factor=4)
    made = declared(binds=lambda x: {x: own})
    assert made.buffers[0] is own and own.elem_offset is not None and own.scope == "shared"


DECLARATIONS: list[tuple[dict[str, Any], str]] = [
    ({"default_buffer_params": {"offset": 1}}, "default_buffer_params: found offset, expected"),
    (
        {"default_buffer_params": {"offset_factor": 0}},
        "offset_factor is a positive number",
    ),
    ({"default_buffer_params": {"strides": [1, 1]}}, "2 strides for 1 dimensions"),
    ({"binds": lambda x: {A: te.decl_buffer((4, 8))}}, "not one of the operation's tensors x, z"),
    ({"binds": lambda x: {x: te.decl_buffer((4, 8))}}, "other type or rank"),
    ({"binds": lambda x: {x: te.decl_buffer((8,), "int32")}}, "other type or rank"),
]


@pytest.mark.parametrize(("options", "message"), DECLARATIONS)
def test_refused_declarations(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        declared(**options)


def test_replacing_inputs_makes_another_operation() -> None:
    row = axpy(8)
    C = te.compute((4, 8), lambda i: row(A[i, :], A[i, 0]), name="C")
    new: Tensor = te.placeholder((4, 8), name="new")
    changed = replace_inputs(C.op, {A: new})
    assert changed.inputs == (new,) and changed is not C.op
    assert replace_inputs(C.op, {B: new}) is C.op
