"""Check arguments from Python; messages are worded as those for configuration files."""

from __future__ import annotations

import math
import os
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar, cast

from autosched.errors import ConfigError
from autosched.words import shortened

Kind = TypeVar("Kind")
PathLike = str | os.PathLike[str]


def found(value: Any) -> str:
    """The end of a message about `value`: `found '4' (str)`.

    Long values are cut; the text is on one line. For an object whose repr fails it names the class.
    """
    try:
        text = " ".join(repr(value).split())
    except Exception:
        return f"found an object of the class {type(value).__name__}"
    if isinstance(value, type):
        return f"found the class {value.__qualname__}, not an object of it"
    return (
        "found None" if value is None else f"found {shortened(text, 60)} ({type(value).__name__})"
    )


def integer(name: str, value: Any, least: int | None = None) -> int:
    """Return `value` if it is an integer (also of NumPy) of at least `least`; else ConfigError."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise ConfigError(f"{name}: expected an integer, {found(value)}")
    if least is not None and value < least:
        raise ConfigError(f"{name}: expected at least {least}, found {value}")
    return int(value)


def number(name: str, value: Any, least: float = 0.0, most: float = math.inf) -> float:
    """Return `value` if it is a finite number from `least` to `most`; else ConfigError."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise ConfigError(f"{name}: expected a number, {found(value)}")
    try:
        fits = math.isfinite(value) and least <= float(value) <= most
    except OverflowError:  # an integer that no float can hold
        raise ConfigError(f"{name}: expected a number up to 1.8e308, {found(value)}") from None
    if not fits:
        bounds = f"of at least {least:g}" if most == math.inf else f"from {least:g} to {most:g}"
        wanted = "finite number" if least == -math.inf else f"finite number {bounds}"
        raise ConfigError(f"{name}: expected a {wanted}, found {value}")
    return float(value)


def positive(name: str, value: Any) -> float:
    """Return `value` if it is a finite number above 0; else ConfigError."""
    if number(name, value, least=-math.inf) <= 0:
        raise ConfigError(f"{name}: expected a number above 0, found {value}")
    return float(value)


def flag(name: str, value: Any) -> bool:
    """Return `value` if it is True or False (also of NumPy); else ConfigError."""
    if not is_flag(value):
        raise ConfigError(f"{name}: expected True or False, {found(value)}")
    return bool(value)


def is_flag(value: Any) -> bool:
    """Whether `value` is True or False, of Python or of NumPy, but no array."""
    numpy = sys.modules.get("numpy")  # a slow import; without it there are none of its scalars
    return isinstance(value, bool if numpy is None else bool | numpy.bool_)


def one_of(name: str, value: Any, choices: Sequence[str]) -> str:
    """Return `value` if it is one of `choices`; else ConfigError."""
    if not isinstance(value, str) or value not in choices:
        raise ConfigError(f"{name}: expected one of {', '.join(choices)}, {found(value)}")
    return value


def instance(name: str, value: Any, kind: type[Kind], example: str = "") -> Kind:
    """Return `value` if it is a `kind`; else ConfigError. `example` says how to make one."""
    if not isinstance(value, kind):
        such = f", e.g. {example}" if example else ""
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise ConfigError(f"{name}: expected {article} {kind.__name__}{such}, {found(value)}")
    return value


def text(name: str, value: Any, example: str) -> str:
    """Return `value` if it is a text that is not empty; else ConfigError."""
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{name}: expected a text, e.g. {example!r}, {found(value)}")
    return value


def function(name: str, value: Any, example: str) -> Callable[..., Any]:
    """Return `value` if it can be called; else ConfigError."""
    if not callable(value):
        raise ConfigError(f"{name}: expected a function, e.g. {example}, {found(value)}")
    return cast(Callable[..., Any], value)


def mapping(name: str, value: Any, example: str) -> Mapping[str, Any]:
    """Return `value` if it is a mapping from names to values; else ConfigError."""
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name}: expected names and values, e.g. {example}, {found(value)}")
    return value


def file_paths(name: str, value: Any, kind: str = "file") -> tuple[Path, ...]:
    """Return `value` as paths if it is one, or a list of them, for `file_path`; else ConfigError.

    `kind` is what the message calls the files.
    """
    if isinstance(value, str | os.PathLike):
        return (file_path(name, value),)
    if not isinstance(value, Sequence) or isinstance(value, bytes):
        wanted = f"the path of a {kind}, or a list of them"
        raise ConfigError(f"{name}: expected {wanted}, {found(value)}")
    return tuple(file_path(f"{name}[{k}]", each) for k, each in enumerate(value))


def file_path(name: str, value: Any) -> Path:
    """Return `value` as a path if it names a file or nothing that exists; else ConfigError."""
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str) or "\0" in text:
        raise ConfigError(f"{name}: expected the path of a file, {found(value)}")
    path = Path(value)
    try:
        folder = stat.S_ISDIR(path.stat().st_mode)  # is_dir() hides all errors, from 3.14 on
    except (FileNotFoundError, NotADirectoryError):  # nothing there
        folder = False
    except OSError as error:  # a folder without permission, a name that is too long
        raise ConfigError(f"{name}: cannot look at {value}: {error.strerror}") from error
    if folder:
        raise ConfigError(f"{name}: expected a file, found the folder {value}")
    return path
