"""Rewrite scalar expressions into vectors over all the lanes of a vectorized loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from autosched.tir.expr import (
    Add,
    And,
    BinaryExpr,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Mod,
    Mul,
    Not,
    Ramp,
    Select,
    Sub,
    Var,
)
from autosched.tir.intrin import BINARY_MATH, BITWISE, UNARY_MATH
from autosched.tir.lanes import combined, scalar_of
from autosched.tir.op import and_, broadcast, floordiv, floormod, not_
from autosched.tir.walk import distinct, free_vars, pre_order, uses

ELEMENTWISE = UNARY_MATH | BINARY_MATH | BITWISE | {"likely", "fma", "reinterpret"}
"""Calls that work lane by lane, so that vector arguments give a vector result."""

_MOST_MASKED = 64
"""Masked loads in a mask. Theirs have such loads, too: each level of conditions that read other
elements doubles them."""


class NotVectorisableError(Exception):
    """The expression has no vector form; its statement becomes a loop over the lanes."""


class LaneExprs:
    """Rewrites scalar expressions over `var` into vectors of `lanes` values, var = 0, 1, ... .

    An expression that is the same in every lane stays scalar. With `masked`, both arms of an
    if_then_else whose condition differs between lanes are computed, their loads under the
    condition; without `masked`, such an expression is not vectorisable. With `quotients`, a
    quotient that is the same in all lanes is scalar.
    """

    def __init__(self, var: Var, lanes: int, masked: bool, quotients: bool = True) -> None:
        self.var = var
        self.lanes = lanes
        self.masked = masked
        self.quotients = quotients
        self.mask: Expr | None = None
        self.lets: dict[Var, Var] = {}
        self._varying: set[Var] = {var}
        self._memo: dict[Expr, Expr] = {}

    def bind(self, var: Var) -> Var:
        """Make the vector variable that stands for `var`, which differs between lanes."""
        self._varying.add(var)
        self.lets[var] = Var(var.name, var.dtype.with_lanes(self.lanes))
        return self.lets[var]

    def set_mask(self, mask: Expr | None) -> None:
        """From here on, lanes where `mask` is false must not touch memory."""
        self.mask = mask
        self._memo = {}

    def __call__(self, e: Expr) -> Expr:
        """`e` over all lanes; scalar when the lanes agree. Raises NotVectorisableError."""
        if free_vars(e).isdisjoint(self._varying):
            return e
        done = self._memo.get(e)
        if done is None:
            rule = _RULES.get(type(e))
            if rule is not None:
                done = rule(self, e)
            elif isinstance(e, BinaryExpr):
                done = self._binary(e)
            else:
                raise NotVectorisableError
            self._memo[e] = done
        return done

    def broadcast(self, e: Expr) -> Expr:
        """`e` as a vector of all lanes; a scalar has the same value in each."""
        if e.dtype.lanes == self.lanes:
            return e
        if e.dtype.lanes != 1:
            raise NotVectorisableError
        return broadcast(e, self.lanes)

    def _var(self, e: Var) -> Expr:
        if e is self.var:
            return Ramp(IntImm(0, e.dtype), IntImm(1, e.dtype), self.lanes)
        return self.lets[e]

    def _binary(self, e: BinaryExpr) -> Expr:
        a, b = self(e.a), self(e.b)
        if a.dtype.lanes != b.dtype.lanes and 1 not in (a.dtype.lanes, b.dtype.lanes):
            raise NotVectorisableError
        return e.with_children((a, b))

    def _sum(self, e: Add | Sub | Mul) -> Expr:
        a, b = self(e.a), self(e.b)
        result = combined(type(e), a, b)
        if result is None:
            return e.with_children((a, b))
        return scalar_of(result)

    def _division(self, e: FloorDiv | FloorMod) -> Expr:
        a, b = self(e.a), self(e.b)
        quotient = self._one_quotient(a, b)
        if quotient is not None and isinstance(a, Ramp):
            if type(e) is FloorDiv:
                return quotient
            return Ramp(floormod(a.base, b), a.stride, self.lanes)
        self._check_divisor(b)
        return e.with_children((a, b))

    def _truncating(self, e: Div | Mod) -> Expr:
        b = self(e.b)
        if not b.dtype.is_float:
            self._check_divisor(b)
        return self._binary(e)

    def _check_divisor(self, b: Expr) -> None:
        value = scalar_of(b)
        if self.mask is not None and not isinstance(value, IntImm):
            raise NotVectorisableError  # a masked lane might divide by zero

    def _one_quotient(self, a: Expr, b: Expr) -> Expr | None:
        """`a // b` if alignment proves that it is the same in all lanes; else None."""
        if not self.quotients:
            return None
        if not (isinstance(a, Ramp) and isinstance(b, IntImm) and isinstance(a.stride, IntImm)):
            return None
        coeff, rest = _alignment(a.base)
        step = math.gcd(coeff, b.value)
        last = a.stride.value * (a.lanes - 1)
        if b.value > 0 and a.stride.value >= 0 and rest % step + last < step:
            return floordiv(a.base, b)
        return None

    def _with_lanes(self, e: Expr) -> Expr:
        return e.with_children(tuple(self(c) for c in e.children()))

    def _select(self, e: Select) -> Expr:
        parts = tuple(self(c) for c in e.children())
        if any(p.dtype.lanes > 1 for p in parts):
            parts = tuple(map(self.broadcast, parts))
        return e.with_children(parts)

    def _let(self, e: Let) -> Expr:
        value = self(e.value)
        if value.dtype.lanes == 1:
            return Let(e.var, value, self(e.body))
        new = self.bind(e.var)
        return Let(new, value, self.broadcast(self(e.body)))

    def _load(self, e: BufferLoad) -> Expr:
        *outer, last = (self(i) for i in e.indices)
        if any(i.dtype.lanes > 1 for i in outer):
            raise NotVectorisableError
        predicate = None if e.predicate is None else self(e.predicate)
        if last.dtype.lanes == 1:
            if predicate is not None and predicate.dtype.lanes > 1:
                raise NotVectorisableError
            return BufferLoad(e.buffer, (*outer, last), predicate)
        if last.dtype.lanes != self.lanes or e.buffer.dtype.lanes > 1:
            raise NotVectorisableError
        if self.mask is not None:
            if not isinstance(last, Ramp):
                raise NotVectorisableError  # a masked gather is slower than a loop over the lanes
            predicate = self.mask if predicate is None else and_(predicate, self.mask)
        if predicate is not None:
            predicate = self.broadcast(predicate)
        return BufferLoad(e.buffer, (*outer, last), predicate)

    def _call(self, e: Call) -> Expr:
        if e.op == "if_then_else":
            return self._if_then_else(e)
        args = tuple(self(a) for a in e.args)
        if all(a.dtype.lanes == 1 for a in args):
            return Call(e.dtype, e.op, args)
        if e.op not in ELEMENTWISE:
            raise NotVectorisableError
        return Call(e.dtype.with_lanes(self.lanes), e.op, tuple(map(self.broadcast, args)))

    def _if_then_else(self, e: Call) -> Expr:
        memo = self._memo.copy()
        condition = self(e.args[0])
        if condition.dtype.lanes == 1:
            arms = self._under(self.mask, e.args[1]), self._under(self.mask, e.args[2])
            return Call(arms[0].dtype, "if_then_else", (condition, *arms))
        if not self.masked:
            raise NotVectorisableError
        scalar, vector = split_condition(condition)
        assert vector is not None
        if scalar is not None:
            self._memo = memo  # the rest of the condition is read only where `scalar` holds
        if unsafe_loads(e.args[1], self.var, vector) or unsafe_loads(e.args[2], self.var, vector):
            raise NotVectorisableError
        taken = self._under(self._masked_by(vector), e.args[1])
        if scalar is None:
            other = self._under(self._masked_by(not_(vector)), e.args[2])
            return Select(vector, taken, other)
        if any(isinstance(s, BufferLoad | Call) for s in distinct(e.args[2])):
            raise NotVectorisableError
        other = self.broadcast(self(e.args[2]))
        chosen = Select(vector, taken, other)
        return Call(chosen.dtype, "if_then_else", (scalar, chosen, other))

    def _masked_by(self, condition: Expr) -> Expr:
        mask = condition if self.mask is None else and_(self.mask, condition)
        loads = (e for e in pre_order(mask) if isinstance(e, BufferLoad))
        masked = (1 for load in loads if load.predicate is not None)
        if any(islice(masked, _MOST_MASKED, None)):
            raise NotVectorisableError
        return mask

    def _under(self, mask: Expr | None, e: Expr) -> Expr:
        """`e` where it is used in lanes of `mask` only; what all lanes compute before it stays."""
        outer, memo = self.mask, self._memo
        self.mask, self._memo = mask, memo.copy()
        try:
            return self.broadcast(self(e))
        finally:
            self.mask, self._memo = outer, memo


def conjuncts(condition: Expr) -> Iterator[Expr]:
    """The parts of a conjunction, in order, without their likely() marks."""
    if isinstance(condition, Call) and condition.op == "likely":
        yield from conjuncts(condition.args[0])
    elif isinstance(condition, And):
        yield from conjuncts(condition.a)
        yield from conjuncts(condition.b)
    elif isinstance(condition, Broadcast):
        yield from conjuncts(condition.value)
    else:
        yield condition


def split_condition(condition: Expr) -> tuple[Expr | None, Expr | None]:
    """The scalar conjuncts of a vectorised condition, and the others; None for none."""
    scalar: Expr | None = None
    vector: Expr | None = None
    for part in conjuncts(condition):
        if part.dtype.lanes == 1:
            scalar = part if scalar is None else and_(scalar, part)
        else:
            vector = part if vector is None else and_(vector, part)
    return scalar, vector


def unsafe_loads(e: Expr, lane: Var, condition: Expr) -> bool:
    """Whether `e` loads one element for all lanes that only `condition` may keep in bounds.

    True as well for an element that is out of bounds anyway: then `condition` never holds.
    """
    variables = free_vars(condition)
    for node in distinct(e):
        if isinstance(node, BufferLoad) and lane not in free_vars(node):
            if _is_outside(node) or uses(node, variables):
                return True
    return False


def _is_outside(load: BufferLoad) -> bool:
    """Whether a constant index of `load` is beyond its buffer."""
    return any(
        isinstance(index, IntImm)
        and (index.value < 0 or (isinstance(extent, IntImm) and index.value >= extent.value))
        for index, extent in zip(load.indices, load.buffer.shape, strict=True)
    )


def _alignment(e: Expr) -> tuple[int, int]:
    """The pair (c, r) with e = c * n + r for some integer n; c is 0 for constants."""
    if isinstance(e, IntImm):
        return 0, e.value
    if isinstance(e, Add | Sub):
        (c, r), (d, s) = _alignment(e.a), _alignment(e.b)
        return math.gcd(c, d), r + s if type(e) is Add else r - s
    if isinstance(e, Mul) and isinstance(e.b, IntImm):
        c, r = _alignment(e.a)
        return c * abs(e.b.value), r * e.b.value
    return 1, 0


_RULES: dict[type[Expr], Callable[[LaneExprs, Any], Expr]] = {
    Var: LaneExprs._var,
    Add: LaneExprs._sum,
    Sub: LaneExprs._sum,
    Mul: LaneExprs._sum,
    FloorDiv: LaneExprs._division,
    FloorMod: LaneExprs._division,
    Div: LaneExprs._truncating,
    Mod: LaneExprs._truncating,
    Not: LaneExprs._with_lanes,
    Cast: LaneExprs._with_lanes,
    Select: LaneExprs._select,
    Let: LaneExprs._let,
    BufferLoad: LaneExprs._load,
    Call: LaneExprs._call,
}
