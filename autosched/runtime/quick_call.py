"""The checked call of a kernel on NumPy arrays, at the price of a NumPy function.

The checks are native (`call_ir.py`); this file writes down what they compare with. It needs the
standard library and NumPy only: exported modules hold a copy of it.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple, cast

import numpy as np

UNFIT = -2
"""The status of a call whose arguments do not fit, or cannot be judged: nothing has run."""

_C_CONTIGUOUS, _WRITEABLE = 0x1, 0x400  # NPY_ARRAY_...
_FUNCTIONS = ("PyTuple_Size", "PyTuple_GetItem", "PyEval_SaveThread", "PyEval_RestoreThread")
_CALL = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.py_object)


class Expected(NamedTuple):
    """What an argument must be: a C-contiguous array that starts at a multiple of `alignment`."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    alignment: int
    written: bool


@lru_cache(maxsize=1)
def arrays_are_understood() -> bool:
    """Whether this Python and this NumPy keep an array's fields where the native checks look.

    They do in every CPython with a global lock since NumPy 1.7; a sample tells.
    """
    locked: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)
    if sys.implementation.name != "cpython" or not locked() or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    sample = np.zeros((3, 5), np.float32)[::2]
    sample.flags.writeable = False
    head = object.__basicsize__
    words = (ctypes.c_int64 * 7).from_address(id(sample) + head)
    extents = (ctypes.c_int64 * 2).from_address(words[2])
    return (
        ctypes.c_int64.from_address(id(sample) + head - 8).value == id(np.ndarray)
        and words[0] == sample.ctypes.data
        and ctypes.c_int32.from_address(id(sample) + head + 8).value == 2
        and tuple(extents) == (2, 5)
        and words[5] == id(sample.dtype)
        and ctypes.c_int32.from_address(id(sample) + head + 48).value == sample.flags.num
    )


def quick_call(
    entry: int, kernel: int, expected: Sequence[Expected], threads_word: int, threads: int
) -> Callable[[tuple[Any, ...]], int]:
    """A function of a tuple of arguments: the kernel's status, or UNFIT.

    Args:
        entry: the address of autosched_call.
        kernel: the address of the kernel.
        expected: of each argument.
        threads_word: the address of the pool's number of threads; 0 there stands for 1.
        threads: what that number must be.
    """
    if not arrays_are_understood():
        return _unfit
    extents = [np.array(e.shape, np.int64) for e in expected]
    python = [ctypes.cast(getattr(ctypes.pythonapi, f), ctypes.c_void_p).value for f in _FUNCTIONS]
    words = [kernel, len(expected), threads_word, threads, id(np.ndarray), *python]
    words.append(object.__basicsize__)
    for e, extent in zip(expected, extents, strict=True):
        flags = _C_CONTIGUOUS | (_WRITEABLE if e.written else 0)
        size = int(np.prod(e.shape, dtype=np.int64)) * e.dtype.itemsize
        words += [id(e.dtype), len(e.shape), extent.ctypes.data, e.alignment - 1, flags, size]
        words += [int(e.written), 0]
    table = np.array(words, np.uint64)
    call: Any = partial(_CALL(entry), table.ctypes.data)
    call.keep = table, extents, tuple(expected)  # what the words point at
    return cast("Callable[[tuple[Any, ...]], int]", call)


def _unfit(arguments: tuple[Any, ...]) -> int:
    return UNFIT
