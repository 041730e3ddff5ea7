"""Bottom-up simplification by tables of rewrite rules.

docs/semantics/arithmetic.md describes the order of rewriting and canonical forms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import is_
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from autosched.arith.const_int_bound import POS_INF
from autosched.arith.lanes import fold_lanes
from autosched.arith.rewrite_logic import (
    negation,
    rewrite_equal,
    rewrite_greater,
    rewrite_greater_equal,
    rewrite_junction,
    rewrite_less,
    rewrite_less_equal,
    rewrite_not,
    rewrite_not_equal,
)
from autosched.arith.rule_tables import INDEX_RULES, MODULAR_RULES
from autosched.arith.rules_by_bounds import RULES_BY_BOUNDS
from autosched.tir.data import is_data
from autosched.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Reduce,
    Select,
    SizeVar,
    StringImm,
    Sub,
    Var,
)
from autosched.tir.op import (
    add,
    and_,
    const,
    floordiv,
    floormod,
    if_then_else,
    likely,
    max_,
    min_,
    mul,
    select,
    sub,
    truncdiv,
    truncmod,
)
from autosched.tir.walk import distinct, free_vars, substitute, written_out

if TYPE_CHECKING:
    from autosched.arith.analyzer import Analyzer
    from autosched.arith.sum_form import Sum

MAX_NESTING = 5
_LONG, _SHARED = 1024, 8
"""A branch shares much if it has more nodes than the first, and so many for each different one."""

_FOLD: dict[type[Expr], Callable[[Any, Any], Expr]] = {
    Add: add,
    Sub: sub,
    Mul: mul,
    Div: truncdiv,
    Mod: truncmod,
    FloorDiv: floordiv,
    FloorMod: floormod,
    Min: min_,
    Max: max_,
}
_DIVISIONS = frozenset((Div, Mod, FloorDiv, FloorMod))
_OF_CHOICES = frozenset((Add, Sub, Min, Max))
"""The operations that Ansor, too, moves into two Selects of the same condition."""
_CONSTANTS = frozenset((IntImm, FloatImm, Var))


def is_always(predicate: Expr | None) -> bool:
    """True for a constant predicate that is true in every lane."""
    every: Any = predicate.value if predicate.__class__ is Broadcast else predicate
    return every.__class__ is IntImm and bool(every.value)


def _of_floats(e: Any, as_ansor: bool) -> Expr | None:
    """The float operation `e` simplified: division by a constant, and x - x for a finite x.

    A division becomes a multiplication if the inverse is exact, so that the results are bitwise
    equal; with `as_ansor` any inverse is taken, as Ansor does. Storage-only float types keep the
    division: code divides in float32, and an inverse rounded to the type would be far off. None
    when nothing applies.
    """
    cls, a, b = e.__class__, e.a, e.b
    if cls is Div and b.__class__ is FloatImm and b.value != 0.0 and not e.dtype.is_storage_float:
        if as_ansor or _has_exact_inverse(b):
            return mul(a, const(1.0 / b.value, e.dtype))
        return None
    return const(0.0, e.dtype) if cls is Sub and a is b and _is_finite(a) else None


def _has_exact_inverse(value: FloatImm) -> bool:
    """True for +-2^k whose inverse is a normal number of the type."""
    if not math.isfinite(value.value) or abs(math.frexp(value.value)[0]) != 0.5:
        return False
    limits = np.finfo(value.dtype.numpy)
    return bool(limits.smallest_normal <= abs(1.0 / value.value) <= limits.max)


def _is_finite(e: Any) -> bool:
    """True for an integer cast to a float type whose range covers all integers."""
    return (
        e.__class__ is Cast
        and e.value.dtype.is_integral
        and e.dtype.code + str(e.dtype.bits) not in ("float16", "e4m3fn8", "e5m28")
    )


class Found:
    """The memos of a simplifier under its analyzer's present knowledge.

    `memo` maps expressions to simplified ones, `forms` to canonical sums; the analyzer empties both
    when its knowledge changes. `depth` is the nesting of rules being applied. The analyzer owns
    this object instead of the simplifier, which refers to the analyzer: that cycle would only be
    freed by the garbage collector.
    """

    __slots__ = ("depth", "forms", "memo")

    def __init__(self) -> None:
        self.depth = 0
        self.memo: dict[Expr, Expr] = {}
        self.forms: dict[Expr, Sum] = {}


class RewriteSimplifier:
    """Rewrites the children of a node, then the node by the first rule that matches."""

    __slots__ = ("_places", "analyzer", "found")

    def __init__(self, analyzer: Analyzer, found: Found) -> None:
        self.analyzer = analyzer
        self.found = found
        self._places: dict[Expr, int] = {}

    def __call__(self, e: Expr) -> Expr:
        """`e` rewritten, and rewritten once more if that changed it."""
        first = self.visit(e)
        return first if first is e else self.visit(first)

    def visit(self, e: Expr) -> Expr:
        """`e` rewritten once, bottom-up."""
        cls = e.__class__
        if cls is IntImm:
            return e
        if cls is Var:
            values = self.analyzer.values
            return values.get(e, e) if values else e  # type: ignore[call-overload]
        found = self.found.memo.get(e)
        if found is None:
            handler = self.handlers.get(cls)
            found = self.children(e) if handler is None else handler(self, e)
            self.found.memo[e] = found
        return found

    def again(self, e: Expr) -> Expr:
        """`e`, the result of a rule, simplified again; unchanged beyond 5 levels of nesting."""
        if self.found.depth >= MAX_NESTING:
            return e
        self.found.depth += 1
        e = self.visit(e)
        self.found.depth -= 1
        return e

    def lo(self, e: Expr) -> int:
        """The lower bound of `e`."""
        return self.analyzer.bounds(e)[0]

    def below(self, e: Expr, limit: int) -> bool:
        """Whether `e` is in [0, limit)."""
        low, high = self.analyzer.bounds(e)
        return low >= 0 and high < limit and high < POS_INF

    def divides(self, e: Expr) -> bool:
        """Whether `e` may be taken as nonzero (`BoundEvaluator.divides`)."""
        return self.analyzer.bounds.divides(e)

    def prove(self, e: Expr) -> bool:
        """Whether the condition `e` of a rule is provable."""
        return self.analyzer.prove_nested(e)

    def children(self, e: Expr) -> Expr:
        """`e` with its children rewritten; `e` itself when none changed."""
        children = e.children()
        settled = self.analyzer.settled
        new = tuple([c if c in settled else self.visit(c) for c in children])
        return e if all(map(is_, children, new)) else e.with_children(new)

    def _leaf(self, e: Expr) -> Expr:
        return e

    def _size_var(self, e: Any) -> Expr:
        value: Expr = self.analyzer.values.get(e, e)
        return value

    def _binary(self, e: Any) -> Expr:
        """The binary node `e` with rewritten operands, after applying its rules."""
        a, b = self.visit(e.a), self.visit(e.b)
        cls = e.__class__
        if a is not e.a or b is not e.b:
            if b.__class__ is IntImm and b.value == 0 and cls in _DIVISIONS:
                return const(0, e.dtype)
            e = _FOLD[cls](a, b)
        return self.apply(e) if e.__class__ is cls else e

    def apply(self, e: Any) -> Expr:
        """The node `e`, whose children are simplified, rewritten by the first rule that matches."""
        dtype = e.dtype
        a, b = e.a, e.b
        if (
            a.__class__ is Select
            and b.__class__ is Select
            and a.condition is b.condition
            and (e.__class__ in _OF_CHOICES or not self.analyzer.as_ansor)
        ):
            return self.again(
                select(
                    a.condition,
                    e.with_children((a.true_value, b.true_value)),
                    e.with_children((a.false_value, b.false_value)),
                )
            )
        if dtype.is_index:
            result = self.exact(e) if not is_data(e) else self._data(e)
        elif dtype.is_float:
            as_ansor = self.analyzer.as_ansor
            result = _of_floats(e, as_ansor) if dtype.lanes == 1 else None
        elif dtype.lanes == 1 and self.analyzer.as_ansor:
            result = None  # Ansor has rules for int32 and int64 scalars only
        else:
            result = self._wrapping(e)
        return e if result is None else result

    def exact(self, e: Any) -> Expr | None:
        """`e` rewritten by the rules for exact arithmetic; None when none applies."""
        cls = e.__class__
        special = RULES_BY_BOUNDS.get(cls)
        if special is not None:
            result = special(self, e)
            if result is not None:
                return result
        rules = INDEX_RULES.get(cls)
        return None if rules is None else rules(e, self)

    def _data(self, e: Any) -> Expr | None:
        """`e` rewritten by `exact` if neither `e` nor the result can wrap, else by `_wrapping`."""
        wraps = self.analyzer.bounds.wraps
        if not wraps(e):
            result = self.exact(e)
            if result is not None and not wraps(result):
                return result
        return self._wrapping(e)

    def _wrapping(self, e: Any) -> Expr | None:
        """The integer `e` rewritten by rules that hold modulo the size of its type, else None."""
        cls = e.__class__
        if not e.dtype.is_integral or e.dtype.is_bool:
            return None
        if e.dtype.lanes != 1:
            result = fold_lanes(self, e)
            if result is not None:
                return result
        if e.dtype.lanes == 1 and (cls is Min or cls is Max or cls is FloorMod):
            result = RULES_BY_BOUNDS[cls](self, e)
            if result is not None:
                return result
        rules = MODULAR_RULES.get(cls)
        return None if rules is None else rules(e, self)

    def compared(self, e: Any) -> Expr | None:
        """A comparison of indices rewritten by its rules; None when none applies.

        For data, the rules apply only if neither the operands nor the result can wrap.
        """
        rules = INDEX_RULES[e.__class__]
        if not is_data(e):
            return rules(e, self)
        wraps = self.analyzer.bounds.wraps
        result = None if wraps(e) else rules(e, self)
        return None if result is None or wraps(result) else result

    def _select(self, e: Any) -> Expr:
        condition = self.visit(e.condition)
        every: Any = condition.value if condition.__class__ is Broadcast else condition
        if every.__class__ is IntImm and condition.dtype.lanes in (1, e.dtype.lanes):
            return self.visit(e.true_value if every.value else e.false_value)
        a, b = self._branches(condition, e.true_value, e.false_value)
        if a is b:
            return a
        if condition is e.condition and a is e.true_value and b is e.false_value:
            return e  # type: ignore[no-any-return]
        return select(condition, a, b)

    def _branches(self, condition: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
        """Both branches simplified, `a` assuming `condition` and `b` assuming its negation.

        Nothing is assumed in a branch that is long because of what it shares: that would be
        simplified again for each of its places.
        """
        if condition.dtype.lanes != 1:
            return self.visit(a), self.visit(b)
        variables = free_vars(condition)
        if variables.isdisjoint(free_vars(a)) or self._shares(a, condition):
            a = self.visit(a)
        else:
            with self.analyzer.constraint(condition):
                a = self.visit(a)
        if variables.isdisjoint(free_vars(b)) or self._shares(b, condition):
            return a, self.visit(b)
        with self.analyzer.constraint(negation(self, condition)):
            return a, self.visit(b)

    def _shares(self, e: Expr, condition: Expr) -> bool:
        """Whether `e` is long only because it shares parts, and does not ask for the condition."""
        length = written_out(e, self._places)
        if length <= _LONG:
            return False
        parts = set(distinct(e))
        return length > _SHARED * len(parts) and condition not in parts

    def _call(self, e: Any) -> Expr:
        if e.op == "likely":
            return likely(self.visit(e.args[0]))
        if e.op != "if_then_else":
            return self.children(e)
        condition, a, b = e.args
        condition = self.visit(condition)
        if condition.__class__ is IntImm:
            return self.visit(a if condition.value else b)
        a, b = self._branches(condition, a, b)
        if a is b and a.__class__ in _CONSTANTS:
            return a
        if (
            a.__class__ is Call
            and a.op == "if_then_else"
            and a.args[2] is b
            and b.__class__ in _CONSTANTS
        ):
            both = self.again(and_(condition, a.args[0]))
            return if_then_else(both, a.args[1], b)
        if condition is e.args[0] and a is e.args[1] and b is e.args[2]:
            return e  # type: ignore[no-any-return]
        return if_then_else(condition, a, b)

    def _load(self, e: Any) -> Expr:
        result = self.children(e)
        if isinstance(result, BufferLoad) and is_always(result.predicate):
            return BufferLoad(result.buffer, result.indices)
        return result

    def _let(self, e: Any) -> Expr:
        value = self.visit(e.value)
        if value.__class__ in _CONSTANTS or value.dtype.is_index:
            return self.visit(substitute(e.body, {e.var: value}))
        body = self.visit(e.body)
        return e if value is e.value and body is e.body else Let(e.var, value, body)

    def _reduce(self, e: Any) -> Expr:
        with self.analyzer.scope():
            for iv in e.axis:
                if iv.dom is not None:
                    self.analyzer.bind(iv.var, iv.dom, override=True)
            return self.children(e)

    handlers: ClassVar[dict[type[Expr], Callable[[Any, Any], Expr]]] = {
        SizeVar: _size_var,
        FloatImm: _leaf,
        StringImm: _leaf,
        **dict.fromkeys((Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max), _binary),
        LT: rewrite_less,
        LE: rewrite_less_equal,
        GT: rewrite_greater,
        GE: rewrite_greater_equal,
        EQ: rewrite_equal,
        NE: rewrite_not_equal,
        And: rewrite_junction,
        Or: rewrite_junction,
        Not: rewrite_not,
        Select: _select,
        Call: _call,
        BufferLoad: _load,
        Let: _let,
        Reduce: _reduce,
    }
