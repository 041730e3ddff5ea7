"""Elementwise functions of expressions, under their names in `te`."""

from __future__ import annotations

from collections.abc import Callable

from autosched.arguments import found
from autosched.tir import op
from autosched.tir.dtype import DType, bool_, handle, int32
from autosched.tir.expr import BufferLoad, Call, Expr, StringImm
from autosched.tir.op import Operand

Unary = Callable[[Operand], Expr]
Binary = Callable[[Operand, Operand], Expr]
Takes = tuple[str, Callable[[DType], bool]]
"""The types that a function takes: in words, and as a predicate of types."""

_FLOAT: Takes = ("a float", lambda dtype: dtype.is_float)
_INTEGER: Takes = ("an integer", lambda dtype: dtype.is_integral and not dtype.is_bool)


def _unary(name: str, takes: Takes = _FLOAT, result: DType | None = None) -> Unary:
    what, fits = takes

    def function(x: Operand) -> Expr:
        e = op.as_expr(x)
        if not fits(e.dtype):
            raise TypeError(f"te.{name} takes {what}, found {e.dtype}: cast it first")
        return op.call(name, e, dtype=result and result.with_lanes(e.dtype.lanes))

    function.__name__ = function.__qualname__ = name
    made = f", {result}" if result else ""
    function.__doc__ = f"{name}(x){made}, elementwise; x is {what}."
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
isnan = _unary("isnan", result=bool_)
isinf = _unary("isinf", result=bool_)
isfinite = _unary("isfinite", result=bool_)
popcount = _unary("popcount", _INTEGER)
clz = _unary("clz", _INTEGER, int32)
floor = _unary("floor")
ceil = _unary("ceil")
trunc = _unary("trunc")
round = _unary("round")
nearbyint = _unary("nearbyint")
power = _binary("power", op_name="pow")
fmod = _binary("fmod")
atan2 = _binary("atan2")
hypot = _binary("hypot")
copysign = _binary("copysign")


def _is_type(name: str) -> bool:
    try:
        DType(name)
    except ValueError:
        return False
    return True


def address_of(element: Expr) -> Expr:
    """The address of an element of a buffer, for functions that take pointers.

        te.call_extern("f", te.address_of(ins[0][0]), te.address_of(outs[0][0]))

    Raises TypeError for what is no element of a buffer.
    """
    if not isinstance(element, BufferLoad):
        raise TypeError(
            f"te.address_of: expected an element of a buffer, e.g. ins[0][0], {found(element)}"
        )
    return Call(handle, "address_of", (element,))


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
