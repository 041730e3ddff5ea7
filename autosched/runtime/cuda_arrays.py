"""Arrays in GPU memory: other libraries' arrays, seen through their protocols, and our own.

CuPy, PyTorch, Numba and PyCUDA offer `__cuda_array_interface__`. DLPack is used where that is
missing or cannot express the type (bfloat16). This file needs the standard library and NumPy only,
because exported modules hold a copy of it.
"""

from __future__ import annotations

import ctypes
import itertools
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from autosched.runtime.cuda_api import LEGACY, Driver, current

_CUDA, _MANAGED = 2, 13  # DLPack's device types
_NAME = b"dltensor"
_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}


class View(NamedTuple):
    """GPU memory seen as an array.

    - `strides`: in bytes; None when the array is contiguous.
    - `stream`: where work on the memory may still be queued; None where there is none.
    - `keep`: keeps the memory alive.
    """

    address: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    read_only: bool
    stream: int | None
    keep: Any


def is_on_gpu(value: Any) -> bool:
    """Whether `value` offers one of the protocols for GPU memory."""
    if isinstance(value, np.ndarray):
        return False
    try:
        if getattr(value, "__cuda_array_interface__", None) is not None:
            return True
    except RuntimeError:  # a PyTorch tensor that requires a gradient: view_on_gpu reports it
        return True
    device = getattr(value, "__dlpack_device__", None)
    return device is not None and int(device()[0]) in (_CUDA, _MANAGED)


def view_on_gpu(value: Any, dtype: str, stream: int) -> View:
    """View `value`, expected to have type `dtype`, for work in `stream`.

    Raises ValueError with a sentence for what the protocols forbid, and whatever `value` raises.
    """
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is None or (dtype == "bfloat16" and hasattr(value, "__dlpack__")):
        return _from_dlpack(value, value.__dlpack__(stream=stream))
    if interface.get("mask") is not None:
        raise ValueError("has a mask")
    found = interface["typestr"]
    # NumPy has no code for bfloat16: two untyped bytes stand for it.
    raw = dtype == "bfloat16" and np.dtype(found) == np.dtype("V2")
    name = dtype if raw else str(np.dtype(found))
    shape = tuple(map(int, interface["shape"]))
    strides = interface.get("strides")
    waits = interface.get("stream")
    if waits == 0:
        raise ValueError("has stream 0 in its interface, which is ambiguous")
    address, read_only = interface["data"]
    compact = strides is None or _compact(shape, tuple(strides), np.dtype(found).itemsize)
    return View(
        int(address), name, shape, None if compact else tuple(strides), read_only, waits, value
    )


class _Tensor(ctypes.Structure):
    """The C struct DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    """The C struct DLManagedTensor."""


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]
_Destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def _python(name: str, result: Any, *arguments: Any) -> Any:
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_new_capsule = _python(
    "PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor
)
_pointer_of = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
# These take the address of a capsule that is being destroyed, which must not become an object.
_is_named = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_pointer_at = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)


def _from_dlpack(value: Any, capsule: Any) -> View:
    """The view of an unversioned capsule, which owns the memory as long as it lives."""
    tensor = _Managed.from_address(_pointer_of(capsule, _NAME)).tensor
    if tensor.device_type not in (_CUDA, _MANAGED):
        raise ValueError("is not in a GPU's memory")
    kind, bits = _CODES.get(tensor.code, f"type{tensor.code}_"), int(tensor.bits)
    name = kind if kind == "bool" else f"{kind}{bits}"
    name += "" if tensor.lanes == 1 else f"x{tensor.lanes}"
    shape = tuple(tensor.shape[: tensor.rank])
    size = bits // 8
    strides = tuple(s * size for s in tensor.strides[: tensor.rank]) if tensor.strides else None
    if strides is not None and _compact(shape, strides, size):
        strides = None
    address = int(tensor.data or 0) + int(tensor.offset)
    return View(address, name, shape, strides, False, None, (value, capsule))


def _compact(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Whether these are the strides of a C-contiguous array."""
    expected = itemsize
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True


_exported: dict[int, Any] = {}  # the data of exported capsules, until their deleters run
_numbers = itertools.count(1)


def _forget(managed: Any) -> None:
    _exported.pop(int(managed.contents.context), None)


def _let_go(capsule: Any) -> None:
    if _is_named(capsule, _NAME):  # otherwise a consumer took the tensor and deletes it
        managed = _Managed.from_address(_pointer_at(capsule, _NAME))
        managed.deleter(ctypes.byref(managed))


_delete = _Deleter(_forget)
_destroy = _Destructor(_let_go)


class DeviceArray:
    """An array in GPU memory, made by a kernel; CuPy, PyTorch and Numba can view it.

        cupy.asarray(c)    torch.from_dlpack(c)    c.numpy()

    Work on it may still be queued in `stream`; both protocols report that. The memory is freed with
    the array and its views.
    """

    def __init__(
        self, driver: Driver, context: int, device: int, shape: tuple[int, ...], dtype: Any
    ) -> None:
        self._driver, self._context, self._device = driver, context, device
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.nbytes = int(np.prod(shape, dtype=np.int64)) * self.dtype.itemsize
        self.stream = LEGACY
        self.address = 0
        with current(driver, context):
            self.address = driver.alloc(self.nbytes)

    def __repr__(self) -> str:
        extents = ", ".join(map(str, self.shape))
        return f"<DeviceArray {self.dtype}[{extents}] on GPU {self._device}>"

    def numpy(self) -> np.ndarray[Any, Any]:
        """Copy to host memory, after waiting for the queued work."""
        result = np.empty(self.shape, self.dtype)
        with current(self._driver, self._context):
            self._driver.download(result, self.address, self.stream)
            self._driver.synchronize(self.stream)
        return result

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "strides": None,
            "version": 3,
            "stream": self.stream,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA, self._device

    def __dlpack__(self, *, stream: int | None = None, **options: Any) -> Any:
        """An unversioned capsule. Work in `stream` will wait for the array, unless it is -1."""
        if stream == 0:
            raise ValueError("stream 0 is ambiguous: 1 is the legacy default, 2 the thread's")
        wanted = LEGACY if stream is None else stream
        if wanted not in (-1, self.stream):
            with current(self._driver, self._context):
                self._driver.wait(wanted, self.stream)
        rank = len(self.shape)
        shape = (ctypes.c_int64 * rank)(*self.shape)
        code, bits = _dlpack_type(self.dtype)
        number = next(_numbers)
        tensor = _Tensor(self.address, _CUDA, self._device, rank, code, bits, 1, shape, None, 0)
        managed = _Managed(tensor, number, _delete)
        _exported[number] = self, shape, managed
        return _new_capsule(ctypes.addressof(managed), _NAME, _destroy)

    def __del__(self) -> None:
        if getattr(self, "address", 0):
            with suppress(Exception), current(self._driver, self._context):
                self._driver.free(self.address)


def _dlpack_type(dtype: np.dtype[Any]) -> tuple[int, int]:
    name = dtype.name.rstrip("0123456789")
    for code, text in _CODES.items():
        if text == name:
            return code, 8 * dtype.itemsize
    raise BufferError(f"DLPack has no {dtype}")
