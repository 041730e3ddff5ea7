"""The base of expressions: interning, operators, variables and constants."""

from __future__ import annotations

import struct
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from autosched.tir.dtype import DType, TypeLike, float32, handle, int32
from autosched.tir.operators import Operators

if TYPE_CHECKING:
    from autosched.tir import (
        printer as _printer,
    )  # `printer.py` binds itself here when it is loaded


Scalar = int | float | bool


class _Ref(weakref.ref["Expr"]):
    __slots__ = ("key",)
    key: tuple[Any, ...]


_refs: dict[tuple[Any, ...], _Ref] = {}


def _drop(ref: weakref.ref[Expr], refs: dict[tuple[Any, ...], _Ref] = _refs) -> None:
    # The table is a default argument because globals are gone when the last nodes die at exit.
    key = ref.key  # type: ignore[attr-defined]  # only _Ref objects carry this callback
    if refs.get(key) is ref:
        del refs[key]


def intern(key: tuple[Any, ...], node: Expr) -> None:
    """Intern `node`: `lookup(key)` returns it as long as it is alive."""
    ref = _Ref(node, _drop)
    ref.key = key
    _refs[key] = ref


def lookup(key: tuple[Any, ...]) -> Any:
    """The living node interned under `key`, or None."""
    ref = _refs.get(key)
    return None if ref is None else ref()


class Expr(Operators):
    """The base of all expressions. `dtype` is the type of the value."""

    __slots__ = ("__weakref__", "_data", "_kinds", "_simple", "_vars", "dtype")
    __match_args__: ClassVar[tuple[str, ...]] = ()
    dtype: DType
    _vars: frozenset[Var]  # cache of walk.free_vars
    _data: bool  # cache of data.is_data
    _kinds: int  # cache of kinds.kinds
    _simple: Any  # cache of Analyzer.simplify

    def children(self) -> tuple[Expr, ...]:
        """Direct sub-expressions, in evaluation order."""
        return ()

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        """The same node over other sub-expressions, built by the folding constructors."""
        assert not children
        return self

    def __repr__(self) -> str:
        return _printer.to_text(self)

    def __format__(self, spec: str) -> str:
        """Format the text of the expression, or the number of a constant: `f"{A.shape[0]:5d}"`."""
        return format(getattr(self, "value", repr(self)), spec) if spec else repr(self)

    def __bool__(self) -> bool:
        raise TypeError(
            f"the truth value of the symbolic expression {self!r} is not known; use te.all, "
            "te.any, te.if_then_else, te.max and te.min of two, or Analyzer.can_prove"
        )


class Var(Expr):
    """A variable, unique by identity; `name` is a hint for printing only.

    A pointer variable has dtype `handle`, `element` (the type it points to) and `scope`.
    """

    __slots__ = ("element", "name", "scope")
    __match_args__ = ("name",)

    def __init__(
        self,
        name: str,
        dtype: TypeLike = int32,
        *,
        element: DType | None = None,
        scope: str = "",
    ) -> None:
        self.name = name
        self.dtype = DType(dtype)
        self.element = element
        self.scope = scope


class SizeVar(Var):
    """A variable known to be non-negative: a symbolic size."""

    __slots__ = ()


def pointer(name: str, element: DType, scope: str = "global") -> Var:
    """A fresh pointer variable to `element`s in storage scope `scope`."""
    return Var(name, handle, element=element, scope=scope)


class IntImm(Expr):
    """An integer or bool constant; the value is a Python int (0 or 1 for bool).

    The node converts to an int wherever Python takes an index: `range(A.shape[0])`.
    """

    __slots__ = ("value",)
    __match_args__ = ("value",)
    value: int

    def __new__(cls, value: int, dtype: DType = int32) -> IntImm:
        key = (IntImm, value, dtype)
        ref = _refs.get(key)
        node: IntImm | None = None if ref is None else ref()  # type: ignore[assignment]  # by key
        if node is None:
            node = object.__new__(cls)
            node.value, node.dtype = value, dtype
            intern(key, node)
        return node

    def __bool__(self) -> bool:
        return self.value != 0

    def __index__(self) -> int:
        return self.value

    def __int__(self) -> int:
        return self.value

    def __float__(self) -> float:
        return float(self.value)


class FloatImm(Expr):
    """A float constant; interned by its exact bits, so 0.0 and -0.0 differ."""

    __slots__ = ("value",)
    __match_args__ = ("value",)
    value: float

    def __new__(cls, value: float, dtype: DType = float32) -> FloatImm:
        key = (FloatImm, struct.pack("<d", value), dtype)
        node: FloatImm | None = lookup(key)
        if node is None:
            node = object.__new__(cls)
            node.value, node.dtype = value, dtype
            intern(key, node)
        return node

    def __bool__(self) -> bool:
        return self.value != 0

    def __float__(self) -> float:
        return self.value

    def __int__(self) -> int:
        return int(self.value)


class StringImm(Expr):
    """A string constant (arguments of calls and attributes)."""

    __slots__ = ("value",)
    __match_args__ = ("value",)
    value: str

    def __new__(cls, value: str) -> StringImm:
        key = (StringImm, value)
        node: StringImm | None = lookup(key)
        if node is None:
            node = object.__new__(cls)
            node.value, node.dtype = value, handle
            intern(key, node)
        return node


class Node(Expr):
    """The base of all other interned nodes; `_make` interns on the class, dtype and fields."""

    __slots__ = ()

    @classmethod
    def _make(cls, dtype: DType, *fields: Any) -> Any:
        key = (cls, dtype, *fields)
        ref = _refs.get(key)
        node: Any = None if ref is None else ref()
        if node is None:
            node = object.__new__(cls)
            node.dtype = dtype
            for name, field in zip(cls.__match_args__, fields, strict=True):
                setattr(node, name, field)
            intern(key, node)
        return node


ExprRule = Callable[[Expr], Expr]
