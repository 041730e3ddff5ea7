"""Check arrays that a user's functions return."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.errors import ConfigError

_NUMBERS = "biuf"


def given_array(where: str, value: Any) -> npt.NDArray[Any]:
    """Convert `value` (an array of numbers, lists, a tensor in host memory) to a NumPy array.

    Raises ConfigError, which begins with `where`, for anything else: complex numbers, text,
    objects, rows of different lengths, and masked arrays, whose masks would be ignored.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise ConfigError(
            f"{where}: expected an array without a mask, found a masked one; return its "
            ".filled(VALUE), or its .data"
        )
    try:
        array: npt.NDArray[Any] = np.asarray(value, order="C")
    except Exception as error:  # the object's own conversion may raise anything
        why = " ".join(str(error).split())
        raise ConfigError(
            f"{where}: expected an array of numbers, found {_kind(value)}: {why}"
        ) from error
    if array.dtype.kind in _NUMBERS or array.dtype.isbuiltin == 2:  # bfloat16 and float8, too
        return array
    if array.dtype.kind == "c":
        raise ConfigError(f"{where}: expected real numbers, found {array.dtype}; return its .real")
    found = _kind(value) if array.dtype.kind == "O" else f"elements of the type {array.dtype}"
    raise ConfigError(f"{where}: expected an array of numbers, found {found}")


def _kind(value: Any) -> str:
    """The words in messages for an object that holds no numbers."""
    if isinstance(value, np.ndarray):
        return "an array of objects"
    return f"a {type(value).__name__}" if value is not None else "None"
