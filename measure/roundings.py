"""Where a computation rounds floats: in which types, sums of which length, always alike or not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import ml_dtypes

from autosched.te.operations.graph import post_order_ops
from autosched.te.operations.operation import ComputeOp
from autosched.te.operations.tensor import Tensor
from autosched.tir.dtype import DType
from autosched.tir.expr import (
    BinaryExpr,
    Call,
    Cast,
    CompareExpr,
    Expr,
    IntImm,
    Max,
    Min,
    Mul,
    ProducerLoad,
    Reduce,
)
from autosched.tir.walk import pre_order

_FLOAT = DType("float32")
_TF32 = 2.0**-11
"""Unit roundoff of TF32: half the distance from 1 to the next number of 10 mantissa bits."""
# Functions of which IEEE 754, or the definition, fixes every bit of the result.
_EXACT_CALLS = frozenset(
    ("sqrt", "fabs", "floor", "ceil", "trunc", "round", "nearbyint", "copysign", "if_then_else")
)


@dataclass(frozen=True, slots=True)
class Roundings:
    """The roundings on the way from the inputs to some outputs.

    - `computed`: the types in which floats are added, multiplied and so on, each with the number of
      terms of its longest sum.
    - `stored`: the types to which wider values are converted, one for each conversion.
    - `factors`: the unit roundoff of the factors of products; 0 where factors are not rounded.
    - `added`: those of `stored` that come before a sum of products, which adds their errors up.
    """

    computed: Mapping[DType, int]
    stored: tuple[DType, ...]
    factors: float = 0.0
    added: tuple[DType, ...] = ()

    @property
    def coarse(self) -> bool:
        """Whether something is rounded to 16 bits or fewer, or factors are rounded."""
        short = any(kind.bits <= 16 for kind in (*self.computed, *self.stored))
        return short or self.factors > 0

    @property
    def unit(self) -> float:
        """The largest unit roundoff of the types; 0 if nothing is rounded."""
        kinds = (*self.computed, *self.stored)
        return max([self.factors, *(unit_of(kind) for kind in kinds)])


def unit_of(dtype: DType) -> float:
    """The unit roundoff of a type: half the distance from 1 to the next number."""
    return 0.5 * float(ml_dtypes.finfo(dtype.numpy).eps)  # type: ignore[no-untyped-call]  # ml_dtypes is untyped


def roundings_of(*ops: ComputeOp, tf32: bool = False) -> Roundings:
    """The roundings in the bodies of operations; with `tf32`, float32 factors may be rounded."""
    computed: dict[DType, int] = {}
    stored: list[DType] = []
    added = 0
    factors = 0.0
    for op in ops:
        sums_products = False
        for e in (node for body in op.body for node in pre_order(body)):
            if isinstance(e, Cast) and _narrows(e):
                stored.append(e.dtype)
            elif isinstance(e, Reduce) and _adds_up(e):
                kind = e.source[e.value_index].dtype
                computed[kind] = max(computed.get(kind, 1), terms_of(op))
                sums_products |= isinstance(e.source[e.value_index], Mul)
                if tf32 and kind is _FLOAT and isinstance(e.source[e.value_index], Mul):
                    factors = _TF32
            elif _is_arithmetic(e):
                computed.setdefault(e.dtype, 1)
        added = len(stored) if sums_products else added
    return Roundings(computed, tuple(stored), factors, tuple(stored[:added]))


def behind(output: Tensor) -> list[ComputeOp]:
    """The operations that compute an output, in post order: its own is the last."""
    return [op for op in post_order_ops([output.op]) if isinstance(op, ComputeOp)]


def is_rounded(output: Tensor) -> bool:
    """Whether the last thing that happens to elements of `output` is a rounding to its type."""
    assert isinstance(output.op, ComputeOp)
    body = output.op.body[output.value_index]
    return isinstance(body, Cast) and _narrows(body)


def terms_of(op: ComputeOp) -> int:
    """The number of terms of an operation's reduction; 1 without one."""
    extents = [axis.dom.extent for axis in op.reduce_axis if axis.dom is not None]
    return math.prod([extent.value for extent in extents if isinstance(extent, IntImm)])


def makes_integers(output: Tensor, *, gpu: bool) -> bool:
    """Whether `output` depends on integers converted from floats that kernels round differently.

    Sums are rounded in the order of the loops, functions such as `exp` as their implementation
    does. A kernel for a `gpu` rounds bfloat16 and 8-bit floats where they go through memory.
    Products and sums are not fused on the way to an integer (autosched/tir/jumps.py).
    """
    return any(
        not _is_steady(cast.value, gpu)
        for op in behind(output)
        for cast in _casts(op)
        if cast.value.dtype.is_float and cast.dtype.is_integral
    )


def _casts(op: ComputeOp) -> Iterator[Cast]:
    for body in op.body:
        yield from (e for e in pre_order(body) if isinstance(e, Cast))


def _is_steady(e: Expr, gpu: bool) -> bool:
    """Whether every kernel computes the same bits."""
    for node in pre_order(e):
        if isinstance(node, Reduce) and _adds_up(node):
            return False
        if isinstance(node, Call) and node.dtype.is_float and node.op not in _EXACT_CALLS:
            return False
        if isinstance(node, ProducerLoad) and isinstance(node.producer.op, ComputeOp):
            bodies = node.producer.op.body if node.dtype.is_float else ()
            if gpu and node.dtype.is_storage_float and any(map(_computes, bodies)):
                return False
            if not all(_is_steady(body, gpu) for body in bodies):
                return False
    return True


def _computes(body: Expr) -> bool:
    """Whether the value of a statement may need rounding to its type."""
    return any(_is_arithmetic(e) and e.dtype is body.dtype for e in pre_order(body))


def _narrows(e: Cast) -> bool:
    source, target = e.value.dtype, e.dtype
    if not target.is_float:
        return False
    if source.is_float:
        return unit_of(target) > unit_of(source)
    return unit_of(target) > 2.0 ** -(source.bits - (source.code == "int"))


def _adds_up(e: Reduce) -> bool:
    """Whether a reduction is of floats and rounds, unlike a maximum or minimum."""
    kind = e.combiner.result[0]
    return e.source[e.value_index].dtype.is_float and not isinstance(kind, Max | Min)


def _is_arithmetic(e: Expr) -> bool:
    if not e.dtype.is_float:
        return False
    if isinstance(e, Call):
        return e.op != "if_then_else"
    return isinstance(e, BinaryExpr) and not isinstance(e, Max | Min | CompareExpr)
