"""Quotients and remainders of sums by positive constants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosched.arith.sum_form import NO_UPPER, Sum, Term, emit, insert_term, lone
from autosched.tir.dtype import DType
from autosched.tir.expr import FloorMod, IntImm, Mod
from autosched.tir.op import floormod, truncmod

if TYPE_CHECKING:
    from autosched.arith.canonical import CanonicalSimplifier


def divide_sum(self: CanonicalSimplifier, a: Sum, c: int, dtype: DType, apart: bool) -> Sum:
    """a // c, rounded down; with `apart` the terms that c does not divide are one opaque index."""
    if c == 1:
        return a
    quotient, rest, base, rest_base = _separate(a, c)
    if not rest:
        return Sum(tuple(quotient), base + rest_base // c)
    if self.in_range(rest, rest_base, c, dtype):
        return Sum(tuple(quotient), base)
    one = lone(emit(rest, rest_base, dtype)) if apart else _one(self, rest, rest_base, dtype)
    if not one.terms:
        return Sum(tuple(quotient), base + one.base // c)
    return _plus(quotient, base, _divide_term(self, one.terms[0], c, dtype))


def remainder_of_sum(self: CanonicalSimplifier, a: Sum, c: int, dtype: DType) -> Sum:
    """a % c, which has the sign of c."""
    if c == 1:
        return Sum((), 0)
    _, rest, _, base = _separate(a, c)
    if not rest:
        return Sum((), base % c)
    if self.in_range(rest, base, c, dtype):
        return Sum(tuple(rest), base)
    if c < 1 << (dtype.bits - 2):
        base %= c  # for such a c the sum may still grow that much without wrapping (tir/data.py)
    one = _one(self, rest, base, dtype)
    if not one.terms:
        return Sum((), one.base % c)
    return _remainder_of_term(self, one.terms[0], c, dtype)


def truncated_quotient(self: CanonicalSimplifier, a: Sum, c: int, dtype: DType) -> Sum:
    """a / c, rounded toward zero."""
    if c == 1:
        return a
    quotient, rest, base, rest_base = _separate(a, c)
    if not rest and not rest_base:
        return Sum(tuple(quotient), base)
    if not quotient and not base and not rest:
        return Sum((), _truncdiv(rest_base, c))
    whole = [t._replace(scale=t.scale * c) for t in quotient]
    if _non_negative(self, whole, base * c, dtype) and _non_negative(self, rest, rest_base, dtype):
        if not rest:
            return Sum(tuple(quotient), base + rest_base // c)
        if self.in_range(rest, rest_base, c, dtype):
            return Sum(tuple(quotient), base)
        one = _one(self, rest, rest_base, dtype)
        if not one.terms:
            return Sum(tuple(quotient), base + one.base // c)
        return _plus(quotient, base, _divide_term(self, one.terms[0], c, dtype, True))
    one = _one(self, list(a.terms), a.base, dtype)
    if not one.terms:
        return Sum((), _truncdiv(one.base, c))
    return _divide_term(self, one.terms[0], c, dtype, True)


def truncated_remainder(self: CanonicalSimplifier, a: Sum, c: int, dtype: DType) -> Sum:
    """The remainder of a / c, which has the sign of a."""
    if c == 1:
        return Sum((), 0)
    quotient, rest, base, rest_base = _separate(a, c)
    if not rest and not rest_base:
        return Sum((), 0)
    if not a.terms:
        return Sum((), _truncmod(a.base, c))
    whole = [t._replace(scale=t.scale * c) for t in quotient]
    if _non_negative(self, whole, base * c, dtype) and _non_negative(self, rest, rest_base, dtype):
        if not rest:
            return Sum((), rest_base % c)
        if self.in_range(rest, rest_base, c, dtype):
            return Sum(tuple(rest), rest_base)
        one = _one(self, rest, rest_base, dtype)
    else:
        one = _one(self, list(a.terms), a.base, dtype)
    if not one.terms:
        return Sum((), _truncmod(one.base, c))
    return _remainder_of_term(self, one.terms[0], c, dtype, True)


def _truncdiv(a: int, c: int) -> int:
    return a // c if a >= 0 else -(-a // c)


def _truncmod(a: int, c: int) -> int:
    return a - _truncdiv(a, c) * c


def _separate(a: Sum, c: int) -> tuple[list[Term], list[Term], int, int]:
    """Split `a` in a part that `c` divides and the rest.

    Returns the terms that `c` divides, divided by it; the other terms; and for the base likewise
    (base // c, 0) or (0, base).
    """
    quotient: list[Term] = []
    rest: list[Term] = []
    for term in a.terms:
        if term[3] % c:
            rest.append(term)
        else:
            quotient.append(term._replace(scale=term[3] // c))
    if a.base % c:
        return quotient, rest, 0, a.base
    return quotient, rest, a.base // c, 0


def _non_negative(self: CanonicalSimplifier, terms: list[Term], base: int, dtype: DType) -> bool:
    return self.in_range(terms, base, NO_UPPER, dtype)


def _one(self: CanonicalSimplifier, terms: list[Term], base: int, dtype: DType) -> Sum:
    """The sum as a single term, or as a constant if its terms cancel.

    A sum of several terms becomes one opaque index: the sum's expression.
    """
    if len(terms) == 1 and base == 0:
        return _single(terms[0])
    index = emit(terms, base, dtype)
    inner = self.form(index)
    if not inner.terms or (len(inner.terms) == 1 and inner.base == 0):
        return inner
    return lone(index)


def _plus(terms: list[Term], base: int, more: Sum) -> Sum:
    for term in more.terms:
        insert_term(terms, term, 1)
    return Sum(tuple(terms), base + more.base)


def _single(term: Term) -> Sum:
    return Sum((term,), 0)


def _divide_term(
    self: CanonicalSimplifier, term: Term, c: int, dtype: DType, trunc: bool = False
) -> Sum:
    if self.in_range([term], 0, c, dtype):
        return Sum((), 0)
    index, lower, upper, scale, was_trunc = term
    if scale % c == 0:
        return _single(term._replace(scale=scale // c))
    plain = lower == 1 and upper == NO_UPPER
    if scale > 0 and c % scale == 0 and (plain or was_trunc == trunc):
        new = lower * (c // scale)
        if upper == NO_UPPER or upper % new == 0:
            return _single(Term(index, new, upper, 1, trunc))
        if upper <= new:
            return Sum((), 0)
        index = (Mod if trunc else FloorMod)(index, IntImm(upper, dtype))
        return _single(Term(index, new, NO_UPPER, 1, trunc))
    return _single(Term(emit((term,), 0, dtype), c, NO_UPPER, 1, trunc))


def _remainder_of_term(
    self: CanonicalSimplifier, term: Term, c: int, dtype: DType, trunc: bool = False
) -> Sum:
    if self.in_range([term], 0, c, dtype):
        return _single(term)
    index, lower, upper, scale, was_trunc = term
    if scale % c == 0:
        return Sum((), 0)
    plain = lower == 1 and upper == NO_UPPER
    if scale > 0 and c % scale == 0 and (plain or was_trunc == trunc):
        new = lower * (c // scale)
        if upper == NO_UPPER:
            return _single(Term(index, lower, new, scale, trunc))
        if upper % new == 0:
            if new == upper:
                return _single(term)
            return _narrowed(self, term, new, dtype, trunc)
        if new % upper == 0:
            return _single(term)
    return _single(Term(emit((term,), 0, dtype), 1, c, 1, trunc))


def _narrowed(self: CanonicalSimplifier, term: Term, upper: int, dtype: DType, trunc: bool) -> Sum:
    """The sum of `term` with the smaller `upper`, after simplifying index % upper."""
    modulus = IntImm(upper, dtype)
    inner = self.form((truncmod if trunc else floormod)(term.atom, modulus))
    if len(inner.terms) != 1 or inner.base != 0:
        if not inner.terms:
            value = Sum((), inner.base)
        else:
            value = lone(emit(inner.terms, inner.base, dtype))
    else:
        value = inner
    if term.lower != 1:
        if not value.terms:
            quotient = abs(value.base) // term.lower
            value = Sum((), quotient if value.base >= 0 else -quotient)
        else:
            value = _divide_term(self, value.terms[0], term.lower, dtype, trunc)
    scale = term.scale
    return Sum(tuple(t._replace(scale=t.scale * scale) for t in value.terms), value.base * scale)
