"""Find values that are sure to be zero unless an index has a certain remainder.

P[h] = if_then_else((h - 1) % 2 == 0, X[(h - 1) // 2], 0)    zero unless (h + 1) % 2 == 0
Y[i] = Y[i] + P[i + r] * K[r]                                adds zero unless (i + r + 1) % 2 == 0
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from autosched.arith.facts import conjuncts_of
from autosched.tir.data import is_data
from autosched.tir.expr import (
    EQ,
    Add,
    BufferLoad,
    Call,
    Cast,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    Select,
    Var,
)
from autosched.tir.function import PrimFunc
from autosched.tir.linear import combine, linear, sum_of
from autosched.tir.stmt import BufferRealize, BufferStore
from autosched.tir.walk import stmts, unique_exprs


@dataclass(frozen=True, slots=True, eq=False)
class Residue:
    """The condition (sum(factor * term) + constant) % modulus == 0.

    All factors are between 1 and modulus - 1. `source` is the expression in the program that states
    it; without one, `known` is the buffer, by pointer, and the pattern that imply it.
    """

    modulus: int
    constant: int
    terms: Mapping[Expr, int]
    source: Expr | None = None
    known: tuple[Var, Pattern] | None = None


@dataclass(frozen=True, slots=True)
class Pattern:
    """A buffer's elements are zero unless (sum(factor * index) + constant) % modulus == 0.

    `factors` has one factor for each dimension.
    """

    modulus: int
    constant: int
    factors: tuple[int, ...]

    def at(self, data: Var, indices: Sequence[Expr]) -> Residue:
        """The residue without which the element of the buffer `data` at `indices` is zero."""
        total: tuple[int, dict[Expr, int]] = self.constant, {}
        for index, factor in zip(indices, self.factors, strict=True):
            if factor:
                total = combine(total, _remainder(index, self.modulus), factor)
        return _residue(self.modulus, total, known=(data, self))


def residues(condition: Expr) -> Iterator[Residue]:
    """The conjuncts of `condition` that ask for a remainder of a scalar index.

    Conjuncts on data are left out: sums and products of data wrap, which changes remainders.
    """
    for part in conjuncts_of(condition):
        if is_data(part):
            continue
        match part:
            case EQ(FloorMod(e, IntImm(modulus)), IntImm(wanted)) if modulus > 1:
                constant, terms = _remainder(e, modulus)
                yield _residue(modulus, (constant - wanted, terms), source=part)
            case EQ(FloorDiv(FloorMod(e, IntImm(whole)), IntImm(divisor)), IntImm(wanted)) if (
                divisor > 0 and whole > divisor and whole % divisor == 0
            ):  # as Simplify writes e // divisor % modulus
                modulus = whole // divisor
                constant, terms = _remainder(e // divisor, modulus)
                yield _residue(modulus, (constant - wanted, terms), source=part)


def zero_unless(e: Expr, patterns: Mapping[Var, Sequence[Pattern]]) -> Iterator[Residue]:
    """The residues without each of which `e` is zero, given the patterns of buffers.

    A product is zero if one factor is, whatever the others are (infinite, not a number).
    """
    match e:
        case Mul(a, b):
            yield from zero_unless(a, patterns)
            yield from zero_unless(b, patterns)
        case Cast(inner):
            yield from zero_unless(inner, patterns)
        case Select(condition, value, other) | Call("if_then_else", (condition, value, other)):
            if isinstance(other, IntImm | FloatImm) and other.value == 0:
                yield from residues(condition)
                yield from zero_unless(value, patterns)
        case BufferLoad(buffer, indices, None):
            for pattern in patterns.get(buffer.data, ()):
                yield pattern.at(buffer.data, indices)


def zero_steps(store: BufferStore, patterns: Mapping[Var, Sequence[Pattern]]) -> list[Residue]:
    """The residues without each of which `store` adds zero to its element; none if it is no sum."""
    value = store.value
    if not isinstance(value, Add):
        return []
    for own, term in ((value.a, value.b), (value.b, value.a)):
        if isinstance(own, BufferLoad) and own.buffer.data is store.buffer.data:
            return list(zero_unless(term, patterns))
    return []


def known_patterns(func: PrimFunc) -> dict[Var, tuple[Pattern, ...]]:
    """By pointer, the patterns of the buffers that `func` allocates and stores to at one place.

    Arguments are left out, because others see what is stored there. Buffers that are read through a
    view with another layout are left out, too.
    """
    arguments = {buffer.data for buffer in func.buffer_map.values()}
    made: set[Var] = set()
    stores: dict[Var, list[BufferStore]] = {}
    for s in stmts(func.body):
        if isinstance(s, BufferRealize) and s.buffer.data not in arguments:
            made.add(s.buffer.data)
        elif isinstance(s, BufferStore):
            stores.setdefault(s.buffer.data, []).append(s)
    found: dict[Var, tuple[Pattern, ...]] = {}
    for data in made:
        if len(stores.get(data, ())) == 1:
            patterns = tuple(p for _, p in stored_residues(stores[data][0]) if p is not None)
            if patterns:
                found[data] = patterns
    for e in unique_exprs(func.body) if found else ():
        if isinstance(e, Var) and e.dtype.is_handle:
            found.pop(e, None)
        elif isinstance(e, BufferLoad) and e.buffer.data in found:
            if not e.buffer.is_laid_out_as(stores[e.buffer.data][0].buffer):
                del found[e.buffer.data]
    return found


def stored_residues(store: BufferStore) -> list[tuple[Residue, Pattern | None]]:
    """The residues without which `store` stores zero, each with the buffer's pattern or None."""
    return [
        (residue, pattern_at(residue, store.indices)) for residue in zero_unless(store.value, {})
    ]


def pattern_at(residue: Residue, indices: Sequence[Expr]) -> Pattern | None:
    """The pattern that follows from `residue` of the element stored at `indices`.

    None if the residue depends on more than the indices.
    """
    modulus, left = residue.modulus, (residue.constant, dict(residue.terms))
    places = [_remainder(index, modulus) for index in indices]
    factors = [0] * len(indices)
    while left[1]:
        term, wanted = next(iter(left[1].items()))
        for k, place in enumerate(places):
            inverse = _inverse(place[1].get(term, 0), modulus)
            if inverse and not factors[k]:
                factors[k] = wanted * inverse % modulus
                reduced = _residue(modulus, combine(left, place, -factors[k]))
                left = reduced.constant, dict(reduced.terms)
                break
        else:
            return None
    return Pattern(modulus, left[0], tuple(factors)) if any(factors) else None


def _inverse(a: int, modulus: int) -> int:
    """The b with a * b % modulus == 1; 0 if there is none."""
    try:
        return pow(a, -1, modulus)
    except ValueError:
        return 0


def _remainder(e: Expr, modulus: int) -> tuple[int, dict[Expr, int]]:
    """`linear(e)` without the inner remainders that do not matter modulo `modulus`."""
    constant, terms = linear(e)
    total: tuple[int, dict[Expr, int]] = constant, {}
    for term, factor in terms.items():
        own: tuple[int, dict[Expr, int]] = 0, {term: 1}
        match term:
            case FloorMod(a, IntImm(whole)) if whole % modulus == 0:
                own = _remainder(a, modulus)
            case FloorDiv(a, IntImm(divisor)) if divisor > 0:
                own = _quotient(a, divisor)
        total = combine(total, own, factor)
    return total


def _quotient(e: Expr, divisor: int) -> tuple[int, dict[Expr, int]]:
    """`linear(e // divisor)` with the multiples of the divisor taken out of the division."""
    constant, terms = linear(e)
    whole = {term: f // divisor for term, f in terms.items() if f % divisor == 0}
    rest = {term: f for term, f in terms.items() if term not in whole}
    left = sum_of(rest, constant % divisor, e.dtype)
    return combine((constant // divisor, whole), linear(left // divisor), 1)


def _residue(
    modulus: int,
    total: tuple[int, dict[Expr, int]],
    source: Expr | None = None,
    known: tuple[Var, Pattern] | None = None,
) -> Residue:
    terms = {term: factor % modulus for term, factor in total[1].items() if factor % modulus}
    return Residue(modulus, total[0] % modulus, terms, source, known)
