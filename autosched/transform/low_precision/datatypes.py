"""Custom types that users register, and the lowerings of their operations per kind of target.

    register_type("fixed", 130)
    register_lowering("Add.fixed", lambda dtype, a, b: a + b)     # on the bits
    A = te.placeholder((n,), "custom[fixed]16", name="A")

A lowering gets the type of the result (for a custom type, the type of its bits) and the operands. A
custom operand comes as its bits, a uint of the type's size, and an operand of a built-in type as it
is; a constant comes as a Python float. Operands may be vectors. The lowering returns an expression.
The names of operations:

    Cast.fixed.float    cast from a float type to the custom type; Cast.float.fixed casts back; a
                        built-in type is given by its class: float (of any size), int, uint, bool
    FloatImm.fixed      a constant
    Add Sub Mul Div Mod Min Max EQ NE LT LE GT GE, such as Add.fixed
    Call.intrin.tir.sqrt.fixed      an intrinsic
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autosched import arguments
from autosched.errors import ConfigError
from autosched.tir.dtype import DType
from autosched.tir.expr import Expr
from autosched.transform.framework.function_target import DEVICE_TYPES
from autosched.user_file import watched

Lowering = Callable[..., Expr]

FIRST_CODE = 129
"""Smaller type codes belong to built-in types."""

_codes: dict[str, int] = {}
_lowerings: dict[str, Lowering] = {}


def register_type(name: str, code: int) -> None:
    """Register `custom[name]BITS` as a type with this type code in array descriptions.

    Registering the same pair again changes nothing. Raises ConfigError for a name that is no
    identifier, a code below 129 or above 255, and a name or code that is taken.
    """
    if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
        raise ConfigError(f"register_type: the name is an identifier, found {name!r}")
    code = arguments.integer(f"register_type {name}: code", code)
    if not FIRST_CODE <= code <= 255:
        raise ConfigError(f"register_type {name}: expected a code from 129 to 255, found {code}")
    if _codes.get(name, code) != code:
        raise ConfigError(f"register_type {name}: it is registered with code {_codes[name]}")
    taken = [other for other, number in _codes.items() if number == code and other != name]
    if taken:
        raise ConfigError(f"register_type {name}: code {code} is that of {taken[0]}")
    _codes[name] = code


def register_lowering(
    operation: str, lowering: Lowering, targets: Sequence[str] = tuple(DEVICE_TYPES)
) -> None:
    """Register the lowering of `operation`, such as Add.fixed, for the kinds of target `targets`.

    The default is all kinds. An earlier lowering is replaced. Raises ConfigError if the operation
    names no registered type, for what cannot be called, and for an unknown kind of target.
    """
    arguments.text("register_lowering: operation", operation, "Add.fixed")
    if not set(operation.split(".")) & set(_codes):
        raise ConfigError(
            f"register_lowering {operation}: it names no registered type; registered are "
            f"{', '.join(sorted(_codes)) or 'none'}"
        )
    arguments.function(f"register_lowering {operation}", lowering, "lambda dtype, a, b: a + b")
    kinds = tuple(DEVICE_TYPES)
    if isinstance(targets, str) or not isinstance(targets, Sequence):
        raise ConfigError(
            f"register_lowering {operation}: targets: expected a list of kinds, e.g. ['cpu'], "
            f"{arguments.found(targets)}"
        )
    for kind in targets:
        arguments.one_of(f"register_lowering {operation}: targets", kind, kinds)
    for kind in targets:
        _lowerings[f"lower.{kind}.{operation}"] = lowering


def type_code(dtype: DType) -> int:
    """The type code of a custom type. Raises ConfigError if it is not registered."""
    name = name_of(dtype)
    if name not in _codes:
        raise ConfigError(
            f"the type {dtype} is not registered; registered are "
            f"{', '.join(sorted(_codes)) or 'none'}"
        )
    return _codes[name]


def name_of(dtype: DType) -> str:
    """`fixed` for custom[fixed]16; for a built-in type its class, such as float."""
    if dtype.is_custom:
        return dtype.code.removeprefix("custom[").removesuffix("]")
    return {"bfloat": "float", "e4m3fn": "float", "e5m2": "float"}.get(dtype.code, dtype.code)


def lowered(kind: str, operation: str, dtype: DType, *args: Any) -> Expr:
    """Apply the lowering of `operation` for targets of `kind` to `args`.

    Raises ConfigError if there is none, if it fails, and if its result has another type than
    `dtype`.
    """
    found = _lowerings.get(f"lower.{kind}.{operation}")
    if found is None:
        raise ConfigError(
            f"LowerCustomDatatypes: there is no lowering of {operation} for the target {kind}; "
            f"say what it becomes with register_lowering({operation!r}, function)"
        )
    with watched(f"LowerCustomDatatypes: the lowering of {operation} for the target {kind}"):
        result = found(dtype, *args)
    if not isinstance(result, Expr) or result.dtype is not dtype:
        what = result.dtype if isinstance(result, Expr) else type(result).__name__
        raise ConfigError(
            f"LowerCustomDatatypes: the lowering of {operation} for the target {kind} gives "
            f"{what}, expected an expression of type {dtype}"
        )
    return result
