"""Translate the syntax trees of values: operators, functions and types.

A literal takes the type of the other operand. Index arithmetic is done in int64 where int32 might
overflow. An element of a narrower type is first widened to the type of the statement's result, but
integers in conditions stay integers, because a float may not represent what is compared. int8 and
uint8 are combined in int16, as in NumPy.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autosched.te.operations.tensor import Tensor
from autosched.tir import op
from autosched.tir.dtype import DType, float32, int32, int64
from autosched.tir.expr import Expr
from autosched.workloads.expression.interval import OF_INDICES, leaves_int32
from autosched.workloads.expression.statement import index_list, tensor_of

_FLOAT_FUNCTIONS = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sigmoid", "erf"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"),
    *("floor", "ceil", "round", "rint", "trunc"),
)
FUNCTIONS = {
    **dict.fromkeys((*_FLOAT_FUNCTIONS, "abs", "relu", "square"), 1),
    **dict.fromkeys(("max", "min", "pow", "atan2", "hypot", "fmod"), 2),
    **dict.fromkeys(("where", "clip"), 3),
}
"""Functions and their numbers of arguments."""

CASTS = (
    *("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"),
    *("int64", "int32", "int16", "int8", "uint8"),
)
"""Functions that convert to the type of that name."""

_OPERATORS: dict[type[ast.AST], Callable[[Expr, Expr], Expr]] = {
    ast.Add: op.add,
    ast.Sub: op.sub,
    ast.Mult: op.mul,
    ast.FloorDiv: op.floordiv,
    ast.Mod: op.floormod,
    ast.Eq: op.eq,
    ast.NotEq: op.ne,
    ast.Lt: op.lt,
    ast.LtE: op.le,
    ast.Gt: op.gt,
    ast.GtE: op.ge,
}
_BITWISE: dict[type[ast.AST], Callable[[Expr, Expr], Expr]] = {
    ast.BitAnd: op.bitwise_and,
    ast.BitOr: op.bitwise_or,
    ast.BitXor: op.bitwise_xor,
}
_OF_BITS = {**_BITWISE, ast.LShift: op.shift_left, ast.RShift: op.shift_right}
_FOLD: dict[type[ast.AST], Callable[[Any, Any], float]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.BitAnd: lambda a, b: a & b,
    ast.BitOr: lambda a, b: a | b,
    ast.BitXor: lambda a, b: a ^ b,
    ast.LShift: lambda a, b: a << _count(b),
    ast.RShift: lambda a, b: a >> _count(b),
}
_SPELLING = {"abs": "fabs", "rint": "nearbyint"}
_FLOAT64 = DType("float64")

Value = Expr | int | float
"""An expression, or a literal that has no type yet."""


@dataclass(frozen=True)
class Translation:
    """Translates values: `env` has the indices, `result` the statement's type, if given.

    Conditions are bool. Literals stay numbers until they meet an operand with a type. Values read
    `in_index` have at least 32 bits, so that arithmetic on them does not wrap. So do integers
    `in_condition` of a statement with a float result, and floats computed from them there. In a
    helper, `result` is the type of the statement that it is for, which literals alone do not take:
    they are counted in int32, whatever that type holds.
    """

    env: Mapping[str, Expr]
    tensors: Mapping[str, Tensor]
    extents: Mapping[str, int]
    result: DType | None
    in_index: bool = False
    in_condition: bool = False
    in_helper: bool = False

    def typed(self, e: ast.expr) -> Expr:
        """The value as an expression; a lone literal gets the statement's type."""
        value = self.value(e)
        if isinstance(value, Expr):
            return value
        result = None if self.in_helper else self.result
        if result is not None and (result.is_float or isinstance(value, int)):
            return op.const(value, result)
        return op.const(value, self._float() if isinstance(value, float) else None)

    def _float(self, *others: DType) -> DType:
        """The float type for an operation on values of the types `others` that needs floats."""
        result = self.result
        if self.in_condition and result is not None and result.is_float and result.bits < 32:
            result = None
        floats = [t for t in (*others, result) if t is not None and t.is_float]
        if floats:
            return max(floats, key=lambda t: t.bits)
        wide = any(t.bits > 32 or result is not None for t in others if t.is_integral)
        return _FLOAT64 if wide else float32

    def value(self, e: ast.expr) -> Value:
        """`e` as a tensor expression or a number. Raises TypeError for what is not a value."""
        match e:
            case ast.Constant(value=int() | float() as value):
                return value
            case ast.Name(id=name):
                return self.env[name]
            case ast.Subscript():
                return self._load(e)
            case ast.BinOp() | ast.Call() if self._is_index(e):
                return self._index(e)
            case ast.BinOp(left=left, op=operator, right=right):
                return self._binary(operator, self.value(left), self.value(right), right)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return op.not_(self.condition(operand))
            case ast.UnaryOp(op=operator, operand=operand):
                return self._unary(operator, self.value(operand))
            case ast.BoolOp(op=operator, values=values):
                join = op.all_ if isinstance(operator, ast.And) else op.any_
                return join(*map(self.condition, values))
            case ast.Compare(left=left, ops=operators, comparators=comparators):
                inside = replace(self, in_condition=True)
                terms = [inside.value(t) for t in (left, *comparators)]
                pairs = zip(terms, operators, terms[1:], strict=False)
                return op.all_(*(inside._compare(_OPERATORS[type(o)], a, b) for a, o, b in pairs))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._choice(test, body, orelse)
            case ast.Call(func=ast.Name(id="where"), args=[test, body, orelse]):
                return self._choice(test, body, orelse)
            case ast.Call(func=ast.Name(id=name), args=args):
                return self._call(name, [self.value(arg) for arg in args])
        raise TypeError(f"{ast.unparse(e)} is not a value")

    def condition(self, e: ast.expr) -> Expr:
        """The value as a bool; a number is true unless it is 0."""
        value = replace(self, in_condition=True).value(e)
        if not isinstance(value, Expr):
            return op.const(bool(value))
        return value if value.dtype.is_bool else op.ne(value, op.const(0, value.dtype))

    # -- elements and indices --------------------------------------------------------------------

    def _load(self, e: ast.Subscript) -> Expr:
        name = tensor_of(e)
        load: Expr = self.tensors[name][tuple(map(self._index, index_list(e)))]
        to_float = self.result is not None and self.result.is_float
        if load.dtype.is_integral and (self.in_index or (self.in_condition and to_float)):
            return op.cast(int32, load) if load.dtype.bits < 32 else load
        if self.result is None or self.result is load.dtype:
            return load
        if load.dtype.is_float and not self.result.is_float:
            return load
        if load.dtype.is_float == self.result.is_float and load.dtype.bits >= self.result.bits:
            return load
        return op.cast(self.result, load)

    def _index(self, e: ast.expr) -> Expr:
        """Index arithmetic in int32, or through int64 where a part of it might not fit."""
        wide = leaves_int32(e, self.extents)
        env = {n: op.cast(int64, v) for n, v in self.env.items()} if wide else self.env
        value = Translation(env, self.tensors, self.extents, None, in_index=True)._integer(e)
        if isinstance(value, int):
            return op.const(value)
        if not isinstance(value, Expr):
            raise TypeError(f"the index {ast.unparse(e)} must be an integer, found {value}")
        if not value.dtype.is_integral or value.dtype.is_bool:
            raise TypeError(f"the index {ast.unparse(e)} must be an integer, found {value.dtype}")
        return value if value.dtype is int32 or self._is_index(e) else op.cast(int32, value)

    def _integer(self, e: ast.expr) -> Value:
        match e:
            case ast.BinOp(left=left, op=operator, right=right):
                return self._binary(operator, self._integer(left), self._integer(right), right)
            case ast.Call(func=ast.Name(id=name), args=args) if name in OF_INDICES:
                return self._call(name, [self._integer(arg) for arg in args])
        return self.value(e)

    def _is_index(self, e: ast.expr) -> bool:
        """Whether `e` is integer arithmetic on indices and literals only."""
        names = 0
        for node in ast.walk(e):
            match node:
                case ast.Name(id=name):
                    names += name in self.env
                case ast.Constant(value=int()) | ast.UnaryOp(op=ast.USub() | ast.UAdd()):
                    pass
                case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() | ast.Mod()):
                    pass
                case ast.BinOp(op=ast.Pow(), right=ast.Constant(value=int())):
                    pass
                case ast.Call(func=ast.Name(id=name)) if name in OF_INDICES:
                    pass
                case ast.expr():
                    return False
        return names > 0

    # -- operators -------------------------------------------------------------------------------

    def _binary(self, operator: ast.operator, a: Value, b: Value, right: ast.expr) -> Value:
        kind = type(operator)
        if isinstance(operator, ast.Pow):
            return self._power(a, b)
        if not isinstance(a, Expr) and not isinstance(b, Expr):
            if kind in _OF_BITS and not (isinstance(a, int) and isinstance(b, int)):
                self._need_integers(kind, op.const(a if isinstance(a, float) else b))
            return _literal(_FOLD[kind](a, b))
        if isinstance(a, Expr) and isinstance(b, Expr) and a.dtype is b.dtype:
            a, b = (a, b) if kind in _BITWISE else (_counted(a), _counted(b))
        if isinstance(operator, ast.Div):
            return self._divide(a, b, right)
        if kind in _OF_BITS:
            x, y = self._unified(a, b)
            self._need_integers(kind, x)
            return _OF_BITS[kind](x, y)
        return self._combine(_OPERATORS[kind], a, b)

    def _need_integers(self, kind: type[ast.AST], value: Expr) -> None:
        if not value.dtype.is_integral:
            raise TypeError(
                f"{kind.__name__} needs integers or truth values, found {value.dtype}; comparisons "
                "beside & and | need parentheses, (a > 0) & (b > 0)"
            )

    def _unary(self, operator: ast.unaryop, value: Value) -> Value:
        if isinstance(operator, ast.UAdd):
            return value
        if isinstance(operator, ast.USub):
            return op.neg(_counted(value)) if isinstance(value, Expr) else -value
        if isinstance(value, int):
            return ~value
        e = op.as_expr(value)
        if not e.dtype.is_bool:
            self._need_integers(type(operator), e)
        return op.bitwise_not(e)

    def _combine(self, function: Callable[[Expr, Expr], Expr], a: Value, b: Value) -> Expr:
        return function(*self._unified(a, b))

    def _compare(self, function: Callable[[Expr, Expr], Expr], a: Value, b: Value) -> Expr:
        """Compare two values in a type that holds both, where there is one."""
        if isinstance(a, Expr) and isinstance(b, Expr):
            kind = _holds_both(a.dtype, b.dtype)
            if kind is not None:
                a, b = op.cast(kind, a), op.cast(kind, b)
        return self._combine(function, a, b)

    def _unified(self, a: Value, b: Value) -> tuple[Expr, Expr]:
        """Both values in one type; a literal takes the type of the other side, if possible."""
        if isinstance(a, Expr) and isinstance(b, Expr):
            if _unlike(a.dtype, b.dtype):
                wide = f"int{2 * max(a.dtype.bits, b.dtype.bits)}"
                return op.cast(wide, a), op.cast(wide, b)
            return op.unify(a, b)
        if isinstance(a, Expr):
            return self._adapted(a, b)
        if isinstance(b, Expr):
            second, first = self._adapted(b, a)
            return first, second
        return op.unify(op.as_expr(a), op.as_expr(b))

    def _adapted(self, e: Expr, number: Value) -> tuple[Expr, Expr]:
        assert not isinstance(number, Expr)
        kind = e.dtype
        if isinstance(number, float) and not kind.is_float:
            kind = self._float(kind)
        elif kind.is_float and kind.bits < 32 and kind.max_value < abs(number) < math.inf:
            kind = float32
        elif isinstance(number, int) and kind.is_bool:
            kind = int32
        elif isinstance(number, int) and kind.is_integral:
            low, high = int(kind.min_value), int(kind.max_value)
            if not low <= number <= high:
                kind = int64
        return op.cast(kind, e), op.const(number, kind)

    def _divide(self, a: Value, b: Value, right: ast.expr) -> Expr:
        kinds = [v.dtype for v in (a, b) if isinstance(v, Expr)]
        if not any(k.is_float for k in kinds):
            if self.result is not None and not self.result.is_float:
                raise TypeError(
                    f"/ is a division of floats and ambiguous for integers; write // to round "
                    f"down, or convert: float32(a) / {ast.unparse(right)}"
                )
            kind = self._float(*kinds)
            a, b = (op.cast(kind, v) if isinstance(v, Expr) else v for v in (a, b))
        return self._combine(op.div, a, b)

    def _power(self, a: Value, b: Value) -> Value:
        if not isinstance(a, Expr) and not isinstance(b, Expr):
            if (
                isinstance(a, int)
                and isinstance(b, int)
                and abs(a) > 1
                and abs(b) > op.MOST_FACTORS
            ):
                raise OverflowError(f"{a} ** {b} does not fit")
            try:
                return _literal(a**b)
            except OverflowError:  # of floats; its text is a tuple
                raise OverflowError(f"{a} ** {b} does not fit") from None
        if isinstance(a, Expr) and isinstance(b, int) and 0 <= b <= op.MOST_FACTORS:
            return op.power(_counted(a), b)
        if isinstance(a, Expr) and a.dtype.is_float and not isinstance(b, Expr) and b == 0.5:
            return op.call("sqrt", a)
        x, y = self._unified(a, b)
        if not x.dtype.is_float:
            raise TypeError(
                f"an integer needs an exponent from 0 to {op.MOST_FACTORS}; convert it: "
                "float32(a) ** b"
            )
        return op.call("pow", x, y)

    def _choice(self, test: ast.expr, body: ast.expr, orelse: ast.expr) -> Expr:
        a, b = self.value(body), self.value(orelse)
        literals = not isinstance(a, Expr) and not isinstance(b, Expr)
        if literals and self.result is not None and not self.in_helper:
            a = self.typed(body)
        x, y = self._unified(a, b)
        return op.if_then_else(self.condition(test), x, y)

    def _extreme(self, name: str, a: Value, b: Value) -> Value:
        if not isinstance(a, Expr) and not isinstance(b, Expr):
            found = max(a, b) if name == "max" else min(a, b)
            return float(found) if isinstance(a, float) or isinstance(b, float) else found
        return self._combine(op.max_ if name == "max" else op.min_, a, b)

    def _call(self, name: str, args: Sequence[Value]) -> Value:
        if name in CASTS:
            return op.cast(name, args[0])
        if name in ("max", "min"):
            return self._extreme(name, *args)
        if name == "clip":
            return self._extreme("min", self._extreme("max", args[0], args[1]), args[2])
        if name == "pow":
            return self._power(*args)
        if name == "relu":
            return self._extreme("max", args[0], 0)
        if name == "square":
            return self._power(args[0], 2)
        if name == "abs" and isinstance(args[0], int | float):
            return abs(args[0])
        if name == "abs" and isinstance(args[0], Expr) and not args[0].dtype.is_float:
            value = _counted(args[0])
            return op.max_(value, op.neg(value)) if value.dtype.is_int else value
        kind = self._float(*(a.dtype for a in args if isinstance(a, Expr)))
        floats = [
            op.cast(kind, a) if isinstance(a, Expr) else op.const(float(a), kind) for a in args
        ]
        return op.call(_SPELLING.get(name, name), *floats)


def _holds_both(a: DType, b: DType) -> DType | None:
    """The type in which to compare, or None for the type that arithmetic would use."""
    if a.is_bool or b.is_bool or a.is_float == b.is_float:
        return None
    return float32 if max(a, b, key=lambda t: t.is_float).bits < 32 else None


def _counted(e: Expr) -> Expr:
    """A bool as int32, so that true + true is 2; other values unchanged."""
    return op.cast(int32, e) if e.dtype.is_bool else e


def _unlike(a: DType, b: DType) -> bool:
    """Whether one is signed, the other unsigned, and the signed one no wider: int8 and uint8."""
    signed, unsigned = (a, b) if a.is_int else (b, a)
    return signed.is_int and unsigned.code == "uint" and signed.bits <= unsigned.bits


def _count(bits: int) -> int:
    """By how many bits a literal is shifted; OverflowError for a number that int64 has not."""
    if not 0 <= bits < 64:
        raise OverflowError(f"a shift by {bits} bits: expected 0 to 63")
    return bits


def _literal(number: float) -> float:
    """A folded literal; OverflowError for a number that no type holds."""
    if isinstance(number, complex):
        raise ValueError("a root of a negative number")
    if isinstance(number, int) and abs(number) >= 2**63:
        raise OverflowError(f"the number {number} does not fit int64")
    return number
