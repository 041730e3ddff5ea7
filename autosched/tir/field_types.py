"""Checks that the fields of a statement have the types that its class declares.

Users' rewriters are not checked by mypy: one that forgets a `return` makes a loop without a body.
"""

from __future__ import annotations

from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from autosched.arguments import found
from autosched.tir.stmt import Stmt


def wrong_field(stmt: Stmt) -> str:
    """The text that names the first field of a wrong type; empty when all types are right.

    >>> from autosched.tir.stmt import Evaluate
    >>> wrong_field(Evaluate(4))
    'Evaluate.value: expected Expr, found 4 (int)'
    """
    cls = type(stmt)
    for name, kind, element in _every_type().get(cls, []):
        value, where = getattr(stmt, name), f"{cls.__name__}.{name}"
        if not isinstance(value, kind):
            return f"{where}: expected {_name(kind, element)}, {found(value)}"
        for each in value if element is not None else ():
            if not isinstance(each, element):
                return f"{where}: expected {_name(kind, element)}, {found(each)} in it"
    return ""


@cache
def _every_type() -> dict[type[Stmt], list[tuple[str, Any, Any]]]:
    return {cls: _types(cls) for cls in Stmt.__subclasses__()}


def _types(cls: type[Stmt]) -> list[tuple[str, Any, Any]]:
    """(name, type, type of the elements of a tuple or None) for each field of `cls`."""
    types: list[tuple[str, Any, Any]] = []
    for name, hint in get_type_hints(cls).items():
        if hint is Any or name.startswith("_"):
            continue
        if get_origin(hint) is tuple:
            types.append((name, tuple, get_args(hint)[0]))
        elif isinstance(hint, UnionType):
            types.append((name, hint, None))
        else:
            types.append((name, get_origin(hint) or hint, None))  # items of a dict are not checked
    return types


def _name(kind: Any, element: Any) -> str:
    """The type in words: `Expr`, `Stmt or None`, `a tuple of Expr`."""
    if element is not None:
        return f"a tuple of {element.__name__}"
    return " or ".join(
        "None" if each is NoneType else str(each.__name__) for each in get_args(kind) or (kind,)
    )
