"""Checks of what users give the functions of te; a TypeError says what was expected and found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from autosched.arguments import found, is_flag

Kind = TypeVar("Kind")


def text(what: str, value: Any) -> str:
    """`value`, which must be text; `what` is e.g. "te.var: a name"."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is text, {found(value)}")
    return value


def function(what: str, value: Any, example: str) -> Callable[..., Any]:
    """`value`, which must be a function, such as `example`."""
    if not callable(value):
        raise TypeError(f"{what} is a function, e.g. {example}, {found(value)}")
    return cast(Callable[..., Any], value)


def flag(what: str, value: Any) -> bool:
    """`value`, which must be True or False (also of NumPy)."""
    if not is_flag(value):
        raise TypeError(f"{what} is True or False, {found(value)}")
    return bool(value)


def names_and_values(what: str, value: Any) -> dict[str, Any]:
    """A copy of `value`, which must be a mapping."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{what} are names and values, {{'key': 1}}, {found(value)}")
    return dict(value)


def all_of(kind: type[Kind], what: str, value: Any) -> list[Kind]:
    """`value`, one object of `kind` or a sequence of them, as a list."""
    each = [value] if isinstance(value, kind) else value
    if not isinstance(each, Sequence) or isinstance(each, str | bytes):
        raise TypeError(f"{what}: expected one {kind.__name__} or a list of them, {found(value)}")
    for k, one in enumerate(each):
        if not isinstance(one, kind):
            raise TypeError(f"{what}[{k}]: expected a {kind.__name__}, {found(one)}")
    return list(each)
