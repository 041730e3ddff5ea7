"""Recognises reductions as matrix products: which axes are rows, columns, sum terms and batches.

C[n, h, w, co] = sum(A[n, h + rh, w + rw, rc] * B[rh, rw, rc, co])

has rows (n, h, w), columns (co) and sums over (rh, rw, rc). It is one matrix product, whose operand
tiles are gathered when they are copied to shared memory (implicit GEMM).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autosched.te.intrin.instruction import Instruction
from autosched.te.intrin.nvidia import layouts
from autosched.te.intrin.operand import of_type
from autosched.te.operations.operation import ComputeOp
from autosched.te.operations.reduction import adds
from autosched.tir.constants import is_one, is_zero
from autosched.tir.dtype import DType
from autosched.tir.expr import (
    Cast,
    Expr,
    IntImm,
    IterVar,
    Mul,
    ProducerLoad,
    Reduce,
    Var,
)
from autosched.tir.linear import linear
from autosched.tir.op import add, const, floordiv, floormod, mul
from autosched.tir.walk import free_vars, loads

Axes = tuple[IterVar, ...]


@dataclass(frozen=True, slots=True, eq=False)
class MatrixView:
    """A reduction as C[batch, m, n] = sum over k of A[batch, m, k] * B[batch, k, n].

    `batch`, `m`, `n` and `k` are tuples of axes. `a` and `b` are the factors, before their cast to
    the type of the sum. `layout_a` ("mk" or "km") and `layout_b` ("kn" or "nk") are the layouts of
    the operands' copies in shared memory. If the instruction can load it, the last axis of the
    copy is the contiguous one of the source, and groups of `width_a`, `width_b` elements are
    contiguous in the source. Otherwise `turned_a`, `turned_b` say that the operand is transposed
    while it is copied; the widths are then the numbers of elements that are stored at once.
    """

    batch: Axes
    m: Axes
    n: Axes
    k: Axes
    a: Expr
    b: Expr
    layout_a: str
    layout_b: str
    width_a: int
    width_b: int
    turned_a: bool = False
    turned_b: bool = False

    def sizes(self) -> tuple[int, int, int]:
        """The number of rows, of columns, and of terms of a sum."""
        return total(self.m), total(self.n), total(self.k)


def matrix_view(op: object, it: Instruction) -> MatrixView | str:
    """`op` as a matrix product that `it` can compute; otherwise a text that says why it is not."""
    if not isinstance(op, ComputeOp) or len(op.body) != 1:
        return "it is no te.compute of one output"
    if any(not _is_sized(iv) for iv in op.root_iter_vars):
        return "its axes must run from 0 to constants"
    factors = _factors(op.body[0], it)
    if isinstance(factors, str):
        return factors
    a, b = factors
    if op.axis and op.axis[-1].var in free_vars(a) and op.axis[-1].var not in free_vars(b):
        a, b = b, a  # the contiguous axis of the result must be a column: an axis of B
    axes = {iv.var: total((iv,)) for iv in op.root_iter_vars}
    left, right = of_type(a, it.a.dtype, axes), of_type(b, it.b.dtype, axes)
    if left is None or right is None:
        side, operand = (a, it.a) if left is None else (b, it.b)
        return f"it multiplies {side.dtype}, the instruction {operand.dtype}"
    a, b = left, right
    first, second = set(free_vars(a)), set(free_vars(b))
    batch = tuple(iv for iv in op.axis if iv.var in first and iv.var in second)
    n = tuple(iv for iv in op.axis if iv.var not in first and iv.var in second)
    m = tuple(iv for iv in op.axis if iv not in batch and iv not in n)
    if not m or not n:
        return "each operand must have an axis of its own"
    if any(iv.var not in first and total((iv,)) > 1 for iv in m):
        return "an axis occurs in no operand"
    shared = first & second
    if any(iv.var not in shared and total((iv,)) > 1 for iv in op.reduce_axis):
        return "its sums must run over axes of both operands"
    k = op.reduce_axis
    rows_a, width_a = _last_axis(a, m, k)
    rows_b, width_b = _last_axis(b, n, k)
    known = layouts(it)
    layout_a, layout_b = "km" if rows_a else "mk", "kn" if rows_b else "nk"
    turned_a, turned_b = layout_a not in known, layout_b not in known
    if turned_a:
        layout_a, width_a = "mk", _word(a, k)
    if turned_b:
        layout_b, width_b = "nk", _word(b, k)
    sides = (a, b, layout_a, layout_b, width_a, width_b, turned_a, turned_b)
    return MatrixView(batch, m, n, k, *sides)


def total(axes: Sequence[IterVar]) -> int:
    """The product of the axes' extents, which are constants."""
    return math.prod(iv.dom.extent.value for iv in axes)  # type: ignore[union-attr]  # constants


def values_at(axes: Sequence[IterVar], flat: Expr) -> dict[Var, Expr]:
    """The values of the axes at the flat index `flat`, in row-major order (last axis fastest)."""
    found: dict[Var, Expr] = {}
    rest = flat
    for iv in reversed(axes[1:]):
        size = total((iv,))
        found[iv.var] = floormod(rest, size)
        rest = floordiv(rest, size)
    found[axes[0].var] = rest
    return found


def number_of(axes: Sequence[IterVar]) -> Expr:
    """The flat index of the axes' values, in row-major order; the inverse of `values_at`."""
    flat: Expr = const(0)
    for iv in axes:
        flat = add(mul(flat, total((iv,))), iv.var)
    return flat


def _is_sized(iv: IterVar) -> bool:
    dom = iv.dom
    return dom is not None and isinstance(dom.extent, IntImm) and is_zero(dom.min)


def _factors(body: Expr, it: Instruction) -> tuple[Expr, Expr] | str:
    """The two factors of a plain sum of products in the type of the instruction's result.

    A text that says why, when `body` is no such sum.
    """
    if not isinstance(body, Reduce) or len(body.source) != 1 or body.init:
        return "it is no plain sum"
    if not adds(body.combiner):
        return "it is no sum"
    if not is_one(body.condition):
        return "its sum has a condition"
    (product,) = body.source
    if not isinstance(product, Mul):
        return "it sums up no products"
    if product.dtype is not it.c.dtype:
        return f"it sums up {product.dtype}, the instruction {it.c.dtype}"
    sides = (_narrow(product.a), _narrow(product.b))
    if any(next(loads(side), None) is None for side in sides):
        return "a factor reads no tensor"
    return sides


def _narrow(e: Expr) -> Expr:
    """`e` without the casts around it that widen its type and keep its value."""
    while isinstance(e, Cast) and _widens(e.value.dtype, e.dtype):
        e = e.value
    return e


def _widens(source: DType, target: DType) -> bool:
    """Whether `target` has more bits than `source`, and all of its values."""
    if source.bits >= target.bits or source.is_float is not target.is_float:
        return False
    return source.is_float or source.min_value >= target.min_value


def _word(e: Expr, k: Axes) -> int:
    """The number of elements of `e` in 4 bytes, reduced to a divisor of the last extent of `k`."""
    return math.gcd(max(1, 4 // e.dtype.bytes), total(k[-1:]))


def _last_axis(e: Expr, own: Axes, k: Axes) -> tuple[bool, int]:
    """Whether the last axis of `own` is the contiguous one of the tensor that `e` reads.

    If it is not, the last axis of `k` is assumed to be. The second value is the number of elements
    along that axis that can be copied at once: they are contiguous and aligned in the source, a
    power of two of at most 16 bytes; 1 where that is not known.
    """
    load = next(loads(e))
    assert isinstance(load, ProducerLoad)
    start, terms = linear(load.indices[-1]) if load.indices else (0, {})
    size = load.producer.shape[-1] if load.indices else const(1)
    rows = terms.get(own[-1].var) == 1
    axis = own[-1] if rows else k[-1]
    if terms.get(axis.var) != 1 or not isinstance(size, IntImm):
        return rows, 1
    sizes = (start, size.value, total((axis,)), *(c for t, c in terms.items() if t is not axis.var))
    return rows, math.gcd(16 // e.dtype.bytes, *sizes)
