"""Integer expressions as a constant plus multiples of sub-expressions."""

from __future__ import annotations

from collections.abc import Mapping

from autosched.tir.dtype import DType
from autosched.tir.expr import Add, Cast, Expr, IntImm, Mul, Sub
from autosched.tir.op import add, cast, mul, sub


def linear(e: Expr) -> tuple[int, dict[Expr, int]]:
    """The scalar integer `e` as a constant and the coefficients of sub-expressions (not sums).

    Widening casts are looked through: index arithmetic is taken not to overflow.
    """
    match e:
        case IntImm(v):
            return v, {}
        case Add(a, b):
            return combine(linear(a), linear(b), 1)
        case Sub(a, b):
            return combine(linear(a), linear(b), -1)
        case Mul(a, IntImm(factor)) | Mul(IntImm(factor), a):
            if factor == 0:
                return 0, {}
            base, terms = linear(a)
            return base * factor, {t: c * factor for t, c in terms.items()}
        case Cast(value=inner) if inner.dtype.is_int and inner.dtype.bits <= e.dtype.bits:
            return linear(inner)
    return 0, {e: 1}


def combine(
    a: tuple[int, dict[Expr, int]], b: tuple[int, dict[Expr, int]], times: int
) -> tuple[int, dict[Expr, int]]:
    """a + times * b of two results of `linear`."""
    terms = dict(a[1])
    for term, factor in b[1].items():
        total = terms.get(term, 0) + times * factor
        if total:
            terms[term] = total
        else:
            terms.pop(term, None)
    return a[0] + times * b[0], terms


def sum_of(terms: Mapping[Expr, int], constant: int, dtype: DType) -> Expr:
    """The expression `sum(factor * term) + constant` of type `dtype`, the reverse of `linear`."""
    total: Expr = IntImm(0, dtype)
    for term, factor in terms.items():
        if factor > 0:
            total = add(total, mul(cast(dtype, term), factor))
    if constant > 0:
        total = add(total, constant)
    for term, factor in terms.items():
        if factor < 0:
            total = sub(total, mul(cast(dtype, term), -factor))
    return sub(total, -constant) if constant < 0 else total
