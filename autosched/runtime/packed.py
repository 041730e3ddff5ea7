"""Packed calls: Python functions that compiled code calls by name, and arguments both ways.

    register_packed("double", lambda x: 2 * x)      # call_packed("double", n) in a host function

A packed function receives integers, floats, bools, strings, None, NumPy views of arrays in host
memory (`DLTensor` for other arrays) and addresses (int) for other pointers. It returns a number, a
bool or None. An exception that it raises ends the compiled function that called it; the caller of
that function gets the exception.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

from autosched import arguments
from autosched.codegen.llvm_packed import RUNTIME
from autosched.codegen.llvm_tiles import NO_TILES
from autosched.errors import MeasureError
from autosched.target import MAX_THREADS
from autosched.tir.dtype import DType
from autosched.tir.packed import CPU, ArgCode, type_fields


class DLTensor(ctypes.Structure):
    """An array in DLPack's struct; strides are in elements, NULL for a compact array."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]

    @classmethod
    def of(cls, array: np.ndarray[Any, Any]) -> DLTensor:
        """The struct for `array`, which must outlive it. TypeError for a dtype without one."""
        code, bits, lanes = type_fields(_dtype_of(array.dtype))
        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        strides = None
        if not array.flags.c_contiguous:
            size = array.itemsize
            if any(step % size for step in array.strides):
                raise TypeError(f"strides of {array.strides} bytes are no multiples of {size}")
            strides = (ctypes.c_int64 * array.ndim)(*(step // size for step in array.strides))
        data = array.__array_interface__["data"][0]
        return cls(data, CPU, 0, array.ndim, code, bits, lanes, shape, strides, 0)

    def numpy(self) -> np.ndarray[Any, Any]:
        """A view of the array. Raises TypeError unless it is in host memory."""
        if self.device_type != CPU:
            raise TypeError(f"an array on device type {self.device_type} has no view in NumPy")
        kind = _numpy_of(self.code, self.bits, self.lanes)
        shape = [self.shape[k] for k in range(self.ndim)]
        if 0 in shape or not self.data:
            return np.empty(shape, kind)
        steps = _compact(shape)
        if self.strides:
            steps = [self.strides[k] for k in range(self.ndim)]
        low = sum(min(0, s * (n - 1)) for n, s in zip(shape, steps, strict=True))
        high = sum(max(0, s * (n - 1)) for n, s in zip(shape, steps, strict=True)) + 1
        first = self.data + self.byte_offset + low * kind.itemsize
        memory = (ctypes.c_char * ((high - low) * kind.itemsize)).from_address(first)
        offset, strides = -low * kind.itemsize, [s * kind.itemsize for s in steps]
        return np.ndarray(shape, kind, memory, offset, strides)


def _compact(shape: list[int]) -> list[int]:
    steps = [1] * len(shape)
    for k in reversed(range(len(shape) - 1)):
        steps[k] = steps[k + 1] * shape[k + 1]
    return steps


@lru_cache(maxsize=64)
def _dtype_of(dtype: np.dtype[Any]) -> DType:
    """The DType of NumPy elements. Raises TypeError when there is none."""
    if dtype.isnative:
        try:
            return DType(dtype.name)
        except ValueError:
            pass
    raise TypeError(f"elements of type {dtype} cannot be passed to a compiled function")


_EXTENSIONS = {(4, 16): "bfloat16", (6, 8): "float8_e4m3fn", (7, 8): "float8_e5m2"}


def _numpy_of(code: int, bits: int, lanes: int) -> np.dtype[Any]:
    if (code, bits) in _EXTENSIONS:
        kind = np.dtype(getattr(ml_dtypes, _EXTENSIONS[code, bits]))
    elif (code, bits) == (1, 1):
        kind = np.dtype(np.bool_)
    else:
        kind = np.dtype(f"{ {0: 'int', 1: 'uint', 2: 'float'}[code] }{bits}")
    return kind if lanes == 1 else np.dtype((kind, (lanes,)))


# -- values both ways --------------------------------------------------------------------------


def pack(value: Any) -> tuple[int, bytes, Any]:
    """Pack a value: its code, its 8 bytes, and the object that must live as long as they do.

    Raises TypeError for a value that cannot be passed.
    """
    match value:
        case None:
            return ArgCode.NULL, bytes(8), None
        case bool() | np.bool_():
            return ArgCode.BOOL, int(value).to_bytes(8, "little"), None
        case int() | np.integer():
            return ArgCode.INT, _integer(int(value)), None
        case float() | np.floating():
            return ArgCode.FLOAT, np.float64(value).tobytes(), None
        case str():
            text = ctypes.create_string_buffer(value.encode())
            return ArgCode.STRING, _address(text), text
        case ctypes.c_void_p():
            return ArgCode.HANDLE, (value.value or 0).to_bytes(8, "little"), value
        case DLTensor():
            return ArgCode.TENSOR, _address(value), value
        case np.ndarray():
            tensor = DLTensor.of(value)
            return ArgCode.TENSOR, _address(tensor), (tensor, value)
    raise TypeError(
        f"a {type(value).__name__} cannot be passed; expected a number, a string, None, a NumPy "
        "array, anything with __dlpack__, a DLTensor or a ctypes.c_void_p"
    )


def _integer(value: int) -> bytes:
    if not -(2**63) <= value < 2**64:
        raise TypeError(f"the integer {value} has more than 64 bits")
    return (value % 2**64).to_bytes(8, "little")


def _address(thing: Any) -> bytes:
    return ctypes.addressof(thing).to_bytes(8, "little")


def unpack(code: int, value: int) -> Any:
    """The Python value of a packed one; `value` is its 8 bytes as an unsigned integer."""
    match code:
        case ArgCode.INT:
            return value - 2**64 if value >= 2**63 else value
        case ArgCode.FLOAT:
            return float(np.uint64(value).view(np.float64))
        case ArgCode.BOOL:
            return bool(value)
        case ArgCode.NULL:
            return None
        case ArgCode.STRING:
            return (ctypes.string_at(value)).decode()
        case ArgCode.TENSOR:
            tensor = DLTensor.from_address(value)
            return tensor.numpy() if tensor.device_type == CPU else tensor
    return value


# -- what compiled code calls --------------------------------------------------------------------

_functions: dict[str, Callable[..., Any]] = {}
_workspaces: dict[int, tuple[Callable[[int, int], int], Callable[[int, int], None]]] = {}


def register_packed(name: str, function: Callable[..., Any]) -> None:
    """Make call_packed of `name` call `function`, instead of a function registered before.

    >>> register_packed("report", lambda done, of: print(f"{done} of {of}"))

    Raises ConfigError for a name that is no text, and for what cannot be called.
    """
    named = arguments.text("register_packed: name", name, "report")
    example = "lambda done, of: print(done)"
    _functions[named] = arguments.function(f"register_packed {named}", function, example)


def register_workspace(
    device_type: int, alloc: Callable[[int, int], int], free: Callable[[int, int], None]
) -> None:
    """Register where functions for a device get workspace memory.

    `alloc(device_id, bytes)` returns an address, `free(device_id, address)` frees it. The CPU's own
    workspace cannot be replaced. Raises ConfigError for what cannot be called.
    """
    if arguments.integer("register_workspace: device_type", device_type, 1) == CPU:
        raise ValueError("the workspace of the CPU is built in and cannot be replaced")
    _workspaces[device_type] = (
        arguments.function("register_workspace: alloc", alloc, "a function (device_id, bytes)"),
        arguments.function("register_workspace: free", free, "a function (device_id, address)"),
    )


class _Errors:
    """Exceptions on their way through compiled code, by negative status.

    While host functions run, the last MOST of them are kept: every part of a thread's share of a
    parallel loop may raise one, and any of these may be the one that the function returns.
    """

    MOST = 8 * MAX_THREADS

    def __init__(self) -> None:
        self._numbers = itertools.count(1 - NO_TILES)
        self._lock = threading.Lock()
        self._calls = 0
        self._kept: dict[int, BaseException] = {}
        self._last: dict[int, BaseException] = {}

    @contextmanager
    def of_call(self) -> Iterator[None]:
        """The context of a call of a host function. No error outlives the last call that runs."""
        with self._lock:
            self._calls += 1
        try:
            yield
        finally:
            dropped: dict[int, BaseException] = {}
            with self._lock:
                self._calls -= 1
                if not self._calls:
                    dropped, self._kept = self._kept, dropped
            del dropped  # outside of the lock: what goes with it may call a host function

    def keep(self, error: BaseException) -> int:
        """Keep `error`; returns the status that stands for it."""
        with self._lock:
            status = -next(self._numbers)
            self._kept[status] = error
            if len(self._kept) > self.MOST:
                del self._kept[next(iter(self._kept))]
        return status

    def take(self, status: int) -> BaseException | None:
        """Remove and return the error of a status; None where it is unknown."""
        return self._kept.pop(status, None)

    def note(self, error: BaseException) -> None:
        """Note the error of this thread for the throw that follows."""
        self._last[threading.get_ident()] = error

    def last(self) -> int:
        """Keep the last error noted in this thread; returns its status."""
        nothing = MeasureError("out of workspace memory", stage="run", kind="memory")
        return self.keep(self._last.pop(threading.get_ident(), nothing))


ERRORS = _Errors()


def _call(name: bytes, values: Any, codes: Any, count: int, result: Any, result_code: Any) -> int:
    try:
        function = _functions.get(name.decode())
        if function is None:
            raise MeasureError(
                f"the packed function {name.decode()!r} is called and not registered; use "
                "autosched.runtime.packed.register_packed",
                stage="run",
            )
        returned = function(*(unpack(codes[k], values[k]) for k in range(count)))
        code, data, _ = pack(returned)
        if code not in (ArgCode.INT, ArgCode.FLOAT, ArgCode.BOOL, ArgCode.NULL, ArgCode.HANDLE):
            raise TypeError(
                f"the packed function {name.decode()!r} returned a {type(returned).__name__}; "
                "expected a number, a bool, None or a ctypes.c_void_p"
            )
        result[0], result_code[0] = int.from_bytes(data, "little"), code
    except BaseException as error:
        return ERRORS.keep(error)
    return 0


def _alloc(device_type: int, device_id: int, size: int, code: int, bits: int) -> int:
    try:
        if device_type not in _workspaces:
            raise MeasureError(
                f"there is no workspace for device type {device_type}; use "
                "autosched.runtime.packed.register_workspace",
                stage="run",
            )
        return _workspaces[device_type][0](device_id, size)
    except BaseException as error:
        ERRORS.note(error)
    return 0


def _free(device_type: int, device_id: int, address: int | None) -> int:
    try:
        _workspaces[device_type][1](device_id, address or 0)
    except BaseException as error:
        ERRORS.note(error)
        return 1
    return 0


_WORDS = ctypes.POINTER(ctypes.c_uint64)
_INTS = ctypes.POINTER(ctypes.c_int32)
_INT, _LONG, _POINTER = ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p


@lru_cache(maxsize=1)
def runtime_functions() -> dict[str, Any]:
    """The functions of `codegen.llvm_packed.RUNTIME` as C functions."""
    functions = (
        ctypes.CFUNCTYPE(_INT, ctypes.c_char_p, _WORDS, _INTS, _INT, _WORDS, _INTS)(_call),
        ctypes.CFUNCTYPE(_INT)(ERRORS.last),
        ctypes.CFUNCTYPE(_POINTER, _INT, _INT, _LONG, _INT, _INT)(_alloc),
        ctypes.CFUNCTYPE(_INT, _INT, _INT, _POINTER)(_free),
    )
    return dict(zip(RUNTIME, functions, strict=True))
