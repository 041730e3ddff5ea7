"""Residue analysis: the residue class {coeff * q + base : q any integer} of an expression.

coeff 0 means the single value base; coeff 1 means nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import gcd
from typing import Any, NamedTuple

from autosched.tir.data import is_data
from autosched.tir.expr import (
    Add,
    Call,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Select,
    SizeVar,
    Sub,
    Var,
)


class ModularSet(NamedTuple):
    """The values coeff * q + base for all integers q.

    Either 0 <= base < coeff, or coeff is 0 and base the only value.
    """

    coeff: int
    base: int


ANYTHING = ModularSet(1, 0)


def residues(coeff: int, base: int) -> ModularSet:
    """The normalised set of the values coeff * q + base."""
    coeff = abs(coeff)
    return ModularSet(coeff, base % coeff if coeff else base)


def union(a: ModularSet, b: ModularSet) -> ModularSet:
    """The smallest set that contains both."""
    return residues(gcd(a.coeff, b.coeff, a.base - b.base), a.base)


class ModularEvaluator:
    """Computes the modular sets of expressions from those of the variables in `env`."""

    __slots__ = ("env", "memo")

    def __init__(self, env: Mapping[Var, ModularSet]) -> None:
        self.env = env
        self.memo: dict[Expr, ModularSet] = {}

    def __call__(self, e: Expr) -> ModularSet:
        """The modular set of `e`; all integers where nothing is known."""
        rule = _RULES.get(e.__class__)
        if rule is None or not e.dtype.is_integral:
            return ANYTHING
        found = self.memo.get(e)
        if found is None:
            found = self.memo[e] = rule(self, e)
        return found


def _const(ev: ModularEvaluator, e: Any) -> ModularSet:
    return ModularSet(0, e.value)


def _var(ev: ModularEvaluator, e: Any) -> ModularSet:
    return ev.env.get(e, ANYTHING)


def _of_type(e: Any, coeff: int, base: int) -> ModularSet:
    """The set coeff * q + base of exact results of `e`, weakened where they may wrap.

    Wrapping keeps residues modulo powers of two up to the size of the type only.
    """
    if is_data(e) or not e.dtype.is_index:
        coeff = gcd(coeff, 1 << e.dtype.bits)
    return residues(coeff, base)


def _add(ev: ModularEvaluator, e: Any) -> ModularSet:
    a, b = ev(e.a), ev(e.b)
    return _of_type(e, gcd(a.coeff, b.coeff), a.base + b.base)


def _sub(ev: ModularEvaluator, e: Any) -> ModularSet:
    a, b = ev(e.a), ev(e.b)
    return _of_type(e, gcd(a.coeff, b.coeff), a.base - b.base)


def _mul(ev: ModularEvaluator, e: Any) -> ModularSet:
    a, b = ev(e.a), ev(e.b)
    coeff = gcd(a.coeff * b.coeff, a.coeff * b.base, a.base * b.coeff)
    return _of_type(e, coeff, a.base * b.base)


def _floordiv(ev: ModularEvaluator, e: Any) -> ModularSet:
    a, b = ev(e.a), ev(e.b)
    if b.coeff == 0 and b.base != 0 and a.coeff % b.base == 0:
        return _of_type(e, a.coeff // b.base, a.base // b.base)
    return ANYTHING


def _floormod(ev: ModularEvaluator, e: Any) -> ModularSet:
    a, b = ev(e.a), ev(e.b)
    if b.coeff != 0 or b.base == 0:
        return ANYTHING
    if a.coeff % b.base == 0:
        return ModularSet(0, a.base % b.base)
    return residues(gcd(a.coeff, b.base), a.base)


def _truncdiv(ev: ModularEvaluator, e: Any) -> ModularSet:
    a, b = ev(e.a), ev(e.b)
    # Only where every value is divisible does rounding toward zero make no difference.
    if b.coeff == 0 and b.base != 0 and a.coeff % b.base == 0 and a.base % b.base == 0:
        return _of_type(e, a.coeff // b.base, a.base // b.base)
    return ANYTHING


def _truncmod(ev: ModularEvaluator, e: Any) -> ModularSet:
    a, b = ev(e.a), ev(e.b)
    if b.coeff != 0 or b.base == 0:
        return ANYTHING
    return residues(gcd(a.coeff, b.base), a.base) if a.coeff else ANYTHING


def _either(ev: ModularEvaluator, e: Any) -> ModularSet:
    return union(ev(e.a), ev(e.b))


def _select(ev: ModularEvaluator, e: Any) -> ModularSet:
    return union(ev(e.true_value), ev(e.false_value))


def _cast(ev: ModularEvaluator, e: Any) -> ModularSet:
    source, target = e.value.dtype, e.dtype
    if source.code == target.code and target.bits >= source.bits and not target.is_bool:
        return ev(e.value)
    return ANYTHING


def _call(ev: ModularEvaluator, e: Any) -> ModularSet:
    """The set of x ^ y, by the low bits that are zero in both operands; else all integers."""
    if e.op != "bitwise_xor":
        return ANYTHING
    a, b = ev(e.args[0]), ev(e.args[1])
    return residues(_power_of_two(gcd(a.coeff, a.base, b.coeff, b.base)), 0)


def _power_of_two(n: int) -> int:
    """The largest power of two that divides `n`, at most 2^62; 1 for 0."""
    return min(n & -n, 1 << 62) or 1


_RULES: dict[type[Expr], Callable[[ModularEvaluator, Any], ModularSet]] = {
    IntImm: _const,
    Var: _var,
    SizeVar: _var,
    Add: _add,
    Sub: _sub,
    Mul: _mul,
    FloorDiv: _floordiv,
    FloorMod: _floormod,
    Div: _truncdiv,
    Mod: _truncmod,
    Min: _either,
    Max: _either,
    Select: _select,
    Cast: _cast,
    Call: _call,
}
