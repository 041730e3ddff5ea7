"""Find values that matter only where an inequality between indices holds.

E[i, j] = if_then_else(j <= i, exp(S[i, j]), 0)          E is zero unless j - i <= 0
A[i, f] = A[i, f] + E[i, j] * V[j, f]                    adds zero unless j - i <= 0
m[i] = max(m[i], if_then_else(j <= i, S[i, j], least))   S is not read unless j - i <= 0
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autosched.arith.const_int_bound import eval_bound
from autosched.arith.facts import conjuncts_of
from autosched.tir.buffer import Buffer
from autosched.tir.data import is_data
from autosched.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    Add,
    BufferLoad,
    Call,
    Cast,
    Expr,
    FloatImm,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Select,
    Var,
)
from autosched.tir.function import PrimFunc
from autosched.tir.linear import combine, linear
from autosched.tir.stmt import BufferRealize, BufferStore, IfThenElse, Stmt
from autosched.tir.walk import child_stmts, direct_exprs, free_vars, stmts, unique_exprs

Linear = tuple[int, dict[Expr, int]]


@dataclass(frozen=True, slots=True)
class Inequality:
    """The condition sum(factor * term) + constant <= 0."""

    constant: int
    terms: Mapping[Expr, int]


@dataclass(frozen=True, slots=True)
class Triangle:
    """The elements of a buffer with sum(factor * index) + constant <= 0."""

    constant: int
    factors: tuple[int, ...]

    def at(self, indices: Sequence[Expr]) -> Inequality:
        """The inequality that says that the element at `indices` is one of these."""
        total: Linear = self.constant, {}
        for index, factor in zip(indices, self.factors, strict=True):
            if factor:
                total = combine(total, linear(index), factor)
        return Inequality(*total)


Triangles = Mapping[Var, Sequence[Triangle]]
"""By pointer of a buffer, the triangles each of which has all elements that count."""


Ranges = Mapping[Var, tuple[int, int]]
"""The least and largest value of variables."""

_POINTS = 256
_STEPS = tuple(n**0.5 for n in (2, 3, 5, 7, 11, 13, 17, 19))
"""Multiples of roots of primes modulo 1 are spread evenly, and independent of one another."""


def inequalities(condition: Expr) -> Iterator[Inequality]:
    """The conjuncts of `condition` that are inequalities between indices; data is left out."""
    for part in conjuncts_of(condition):
        if is_data(part):
            continue
        match part:
            case LE(a, b) | GE(b, a) if a.dtype.is_index:
                yield from _at_most(a, b, 0)
            case LT(a, b) | GT(b, a) if a.dtype.is_index:
                yield from _at_most(a, b, 1)


def _at_most(a: Expr, b: Expr, more: int) -> Iterator[Inequality]:
    """Yield what follows from a + more <= b; of a maximum each operand is at most `b`."""
    if isinstance(a, Max):
        yield from _at_most(a.a, b, more)
        yield from _at_most(a.b, b, more)
    elif isinstance(b, Min):
        yield from _at_most(a, b.a, more)
        yield from _at_most(a, b.b, more)
    else:
        constant, terms = combine(linear(a), linear(b), -1)
        yield Inequality(constant + more, terms)


def range_of(term: Expr, ranges: Ranges) -> tuple[int, int] | None:
    """The least and largest value of an expression of the variables; None if they are unknown."""
    if not free_vars(term) <= ranges.keys():
        return None
    return eval_bound(term, ranges)


def share_kept(needed: Sequence[Inequality], ranges: Ranges) -> float:
    """The share of the values of the variables for which all inequalities hold, about.

    1 where a range is unknown, or there are too many variables.
    """
    terms = list(dict.fromkeys(term for n in needed for term in n.terms))
    spans = [range_of(term, ranges) for term in terms]
    if len(terms) > len(_STEPS):
        return 1
    kept = 0
    for k in range(_POINTS):
        values: dict[Expr, int] = {}
        for term, span, step in zip(terms, spans, _STEPS, strict=False):
            if span is None:
                return 1
            values[term] = span[0] + int((k * step + 0.5) % 1 * (span[1] - span[0] + 1))
        kept += all(
            n.constant + sum(factor * values[term] for term, factor in n.terms.items()) <= 0
            for n in needed
        )
    return kept / _POINTS


def numbers_unless(e: Expr) -> list[Inequality]:
    """The inequalities without each of which the choice `e` is a number."""
    match e:
        case Select(condition, a, b) | Call("if_then_else", (condition, a, b)):
            if isinstance(b, IntImm | FloatImm):
                return list(inequalities(condition))
            if isinstance(a, IntImm | FloatImm):
                return list(inequalities(Not(condition)))
        case Cast(condition) if condition.dtype.is_bool:
            return list(inequalities(condition))
    return []


def value_unless(e: Expr, value: float, zeros: Triangles) -> Iterator[Inequality]:
    """The inequalities without each of which `e` is the number `value`.

    A product is zero if one factor is, whatever the others are (infinite, not a number).
    """
    match e:
        case Mul(a, b) if value == 0:
            yield from value_unless(a, value, zeros)
            yield from value_unless(b, value, zeros)
        case Cast(inner) if value == 0:
            yield from inequalities(inner) if inner.dtype.is_bool else value_unless(inner, 0, zeros)
        case Select(condition, a, b) | Call("if_then_else", (condition, a, b)):
            if _is(b, value):
                yield from inequalities(condition)
                yield from value_unless(a, value, zeros)
            elif _is(a, value):
                yield from inequalities(Not(condition))
                yield from value_unless(b, value, zeros)
        case BufferLoad(buffer, indices, None) if value == 0:
            for triangle in zeros.get(buffer.data, ()):
                yield triangle.at(indices)


def _is(e: Expr, value: float) -> bool:
    return isinstance(e, IntImm | FloatImm) and e.value == value


def changing_steps(store: BufferStore, zeros: Triangles) -> list[Inequality]:
    """The inequalities without each of which `store` leaves its element as it is.

    These are steps of a sum that add zero, of a product that multiply by one, and of a maximum or
    minimum with the least or largest number of the type, which it begins with.
    """
    value = store.value
    if not isinstance(value, Add | Mul | Max | Min):
        return []
    for own, term in ((value.a, value.b), (value.b, value.a)):
        if isinstance(own, BufferLoad) and own.buffer.data is store.buffer.data:
            if own.indices == store.indices and own.buffer.is_laid_out_as(store.buffer):
                return [
                    n for neutral in _neutral(value) for n in value_unless(term, neutral, zeros)
                ]
    return []


def _neutral(value: Add | Mul | Max | Min) -> tuple[float, ...]:
    """The numbers that leave an element as it is; a maximum begins with the least finite one."""
    if isinstance(value, Add | Mul):
        return (int(isinstance(value, Mul)),)
    if isinstance(value, Max):
        return value.dtype.min_value, -math.inf
    return value.dtype.max_value, math.inf


def triangle_of(needed: Inequality, indices: Sequence[Expr]) -> Triangle | None:
    """The triangle of a buffer that `needed` of the element at `indices` means.

    None if it depends on more than the indices.
    """
    left: Linear = needed.constant, dict(needed.terms)
    places = [linear(index) for index in indices]
    factors = [0] * len(indices)
    while left[1]:
        term, wanted = next(iter(left[1].items()))
        for k, place in enumerate(places):
            own = place[1].get(term, 0)
            if own and wanted % own == 0 and not factors[k]:
                factors[k] = wanted // own
                left = combine(left, place, -factors[k])
                break
        else:
            return None
    return Triangle(left[0], tuple(factors)) if any(factors) else None


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the buffers of a function: where they are zero, and where they are read."""

    zeros: Triangles
    reads: Triangles

    def needed(self, store: BufferStore) -> list[Inequality]:
        """The inequalities without each of which `store` need not run."""
        found = changing_steps(store, self.zeros)
        return found + [t.at(store.indices) for t in self.reads.get(store.buffer.data, ())]


def known_of(func: PrimFunc) -> Known:
    """What is known of the buffers that `func` allocates and always sees in the same layout."""
    own = _own_buffers(func)
    stores: dict[Var, list[BufferStore]] = {}
    for s in stmts(func.body):
        if isinstance(s, BufferStore) and s.buffer.data in own:
            stores.setdefault(s.buffer.data, []).append(s)
    zeros = {
        data: found
        for data, (store, *more) in stores.items()
        if not more
        and (
            found := [
                t for n in value_unless(store.value, 0, {}) if (t := triangle_of(n, store.indices))
            ]
        )
    }
    reads: dict[Var, tuple[Triangle, ...]] = {}
    while True:
        found_reads = _reads(func, own, reads)
        if found_reads == reads:
            return Known(zeros, reads)
        reads = found_reads


def _own_buffers(func: PrimFunc) -> dict[Var, Buffer]:
    arguments = {buffer.data for buffer in func.buffer_map.values()}
    own = {
        s.buffer.data: s.buffer
        for s in stmts(func.body)
        if isinstance(s, BufferRealize) and s.buffer.data not in arguments
    }
    for e in unique_exprs(func.body):
        if isinstance(e, Var) and e.dtype.is_handle:
            own.pop(e, None)
        elif isinstance(e, BufferLoad) and e.buffer.data in own:
            if not e.buffer.is_laid_out_as(own[e.buffer.data]):
                del own[e.buffer.data]
    return own


def _reads(
    func: PrimFunc, own: Mapping[Var, Buffer], reads: Triangles
) -> dict[Var, tuple[Triangle, ...]]:
    """The triangles that all reads of each buffer are in, where the element stored is in `reads`.

    What a store is needed for counts, but not that a step changes nothing: tiles also have steps
    that need not run, and these must find what they multiply by.
    """
    walk = _Reads(own, reads)
    walk.stmt(func.body, ())
    return {
        data: tuple(Triangle(constant, factors) for factors, constant in found.items())
        for data, found in walk.found.items()
        if found
    }


class _Reads:
    """One walk; `found` has the constant by the factors of the triangles of each buffer."""

    def __init__(self, own: Mapping[Var, Buffer], reads: Triangles) -> None:
        self._own = own
        self._known = reads
        self.found: dict[Var, dict[tuple[int, ...], int]] = {}

    def stmt(self, s: Stmt, conditions: Sequence[Inequality]) -> None:
        if isinstance(s, BufferStore):
            known = self._known.get(s.buffer.data, ())
            inside = (*conditions, *(t.at(s.indices) for t in known))
            for index in s.indices:
                self._expr(index, ())
            for e in _terms(s):
                self._expr(e, inside)
            return
        for e in direct_exprs(s):
            self._expr(e, ())
        if not isinstance(s, IfThenElse):
            for child in child_stmts(s):
                self.stmt(child, conditions)
            return
        self.stmt(s.then_case, (*conditions, *inequalities(s.condition)))
        if s.else_case is not None:
            self.stmt(s.else_case, conditions)

    def _expr(self, e: Expr, conditions: Sequence[Inequality]) -> None:
        match e:
            case Select(condition, a, b) | Call("if_then_else", (condition, a, b)):
                self._expr(condition, ())
                self._expr(a, (*conditions, *inequalities(condition)))
                self._expr(b, (*conditions, *inequalities(Not(condition))))
            case BufferLoad(buffer, indices):
                if buffer.data in self._own:
                    self._read(buffer.data, indices, conditions)
                for index in indices:  # nothing may be read at an index that was not computed
                    self._expr(index, ())
            case _:
                for child in e.children():
                    self._expr(child, conditions)

    def _read(self, data: Var, indices: Sequence[Expr], conditions: Sequence[Inequality]) -> None:
        triangles = [t for n in conditions if (t := triangle_of(n, indices))]
        now = {t.factors: t.constant for t in triangles}
        before = self.found.get(data, now)
        common = before.keys() & now.keys()
        self.found[data] = {factors: min(before[factors], now[factors]) for factors in common}


def _terms(store: BufferStore) -> Iterable[Expr]:
    """What a store computes with, but for the element that a reduction reads to change it."""
    value = store.value
    if not isinstance(value, Add | Mul | Max | Min):
        return (value,)
    return [
        e
        for e in (value.a, value.b)
        if not (
            isinstance(e, BufferLoad)
            and e.buffer.data is store.buffer.data
            and e.indices == store.indices
        )
    ]
