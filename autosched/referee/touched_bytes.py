"""The bytes of a buffer that a statement accesses, for given values of enumerated loops.

`S[k % 3 * 256 + threadIdx.x]` of float32 accesses the bytes 1024 to 2047 for k = 1: terms of
enumerated loops have values, other terms have bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import gcd
from typing import NamedTuple

import numpy as np

from autosched.arith import Analyzer
from autosched.arith.largest_value import is_chosen, largest_value
from autosched.tir.dtype import DType
from autosched.tir.expr import LT, Call, Expr, IntImm, Ramp, Range, Var
from autosched.tir.gpu import WARP
from autosched.tir.linear import linear, sum_of
from autosched.tir.op import sub
from autosched.tir.stmt import AttrStmt, For, Stmt
from autosched.tir.walk import free_vars, stmts
from autosched.transform.device.thread_access import Access, accesses_of
from autosched.transform.device.thread_index import LANE, evaluate

_SCOPES = ("shared", "shared.dyn")
_MOST = 1 << 40  # bytes; greater bounds count as unknown
_Bound = tuple[int, int]
_NOTHING_KNOWN: _Bound = -_MOST, _MOST

Values = Mapping[Var, int]


_Key = tuple[Access, frozenset[Var], tuple[Expr, ...]]


class Bytes(NamedTuple):
    """The bytes `low` to `high`, both included, of the memory at the pointer `data`."""

    data: Var
    low: int
    high: int

    def meets(self, other: Bytes) -> bool:
        """Whether the two have a byte in common."""
        return self.data is other.data and self.low <= other.high and other.low <= self.high


class TouchedBytes:
    """The accesses of a kernel's statements to memory shared by a block."""

    def __init__(self, kernel: Stmt) -> None:
        self._analyzer = Analyzer()
        self._analyzer.bind(LANE, Range.of(WARP))
        for s in stmts(kernel):
            if isinstance(s, AttrStmt) and s.key == "thread_extent":
                self._analyzer.bind(s.node.var, Range.of(s.value), override=True)
            elif isinstance(s, For):
                self._analyzer.bind(s.loop_var, Range(s.min, s.extent), override=True)
        self._accesses: dict[Stmt, list[Access]] = {}
        self._conditions: tuple[Expr, ...] = ()
        self._rest: dict[_Key, _Bound] = {}

    def of(self, s: Stmt, values: Values) -> list[Bytes]:
        """The bytes that `s` itself accesses, in order; `values` are those of enumerated loops."""
        return [self._bytes(access, values) for access in self._accesses_of(s)]

    @contextmanager
    def where(self, condition: Expr) -> Iterator[None]:
        """A context in which all accesses happen under `condition`."""
        outside = self._conditions
        self._conditions = *outside, condition
        try:
            with self._analyzer.constraint(condition):
                yield
        finally:
            self._conditions = outside

    def deciding(self, s: Stmt, counted: frozenset[Var]) -> Iterator[Expr]:
        """The index terms of `s` that depend only on the loops in `counted`."""
        for access in self._accesses_of(s):
            yield from _terms(access, counted)

    def _accesses_of(self, s: Stmt) -> list[Access]:
        found = self._accesses.get(s)
        if found is None:
            found = [a for scope in _SCOPES for a in accesses_of(s, scope, {})]
            self._accesses[s] = found
        return found

    def _bytes(self, access: Access, values: Values) -> Bytes:
        counted = frozenset(values)
        key = access, counted, self._conditions
        if key not in self._rest:
            self._rest[key] = self._rest_of(access, counted)
        low, high = self._rest[key]
        size = access.dtype.value_bytes
        if (low, high) == _NOTHING_KNOWN:
            return Bytes(access.data, low, high)
        env = {var: np.asarray(value, np.int64) for var, value in values.items()}
        for term, factor in _terms(access, counted).items():
            value = evaluate(term, env)
            if value is None:
                return Bytes(access.data, *_NOTHING_KNOWN)
            low, high = low + factor * int(value), high + factor * int(value)
        return Bytes(access.data, low * size, (high + 1) * size - 1)

    def _rest_of(self, access: Access, counted: frozenset[Var]) -> _Bound:
        """The bounds, in elements, of an index without the terms of `counted`."""
        if access.place is None:
            return _NOTHING_KNOWN
        base, beyond = _scalar(access.place.index)
        if base is None:
            return _NOTHING_KNOWN
        for span in access.place.inner:
            extent = Range(IntImm(span.low, span.var.dtype), IntImm(span.extent, span.var.dtype))
            self._analyzer.bind(span.var, extent, override=True)
        constant, terms = linear(base)
        rest = {t: factor for t, factor in terms.items() if t not in _terms(access, counted)}
        found = self._sum(constant, rest, base.dtype)
        return _NOTHING_KNOWN if found is None else (found[0], found[1] + beyond)

    def _sum(self, constant: int, terms: Mapping[Expr, int], dtype: DType) -> _Bound | None:
        """The least and the greatest value of `constant` plus `terms`; None where not known.

        Terms are bounded by themselves, and where some are minima or maxima also together.
        """
        low = high = constant
        ends: dict[Expr, int] = {}
        for term, factor in terms.items():
            bound = self._bound(term)
            if bound is None:
                return None
            low += min(factor * bound[0], factor * bound[1])
            ends[term] = max(factor * bound[0], factor * bound[1])
        high += sum(ends.values()) - self._cut(terms, ends)
        if any(map(is_chosen, terms)):
            total = sum_of(terms, constant, dtype)
            most, least = (largest_value(e, self._analyzer) for e in (total, sub(0, total)))
            high = high if most is None else min(high, most)
            low = low if least is None else max(low, -least)
        return low, high

    def _bound(self, e: Expr) -> _Bound | None:
        """The least and the greatest value; None where they are not known."""
        if isinstance(e, Call) and e.op in ("bitwise_xor", "bitwise_or"):
            return self._of_bits(e)
        low, high = self._analyzer.const_int_bound(e)
        constant, terms = linear(e)
        if e not in terms:
            found = self._sum(constant, terms, e.dtype)
            low, high = (low, high) if found is None else (max(low, found[0]), min(high, found[1]))
        return (low, high) if max(-low, high) < _MOST else None

    def _of_bits(self, e: Call) -> _Bound | None:
        """The bounds of a combination of bits: those above the shorter operand stay as they are."""
        bounds = [self._bound(part) for part in e.args]
        known = [bound[1] for bound in bounds if bound is not None and bound[0] >= 0]
        if len(known) < len(bounds):
            return None
        shorter, longer = sorted(known)
        bits = shorter.bit_length()
        sets = [self._analyzer.modular_set(part) for part in e.args]
        step = gcd(1 << bits, *(n for found in sets for n in (found.coeff, found.base)))
        return 0, ((longer >> bits) + 1 << bits) - (step & -step)

    def _cut(self, rest: Mapping[Expr, int], ends: Mapping[Expr, int]) -> int:
        """How far a condition lowers the greatest sum of all terms below the sum of `ends`.

        `a * 75 + b < 1750` limits `a * 600 + b * 8`, whatever else is added.
        """
        most = 0
        for condition in self._conditions:
            if not isinstance(condition, LT) or not isinstance(condition.b, IntImm):
                continue
            constant, terms = linear(condition.a)
            times = {divmod(rest.get(t, 0), factor) for t, factor in terms.items()}
            if len(times) != 1:
                continue
            ((factor, remainder),) = times
            if factor > 0 and not remainder:
                limit = factor * (condition.b.value - 1 - constant)
                most = max(most, sum(ends[t] for t in terms) - limit)
        return most


def _terms(access: Access, counted: frozenset[Var]) -> dict[Expr, int]:
    """The index terms that depend on enumerated loops and on nothing else, with their factors."""
    base = None if access.place is None else _scalar(access.place.index)[0]
    if base is None:
        return {}
    terms = linear(base)[1]
    return {t: factor for t, factor in terms.items() if free_vars(t) and free_vars(t) <= counted}


def _scalar(index: Expr) -> tuple[Expr | None, int]:
    """(first element of an index, number of elements behind it); (None, 0) for a gather."""
    if index.dtype.lanes == 1:
        return index, 0
    if isinstance(index, Ramp) and isinstance(index.stride, IntImm) and index.stride.value >= 0:
        return index.base, index.stride.value * (index.lanes - 1)
    return None, 0
