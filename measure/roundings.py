"""Where a computation rounds floats: in which types, in sums how long, and whether always alike."""

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
    Add,
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
    Sub,
)
from autosched.tir.walk import pre_order

_FLOAT = DType("float32")
_TF32 = 2.0**-11
"""Half the distance of 1 to the next number of 10 bits of mantissa."""
# What IEEE 754 or the definition gives every bit of.
_EXACT_CALLS = frozenset(
    ("sqrt", "fabs", "floor", "ceil", "trunc", "round", "nearbyint", "copysign", "if_then_else")
)


@dataclass(frozen=True, slots=True)
class Roundings:
    """Those on the way to some outputs.

    `computed` has the types in which floats are added up, multiplied and the like, with the terms
    of the longest sum; `stored` the types that wider values are converted to, one for each
    conversion; `factors` half a unit of what factors of products are rounded to, 0 where they are
    not.
    """

    computed: Mapping[DType, int]
    stored: tuple[DType, ...]
    factors: float = 0.0

    @property
    def coarse(self) -> bool:
        """Whether something is rounded to 16 bits or fewer."""
        short = any(kind.bits <= 16 for kind in (*self.computed, *self.stored))
        return short or self.factors > 0

    @property
    def unit(self) -> float:
        """Half the distance of 1 to the next number, in the coarsest of the types; 0 if none."""
        kinds = (*self.computed, *self.stored)
        return max([self.factors, *(unit_of(kind) for kind in kinds)])


def unit_of(dtype: DType) -> float:
    """Half the distance of 1 to the next number."""
    return 0.5 * float(ml_dtypes.finfo(dtype.numpy).eps)  # type: ignore[no-untyped-call]  # ml_dtypes is untyped


def roundings_of(*ops: ComputeOp, tf32: bool = False) -> Roundings:
    """Of the bodies of these operations; with `tf32` factors of float32 may be rounded to it."""
    computed: dict[DType, int] = {}
    stored: list[DType] = []
    factors = 0.0
    for op in ops:
        for e in (node for body in op.body for node in pre_order(body)):
            if isinstance(e, Cast) and _narrows(e):
                stored.append(e.dtype)
            elif isinstance(e, Reduce) and _adds_up(e):
                kind = e.source[e.value_index].dtype
                computed[kind] = max(computed.get(kind, 1), terms_of(op))
                if tf32 and kind is _FLOAT and isinstance(e.source[e.value_index], Mul):
                    factors = _TF32
            elif _is_arithmetic(e):
                computed.setdefault(e.dtype, 1)
    return Roundings(computed, tuple(stored), factors)


def behind(output: Tensor) -> list[ComputeOp]:
    """The operations that an output is computed by, its own last."""
    return [op for op in post_order_ops([output.op]) if isinstance(op, ComputeOp)]


def terms_of(op: ComputeOp) -> int:
    """How many terms its reduction has; 1 without one."""
    extents = [axis.dom.extent for axis in op.reduce_axis if axis.dom is not None]
    return math.prod([extent.value for extent in extents if isinstance(extent, IntImm)])


def makes_integers(output: Tensor) -> bool:
    """Whether integers are made on the way to `output` of floats that kernels round differently.

    Sums are rounded in the order of the loops, functions such as `exp` by their implementation, and
    a product and a sum may be fused, unless the conversion is of them itself.
    """
    return any(
        not _is_steady(cast.value, fused=False)
        for op in behind(output)
        for cast in _casts(op)
        if cast.value.dtype.is_float and cast.dtype.is_integral
    )


def _casts(op: ComputeOp) -> Iterator[Cast]:
    for body in op.body:
        yield from (e for e in pre_order(body) if isinstance(e, Cast))


def _is_steady(e: Expr, *, fused: bool) -> bool:
    """Whether every kernel computes the same bits; `fused`: products and sums may be."""
    for node in pre_order(e):
        if isinstance(node, Reduce) and _adds_up(node):
            return False
        if isinstance(node, Call) and node.dtype.is_float and node.op not in _EXACT_CALLS:
            return False
        if fused and isinstance(node, Add | Sub) and node.dtype.is_float and _may_fuse(node):
            return False
        if isinstance(node, ProducerLoad) and isinstance(node.producer.op, ComputeOp):
            op = node.producer.op
            if node.dtype.is_float and not all(_is_steady(b, fused=True) for b in op.body):
                return False
    return True


def _may_fuse(e: Add | Sub) -> bool:
    """Whether an operand is a product, or one once its stage is inlined."""
    return any(
        isinstance(side, Mul)
        or (isinstance(side, ProducerLoad) and isinstance(side.producer.op, ComputeOp))
        for side in (e.a, e.b)
    )


def _narrows(e: Cast) -> bool:
    source, target = e.value.dtype, e.dtype
    if not target.is_float:
        return False
    if source.is_float:
        return unit_of(target) > unit_of(source)
    return unit_of(target) > 2.0 ** -(source.bits - (source.code == "int"))


def _adds_up(e: Reduce) -> bool:
    """Not a maximum or minimum, which rounds nothing."""
    kind = e.combiner.result[0]
    return e.source[e.value_index].dtype.is_float and not isinstance(kind, Max | Min)


def _is_arithmetic(e: Expr) -> bool:
    if not e.dtype.is_float:
        return False
    if isinstance(e, Call):
        return e.op != "if_then_else"
    return isinstance(e, BinaryExpr) and not isinstance(e, Max | Min | CompareExpr)
