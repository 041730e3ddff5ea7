"""Operands of a product that are computed inside of the sum, as tensors of an instruction's type.

    sum(max(int32(A[i, k]), 0) * int32(B[I[k], j]), axis=k)

reads A'[i, k] = uint8(max(int32(A[i, k]), 0)) and B'[k, j] = B[I[k], j]. No stage holds them:
packing computes their elements.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from autosched.arith.const_int_bound import Bound, eval_bound, holds
from autosched.te.operations.operation import ComputeOp
from autosched.tir.dtype import DType
from autosched.tir.expr import (
    Call,
    Cast,
    Expr,
    FloatImm,
    IntImm,
    IterKind,
    IterVar,
    Max,
    Min,
    ProducerLoad,
    Range,
    Select,
    Var,
)
from autosched.tir.op import cast
from autosched.tir.walk import free_vars, loads, rewrite_expr, substitute, uses

COMPUTED = "computed_operand"
"""The attribute of the operation that describes a computed operand; it is no stage."""

_WHOLE = {"float16": 1 << 11, "bfloat16": 1 << 8}
"""Up to this magnitude a float type holds all whole numbers."""


def computed(e: Expr, dtype: DType, axes: Mapping[Var, int]) -> ProducerLoad | None:
    """The operand `e` as a load of a computed tensor of type `dtype`.

    `axes` are the extents of the axes of the sum. None where `e` may have values that `dtype` does
    not hold, reads no tensor, or depends on other variables.
    """
    value = of_type(e, dtype, axes)
    if value is None or not free_vars(value) <= axes.keys():
        return None
    first = next(loads(value), None)
    if not isinstance(first, ProducerLoad):
        return None
    places = _places(value, axes)
    made = [
        IterVar(Range.of(IntImm(size)), Var(f"d{d}"), IterKind.DATA_PAR)
        for d, size in enumerate(places.values())
    ]
    table = {place: iv.var for place, iv in zip(places, made, strict=True)}
    body = rewrite_expr(value, table.get)
    op = ComputeOp(first.producer.name, made, [body], attrs={COMPUTED: True})
    return ProducerLoad(op.output(0), tuple(places))


def is_computed(load: ProducerLoad) -> bool:
    """Whether `load` reads what `computed` made."""
    return COMPUTED in load.producer.op.attrs


def element(load: ProducerLoad, indices: tuple[Expr, ...]) -> Expr:
    """The element at `indices` of the tensor that `load` reads; computed where no stage has it."""
    op = load.producer.op
    if not is_computed(load):
        found: Expr = load.producer[indices]
        return found
    return substitute(op.body[0], dict(zip((iv.var for iv in op.axis), indices, strict=True)))


def of_type(e: Expr, dtype: DType, axes: Mapping[Var, int]) -> Expr | None:
    """`e` in the type `dtype`; None where it may have values that `dtype` does not hold.

    `axes` are the extents of variables, which begin at 0.
    """
    bounds = {var: (0, extent - 1) for var, extent in axes.items()}
    if not _holds(dtype, e, bounds):
        return None
    while isinstance(e, Cast) and _holds(e.dtype, e.value, bounds):
        e = e.value
    return cast(dtype, e)


def _holds(dtype: DType, e: Expr, bounds: Mapping[Var, Bound]) -> bool:
    """Whether `dtype` holds every value of `e`."""
    if e.dtype.is_float and not dtype.is_float:
        return False
    if e.dtype is dtype or (e.dtype.is_float and e.dtype.bits < dtype.bits):
        # Steps of bfloat16 and of 8-bit floats are not rounded.
        return not e.dtype.is_storage_float or isinstance(e, ProducerLoad | Cast)
    if e.dtype.is_integral and _is_within(dtype, *eval_bound(e, bounds)):
        return True
    match e:
        case Cast(value) if e.dtype.is_float:
            parts: tuple[Expr, ...] = (value,)
        case FloatImm(value):
            return bool(dtype.numpy.type(value) == value)
        case Max(a, b) | Min(a, b) | Select(_, a, b):
            parts = (a, b)
        case Call("if_then_else", (_, a, b)):
            parts = (a, b)
        case Call("fabs", (a,)):
            parts = (a,)
        case _:
            return False
    return all(_holds(dtype, part, bounds) for part in parts)


def _is_within(dtype: DType, low: int, high: int) -> bool:
    """Whether `dtype` holds all whole numbers from `low` to `high`."""
    most = _WHOLE.get(dtype.name, 0)
    return -most <= low and high <= most if dtype.is_float else holds(dtype, low, high)


def _places(e: Expr, axes: Mapping[Var, int]) -> dict[Expr, int]:
    """The indices of a computed operand with their extents: variables, or sums of variables.

    A sum is an index, y + ky of a convolution, whose variables occur nowhere else and which has
    fewer values than they have together.
    """
    sums = _sums(e, axes)
    while True:
        places = dict.fromkeys(_outermost(e, sums))
        shared = [s for s in sums if any(s is not p and uses(p, free_vars(s)) for p in places)]
        if not shared:
            return {p: sums[p] if p in sums else axes[p] for p in places}  # type: ignore[index]
        sums = {s: size for s, size in sums.items() if s not in shared}


def _sums(e: Expr, axes: Mapping[Var, int]) -> dict[Expr, int]:
    """The indices in `e` that have fewer values than their variables together, and how many."""
    bounds = {var: (0, extent - 1) for var, extent in axes.items()}
    found: dict[Expr, int] = {}
    for load in loads(e):
        assert isinstance(load, ProducerLoad)
        for index, size in zip(load.indices, load.producer.shape, strict=True):
            low, high = eval_bound(index, bounds)
            held = size.value if isinstance(size, IntImm) else 0
            values = math.prod(axes[var] for var in free_vars(index))
            reads = next(loads(index), None) is not None
            if low >= 0 and high < min(held, values - 1) and free_vars(index) and not reads:
                found[index] = high + 1
    return found


def _outermost(e: Expr, sums: Mapping[Expr, int]) -> Iterator[Expr]:
    """The `sums` in `e`, and the variables outside of them, left to right."""
    if e in sums or isinstance(e, Var):
        yield e
        return
    for child in e.children():
        yield from _outermost(child, sums)
