"""Affine index expressions: a fast path around the Analyzer, which handles most bounds.

An expression is affine here when it is built from variables and constants by +, - and
multiplication by constants. Where nothing is known about the variables, the coefficients alone
give the same simplified form, and decide equality in the same way, as the Analyzer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autosched.arith import Analyzer
from autosched.tir.expr import Add, Expr, IntImm, Mul, Sub, Var
from autosched.tir.op import add, const, mul, sub

Form = tuple[dict[Var, int], int]
"""The coefficient of each variable, in order of first appearance, and the constant term."""


def affine_form(e: Expr) -> Form | None:
    """The coefficients and the constant term of `e`; None when `e` is not affine."""
    terms: dict[Var, int] = {}
    base = _collect(e, 1, terms)
    return None if base is None else (terms, base)


def _collect(e: Expr, scale: int, terms: dict[Var, int]) -> int | None:
    """Add `scale` times the coefficients of `e` to `terms`; return `scale` times its constant.

    None when `e` is not affine.
    """
    handler = _HANDLERS.get(e.__class__)
    return None if handler is None else handler(e, scale, terms)


def _constant(e: Any, scale: int, terms: dict[Var, int]) -> int | None:
    value: int = e.value
    return value * scale


def _variable(e: Any, scale: int, terms: dict[Var, int]) -> int | None:
    terms[e] = terms.get(e, 0) + scale
    return 0


def _add(e: Any, scale: int, terms: dict[Var, int]) -> int | None:
    left = _collect(e.a, scale, terms)
    if left is None:
        return None
    right = _collect(e.b, scale, terms)
    return None if right is None else left + right


def _sub(e: Any, scale: int, terms: dict[Var, int]) -> int | None:
    left = _collect(e.a, scale, terms)
    if left is None:
        return None
    right = _collect(e.b, -scale, terms)
    return None if right is None else left + right


def _mul(e: Any, scale: int, terms: dict[Var, int]) -> int | None:
    if e.b.__class__ is IntImm:
        return _collect(e.a, scale * e.b.value, terms)
    if e.a.__class__ is IntImm:
        return _collect(e.b, scale * e.a.value, terms)
    return None


_HANDLERS: dict[type[Expr], Callable[[Any, int, dict[Var, int]], int | None]] = {
    IntImm: _constant,
    Var: _variable,
    Add: _add,
    Sub: _sub,
    Mul: _mul,
}


def simplify_affine(e: Expr) -> Expr | None:
    """`e` in canonical form, exactly as the Analyzer simplifies it.

    Terms are sorted by decreasing coefficient, ties in order of appearance. A positive constant
    stands before the subtracted terms, a negative one last. None when `e` is not an affine index,
    and when the result would begin with a minus: the Analyzer has another form for that.
    """
    if not e.dtype.is_index:
        return None
    form = affine_form(e)
    if form is None:
        return None
    terms, base = form
    if not terms:
        return const(base, e.dtype)
    ordered = sorted((t for t in terms.items() if t[1]), key=_falling)
    result: Expr | None = None
    if ordered and ordered[0][1] < 0 and base <= 0:
        return None  # the result would begin with a minus: leave it to the Analyzer
    for var, scale in ordered:
        if scale > 0:
            term = mul(var, scale)
            result = term if result is None else add(result, term)
    if base > 0:
        result = const(base, e.dtype) if result is None else add(result, base)
    if result is None:
        return const(base, e.dtype)
    for var, scale in ordered:
        if scale < 0:
            result = sub(result, mul(var, -scale))
    return sub(result, -base) if base < 0 else result


def _falling(term: tuple[Var, int]) -> int:
    return -term[1]


def equal_affine(a: Expr, b: Expr) -> bool | None:
    """Whether `a` equals `b` for all values of the variables; None when either is not affine."""
    left = affine_form(a)
    right = affine_form(b)
    if left is None or right is None:
        return None
    if left[1] != right[1]:
        return False
    ours, theirs = left[0], right[0]
    return all(ours.get(v, 0) == theirs.get(v, 0) for v in (*ours, *theirs))


class Unbound:
    """Memoized simplification and equality proofs without knowledge of the variables' domains.

    Ansor makes a new, empty Analyzer for each question; the answers are the same.
    """

    __slots__ = ("_analyzer", "_simplified")

    def __init__(self) -> None:
        self._analyzer = Analyzer(as_ansor=True)
        self._simplified: dict[Expr, Expr] = {}

    def simplify(self, e: Expr) -> Expr:
        """`e` as an Analyzer without variable domains simplifies it."""
        if e.__class__ is IntImm or e.__class__ is Var:
            return e
        found = self._simplified.get(e)
        if found is None:
            found = simplify_affine(e)
            if found is None:
                found = self._analyzer.simplify(e)
            self._simplified[e] = found
        return found

    def equal(self, a: Expr, b: Expr) -> bool:
        """True when `a` and `b` are provably equal."""
        if a is b:
            return True
        if isinstance(b, IntImm):
            found = self.simplify(a)
            return isinstance(found, IntImm) and found.value == b.value
        decided = equal_affine(a, b)
        return self._analyzer.can_prove_equal(a, b) if decided is None else decided
