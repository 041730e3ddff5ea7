"""Decomposes integer expressions into a constant plus multiples of sub-expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autosched.tir.data import is_data
from autosched.tir.dtype import DType
from autosched.tir.expr import Add, Cast, Expr, IntImm, Mul, Sub
from autosched.tir.op import add, cast, mul, sub


def linear(e: Expr) -> tuple[int, dict[Expr, int]]:
    """The scalar integer `e` as a constant and the coefficients of sub-expressions (not sums).

    Widening casts of indices are looked through, as index arithmetic is assumed not to overflow
    (data.py); casts of data and of narrower types are not. An `e` that is unsigned, or of fewer
    than 32 bits, is a single term.
    """
    if not e.dtype.is_index:
        return (e.value, {}) if isinstance(e, IntImm) else (0, {e: 1})
    terms: dict[Expr, int] = {}
    constant = _add_up(e, 1, terms)
    return _exactly(e) if constant is None else (constant, terms)


def _add_up(e: Any, factor: int, terms: dict[Expr, int]) -> int | None:
    """Add factor * e to `terms`; return the constant part, or None if a coefficient becomes 0."""
    cls = e.__class__
    if cls is IntImm:
        return e.value * factor  # type: ignore[no-any-return]
    if cls is Add or cls is Sub:
        left = _add_up(e.a, factor, terms)
        right = _add_up(e.b, factor if cls is Add else -factor, terms)
        return None if left is None or right is None else left + right
    if cls is Mul:
        if e.b.__class__ is IntImm and e.b.value:
            return _add_up(e.a, factor * e.b.value, terms)
        if IntImm in (e.a.__class__, e.b.__class__):
            return None
    elif cls is Cast and _widens(e):
        return _add_up(e.value, factor, terms)
    total = terms[e] = terms.get(e, 0) + factor
    return 0 if total else None


def _exactly(e: Expr) -> tuple[int, dict[Expr, int]]:
    """`linear` for sums in which terms cancel.

    A term that cancels and occurs again later is ordered by the later occurrence.
    """
    match e:
        case IntImm(v):
            return v, {}
        case Add(a, b):
            return combine(_exactly(a), _exactly(b), 1)
        case Sub(a, b):
            return combine(_exactly(a), _exactly(b), -1)
        case Mul(a, IntImm(factor)) | Mul(IntImm(factor), a):
            if factor == 0:
                return 0, {}
            base, terms = _exactly(a)
            return base * factor, {t: c * factor for t, c in terms.items()}
        case Cast(value=inner) if _widens(e):
            return _exactly(inner)
    return 0, {e: 1}


def _widens(e: Any) -> bool:
    """Whether the cast `e` is of an index that is not data, to a type at least as wide."""
    inner = e.value
    return inner.dtype.is_index and inner.dtype.bits <= e.dtype.bits and not is_data(inner)


def combine(
    a: tuple[int, dict[Expr, int]], b: tuple[int, dict[Expr, int]], times: int
) -> tuple[int, dict[Expr, int]]:
    """a + times * b, for two results of `linear`; terms that cancel are dropped."""
    terms = dict(a[1])
    for term, factor in b[1].items():
        total = terms.get(term, 0) + times * factor
        if total:
            terms[term] = total
        else:
            terms.pop(term, None)
    return a[0] + times * b[0], terms


def sum_of(terms: Mapping[Expr, int], constant: int, dtype: DType) -> Expr:
    """The expression `sum(factor * term) + constant` of type `dtype`, the inverse of `linear`."""
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
