"""The canonical form of index expressions.

For int32 and int64 scalars, sums, products with constants, and quotients and remainders by
constants are brought into the form of `sum_form.py`. All other nodes are rewritten over canonical
children.

docs/semantics/arithmetic.md has the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from autosched.arith.canonical_divmod import (
    divide_sum,
    remainder_of_sum,
    truncated_quotient,
    truncated_remainder,
)
from autosched.arith.canonical_less import less_by_factor
from autosched.arith.const_int_bound import dtype_bound, leaves_type
from autosched.arith.modular_set import ModularSet
from autosched.arith.rewrite import RewriteSimplifier
from autosched.arith.rewrite_logic import negation, rewrite_less, rewrite_less_equal
from autosched.arith.sum_form import (
    NO_UPPER,
    Sum,
    Term,
    emit,
    insert_index,
    insert_term,
    lone,
    opaque,
    representable,
    sum_bound,
    sum_in_range,
    term_bound,
)
from autosched.tir.data import is_data
from autosched.tir.dtype import DType
from autosched.tir.expr import (
    LE,
    LT,
    Add,
    Broadcast,
    BufferLoad,
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    Mul,
    Ramp,
    SizeVar,
    Sub,
    Var,
    binary,
)
from autosched.tir.op import cast, mul

_HOLDERS = frozenset((BufferLoad, Broadcast, Ramp))
_PLAIN = frozenset((Add, Mul))  # nodes that no rule changes when they are floats
_LEAVES = frozenset((IntImm, FloatImm, Var))  # operands that need not be in `settled`
_AT_END = frozenset((Var, Mul, FloorDiv, FloorMod, Div, Mod))  # of a sum's last positive term


class CanonicalSimplifier(RewriteSimplifier):
    """Brings expressions into canonical form; `found.forms` memoizes the sums of expressions."""

    __slots__ = ()

    def gather(self, e: Any, factor: int, terms: list[Term]) -> int:
        """Add the terms of e * factor to `terms`; returns its constant part."""
        return (self._gather_data if is_data(e) else self._gather)(e, factor, terms)

    def _gather_data(self, e: Any, factor: int, terms: list[Term]) -> int:
        """`gather` for data, whose arithmetic may wrap: an operation that may is a single term."""
        cls = e.__class__
        if cls in (Add, Sub, Mul) and not leaves_type(self.analyzer.bounds, e):
            if cls is not Mul:
                sign = factor if cls is Add else -factor
                return self.gather(e.a, factor, terms) + self.gather(e.b, sign, terms)
            if e.b.__class__ is IntImm:
                return self.gather(e.a, factor * e.b.value, terms)
            if e.a.__class__ is IntImm:
                return self.gather(e.b, factor * e.a.value, terms)
        form = self.form(e)
        for term in form.terms:
            insert_term(terms, term, factor)
        return form.base * factor

    def _gather(self, e: Any, factor: int, terms: list[Term]) -> int:
        cls = e.__class__
        if cls is Add:
            return self._gather(e.a, factor, terms) + self._gather(e.b, factor, terms)
        if cls is IntImm:
            return e.value * factor  # type: ignore[no-any-return]
        if cls is Mul:
            if e.b.__class__ is IntImm:
                return self._gather(e.a, factor * e.b.value, terms)
            if e.a.__class__ is IntImm:
                return self._gather(e.b, factor * e.a.value, terms)
        elif cls is Var:
            value = self.analyzer.values.get(e)
            if value is not None:
                return self.gather(value, factor, terms)
            insert_index(terms, e, factor)
            return 0
        elif cls is Sub:
            return self._gather(e.a, factor, terms) + self._gather(e.b, -factor, terms)
        form = self.form(e)
        for term in form.terms:
            insert_term(terms, term, factor)
        return form.base * factor

    def form(self, e: Any) -> Sum:
        """The int32 or int64 scalar `e` as a Sum."""
        found = self.found.forms.get(e)
        if found is None:
            make = _FORMS.get(e.__class__)
            if make is None:
                found = _gathered(self, e)
            elif is_data(e) and leaves_type(self.analyzer.bounds, e):
                found = _kept(self, e)
            else:
                found = make(self, e)
                if not representable(found, e.dtype) or (is_data(e) and self._wraps(found, e)):
                    found = _kept(self, e)
            self.found.forms[e] = found
        return found

    def _wraps(self, found: Sum, e: Expr) -> bool:
        return self.analyzer.bounds.wraps(emit(*found, e.dtype))

    def in_range(self, terms: list[Term], base: int, limit: int, dtype: DType) -> bool:
        """True when the sum of `terms` and `base` provably lies in [0, limit)."""
        return sum_in_range(terms, base, limit, self.analyzer.bounds, dtype)

    def _index(self, e: Any) -> Expr:
        """A sum, product, division or cast: in canonical form if it is an index, else rewritten."""
        if not e.dtype.is_index:
            if e.__class__ is Cast:
                return self.children(e)
            return self._held(self._binary(e))
        if e.__class__ is Add and e.b.__class__ is IntImm and e.b.value > 0 and not is_data(e):
            rest = self.visit(e.a)
            if self._takes_constant(rest):
                result: Expr = e if rest is e.a else binary(Add, rest, e.b)
                self.found.memo[result] = result
                self.analyzer.settled.add(result)
                return result
        terms, base = self.form(e)
        result = emit(terms, base, e.dtype)
        if e.__class__ is Mul and result.__class__ is Sub and _is_negative(result):
            result = binary(Mul, result.b, IntImm(-1, e.dtype))  # keep i * -1, not 0 - i
        if _settled(terms, self.analyzer.moduli.env):
            # No rewrite rule changes such a sum: mark it settled to skip rewriting.
            self.found.memo[result] = result
            self.analyzer.settled.add(result)
        return result

    def _takes_constant(self, rest: Any) -> bool:
        """Whether `rest + c`, for canonical `rest` and constant c > 0, is canonical as it stands.

        A fast path: copies of a loop's body have many sums that differ only in their constants.
        """
        cls = rest.__class__
        if cls is Var:
            return True
        if cls is Mul and rest.b.__class__ is IntImm and rest.b.value < 0:
            return False  # the canonical order puts a negative term after the constant
        ends = rest.b.__class__ if cls is Add else cls
        return ends in _AT_END and rest in self.analyzer.settled

    def _holder(self, e: Any) -> Expr:
        """A BufferLoad, Broadcast or Ramp over canonical children."""
        return self._held(self._load(e) if e.__class__ is BufferLoad else self.children(e))

    def _held(self, e: Any) -> Expr:
        """`e`, marked settled if its operands are and no rule changes nodes of its class."""
        cls, settled = e.__class__, self.analyzer.settled
        if cls in _HOLDERS or (cls in _PLAIN and e.dtype.is_float):
            for part in e.children():
                if part.__class__ not in _LEAVES and part not in settled:
                    break
            else:
                if cls is not BufferLoad or e.predicate is None:
                    self.found.memo[e] = e
                    settled.add(e)
        return e  # type: ignore[no-any-return]

    def _less_canonical(self, e: Any) -> Expr:
        if e.a.dtype.is_index:
            result = less_by_factor(self, e)
            if result is not None:
                return result
        return rewrite_less(self, e)

    def _less_equal_canonical(self, e: Any) -> Expr:
        if self.analyzer.as_ansor and e.a.dtype.is_index and e not in self.analyzer.literals:
            return negation(self, rewrite_less(self, LT(e.b, e.a)))
        return rewrite_less_equal(self, e)

    handlers: ClassVar[dict[type[Expr], Callable[[Any, Any], Expr]]] = {
        **RewriteSimplifier.handlers,
        **dict.fromkeys((Add, Sub, Mul, FloorDiv, FloorMod, Div, Mod, Cast), _index),
        **dict.fromkeys((BufferLoad, Broadcast, Ramp), _holder),
        LT: _less_canonical,
        LE: _less_equal_canonical,
    }


def _is_negative(e: Any) -> bool:
    """True when the difference `e` is 0 - x."""
    return e.a.__class__ is IntImm and e.a.value == 0


def _settled(terms: tuple[Term, ...], residues: Mapping[Var, ModularSet]) -> bool:
    """True for a sum of different variables, each at most divided by constants.

    A remainder must round down and be of a variable with unknown residues.
    """
    seen: set[Expr] = set()
    for atom, _, upper, _, trunc in terms:
        if atom.__class__ is not Var or atom in seen:
            return False
        if upper != NO_UPPER and (trunc or atom in residues):
            return False
        seen.add(atom)
    return True


def _gathered(self: CanonicalSimplifier, e: Expr) -> Sum:
    """The sum of a node that is not arithmetic: the simplified node as a single term."""
    result = self.visit(e)
    if result.__class__ in _FORMS or result.__class__ is IntImm or result.__class__ is Var:
        return self.form(result) if result is not e else lone(e)
    return lone(result)


def _kept(self: CanonicalSimplifier, e: Any) -> Sum:
    """The sum of arithmetic that its type may not hold as a sum: the node as a single term.

    The operands of the node are made canonical.
    """
    if e.__class__ is IntImm or e.__class__ is Var:
        return lone(e)
    result = self.children(e)
    if result.__class__ is e.__class__ and result.__class__ is not Cast:
        result = self.apply(result)
    if result.__class__ is IntImm or result.__class__ is Var:
        return self.form(result)
    return lone(result)


def _linear(self: CanonicalSimplifier, e: Expr) -> Sum:
    terms: list[Term] = []
    base = self.gather(e, 1, terms)
    return Sum(tuple(terms), base)


def _variable(self: CanonicalSimplifier, e: Any) -> Sum:
    value = self.analyzer.values.get(e)
    return Sum((opaque(e),), 0) if value is None else self.form(value)


def _product(self: CanonicalSimplifier, e: Any) -> Sum:
    """The sum of a product.

    A constant factor scales the terms of the other factor. Otherwise the product is one term, of
    the factors from left to right, scaled by the product of their constants.
    """
    a, b = self.form(e.a), self.form(e.b)
    if not a.terms or not b.terms:
        value, factor = (b, a.base) if not a.terms else (a, b.base)
        if factor == 0:
            return Sum((), 0)
        return Sum(
            tuple(t._replace(scale=t.scale * factor) for t in value.terms), value.base * factor
        )
    factors: list[Expr] = []
    scale = 1
    stack = [emit(b.terms, b.base, e.dtype), emit(a.terms, a.base, e.dtype)]
    if stack[0].__class__ is IntImm or stack[1].__class__ is IntImm:
        return self.form(mul(stack[1], stack[0]))  # the terms of a factor cancelled out
    while stack:
        part: Any = stack.pop()
        if part.__class__ is Mul:
            stack += (part.b, part.a)
        elif part.__class__ is IntImm:
            scale *= part.value
        else:
            factors.append(part)
    product = factors[0]  # exists: neither factor is a constant
    for factor_expr in factors[1:]:
        product = mul(product, factor_expr)
    product = self.apply(product) if product.__class__ is Mul else product
    terms, base = lone(product)
    return Sum(tuple(t._replace(scale=scale) for t in terms), base * scale)


def _divisor(self: CanonicalSimplifier, e: Any) -> int | None:
    """The divisor of the division `e` if it is a positive constant, else None."""
    b = e.b if e.b.__class__ is IntImm else self.visit(e.b)
    return b.value if b.__class__ is IntImm and b.value > 0 else None


def _symbolic(self: CanonicalSimplifier, e: Any) -> Sum:
    """The sum of a division whose divisor is not a positive constant."""
    result = self._binary(e)
    return lone(result) if result.__class__ is e.__class__ else self.form(result)


def _floordiv(self: CanonicalSimplifier, e: Any) -> Sum:
    divisor = _divisor(self, e)
    if divisor is None:
        return _symbolic(self, e)
    apart = self.analyzer.as_ansor and _is_sum(e.a)
    return divide_sum(self, self.form(e.a), divisor, e.dtype, apart)


def _is_sum(e: Any) -> bool:
    """True for sums and differences, and for products and quotients of them.

    A remainder is not one.
    """
    cls = e.__class__
    while cls is FloorDiv or cls is Mul:
        e = e.a
        cls = e.__class__
    return cls is Add or cls is Sub


def _floormod(self: CanonicalSimplifier, e: Any) -> Sum:
    divisor = _divisor(self, e)
    if divisor is None:
        return _symbolic(self, e)
    return remainder_of_sum(self, self.form(e.a), divisor, e.dtype)


def _truncdiv(self: CanonicalSimplifier, e: Any) -> Sum:
    divisor = _divisor(self, e)
    if divisor is None:
        return _symbolic(self, e)
    return truncated_quotient(self, self.form(e.a), divisor, e.dtype)


def _truncmod(self: CanonicalSimplifier, e: Any) -> Sum:
    divisor = _divisor(self, e)
    if divisor is None:
        return _symbolic(self, e)
    return truncated_remainder(self, self.form(e.a), divisor, e.dtype)


def _cast(self: CanonicalSimplifier, e: Any) -> Sum:
    """The sum of a cast: the casts of the terms, if all values fit in the target type.

    Otherwise the cast is a single term.
    """
    source, target = e.value.dtype, e.dtype
    if not source.is_index:
        return lone(self.children(e))
    inner = self.form(e.value)
    if target.bits < source.bits and not _fits(self, inner, source, target):
        return lone(cast(target, emit(inner.terms, inner.base, source)))
    terms: list[Term] = []
    for term in inner.terms:
        insert_term(terms, term._replace(atom=_cast_atom(target, term.atom)), 1)
    return Sum(tuple(terms), inner.base)


def _cast_atom(target: DType, atom: Expr) -> Expr:
    if isinstance(atom, Cast) and atom.value.dtype is target and target.bits < atom.dtype.bits:
        return atom.value  # the cast narrows what a cast widened: it restores the value
    return cast(target, atom)


def _fits(self: CanonicalSimplifier, inner: Sum, source: DType, target: DType) -> bool:
    """True when the sum and all of its parts keep their values in the narrower type."""
    low, high = dtype_bound(target)
    bounds = self.analyzer.bounds
    ranges = [sum_bound(inner.terms, inner.base, bounds, source), (inner.base, inner.base)]
    for term in inner.terms:
        ranges += (bounds(term.atom), term_bound(term, bounds))
        if term.upper != NO_UPPER:
            ranges.append((0, term.upper))
        ranges.append((term.lower, term.lower))
        ranges.append((term.scale, term.scale))
    return all(low <= r[0] and r[1] <= high for r in ranges)


_FORMS: dict[type[Expr], Callable[[CanonicalSimplifier, Any], Sum]] = {
    Var: _variable,
    SizeVar: _variable,
    Add: _linear,
    Sub: _linear,
    Mul: _product,
    FloorDiv: _floordiv,
    FloorMod: _floormod,
    Div: _truncdiv,
    Mod: _truncmod,
    Cast: _cast,
    IntImm: lambda self, e: Sum((), e.value),
}
