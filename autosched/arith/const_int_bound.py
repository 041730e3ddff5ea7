"""Interval bounds of integer expressions.

The analysis is purely structural: it treats all occurrences of a variable as independent. Bounds
are Python ints clipped to +-(2^63 - 1), which stand for infinity. Arithmetic that may wrap
(`tir/data.py`: data, and types other than int32 and int64 scalars) is bounded by its type only,
unless the exact result provably fits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from autosched.tir.data import is_data, is_source
from autosched.tir.dtype import DType, int32
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
    Not,
    Or,
    Ramp,
    Select,
    SizeVar,
    Sub,
    Var,
)
from autosched.tir.walk import free_vars

POS_INF = 2**63 - 1
NEG_INF = -POS_INF

Bound = tuple[int, int]


class ConstIntBound(NamedTuple):
    """The interval [min_value, max_value] of an expression; NEG_INF and POS_INF are no bound."""

    min_value: int
    max_value: int


EVERYTHING: Bound = (NEG_INF, POS_INF)
_dtype_bounds: dict[DType, Bound] = {}


def dtype_bound(dtype: DType) -> Bound:
    """The range of an integer type; int64 and types of other kinds have no bounds.

    uint64 has no upper bound.
    """
    found = _dtype_bounds.get(dtype)
    if found is None:
        found = EVERYTHING
        if dtype.is_integral and (dtype.bits < 64 or dtype.code == "uint"):
            found = (int(dtype.min_value), min(int(dtype.max_value), POS_INF))
        _dtype_bounds[dtype] = found
    return found


def clip(value: int) -> int:
    """`value` clipped to [NEG_INF, POS_INF]."""
    if value >= POS_INF:
        return POS_INF
    return max(value, NEG_INF)


def add_low(x: int, y: int) -> int:
    """The sum of two lower bounds; NEG_INF if either is."""
    if x <= NEG_INF or y <= NEG_INF:
        return NEG_INF
    return clip(x + y)


def add_high(x: int, y: int) -> int:
    """The sum of two upper bounds; POS_INF if either is."""
    if x >= POS_INF or y >= POS_INF:
        return POS_INF
    return clip(x + y)


def scale_bound(bound: Bound, factor: int) -> Bound:
    """The bound of a value within `bound` times the constant `factor`."""
    low, high = clip(bound[0] * factor), clip(bound[1] * factor)
    return (low, high) if factor >= 0 else (high, low)


def floordiv_int(x: int, y: int) -> int:
    """x // y; an infinite x gives infinity with the sign of x * y."""
    if x in (POS_INF, NEG_INF):
        return x if y > 0 else -x
    return x // y


def truncdiv_int(x: int, y: int) -> int:
    """x / y rounded toward zero; an infinite x gives infinity with the sign of x * y."""
    if x in (POS_INF, NEG_INF):
        return x if y > 0 else -x
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def floormod_bound(a: Bound, b: Bound, dtype: DType) -> Bound:
    """The bound of a % b, which has the sign of b; it is 0 where b is 0."""
    if b[0] <= 0:
        limits = dtype_bound(dtype)
        low, high = min(0, add_low(b[0], 1)), max(0, add_high(b[1], -1))
        if a[0] >= 0:  # the remainder is at most a for a positive b, and at most 0 for others
            high = min(high, max(a[1], 0))
        return max(low, limits[0]), min(high, limits[1])
    if a[0] < 0:
        return 0, add_high(b[1], -1)
    return a if a[1] < b[0] else (0, min(a[1], add_high(b[1], -1)))


def truncmod_bound(a: Bound, b: Bound, dtype: DType) -> Bound:
    """The bound of the remainder of truncated division, which has the sign of a."""
    if b[1] < 0:
        b = -b[1], -b[0]  # the remainders by b and by -b are equal
    if b[0] <= 0:
        limits = dtype_bound(dtype)
        reach = add_high(max(abs(b[0]), abs(b[1]), 1), -1)
        low, high = max(-reach, min(a[0], 0)), min(reach, max(a[1], 0))
        return max(low, limits[0]), min(high, limits[1])
    cap = add_high(b[1], -1)
    if a[0] >= 0:
        return a if a[1] < b[0] else (0, min(a[1], cap))
    return max(a[0], -cap), min(max(a[1], 0), cap)


def holds(dtype: DType, low: int, high: int) -> bool:
    """True when `dtype` holds every integer of [low, high]; an infinite end fits no type."""
    if dtype is int32:
        return low >= -(2**31) and high < 2**31
    if low <= NEG_INF or high >= POS_INF:
        return False
    return dtype.min_value <= low and high <= dtype.max_value


def _shifted(a: Bound, b: Bound) -> Bound:
    ends = [clip(x << y) for x in a for y in b]
    return min(ends), max(ends)


def _exact(e: Any, low: int, high: int) -> Bound:
    """The bound of `e`, whose exact result lies in [low, high]: the type's range if it may wrap."""
    dtype: DType = e.dtype
    if holds(dtype, low, high) or (dtype.is_index and not is_data(e)):
        return low, high
    return dtype_bound(dtype)


class BoundEvaluator:
    """Computes bounds of expressions from bounds of variables and facts about expressions.

    `env` maps variables to their bounds. `facts` maps expressions to bounds that are known in
    addition. `memo` holds the bounds computed under these two. `linear` are facts about sums, for
    `sum_form.sum_bound`, and `fact_vars` the variables of all facts.
    """

    __slots__ = ("env", "fact_vars", "facts", "linear", "memo")

    def __init__(self, env: Mapping[Var, Bound], facts: Mapping[Expr, Bound] | None = None) -> None:
        self.env = env
        self.facts = facts
        self.linear: tuple[Any, ...] = ()
        self.fact_vars: frozenset[Var] = frozenset()
        self.memo: dict[Expr, Bound] = {}

    def wraps(self, e: Expr) -> bool:
        """True when an operation in the data `e`, down to its loads and calls, may overflow.

        Rules that hold for exact arithmetic only must then not be applied to `e`.
        """
        if not is_data(e) or is_source(e):
            return False
        return leaves_type(self, e) or any(map(self.wraps, e.children()))

    def divides(self, e: Expr) -> bool:
        """Whether `e` may be taken as nonzero: it provably is, or consists of symbolic sizes.

        Rules that fail for the divisor 0, by which quotient and remainder are 0, ask for this.
        """
        low, high = self(e)
        return low > 0 or high < 0 or _is_of_sizes(e)

    def __call__(self, e: Expr) -> Bound:
        """The bound of `e`, infinite where nothing is known."""
        cls = e.__class__
        if cls is IntImm:
            value: int = e.value  # type: ignore[attr-defined]  # an IntImm
            return (value, value) if NEG_INF < value < POS_INF else _beyond(value)
        found = self.memo.get(e)
        if found is not None:
            return found
        rule = _RULES.get(cls)
        bound = dtype_bound(e.dtype) if rule is None else rule(self, e)
        if self.facts:
            fact = self.facts.get(e)
            if fact is not None:
                bound = (max(bound[0], fact[0]), min(bound[1], fact[1]))
        self.memo[e] = bound
        return bound


def _beyond(value: int) -> Bound:
    """The bound of a constant that is no bound itself: of one end only the other one is known."""
    return (POS_INF - 1, POS_INF) if value > 0 else (NEG_INF, NEG_INF + 1)


def eval_bound(e: Expr, env: Mapping[Var, Bound]) -> Bound:
    """The bound (low, high) of `e` when each variable lies in its interval of `env`.

    Variables outside `env` have the range of their type.
    """
    return BoundEvaluator(env)(e)


def _is_of_sizes(e: Expr) -> bool:
    variables = free_vars(e)
    return bool(variables) and all(v.__class__ is SizeVar for v in variables) and not is_data(e)


def _var(ev: BoundEvaluator, e: Any) -> Bound:
    found = ev.env.get(e)
    if found is not None:
        return found
    return (0, POS_INF) if e.__class__ is SizeVar else dtype_bound(e.dtype)


def _add(ev: BoundEvaluator, e: Any) -> Bound:
    a, b = ev(e.a), ev(e.b)
    low, high = add_low(a[0], b[0]), add_high(a[1], b[1])
    if low >= -(2**31) and high < 2**31 and e.dtype is int32:
        return low, high
    return _exact(e, low, high)


def _sub(ev: BoundEvaluator, e: Any) -> Bound:
    a, b = ev(e.a), ev(e.b)
    low, high = add_low(a[0], -b[1]), add_high(a[1], -b[0])
    if low >= -(2**31) and high < 2**31 and e.dtype is int32:
        return low, high
    return _exact(e, low, high)


def _mul(ev: BoundEvaluator, e: Any) -> Bound:
    a, b = ev(e.a), ev(e.b)
    if b[0] == b[1]:
        low, high = scale_bound(a, b[0])
    else:
        products = (a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1])
        low, high = clip(min(products)), clip(max(products))
    if low >= -(2**31) and high < 2**31 and e.dtype is int32:
        return low, high
    return _exact(e, low, high)


def _quotient(ev: BoundEvaluator, e: Any, quotient: Callable[[int, int], int]) -> Bound:
    """The bound of a quotient by `quotient`, including 0 where the divisor may be 0."""
    b = ev(e.b)
    if b[0] == b[1] == 0:
        return 0, 0
    low, high = _divide(ev(e.a), b, quotient)
    return _exact(e, *((low, high) if ev.divides(e.b) else (min(low, 0), max(high, 0))))


def _divide(a: Bound, b: Bound, quotient: Callable[[int, int], int]) -> Bound:
    if b[0] == 0:
        b = (1, b[1])
    if b[0] > 0:
        # In b the quotient is monotone, falling for positive a and rising for negative a.
        return quotient(a[0], b[1] if a[0] > 0 else b[0]), quotient(
            a[1], b[0] if a[1] > 0 else b[1]
        )
    ends: tuple[int, ...] = b
    if b[0] < 0 <= b[1]:
        ends = (b[0], -1, 1, b[1]) if b[1] > 0 else (b[0], -1)
    quotients = [quotient(x, y) for x in a for y in ends]
    return min(quotients), max(quotients)


def _floordiv(ev: BoundEvaluator, e: Any) -> Bound:
    return _quotient(ev, e, floordiv_int)


def _truncdiv(ev: BoundEvaluator, e: Any) -> Bound:
    if not e.dtype.is_integral:
        return EVERYTHING
    return _quotient(ev, e, truncdiv_int)


def _floormod(ev: BoundEvaluator, e: Any) -> Bound:
    return floormod_bound(ev(e.a), ev(e.b), e.dtype)


def _truncmod(ev: BoundEvaluator, e: Any) -> Bound:
    return truncmod_bound(ev(e.a), ev(e.b), e.dtype)


def _min(ev: BoundEvaluator, e: Any) -> Bound:
    a, b = ev(e.a), ev(e.b)
    return min(a[0], b[0]), min(a[1], b[1])


def _max(ev: BoundEvaluator, e: Any) -> Bound:
    a, b = ev(e.a), ev(e.b)
    return max(a[0], b[0]), max(a[1], b[1])


def _select(ev: BoundEvaluator, e: Any) -> Bound:
    a, b = ev(e.true_value), ev(e.false_value)
    return min(a[0], b[0]), max(a[1], b[1])


def _cast(ev: BoundEvaluator, e: Any) -> Bound:
    limits = dtype_bound(e.dtype)
    if not (e.dtype.is_integral and e.value.dtype.is_integral):
        return limits
    a = ev(e.value)
    if a[1] >= POS_INF and e.value.dtype.code == "uint" and e.dtype.code == "int":
        return limits  # an infinite end may be a uint64 beyond int64, which wraps in the cast
    low, high = max(a[0], limits[0]), min(a[1], limits[1])
    if (low, high) != a and not (e.dtype.is_index and e.value.dtype.is_index and not is_data(e)):
        return limits
    return (low, high) if low <= high else limits


def _call(ev: BoundEvaluator, e: Any) -> Bound:
    limits = dtype_bound(e.dtype)
    if e.op == "ptx_lane_id":
        return 0, 31
    if e.op == "bitwise_xor":  # the result has no bit above the highest bit of the operands
        a, b = ev(e.args[0]), ev(e.args[1])
        bits = max(a[1], b[1]).bit_length()
        return (0, min((1 << bits) - 1, limits[1])) if a[0] >= 0 and b[0] >= 0 else limits
    if e.op == "bitwise_and":
        a, b = ev(e.args[0]), ev(e.args[1])
        high = min((x[1] for x in (a, b) if x[0] >= 0), default=-1)
        return (0, high) if high >= 0 else limits  # at most any operand that is not negative
    if e.op not in ("shift_right", "shift_left"):
        return limits
    a, b = ev(e.args[0]), ev(e.args[1])
    if b[0] < 0 or b[1] >= e.dtype.bits:  # such shift counts are taken modulo the bits
        return limits
    if e.op == "shift_right":
        ends = [x if x in EVERYTHING else x >> y for x in a for y in b]
        return min(ends), max(ends)
    return _exact(e, *_shifted(a, b))


def leaves_type(ev: BoundEvaluator, e: Any) -> bool:
    """True when the exact result of the operation `e` may not fit in its type."""
    dtype: DType = e.dtype
    if not dtype.is_integral:
        return False
    cls = e.__class__
    if cls in (Add, Sub, Mul):
        a, b = ev(e.a), ev(e.b)
        if cls is Mul:
            ends = [x * y for x in a for y in b]
            return not holds(dtype, min(ends), max(ends))
        b = b if cls is Add else (-b[1], -b[0])
        return not holds(dtype, add_low(a[0], b[0]), add_high(a[1], b[1]))
    if cls in (FloorDiv, Div):
        low, high = ev(e.b)
        return low <= -1 <= high and ev(e.a)[0] <= max(NEG_INF, int(dtype.min_value))
    if cls is Call and e.op == "shift_left":
        a, b = ev(e.args[0]), ev(e.args[1])
        return not (b[0] >= 0 and b[1] < dtype.bits and holds(dtype, *_shifted(a, b)))
    return False


def _ramp(ev: BoundEvaluator, e: Any) -> Bound:
    base, stride = ev(e.base), ev(e.stride)
    last = scale_bound(stride, e.lanes - 1)
    low, high = add_low(base[0], min(0, last[0])), add_high(base[1], max(0, last[1]))
    return (low, high) if holds(e.dtype, low, high) else dtype_bound(e.dtype)


def _broadcast(ev: BoundEvaluator, e: Any) -> Bound:
    return ev(e.value)


def _truth(ev: BoundEvaluator, e: Any) -> Bound:
    return 0, 1


_RULES: dict[type[Expr], Callable[[BoundEvaluator, Any], Bound]] = {
    Var: _var,
    SizeVar: _var,
    Add: _add,
    Sub: _sub,
    Mul: _mul,
    FloorDiv: _floordiv,
    FloorMod: _floormod,
    Div: _truncdiv,
    Mod: _truncmod,
    Min: _min,
    Max: _max,
    Select: _select,
    Cast: _cast,
    Call: _call,
    Ramp: _ramp,
    Broadcast: _broadcast,
    **dict.fromkeys((EQ, NE, LT, LE, GT, GE, And, Or, Not), _truth),
}
