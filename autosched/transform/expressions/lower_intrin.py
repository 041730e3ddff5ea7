"""LowerIntrin: lower floor division and remainder to instructions that machines have.

before:
    def main(A: Buffer((8,), int32), x: int32):
        for i in range(100):
            A[0] = x // 8
            A[1] = x % 8
            A[2] = x // 3
            A[3] = (i - 5) // 3
after:
    def main(A: Buffer((8,), int32), x: int32):
        for i in range(100):
            A[0] = shift_right(x, 3)
            A[1] = bitwise_and(x, 7)
            A[2] = truncdiv(x, 3) + shift_right(truncmod(x, 3), 31)
            A[3] = truncdiv(i - 5 + 6, 3) - 2

Mathematical intrinsics, and floor division and remainder of floats, stay: the code generators lower
them. With `rules`, intrinsics are lowered by the tables of the function's target
(`intrin_rules.py`):

before:
    def main(A: Buffer((8,), float32), x: float32):
        attrs(target="llvm")
        A[0] = sigmoid(x)
        A[1] = A[2] * x + 1.0
after LowerIntrin{rules=True}:
    def main(A: Buffer((8,), float32), x: float32):
        attrs(target="llvm")
        A[0] = 1.0 / (1.0 + call_llvm_pure_intrin("llvm.exp.f32", 0.0 - x, dtype=float32))
        A[1] = call_llvm_pure_intrin("llvm.fmuladd.f32", A[2], x, 1.0, dtype=float32)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from autosched.errors import CompileError
from autosched.tir.constants import whole_number
from autosched.tir.expr import (
    EQ,
    NE,
    Add,
    Broadcast,
    Call,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Mod,
    Mul,
    Ramp,
)
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import bits_of, kinds, kinds_in
from autosched.tir.op import (
    add,
    and_,
    broadcast,
    call,
    const,
    ge,
    le,
    lt,
    max_,
    mul,
    or_,
    select,
    sub,
    truncdiv,
    truncmod,
)
from autosched.tir.stmt import AttrStmt, For, IfThenElse, LetStmt, Stmt
from autosched.tir.walk import map_children, map_expr_children
from autosched.transform.expressions.effects import is_lasting
from autosched.transform.expressions.facts import Facts
from autosched.transform.expressions.intrin_rules import Table, tables_for
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.function_target import target_of
from autosched.transform.framework.passes import FunctionPass

_THREAD_KEYS = ("thread_extent", "virtual_thread")
_DIVISIONS = bits_of(Div, Mod, FloorDiv, FloorMod)


@dataclass(frozen=True)
class LowerIntrin(FunctionPass):
    """Lower floordiv and floormod of integers to shifts, masks and truncating division.

    With `rules`, also lower intrinsics, and `x * y + z` on floats if the target has a rule for
    `fma`. Then raises CompileError for a function without a target. Raises ScheduleError for a
    division by 0 that is left, which means that no other pass has proved it unreachable.
    """

    name: ClassVar[str] = "LowerIntrin"
    rules: bool = False

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        tables: tuple[Table, ...] = ()
        if self.rules:
            target = target_of(func)
            if target is None:
                raise CompileError(
                    f"LowerIntrin: {func.name} has no attribute `target`, whose rules are asked "
                    "for; run BindTarget before"
                )
            tables = tables_for(target.kind, str(target.options.get("mtriple", "")))
        return func.with_body(_Lower(func, tables).stmt(func.body))


class _Lower:
    def __init__(self, func: PrimFunc, tables: tuple[Table, ...]) -> None:
        self.facts = Facts(func)
        self.tables = tables
        more = (Call, Add) if tables else ()
        self.work = bits_of(FloorDiv, FloorMod, *more)
        self.rules = self.of_intrinsics if tables else self.of_operators

    def stmt(self, s: Stmt) -> Stmt:
        if not kinds_in(s) & self.work:
            return s
        if isinstance(s, For):
            self.facts.bind(s.loop_var, s.min, s.extent)
        elif isinstance(s, AttrStmt) and s.key in _THREAD_KEYS:
            self.facts.bind(s.node.var, const(0, s.node.var.dtype), s.value)
        elif isinstance(s, LetStmt):
            self.facts.enter(s)
        elif isinstance(s, IfThenElse):
            return self._if(s)
        return map_children(s, self.stmt, self.expr)

    def _if(self, s: IfThenElse) -> Stmt:
        condition = self.expr(s.condition)
        plain = s.condition
        if isinstance(plain, Call) and plain.op == "likely":
            plain = plain.args[0]
        known = (plain,) if is_lasting(plain) else ()
        then_case = self.facts.under(known, self.stmt, s.then_case)
        else_case = None if s.else_case is None else self.stmt(s.else_case)
        return s.with_(condition=condition, then_case=then_case, else_case=else_case)

    def expr(self, e: Expr) -> Expr:
        if not kinds(e) & self.work:
            return e
        memo = self.facts.memo(e)
        done = memo.get(e)
        if done is None:
            rule = self.rules.get(type(e))
            done = memo[e] = map_expr_children(e, self.expr) if rule is None else rule(self, e)
        return done

    def _ruled(self, e: Call) -> Expr | None:
        """The result of the first table whose rule applies to the call; None if no rule applies."""
        for table in self.tables:
            rule = table.get(e.op)
            changed = None if rule is None else rule(e)
            if changed is not None:
                return self.expr(changed)
        return None

    def _call(self, e: Expr) -> Expr:
        assert isinstance(e, Call)
        changed = self._ruled(e)
        return map_expr_children(e, self.expr) if changed is None else changed

    def _multiply_add(self, e: Expr) -> Expr:
        """x * y + z: a fused instruction for floats, a product of wide vectors for integers."""
        assert isinstance(e, Add)
        for product, other in ((e.b, e.a), (e.a, e.b)):
            if isinstance(product, Mul):
                x, y = widened_late(product.a), widened_late(product.b)
                if e.dtype.is_float:
                    fused = self._ruled(Call(e.dtype, "fma", (x, y, other)))
                    if fused is not None:
                        return fused
                elif x is not product.a or y is not product.b:
                    return add(self.expr(mul(x, y)), self.expr(other))
                break
        return map_expr_children(e, self.expr)

    def _bounds(self, e: Expr) -> tuple[int, int]:
        """The minimum and maximum of `e` (before lowering) over all lanes, clamped to its type."""
        if isinstance(e, Broadcast):
            return self._bounds(e.value)
        if isinstance(e, Ramp) and isinstance(e.stride, IntImm):
            low, high = self._bounds(e.base)
            last = e.stride.value * (e.lanes - 1)
            return low + min(0, last), high + max(0, last)
        bound = self.facts.analyzer.const_int_bound(e)
        low = max(int(bound.min_value), int(e.dtype.min_value))
        return low, min(int(bound.max_value), int(e.dtype.max_value))

    def _floordiv(self, e: Expr) -> Expr:
        assert isinstance(e, FloorDiv)
        if e.dtype.is_float:
            return map_expr_children(e, self.expr)
        a, b = self.expr(e.a), self.expr(e.b)
        dtype = e.dtype
        divisor = whole_number(b)
        if divisor == 0:
            return const(0, dtype)
        shift = _power_of_two(divisor)
        if shift is not None:
            return a if shift == 0 else call("shift_right", a, const(shift, dtype))
        if self._bounds(e.b)[0] < 0:
            return _floordiv_any_sign(a, b)
        if self._bounds(e.a)[0] >= 0 or self._bounds(e)[0] >= 0:
            return truncdiv(a, b)
        steps = self._steps_to_positive(e.a, divisor)
        if steps is not None:
            assert divisor is not None
            raised = add(a, const(steps * divisor, dtype))
            return sub(truncdiv(raised, b), const(steps, dtype))
        quotient, rest = truncdiv(a, b), truncmod(a, b)
        if dtype.bits >= 32:
            return add(quotient, call("shift_right", rest, const(dtype.bits - 1, dtype)))
        return select(ge(rest, const(0, dtype)), quotient, sub(quotient, const(1, dtype)))

    def _floormod(self, e: Expr) -> Expr:
        assert isinstance(e, FloorMod)
        if e.dtype.is_float:
            return map_expr_children(e, self.expr)
        a, b = self.expr(e.a), self.expr(e.b)
        dtype = e.dtype
        divisor = whole_number(b)
        if divisor == 0:
            return const(0, dtype)
        shift = _power_of_two(divisor)
        if shift is not None:
            return call("bitwise_and", a, const((1 << shift) - 1, dtype))
        if self._bounds(e.b)[0] < 0:
            return _floormod_any_sign(a, b)
        if self._bounds(e.a)[0] >= 0:
            return truncmod(a, b)
        steps = self._steps_to_positive(e.a, divisor)
        if steps is not None:
            assert divisor is not None
            return truncmod(add(a, const(steps * divisor, dtype)), b)
        rest = truncmod(a, b)
        if dtype.bits >= 32:
            sign = call("shift_right", rest, const(dtype.bits - 1, dtype))
            return add(rest, call("bitwise_and", b, sign))
        return select(ge(rest, const(0, dtype)), rest, add(rest, b))

    def _steps_to_positive(self, a: Expr, divisor: int | None) -> int | None:
        """The number of divisors to add to make `a` non-negative; None if that may overflow."""
        if divisor is None:
            return None
        low, high = self._bounds(a)
        limit = int(a.dtype.max_value)
        steps = (divisor - 1 - low) // divisor
        if low <= -limit or max(high, 0) + steps * divisor > limit:
            return None
        return steps

    def _compare_with_zero(self, e: Expr) -> Expr:
        """Use truncmod in comparisons with zero: it is zero exactly when floormod is."""
        assert isinstance(e, EQ | NE)
        if isinstance(e.a, FloorMod) and whole_number(e.b) == 0 and e.a.dtype.is_integral:
            divisor = whole_number(e.a.b)
            if divisor != 0 and _power_of_two(divisor) is None:
                rest = truncmod(self.expr(e.a.a), self.expr(e.a.b))
                return e.with_children((rest, e.b))
        return map_expr_children(e, self.expr)

    def _max(self, e: Expr) -> Expr:
        """max(x // y, c) with c, y >= 0: truncate, as no negative quotient is the maximum."""
        assert isinstance(e, Max)
        for quotient, other in ((e.a, e.b), (e.b, e.a)):
            floor = whole_number(other)
            if not isinstance(quotient, FloorDiv) or floor is None or floor < 0:
                continue
            divisor = whole_number(quotient.b)
            is_simple = divisor == 0 or _power_of_two(divisor) is not None
            if e.dtype.is_integral and not is_simple and self._bounds(quotient.b)[0] >= 0:
                return max_(truncdiv(self.expr(quotient.a), self.expr(quotient.b)), other)
        return map_expr_children(e, self.expr)

    of_operators: ClassVar[dict[type[Expr], Callable[[_Lower, Expr], Expr]]] = {
        FloorDiv: _floordiv,
        FloorMod: _floormod,
        EQ: _compare_with_zero,
        NE: _compare_with_zero,
        Max: _max,
    }
    of_intrinsics = {**of_operators, Call: _call, Add: _multiply_add}


def widened_late(e: Expr) -> Expr:
    """Move a widening cast of a scalar behind its broadcast.

    broadcast(int16(x), 8)   ->   int16x8(broadcast(x, 8))
    """
    if not isinstance(e, Broadcast) or not isinstance(e.value, Cast):
        return e
    narrow, wide = e.value.value.dtype, e.value.dtype
    integers = narrow.code in ("int", "uint") and wide.code in ("int", "uint")
    if wide.bits == 2 * narrow.bits or (integers and wide.bits > narrow.bits):
        return Cast(e.dtype, broadcast(e.value.value, e.lanes))  # `cast` would move it back
    return e


def _power_of_two(value: int | None) -> int | None:
    """The exponent if `value` is a power of two, else None."""
    if value is None or value <= 0 or value & (value - 1):
        return None
    return value.bit_length() - 1


def _rounds_down(rest: Expr, b: Expr) -> Expr:
    """True if the remainder `rest` of the truncating division is zero or has the sign of `b`."""
    zero = const(0, b.dtype)
    return or_(
        and_(ge(b, zero), ge(rest, zero)),
        and_(lt(b, zero), le(rest, zero)),
    )


def _floordiv_any_sign(a: Expr, b: Expr) -> Expr:
    quotient, rest = truncdiv(a, b), truncmod(a, b)
    return select(_rounds_down(rest, b), quotient, sub(quotient, const(1, b.dtype)))


def _floormod_any_sign(a: Expr, b: Expr) -> Expr:
    rest = truncmod(a, b)
    return select(_rounds_down(rest, b), rest, add(rest, b))
