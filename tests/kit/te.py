"""What tests ask of tensors."""

from __future__ import annotations

from autosched.te.operations.operation import ComputeOp
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.stage import Stage
from autosched.tir.expr import IterVar, Reduce
from kit.tir import value_of


def compute_of(what: Tensor | Stage) -> ComputeOp:
    """The operation of a tensor or a stage that computes it element by element."""
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
    """What `Schedule.rfactor` of a reduction with one result returns."""
    assert isinstance(tensor, Tensor)
    return tensor


def reduction_of(what: Tensor | Stage) -> Reduce:
    """The reduction that makes the first value of a tensor."""
    body = compute_of(what).body[0]
    assert isinstance(body, Reduce)
    return body
