"""Access to parts of tensors and stages that tests need."""

from __future__ import annotations

from autosched import te
from autosched.te.operations.operation import ComputeOp
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.stage import Stage
from autosched.tir.expr import IterVar, Reduce, Var
from kit.tir import value_of


def compute_of(what: Tensor | Stage) -> ComputeOp:
    """The element-wise operation (ComputeOp) of a tensor or a stage."""
    assert isinstance(what.op, ComputeOp)
    return what.op


def stage_of(*extents: Var | int) -> tuple[Stage, tuple[IterVar, ...]]:
    """The stage of `B[i, j] = A[i, j] + 1` of one or two dimensions, and its axes."""
    A = te.placeholder(extents, name="A")
    names = ("i", "j")[: len(extents)]
    B = te.compute(extents, lambda *i: A[i] + 1.0, name="B", axis_names=names)
    s = te.create_schedule(B.op)
    return s[B], B.op.axis


def extent_of(axis: IterVar) -> int:
    """The constant extent of an axis."""
    assert axis.dom is not None
    return value_of(axis.dom.extent)


def both_axes(tensor: Tensor) -> tuple[IterVar, IterVar]:
    """The axes of a tensor of two dimensions."""
    i, j = compute_of(tensor).axis
    return i, j


def factor_of(tensor: Tensor | tuple[Tensor, ...]) -> Tensor:
    """The tensor that `Schedule.rfactor` returns for a reduction with one result."""
    assert isinstance(tensor, Tensor)
    return tensor


def reduction_of(what: Tensor | Stage) -> Reduce:
    """The reduction of the first value of a tensor."""
    body = compute_of(what).body[0]
    assert isinstance(body, Reduce)
    return body
