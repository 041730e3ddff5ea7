"""Access to parts of tensors and stages that tests need."""

from __future__ import annotations

from autosched.te.operations.operation import ComputeOp
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.stage import Stage
from autosched.tir.expr import IterVar, Reduce
from kit.tir import value_of


def compute_of(what: Tensor | Stage) -> ComputeOp:
    """The element-wise operation (ComputeOp) of a tensor or a stage."""
    assert isinstance(what.op, ComputeOp)
    return what.op


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
