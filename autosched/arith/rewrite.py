"""Bottom-up simplification by the tables of rewrite rules (spec te_bounds 8.2)."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import TYPE_CHECKING, Any, ClassVar

from autosched.arith import rules_add_sub, rules_bool, rules_compare, rules_min_max, rules_mul_div
from autosched.arith.compare import EQUAL, GREATER, LESS
from autosched.arith.const_int_bound import NEG_INF, POS_INF, floordiv_int
from autosched.arith.rule_compiler import compile_rules
from autosched.tir.dtype import bool_
from autosched.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
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
    eq,
    floordiv,
    floormod,
    if_then_else,
    le,
    likely,
    lt,
    max_,
    min_,
    mul,
    not_,
    or_,
    select,
    sub,
    truncdiv,
    truncmod,
)
from autosched.tir.walk import free_vars, substitute

if TYPE_CHECKING:
    from autosched.arith.analyzer import Analyzer

MAX_NESTING = 5
TRUE, FALSE = IntImm(1, bool_), IntImm(0, bool_)

_INDEX_RULES = compile_rules(
    rules_add_sub.ADD,
    rules_add_sub.SUB,
    rules_mul_div.MUL,
    rules_mul_div.FLOORDIV,
    rules_mul_div.FLOORMOD,
    rules_mul_div.TRUNC,
    rules_min_max.ROUNDED,
    rules_min_max.MIN,
    rules_min_max.MAX,
    rules_compare.LT,
    rules_compare.EQ,
)
_FLOAT_RULES = compile_rules(rules_add_sub.FLOAT_SUB)
_BOOL_RULES = compile_rules(rules_bool.AND, rules_bool.OR, rules_bool.NOT)
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
    EQ: eq,
    LT: lt,
    And: and_,
    Or: or_,
}
_DIVISIONS = frozenset((Div, Mod, FloorDiv, FloorMod))
_COMPARISONS = frozenset((EQ, NE, LT, LE, GT, GE))


class RewriteSimplifier:
    """Rewrites the children of a node, then the node by the first rule that matches.

    `memo` holds what was rewritten under the analyzer's present knowledge; the analyzer replaces
    it when that changes.
    """

    __slots__ = ("analyzer", "depth", "memo")

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer
        self.depth = 0
        self.memo: dict[Expr, Expr] = {}

    def __call__(self, e: Expr) -> Expr:
        first = self.visit(e)
        return first if first is e else self.visit(first)

    def visit(self, e: Expr) -> Expr:
        """`e` rewritten once, bottom-up."""
        cls = e.__class__
        if cls is IntImm:
            return e
        if cls is Var:
            values = self.analyzer.values
            return values.get(e, e) if values else e  # type: ignore[call-overload, no-any-return]
        found = self.memo.get(e)
        if found is None:
            handler = self.handlers.get(cls)
            found = self._children(e) if handler is None else handler(self, e)
            self.memo[e] = found
        return found

    def again(self, e: Expr) -> Expr:
        """`e` simplified once more, inside a rule; nested at most 5 times."""
        if self.depth >= MAX_NESTING:
            return e
        self.depth += 1
        e = self.visit(e)
        self.depth -= 1
        return e

    def lo(self, e: Expr) -> int:
        return self.analyzer.bounds(e)[0]

    def below(self, e: Expr, limit: int) -> bool:
        low, high = self.analyzer.bounds(e)
        return low >= 0 and high < limit

    def prove(self, e: Expr) -> bool:
        return self.analyzer.prove_nested(e)

    def _children(self, e: Expr) -> Expr:
        children = e.children()
        settled = self.analyzer.settled
        new = tuple([c if c in settled else self.visit(c) for c in children])
        for old, changed in zip(children, new):
            if old is not changed:
                return e.with_children(new)
        return e

    def _leaf(self, e: Expr) -> Expr:
        return e

    def _size_var(self, e: Any) -> Expr:
        return self.analyzer.values.get(e, e)

    def _binary(self, e: Any) -> Expr:
        """e.a and e.b visited, the node rebuilt and its rules applied."""
        a, b = self.visit(e.a), self.visit(e.b)
        cls = e.__class__
        if a is not e.a or b is not e.b:
            if b.__class__ is IntImm and b.value == 0 and cls in _DIVISIONS:  # type: ignore[attr-defined]
                result: Expr = cls(a, b)
                return result
            e = _FOLD[cls](a, b)
        return self.apply(e) if e.__class__ is cls else e

    def apply(self, e: Any) -> Expr:
        """The node `e`, whose children are simplified, by the first rule that matches."""
        cls, dtype = e.__class__, e.dtype
        a, b = e.a, e.b
        if a.__class__ is Select and b.__class__ is Select and a.condition is b.condition:
            fold = _FOLD[cls]
            return self.again(
                select(
                    a.condition,
                    fold(a.true_value, b.true_value),
                    fold(a.false_value, b.false_value),
                )
            )
        if dtype.is_index:
            special = _SPECIAL.get(cls)
            if special is not None:
                result = special(self, e)
                if result is not None:
                    return result
            rules = _INDEX_RULES.get(cls)
        elif dtype.is_float and dtype.lanes == 1:
            if cls is Div and b.__class__ is FloatImm and b.value != 0.0:
                return mul(a, const(1.0 / b.value, dtype))
            rules = _FLOAT_RULES.get(cls)
        else:
            return e  # type: ignore[no-any-return]
        if rules is not None:
            result = rules(e, self)
            if result is not None:
                return result
        return e  # type: ignore[no-any-return]

    # -- comparisons

    def _less(self, e: Any) -> Expr:
        a, b = self.visit(e.a), self.visit(e.b)
        node = e if a is e.a and b is e.b else lt(a, b)
        return self.apply_less(node) if node.__class__ is LT else node

    def apply_less(self, e: Any) -> Expr:
        """a < b with simplified operands."""
        known = self.analyzer.literals.get(e)
        if known is not None:
            return TRUE if known else FALSE
        a, b = e.a, e.b
        if not a.dtype.is_index:
            return e  # type: ignore[no-any-return]
        order = self.analyzer.compare(a, b)
        if order == LESS:
            return TRUE
        if not order & LESS:
            return FALSE
        result = _INDEX_RULES[LT](e, self)
        if result is not None:
            return result
        result = _gather_constants(a, b)
        if result is not None:
            return self.again(result)
        factor = _common_factor(self.analyzer, a, b)
        if factor > 1:
            return self.again(lt(floordiv(a, factor), floordiv(b, factor)))
        return e  # type: ignore[no-any-return]

    def _less_equal(self, e: Any) -> Expr:
        known = self.analyzer.literals.get(e)
        if known is not None:
            return TRUE if known else FALSE
        if not e.a.dtype.is_index:
            return self._plain_comparison(e)
        return self.negation(self.visit(LT(e.b, e.a)))

    def _greater(self, e: Any) -> Expr:
        known = self.analyzer.literals.get(e)
        if known is not None:
            return TRUE if known else FALSE
        return self.visit(LT(e.b, e.a))

    def _greater_equal(self, e: Any) -> Expr:
        known = self.analyzer.literals.get(e)
        if known is not None:
            return TRUE if known else FALSE
        return self.visit(LE(e.b, e.a))

    def _plain_comparison(self, e: Any) -> Expr:
        """A comparison of floats or vectors: only the operands are simplified."""
        e = self._children(e)
        known = self.analyzer.literals.get(e)
        if known is not None:
            return TRUE if known else FALSE
        return e  # type: ignore[no-any-return]

    def _equal(self, e: Any) -> Expr:
        a, b = self.visit(e.a), self.visit(e.b)
        node = e if a is e.a and b is e.b else eq(a, b)
        return self.apply_equal(node) if node.__class__ is EQ else node

    def apply_equal(self, e: Any) -> Expr:
        """a == b with simplified operands."""
        known = self.analyzer.literals.get(e)
        if known is not None:
            return TRUE if known else FALSE
        if not e.a.dtype.is_index:
            return e  # type: ignore[no-any-return]
        order = self.analyzer.compare(e.a, e.b)
        if order == EQUAL:
            return TRUE
        if not order & EQUAL:
            return FALSE
        result = _INDEX_RULES[EQ](e, self)
        return e if result is None else result

    def _not_equal(self, e: Any) -> Expr:
        known = self.analyzer.literals.get(e)
        if known is not None:
            return TRUE if known else FALSE
        a, b = e.a, e.b
        if not a.dtype.is_index:
            return self._plain_comparison(e)
        same = self.visit(EQ(a, b))
        if same.__class__ is EQ:
            a, b = same.a, same.b  # type: ignore[attr-defined]
            order = self.analyzer.compare(a, b)
            if not order & GREATER:
                return self.visit(LT(a, b))
            if not order & LESS:
                return self.visit(LT(b, a))
        return self.negation(same)

    # -- conditions

    def negation(self, e: Expr) -> Expr:
        """not e, for a simplified e."""
        if e.__class__ is IntImm:
            return not_(e)
        if not _ordered(e):
            return not_(e)
        result = _BOOL_RULES[Not](Not(e), self)
        return Not(e) if result is None else result

    def _not(self, e: Any) -> Expr:
        known = self.analyzer.literals.get(e)
        if known is not None:
            return TRUE if known else FALSE
        return self.negation(self.visit(e.a))

    def _logic(self, e: Any) -> Expr:
        a, b = self.visit(e.a), self.visit(e.b)
        cls = e.__class__
        if a is not e.a or b is not e.b:
            e = _FOLD[cls](a, b)
            if e.__class__ is not cls:
                return e  # type: ignore[no-any-return]
        known = self.analyzer.literals.get(e)
        if known is not None:
            return TRUE if known else FALSE
        if e.dtype.lanes != 1 or not (_ordered(e.a) and _ordered(e.b)):
            return e  # type: ignore[no-any-return]
        result = _BOOL_RULES[cls](e, self)
        return e if result is None else result  # type: ignore[no-any-return]

    # -- the other nodes

    def _select(self, e: Any) -> Expr:
        condition = self.visit(e.condition)
        if condition.__class__ is IntImm:
            return self.visit(e.true_value if condition.value else e.false_value)  # type: ignore[attr-defined]
        a, b = self._branches(condition, e.true_value, e.false_value)
        if a is b:
            return a
        if condition is e.condition and a is e.true_value and b is e.false_value:
            return e  # type: ignore[no-any-return]
        return select(condition, a, b)

    def _branches(self, condition: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
        """Both branches, each simplified knowing how the condition came out."""
        if condition.dtype.lanes != 1:
            return self.visit(a), self.visit(b)
        variables = free_vars(condition)
        if variables.isdisjoint(free_vars(a)):
            a = self.visit(a)
        else:
            with self.analyzer.constraint(condition):
                a = self.visit(a)
        if variables.isdisjoint(free_vars(b)):
            return a, self.visit(b)
        with self.analyzer.constraint(self.negation(condition)):
            return a, self.visit(b)

    def _call(self, e: Any) -> Expr:
        if e.op == "likely":
            return likely(self.visit(e.args[0]))
        if e.op != "if_then_else":
            return self._children(e)
        condition, a, b = e.args
        condition = self.visit(condition)
        if condition.__class__ is IntImm:
            return self.visit(a if condition.value else b)  # type: ignore[attr-defined]
        a, b = self._branches(condition, a, b)
        if a is b and _is_plain(a):
            return a
        if (
            a.__class__ is Call
            and a.op == "if_then_else"  # type: ignore[attr-defined]
            and a.args[2] is b  # type: ignore[attr-defined]
            and _is_plain(b)
        ):
            both = self.again(and_(condition, a.args[0]))  # type: ignore[attr-defined]
            return if_then_else(both, a.args[1], b)  # type: ignore[attr-defined]
        if condition is e.args[0] and a is e.args[1] and b is e.args[2]:
            return e  # type: ignore[no-any-return]
        return if_then_else(condition, a, b)

    def _let(self, e: Any) -> Expr:
        value = self.visit(e.value)
        if value.__class__ in (IntImm, FloatImm, Var) or value.dtype.is_index:
            return self.visit(substitute(e.body, {e.var: value}))
        body = self.visit(e.body)
        return e if value is e.value and body is e.body else Let(e.var, value, body)  # type: ignore[no-any-return]

    def _reduce(self, e: Any) -> Expr:
        with self.analyzer.scope():
            for iv in e.axis:
                if iv.dom is not None:
                    self.analyzer.bind(iv.var, iv.dom, override=True)
            return self._children(e)

    handlers: ClassVar[dict[type[Expr], Callable[[Any, Any], Expr]]] = {
        SizeVar: _size_var,
        FloatImm: _leaf,
        StringImm: _leaf,
        **dict.fromkeys((Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max), _binary),
        LT: _less,
        LE: _less_equal,
        GT: _greater,
        GE: _greater_equal,
        EQ: _equal,
        NE: _not_equal,
        And: _logic,
        Or: _logic,
        Not: _not,
        Select: _select,
        Call: _call,
        Let: _let,
        Reduce: _reduce,
    }


def _is_plain(e: Expr) -> bool:
    return e.__class__ in (IntImm, FloatImm, Var)


def _ordered(e: Any) -> bool:
    """False for a comparison of floats, where NaN makes `not a < b` differ from `b <= a`."""
    cls = e.__class__
    if cls in _COMPARISONS:
        return not e.a.dtype.is_float
    if cls is And or cls is Or:
        return _ordered(e.a) and _ordered(e.b)
    return _ordered(e.a) if cls is Not else True


def _constant_offset(e: Any) -> tuple[Expr, int]:
    cls = e.__class__
    if cls is Add and e.b.__class__ is IntImm:
        return e.a, e.b.value
    if cls is Sub and e.b.__class__ is IntImm:
        return e.a, -e.b.value
    return e, 0


def _gather_constants(a: Expr, b: Expr) -> Expr | None:
    """a < b with a constant on one side only; None when it is so already."""
    left, left_offset = _constant_offset(a)
    right, right_offset = _constant_offset(b)
    if left_offset == 0 and right_offset == 0:
        return None
    difference = right_offset - left_offset
    if difference == 0:
        return lt(left, right)
    if difference == 1:
        return le(left, right)
    if difference < 0 and right_offset != 0:
        return lt(add(left, -difference), right)
    if difference > 0 and left_offset != 0:
        return lt(left, add(right, difference))
    return None


def _common_factor(analyzer: Analyzer, a: Expr, b: Expr) -> int:
    x, y = analyzer.moduli(a), analyzer.moduli(b)
    return gcd(x.base, x.coeff, y.base, y.coeff)


def _extreme_by_bounds(self: RewriteSimplifier, e: Any) -> Expr | None:
    bounds = self.analyzer.bounds
    a, b = bounds(e.a), bounds(e.b)
    first, second = (e.a, e.b) if e.__class__ is Min else (e.b, e.a)
    if a[1] <= b[0]:
        return first  # type: ignore[no-any-return]
    return second if a[0] >= b[1] else None  # type: ignore[no-any-return]


def _is_scaled(e: Any) -> bool:
    return e.__class__ is Mul and e.b.__class__ is IntImm


def _quotient_of_sum(self: RewriteSimplifier, e: Any) -> Expr | None:
    """(x*c1 + y) // c2, also without y, by the values its remainder part can take."""
    a, b = e.a, e.b
    if b.__class__ is not IntImm or b.value <= 0:
        return None
    c2 = b.value
    if a.__class__ is Add:
        product, y = a.a, a.b
        if not _is_scaled(product):
            product, y = y, product
    else:
        product, y = a, IntImm(0, e.dtype)
    if not _is_scaled(product):
        return None
    x, c1 = product.a, product.b.value
    rest = add(mul(x, c1 % c2), floormod(y, c2))
    low, high = self.analyzer.bounds(rest)
    if low > NEG_INF and high < POS_INF and floordiv_int(low, c2) == floordiv_int(high, c2):
        return add(mul(x, c1 // c2), add(floordiv(y, c2), low // c2))
    if c1 > 0 and c2 % c1 == 0 and self.analyzer.bounds(floormod(y, c2))[1] < c1:
        return add(floordiv(x, c2 // c1), floordiv(y, c2))
    return None


def _remainder_by_analysis(self: RewriteSimplifier, e: Any) -> Expr | None:
    """x % c from the residues or the bounds of x."""
    a, b = e.a, e.b
    if b.__class__ is not IntImm or b.value <= 0:
        return None
    c = b.value
    low, high = self.analyzer.bounds(a)
    if low >= 0 and high < c:
        return a  # type: ignore[no-any-return]
    coeff, base = self.analyzer.moduli(a)
    return IntImm(base % c, e.dtype) if coeff % c == 0 else None


_SPECIAL: dict[type[Expr], Callable[[RewriteSimplifier, Any], Expr | None]] = {
    Min: _extreme_by_bounds,
    Max: _extreme_by_bounds,
    FloorDiv: _quotient_of_sum,
    FloorMod: _remainder_by_analysis,
}
