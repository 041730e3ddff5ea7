"""The calls of the CUDA driver that calling a kernel needs, and the driver's library.

Measuring uses PyCUDA (`cuda.py`). A call must run in the context that owns the arrays and on its
streams, which only the driver's own functions allow; they also need no package. This file needs the
standard library and NumPy only, because exported modules hold a copy of it. Written against the
driver's documentation, and run on an H200.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

LEGACY = 1
"""The handle of the legacy default stream, in the driver and in both array protocols."""

_UNKNOWN = (1, 709)  # results for an address that no context knows
_NO_CONTEXT = 201  # result for any address where this thread has no current context
_CONTEXT, _ORDINAL = 1, 9  # CU_POINTER_ATTRIBUTE_...
_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_...
_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_...
_NO_TIMING = 2  # CU_EVENT_...
_OPT_IN_BYTES = 48 << 10


class CudaError(RuntimeError):
    """A driver call failed with `code`."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class Driver(Protocol):
    """The driver; contexts, streams, modules and functions are numbers."""

    def primary(self, device: int) -> int:
        """The primary context of a device, which frameworks share; it is never released."""
        ...

    def push(self, context: int) -> None:
        """Make a context this thread's current one."""
        ...

    def pop(self) -> None:
        """Restore the context that was current before `push`."""
        ...

    def place(self, address: int) -> tuple[int, int] | None:
        """The (context, device) of an address; None where it is not in a GPU's memory.

        The context is 0 where the memory belongs to no context.
        """
        ...

    def capability(self, device: int) -> tuple[int, int]:
        """The compute capability of a device: (major, minor)."""
        ...

    def alloc(self, size: int) -> int:
        """Allocate `size` bytes in the current context; returns their address."""
        ...

    def free(self, address: int) -> None:
        """Free memory after all work that uses it."""
        ...

    def upload(self, address: int, array: np.ndarray[Any, Any], stream: int) -> None:
        """Queue a copy to the device."""
        ...

    def download(self, array: np.ndarray[Any, Any], address: int, stream: int) -> None:
        """Queue a copy from the device."""
        ...

    def load(self, image: bytes) -> int:
        """Load a cubin or PTX as a module."""
        ...

    def unload(self, module: int) -> None:
        """Unload a module."""
        ...

    def function(self, module: int, name: str, dynamic_shared: int) -> int:
        """A kernel of a module, allowed to use `dynamic_shared` bytes of dynamic shared memory."""
        ...

    def launch(
        self,
        function: int,
        grid: Sequence[int],
        block: Sequence[int],
        dynamic_shared: int,
        stream: int,
        pointers: Sequence[int],
    ) -> None:
        """Queue a kernel whose arguments are addresses."""
        ...

    def wait(self, stream: int, other: int) -> None:
        """Make later work in `stream` wait for the work that is now queued in `other`."""
        ...

    def synchronize(self, stream: int) -> None:
        """Wait until a stream has no more work."""
        ...


@contextmanager
def current(driver: Driver, context: int) -> Iterator[None]:
    """Make `context` this thread's current one inside."""
    driver.push(context)
    try:
        yield
    finally:
        driver.pop()


class LibCuda(Driver):
    """The driver's library, libcuda.so.1. Raises OSError or CudaError where it cannot be used."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise OSError(
                f"{error}: it is a part of NVIDIA's driver, which this kernel needs; install the "
                "driver, or give a container its GPUs"
            ) from error
        self._lock = threading.Lock()
        self._primary: dict[int, int] = {}
        self._call("cuInit", 0)

    def primary(self, device: int) -> int:
        """cuDevicePrimaryCtxRetain; retained once and never released."""
        with self._lock:
            if device not in self._primary:
                handle, context = ctypes.c_int(), ctypes.c_void_p()
                self._call("cuDeviceGet", ctypes.byref(handle), device)
                self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
                self._primary[device] = int(context.value or 0)
            return self._primary[device]

    def push(self, context: int) -> None:
        """cuCtxPushCurrent."""
        self._call("cuCtxPushCurrent_v2", ctypes.c_void_p(context))

    def pop(self) -> None:
        """cuCtxPopCurrent."""
        self._call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def place(self, address: int) -> tuple[int, int] | None:
        """cuPointerGetAttribute."""
        context, device = ctypes.c_void_p(), ctypes.c_int()
        found = self._pointer(device, _ORDINAL, address)
        if found == _NO_CONTEXT:
            with current(self, self.primary(0)):
                return self.place(address)
        if found in _UNKNOWN:
            return None
        self._require(found, "cuPointerGetAttribute")
        # Memory of a stream-ordered pool belongs to a device, not to a context.
        pooled = self._pointer(context, _CONTEXT, address)
        return (0 if pooled else int(context.value or 0)), device.value

    def _pointer(self, value: Any, attribute: int, address: int) -> int:
        where = ctypes.c_uint64(address)
        found: int = self._library.cuPointerGetAttribute(ctypes.byref(value), attribute, where)
        return found

    def capability(self, device: int) -> tuple[int, int]:
        """cuDeviceGetAttribute."""
        found = []
        for attribute in (_MAJOR, _MINOR):
            value = ctypes.c_int()
            self._call("cuDeviceGetAttribute", ctypes.byref(value), attribute, device)
            found.append(value.value)
        return found[0], found[1]

    def alloc(self, size: int) -> int:
        """cuMemAlloc."""
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(1, size)))
        return address.value

    def free(self, address: int) -> None:
        """cuMemFree, which waits for the device."""
        self._call("cuMemFree_v2", ctypes.c_uint64(address))

    def upload(self, address: int, array: np.ndarray[Any, Any], stream: int) -> None:
        """cuMemcpyHtoDAsync."""
        source, size = ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)
        where = ctypes.c_uint64(address)
        self._call("cuMemcpyHtoDAsync_v2", where, source, size, ctypes.c_void_p(stream))

    def download(self, array: np.ndarray[Any, Any], address: int, stream: int) -> None:
        """cuMemcpyDtoHAsync."""
        target, size = ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)
        where = ctypes.c_uint64(address)
        self._call("cuMemcpyDtoHAsync_v2", target, where, size, ctypes.c_void_p(stream))

    def load(self, image: bytes) -> int:
        """cuModuleLoadData."""
        module = ctypes.c_void_p()
        text = ctypes.create_string_buffer(image)  # PTX must end with a zero byte
        self._call("cuModuleLoadData", ctypes.byref(module), text)
        return int(module.value or 0)

    def unload(self, module: int) -> None:
        """cuModuleUnload."""
        self._call("cuModuleUnload", ctypes.c_void_p(module))

    def function(self, module: int, name: str, dynamic_shared: int) -> int:
        """cuModuleGetFunction."""
        found = ctypes.c_void_p()
        self._call(
            "cuModuleGetFunction", ctypes.byref(found), ctypes.c_void_p(module), name.encode()
        )
        if dynamic_shared > _OPT_IN_BYTES:
            self._call("cuFuncSetAttribute", found, _MAX_DYNAMIC_SHARED, dynamic_shared)
        return int(found.value or 0)

    def launch(
        self,
        function: int,
        grid: Sequence[int],
        block: Sequence[int],
        dynamic_shared: int,
        stream: int,
        pointers: Sequence[int],
    ) -> None:
        """cuLaunchKernel."""
        values = [ctypes.c_uint64(pointer) for pointer in pointers]
        addresses = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        where = ctypes.c_void_p(function), *map(ctypes.c_uint, (*grid, *block, dynamic_shared))
        self._call("cuLaunchKernel", *where, ctypes.c_void_p(stream), addresses, None)

    def wait(self, stream: int, other: int) -> None:
        """cuStreamWaitEvent, with an event recorded in `other`."""
        event = ctypes.c_void_p()
        self._call("cuEventCreate", ctypes.byref(event), _NO_TIMING)
        try:
            self._call("cuEventRecord", event, ctypes.c_void_p(other))
            self._call("cuStreamWaitEvent", ctypes.c_void_p(stream), event, 0)
        finally:
            self._call("cuEventDestroy_v2", event)  # the driver releases it once it has happened

    def synchronize(self, stream: int) -> None:
        """cuStreamSynchronize."""
        self._call("cuStreamSynchronize", ctypes.c_void_p(stream))

    def _call(self, name: str, *arguments: Any) -> None:
        self._require(getattr(self._library, name)(*arguments), name)

    def _require(self, code: int, name: str) -> None:
        if code:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(code, ctypes.byref(text))
            why = (text.value or b"unknown error").decode()
            raise CudaError(f"{name} failed: {why} ({code})", code)
