"""Python's operators on expressions, and on objects that stand for an expression."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Number
from typing import TYPE_CHECKING, NoReturn, cast

from autosched.tir.dtype import TypeLike
from autosched.tir.numpy_functions import NumpyFunctions

if TYPE_CHECKING:
    from autosched.tir import op as _op  # `op.py` binds itself here when it is loaded
    from autosched.tir.conversion import Operand
    from autosched.tir.expr_core import Expr


_declaring: ContextVar[bool] = ContextVar("declaring", default=False)


@contextmanager
def declaring() -> Iterator[None]:
    """A context for a user's declaring function, in which == of expressions has no truth value."""
    token = _declaring.set(True)
    try:
        yield
    finally:
        _declaring.reset(token)


def is_declaring() -> bool:
    """Whether a user's declaring function is running (`declaring`)."""
    return _declaring.get()


class Operators(NumpyFunctions):
    """The base of classes on which arithmetic, comparisons and bit operations build expressions."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        """A `Comparison`; NotImplemented if `other` is not an operand."""
        return _compared(self, other, equal=True)

    def __ne__(self, other: object) -> bool:
        """A `Comparison`; NotImplemented if `other` is not an operand."""
        return _compared(self, other, equal=False)

    def __add__(self, other: Operand) -> Expr:
        return _op.add(self, other)

    def __radd__(self, other: Operand) -> Expr:
        return _op.add(other, self)

    def __sub__(self, other: Operand) -> Expr:
        return _op.sub(self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return _op.sub(other, self)

    def __mul__(self, other: Operand) -> Expr:
        return _op.mul(self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return _op.mul(other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return _op.div(self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return _op.div(other, self)

    def __floordiv__(self, other: Operand) -> Expr:
        return _op.floordiv(self, other)

    def __rfloordiv__(self, other: Operand) -> Expr:
        return _op.floordiv(other, self)

    def __mod__(self, other: Operand) -> Expr:
        return _op.floormod(self, other)

    def __rmod__(self, other: Operand) -> Expr:
        return _op.floormod(other, self)

    def __pow__(self, other: Operand) -> Expr:
        return _op.power(self, other)

    def __rpow__(self, other: Operand) -> Expr:
        return _op.power(other, self)

    def __divmod__(self, other: Operand) -> tuple[Expr, Expr]:
        return _op.floordiv(self, other), _op.floormod(self, other)

    def __rdivmod__(self, other: Operand) -> tuple[Expr, Expr]:
        return _op.floordiv(other, self), _op.floormod(other, self)

    def __neg__(self) -> Expr:
        return _op.neg(self)

    def __pos__(self) -> Expr:
        return _op.as_expr(self)

    def __abs__(self) -> Expr:
        return _op.abs_(self)

    def __round__(self, digits: int | None = None) -> Expr:
        """The nearest whole number, ties to even, as in Python and NumPy."""
        if digits is not None:
            raise TypeError(f"round({_op.as_expr(self)!r}, {digits}): only to whole numbers")
        return _op.whole("nearbyint", self)

    def __floor__(self) -> Expr:
        return _op.whole("floor", self)

    def __ceil__(self) -> Expr:
        return _op.whole("ceil", self)

    def __trunc__(self) -> Expr:
        return _op.whole("trunc", self)

    def __int__(self) -> int:
        self._no_number("int", "te.cast('int32', ...)")

    def __float__(self) -> float:
        self._no_number("float", "te.cast('float32', ...) or a function of te, e.g. te.exp")

    def _no_number(self, wanted: str, remedy: str) -> NoReturn:
        raise TypeError(
            f"{wanted}() of {_op.as_expr(self)!r}, whose value is known when the kernel runs: "
            f"write {remedy}"
        )

    def __and__(self, other: Operand) -> Expr:
        return _op.bitwise_and(self, other)

    def __rand__(self, other: Operand) -> Expr:
        return _op.bitwise_and(other, self)

    def __or__(self, other: Operand) -> Expr:
        return _op.bitwise_or(self, other)

    def __ror__(self, other: Operand) -> Expr:
        return _op.bitwise_or(other, self)

    def __xor__(self, other: Operand) -> Expr:
        return _op.bitwise_xor(self, other)

    def __rxor__(self, other: Operand) -> Expr:
        return _op.bitwise_xor(other, self)

    def __invert__(self) -> Expr:
        return _op.bitwise_not(self)

    def __lshift__(self, other: Operand) -> Expr:
        return _op.shift_left(self, other)

    def __rlshift__(self, other: Operand) -> Expr:
        return _op.shift_left(other, self)

    def __rshift__(self, other: Operand) -> Expr:
        return _op.shift_right(self, other)

    def __rrshift__(self, other: Operand) -> Expr:
        return _op.shift_right(other, self)

    def __lt__(self, other: Operand) -> Expr:
        return _op.lt(self, other)

    def __le__(self, other: Operand) -> Expr:
        return _op.le(self, other)

    def __gt__(self, other: Operand) -> Expr:
        return _op.gt(self, other)

    def __ge__(self, other: Operand) -> Expr:
        return _op.ge(self, other)

    def equal(self, other: Operand) -> Expr:
        """The condition self == other."""
        return _op.eq(self, other)

    def astype(self, dtype: TypeLike) -> Expr:
        """This value converted to `dtype`."""
        return _op.cast(dtype, self)


class Comparison(Operators):
    """`a == b` or `a != b`: the condition on their values wherever an expression is expected.

    As a truth value (in `if`, `in`, collections) it says whether both are the same object; equal
    nodes are. A comparison with a number has the truth value of the numbers if the expression is
    constant, else TypeError. In a user's declaring function, that also holds for a comparison of
    two expressions.
    """

    __slots__ = ("a", "b", "is_equal")

    def __init__(self, a: Operators, b: Operand, is_equal: bool) -> None:
        self.a = a
        self.b = b
        self.is_equal = is_equal

    def __repr__(self) -> str:
        a, b = _op.as_expr(self.a), _op.as_expr(self.b)
        return f"{a!r} {'==' if self.is_equal else '!='} {b!r}"

    def __bool__(self) -> bool:
        if isinstance(self.b, Number) or (self.a is not self.b and is_declaring()):
            try:
                return bool(self.condition())
            except TypeError:
                e, name = _op.as_expr(self.a), "eq" if self.is_equal else "ne"
                raise TypeError(
                    f"the truth value of {self!r} is not known, and was asked for (by if, and, or, "
                    "not or in); join conditions by te.all and te.any, choose by te.if_then_else, "
                    f"and write te.{name}({e!r}, {self.b!r}) to be plain"
                ) from None
        return (self.a is self.b) is self.is_equal

    def condition(self) -> Expr:
        """The condition on the values."""
        return (_op.eq if self.is_equal else _op.ne)(self.a, self.b)


def _compared(a: Operators, b: object, equal: bool) -> bool:
    found = Comparison(a, b, equal) if isinstance(b, Operators | Number) else NotImplemented  # type: ignore[arg-type]  # of numbers, too
    return cast("bool", found)  # a Comparison is no bool, but converts to one
