"""Elementwise functions of expressions, as they are named in `te`."""

from __future__ import annotations

from collections.abc import Callable

from autosched.tir import op
from autosched.tir.dtype import DType
from autosched.tir.expr import Call, Expr, StringImm
from autosched.tir.op import Operand

Unary = Callable[[Operand], Expr]
Binary = Callable[[Operand, Operand], Expr]


def _unary(name: str) -> Unary:
    def function(x: Operand) -> Expr:
        e = op.as_expr(x)
        if not e.dtype.is_float:
            raise TypeError(f"te.{name} takes a float, found {e.dtype}: cast it first")
        return op.call(name, e)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name}(x), elementwise on floats."
    return function


def _binary(name: str, op_name: str = "") -> Binary:
    def function(x: Operand, y: Operand) -> Expr:
        a, b = op.unify(x, y)
        if not a.dtype.is_float:
            raise TypeError(f"te.{name} takes floats, found {a.dtype}: cast them first")
        return op.call(op_name or name, a, b)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name}(x, y), elementwise on floats."
    return function


def _bitwise(name: str) -> Binary:
    def function(x: Operand, y: Operand) -> Expr:
        a, b = op.unify(x, y)
        if not a.dtype.is_integral:
            raise TypeError(f"te.{name} takes integers or truth values, found {a.dtype}")
        return op.call(name, a, b)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name}(x, y), elementwise on integers and truth values."
    return function


def _shift(name: str) -> Binary:
    def function(x: Operand, y: Operand) -> Expr:
        a, b = op.unify(x, y)
        if not a.dtype.is_integral or a.dtype.is_bool:
            raise TypeError(f"te.{name} takes integers, found {a.dtype}: cast them first")
        return op.call(name, a, b)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name}(x, y), elementwise on integers; y counts modulo their bits."
    return function


exp = _unary("exp")
exp2 = _unary("exp2")
exp10 = _unary("exp10")
expm1 = _unary("expm1")
erf = _unary("erf")
tanh = _unary("tanh")
sigmoid = _unary("sigmoid")
sqrt = _unary("sqrt")
rsqrt = _unary("rsqrt")
log = _unary("log")
log2 = _unary("log2")
log10 = _unary("log10")
log1p = _unary("log1p")
sin = _unary("sin")
cos = _unary("cos")
tan = _unary("tan")
asin = _unary("asin")
acos = _unary("acos")
atan = _unary("atan")
sinh = _unary("sinh")
cosh = _unary("cosh")
asinh = _unary("asinh")
acosh = _unary("acosh")
atanh = _unary("atanh")
floor = _unary("floor")
ceil = _unary("ceil")
trunc = _unary("trunc")
round = _unary("round")
nearbyint = _unary("nearbyint")
power = _binary("power", "pow")
fmod = _binary("fmod")
atan2 = _binary("atan2")
hypot = _binary("hypot")
copysign = _binary("copysign")
bitwise_and = _bitwise("bitwise_and")
bitwise_or = _bitwise("bitwise_or")
bitwise_xor = _bitwise("bitwise_xor")
shift_left = _shift("shift_left")
shift_right = _shift("shift_right")


def abs(x: Operand) -> Expr:
    """The absolute value: `fabs` on floats, a Select on integers that have a sign."""
    e = op.as_expr(x)
    if e.dtype.is_float:
        return op.call("fabs", e)
    if not e.dtype.is_int:
        return e
    return op.select(op.ge(e, 0), e, op.neg(e))


def _is_type(name: str) -> bool:
    try:
        DType(name)
    except ValueError:
        return False
    return True


def call_extern(name: str, *args: Operand, dtype: str = "int32") -> Expr:
    """A call of the C function `name` (in the interpreter: of a registered Python function).

        te.call_extern("f", x, y, dtype="float32")

    Raises TypeError for a name that is a type.
    """
    if _is_type(name):
        named = args[0] if args and isinstance(args[0], str) else "f"
        raise TypeError(
            f"te.call_extern: {name!r} is a type, where the name of a function is expected; write "
            f"te.call_extern({named!r}, ..., dtype={name!r})"
        )
    return Call(DType(dtype), "call_extern", (StringImm(name), *map(op.as_expr, args)))
