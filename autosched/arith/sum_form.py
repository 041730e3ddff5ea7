"""The canonical form of integer expressions: sums of terms.

A sum is a constant base and a list of terms. A term is ((index % upper) // lower) * scale, where
index is an opaque expression and upper a multiple of lower or infinite. A flag says whether // and
% truncate toward zero instead of rounding down.
"""

from __future__ import annotations

from typing import NamedTuple

from autosched.arith.const_int_bound import (
    NEG_INF,
    POS_INF,
    Bound,
    BoundEvaluator,
    add_high,
    add_low,
    clip,
    scale_bound,
    truncdiv_int,
)
from autosched.tir.dtype import DType
from autosched.tir.expr import (
    Add,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    Mul,
    Sub,
    binary,
)
from autosched.tir.op import const
from autosched.tir.walk import free_vars

NO_UPPER = 1 << 80
"""The `upper` of a term without %."""


class Term(NamedTuple):
    """The term ((atom % upper) // lower) * scale; upper is NO_UPPER when there is no %.

    With `trunc`, // and % truncate toward zero. The index `atom` is never a constant: constants
    belong to the base of a `Sum`.
    """

    atom: Expr
    lower: int
    upper: int
    scale: int
    trunc: bool


class Sum(NamedTuple):
    """The sum terms[0] + terms[1] + ... + base."""

    terms: tuple[Term, ...]
    base: int


def representable(a: Sum, dtype: DType) -> bool:
    """True when every constant of the sum, and its negative, fits in the type."""
    largest = int(dtype.max_value)
    if not a.terms:
        return dtype.min_value <= a.base <= largest
    if not -largest <= a.base <= largest:
        return False
    for _, lower, upper, scale, _ in a.terms:
        if not -largest <= scale <= largest or lower > largest:
            return False
        if upper > largest and upper != NO_UPPER:
            return False
    return True


def opaque(index: Expr) -> Term:
    """The term that is just `index`."""
    return Term(index, 1, NO_UPPER, 1, False)


def lone(index: Expr) -> Sum:
    """The sum that is just `index`, which may be a constant."""
    return Sum((), index.value) if isinstance(index, IntImm) else Sum((opaque(index),), 0)


def insert_index(terms: list[Term], index: Expr, scale: int) -> None:
    """Add index * scale to the terms."""
    found = False
    for position, term in enumerate(terms):
        if term[0] is index:
            found = True
            if term[1] == 1 and term[2] == NO_UPPER:
                terms[position] = Term(index, 1, NO_UPPER, term[3] + scale, False)
                return
        elif found:
            terms.insert(position, Term(index, 1, NO_UPPER, scale, False))
            return
    terms.append(Term(index, 1, NO_UPPER, scale, False))


def insert_term(terms: list[Term], new: Term, factor: int) -> None:
    """Add `new` times `factor` to the terms.

    Terms of one index are adjacent, by decreasing `lower`; terms that differ only in scale are
    merged.
    """
    index, lower, upper, scale, trunc = new
    scale *= factor
    found = False
    for position, term in enumerate(terms):
        if term[0] is index:
            found = True
            if term[1] < lower:
                break
            if term[1] == lower and term[2] == upper and term[4] == trunc:
                terms[position] = Term(index, lower, upper, term[3] + scale, trunc)
                return
        elif found:
            break
    else:
        position = len(terms)
    terms.insert(position, Term(index, lower, upper, scale, trunc))


def merge_terms(terms: list[Term]) -> list[Term]:
    """`terms` with matching quotients and remainders joined: x//4*4 + x%4 becomes x.

    Terms with scale 0 are dropped.
    """
    terms = [t for t in terms if t[3]]
    i = 0
    while i < len(terms) - 1:
        j = i + 1
        while j < len(terms):
            a, b = terms[i], terms[j]
            if a[0] is not b[0] or a[2] < b[1]:
                break
            joined = _join(a, b)
            if joined is None:
                j += 1
                continue
            del terms[j]
            if joined[3]:
                terms[i] = joined
            else:
                del terms[i]
                j = i + 1
        i += 1
    return terms


def _join(a: Term, b: Term) -> Term | None:
    index, lower, upper, scale, trunc = a
    if lower == b.lower and upper == b.upper and trunc == b.trunc:
        return Term(index, lower, upper, scale + b.scale, trunc)
    if lower != b.upper or scale % b.scale or lower != scale // b.scale * b.lower:
        return None
    if trunc != b.trunc:
        return None
    trunc = trunc and (b.lower != 1 or upper != NO_UPPER)
    return Term(index, b.lower, upper, b.scale, trunc)


def _order(term: Term) -> tuple[int, int, int]:
    return -term[3], -term[1], -term[2]


def emit(terms: list[Term] | tuple[Term, ...], base: int, dtype: DType) -> Expr:
    """The expression of the sum, in canonical order."""
    if len(terms) > 1:
        terms = merge_terms(list(terms))
        terms.sort(key=_order)
    if base == 0 and len(terms) == 1 and terms[0][3] < -1:
        return _emit_term(terms[0], terms[0][3], dtype)  # emit i * -3, not 0 - i * 3
    result: Expr | None = None
    for term in terms:
        if term[3] > 0:
            part = _emit_term(term, term[3], dtype)
            result = part if result is None else binary(Add, result, part)
    if base > 0:
        constant = const(base, dtype)
        result = constant if result is None else binary(Add, result, constant)
    for term in terms:
        if term[3] < 0:
            part = _emit_term(term, -term[3], dtype)
            result = binary(Sub, IntImm(0, dtype) if result is None else result, part)
    if result is None:
        return const(base, dtype)
    return binary(Sub, result, const(-base, dtype)) if base < 0 else result


def _emit_term(term: Term, scale: int, dtype: DType) -> Expr:
    index, lower, upper, _, trunc = term
    if upper != NO_UPPER:
        index = binary(Mod if trunc else FloorMod, index, IntImm(upper, dtype))
    if lower != 1:
        index = binary(Div if trunc else FloorDiv, index, IntImm(lower, dtype))
    return index if scale == 1 else binary(Mul, index, IntImm(scale, dtype))


def term_bound(term: Term, bounds: BoundEvaluator) -> Bound:
    """The interval of a term's values."""
    index, lower, upper, scale, trunc = term
    low, high = bounds(index)
    if upper != NO_UPPER and not 0 <= low <= high < upper:
        if low >= 0:
            low, high = 0, min(high, upper - 1)
        elif trunc:
            low, high = max(low, 1 - upper), min(max(high, 0), upper - 1)
        else:
            low, high = 0, upper - 1
    if lower != 1:
        if trunc:
            low, high = truncdiv_int(low, lower), truncdiv_int(high, lower)
        else:
            low = low if low == NEG_INF else low // lower
            high = high if high == POS_INF else high // lower
    return (low, high) if scale == 1 else scale_bound((low, high), scale)


def sum_bound(
    terms: list[Term] | tuple[Term, ...], base: int, bounds: BoundEvaluator, dtype: DType
) -> Bound:
    """The interval of the sum's values."""
    low, high = _plain_bound(terms, base, bounds)
    if bounds.facts and terms and _concerned(terms, bounds):
        return _refined_bound(terms, base, (low, high), bounds, dtype)
    return low, high


def sum_in_range(
    terms: list[Term] | tuple[Term, ...],
    base: int,
    limit: int,
    bounds: BoundEvaluator,
    dtype: DType,
) -> bool:
    """True when the sum provably lies in [0, limit)."""
    low, high = _plain_bound(terms, base, bounds)
    if low >= 0 and high < limit:
        return True
    if not (bounds.facts and terms and _concerned(terms, bounds)):
        return False
    low, high = _refined_bound(terms, base, (low, high), bounds, dtype)
    return low >= 0 and high < limit


def _plain_bound(terms: list[Term] | tuple[Term, ...], base: int, bounds: BoundEvaluator) -> Bound:
    low = high = base
    below = above = False
    for term in terms:
        part = term_bound(term, bounds)
        if part[0] <= NEG_INF:
            below = True
        if part[1] >= POS_INF:
            above = True
        if below and above:
            return NEG_INF, POS_INF
        low, high = low + part[0], high + part[1]
    return (NEG_INF if below else clip(low)), (POS_INF if above else clip(high))


def _concerned(terms: list[Term] | tuple[Term, ...], bounds: BoundEvaluator) -> bool:
    """True when a fact of `bounds` mentions a variable of the sum."""
    variables = bounds.fact_vars
    return any(not variables.isdisjoint(free_vars(term[0])) for term in terms)


def _refined_bound(
    terms: list[Term] | tuple[Term, ...],
    base: int,
    bound: Bound,
    bounds: BoundEvaluator,
    dtype: DType,
) -> Bound:
    """`bound` intersected with the facts about the sum and about partial sums."""
    low, high = bound
    plain = Sum(tuple(terms), 0)
    if representable(plain, dtype) and not bounds.wraps(total := emit(terms, 0, dtype)):
        part = bounds(total)
        low, high = max(low, add_low(part[0], base)), min(high, add_high(part[1], base))
    for fact in bounds.linear:
        known = _bound_by(fact, terms, bounds)
        if known is not None:
            low, high = max(low, add_low(known[0], base)), min(high, add_high(known[1], base))
    return low, high


class LinearFact(NamedTuple):
    """The fact that the sum of `terms` lies in [low, high].

    With `multiples` it also bounds multiples of the sum.
    """

    terms: tuple[Term, ...]
    low: int
    high: int
    multiples: bool = True


def _bound_by(
    fact: LinearFact, terms: list[Term] | tuple[Term, ...], bounds: BoundEvaluator
) -> Bound | None:
    """The bound of the sum if it contains a multiple of the fact's sum, else None."""
    rest = list(terms)
    factor = 0
    for known in fact.terms:
        same = (t for t in rest if t[0] is known[0] and t[1:3] == known[1:3] and t[4] == known[4])
        term = next(same, None)
        if term is None:
            return None
        if factor == 0:
            factor = term[3] // known[3]
        if factor == 0 or term[3] != factor * known[3]:
            return None
        rest.remove(term)
    if factor != 1 and not fact.multiples:
        return None
    low, high = scale_bound((fact.low, fact.high), factor)
    for term in rest:
        part = term_bound(term, bounds)
        low, high = add_low(low, part[0]), add_high(high, part[1])
    return low, high
