"""The checked call of a kernel on NumPy arrays, as cheap as a call of a NumPy function.

The checks are native (`call_ir.py`); this file fills the table of what they compare with. PyTorch's
tensors are checked natively, too, where they offer DLPack's exchange API (since PyTorch 2.10);
their type is learned at the first call with a tensor. This file needs the standard library and
NumPy only, because exported modules hold a copy of it.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple, cast

import numpy as np

from autosched.runtime.array_checks import is_torch

UNFIT = -2
"""The status of a call whose arguments do not fit or cannot be checked; nothing has run."""

_C_CONTIGUOUS, _WRITEABLE = 0x1, 0x400  # NPY_ARRAY_...
_FUNCTIONS = ("PyTuple_Size", "PyTuple_GetItem", "PyEval_SaveThread", "PyEval_RestoreThread")
_TENSOR_FUNCTIONS = ("PyObject_GetAttr", "PyObject_VectorcallMethod", "Py_DecRef", "PyErr_Clear")
_NOT_PLAIN = "requires_grad", "is_neg"
_MAJOR, _VIEW = 1, 5  # version of the exchange API; index of dltensor_from_py_object_no_sync
_CALL = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.py_object)


class Expected(NamedTuple):
    """What an argument must be: a C-contiguous array that starts at a multiple of `alignment`.

    `written` says that the kernel writes it.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    alignment: int
    written: bool


@lru_cache(maxsize=1)
def arrays_are_understood() -> bool:
    """Whether this Python and NumPy have an array's fields at the offsets of the native checks.

    They do in every CPython with a global lock since NumPy 1.7; a sample array is checked.
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
    entry: int,
    kernel: int,
    expected: Sequence[Expected],
    threads_word: int,
    threads: int,
    code: Any = None,
) -> Callable[[tuple[Any, ...]], int]:
    """A function of a tuple of arguments that returns the kernel's status, or UNFIT.

    Args:
        entry: the address of autosched_call.
        kernel: the address of the kernel.
        expected: what each argument must be.
        threads_word: the address of the pool's number of threads; 0 there stands for 1.
        threads: the required value of that number.
        code: what keeps the kernel in memory; the function keeps it.
    """
    if not arrays_are_understood():
        return _unfit
    extents = [np.array(e.shape, np.int64) for e in expected]
    python = map(_python, _FUNCTIONS)
    words = [kernel, len(expected), threads_word, threads, id(np.ndarray), *python]
    words += [object.__basicsize__, ctypes.addressof(_known)]
    for e, extent in zip(expected, extents, strict=True):
        flags = _C_CONTIGUOUS | (_WRITEABLE if e.written else 0)
        size = int(np.prod(e.shape, dtype=np.int64)) * e.dtype.itemsize
        words += [id(e.dtype), len(e.shape), extent.ctypes.data, e.alignment - 1, flags, size]
        words += [int(e.written), _dlpack_type(e.dtype)]
    table = np.array(words, np.uint64)
    call: Any = partial(_CALL(entry), table.ctypes.data)
    call.keep = table, extents, tuple(expected), code  # keeps alive what the words point at
    return cast("Callable[[tuple[Any, ...]], int]", call)


def _unfit(arguments: tuple[Any, ...]) -> int:
    return UNFIT


# -- tensors of PyTorch ------------------------------------------------------------------------

_known = (ctypes.c_uint64 * 9)()
"""The words about tensors for the native checks (`tensor_ir.py`); one table per process."""
_kept: list[Any] = []  # keeps alive what the table points at


def learn_tensors(arguments: Sequence[Any]) -> bool:
    """Fill the table about PyTorch's tensors if a tensor is among the `arguments`.

    Returns True if it was just filled: the same call may fit now.
    """
    if "torch" not in sys.modules or _known[0]:
        return False
    kind = next((k for k in map(type, arguments) if is_torch(k)), None)
    if kind is None or not arrays_are_understood():
        return False
    view = _view_function(vars(kind).get("__dlpack_c_exchange_api__"))
    if not view:
        return False
    names = tuple(map(sys.intern, _NOT_PLAIN))
    _kept.extend((kind, names))
    _known[1:] = [view, *map(id, names), id(False), *map(_python, _TENSOR_FUNCTIONS)]
    _known[0] = id(kind)  # last, because other threads read it first
    return True


def _view_function(capsule: Any) -> int:
    """The address of dltensor_from_py_object_no_sync; 0 where the API is missing or unknown."""
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    try:
        address = pointer(capsule, b"dlpack_exchange_api")
    except ValueError:  # not such a capsule
        return 0
    words = (ctypes.c_uint64 * (_VIEW + 1)).from_address(address)
    return words[_VIEW] if words[0] % 2**32 == _MAJOR else 0


_EXTENSIONS = {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12}


def _dlpack_type(dtype: np.dtype[Any]) -> int:
    """Code, bits and lanes of a type in one word; 0, which no tensor has, if DLPack has none."""
    kinds = {"i": 0, "u": 1, "f": 2, "b": 6}
    code = _EXTENSIONS.get(dtype.name, kinds.get(dtype.kind))
    if code is None or not dtype.isnative:
        return 0
    return code | dtype.itemsize << 11 | 1 << 16


def _python(function: str) -> int:
    address = ctypes.cast(getattr(ctypes.pythonapi, function), ctypes.c_void_p).value
    assert address is not None
    return address
