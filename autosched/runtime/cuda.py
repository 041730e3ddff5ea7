"""A GPU through PyCUDA: the only file that imports it.

Run on an H200 with CUDA 13.0 and PyCUDA 2026.1 (tests/runtime/test_on_gpu.py). Two things that
PyCUDA does not offer come from the driver's library directly: attributes by number, and the texts
of error codes, since PyCUDA's exceptions hold only the text. All work is queued in the default
stream.
"""

from __future__ import annotations

import ctypes
import importlib
import uuid
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.codegen.nvrtc import load_nvrtc
from autosched.errors import MeasureError
from autosched.runtime.cuda_driver import LIBRARY, driver_problem, no_driver
from autosched.runtime.cuda_helpers import RESULT_BYTES, compare_name, helper_source
from autosched.runtime.device import Device, DeviceFacts, Difference, Handle, KernelFacts
from autosched.runtime.device_errors import CODES, device_error

NO_PYCUDA = (
    "PyCUDA is not installed; it is built from source: autosched doctor --target cuda prints the "
    "commands, see docs/cuda.md"
)
_OPT_IN_BYTES = 48 << 10
_GRID, _BLOCK = (528, 1, 1), (256, 1, 1)  # launch configuration of helper kernels
_ATTRIBUTES = {  # CUdevice_attribute
    "max_threads_per_block": 1,
    "processors": 16,
    "kernel_timeout": 17,
    "l2_bytes": 38,
    "max_threads_per_processor": 39,
    "shared_per_processor": 81,
    "registers_per_processor": 82,
    "max_shared_per_block": 97,
    "max_blocks_per_processor": 106,
    "reserved_shared_per_block": 111,
}


class CudaDevice(Device):
    """The first GPU that CUDA_VISIBLE_DEVICES makes visible.

    Raises MeasureError, which says what is missing.
    """

    def __init__(self) -> None:
        self._library = open_driver()
        self._codes = _texts(self._library)
        self._driver = import_pycuda()
        try:
            self._driver.init()
            self._device = self._driver.Device(0)
        except Exception as error:
            raise _missing(f"driver found, no usable GPU: {error}") from None
        # Stays current: the process ends without cleaning up.
        self._context = self._device.retain_primary_context()
        self._context.push()
        self._facts = self._read_facts()
        self._memory: dict[int, Any] = {}
        self._flag = self._driver.pagelocked_empty(
            2, np.uint32, mem_flags=self._driver.host_alloc_flags.DEVICEMAP
        )
        self._flag_address = int(self._flag.base.get_device_pointer())
        self._result = self.alloc(RESULT_BYTES)
        self._flushed = 2 * self._facts.l2_bytes
        self._flush = self.alloc(self._flushed)
        major = int(self._facts.driver.partition(".")[0])
        compiled = load_nvrtc(self._facts.arch, major).compile(helper_source(), self._facts.arch)
        self._helpers = self.load(compiled.cubin)
        self._helper_kernels: dict[tuple[str, str], Any] = {}

    def facts(self) -> DeviceFacts:
        """See `Device.facts`; read when the device was opened."""
        return self._facts

    def alloc(self, size: int) -> int:
        """See `Device.alloc`; the driver's addresses are multiples of 256."""
        with self._checked("alloc", "load"):
            memory = self._driver.mem_alloc(size)
        self._memory[int(memory)] = memory
        return int(memory)

    def free(self, address: int) -> None:
        """See `Device.free`; waits until the device is done."""
        with self._checked("free", "load"):
            self._memory.pop(address).free()

    def upload(self, address: int, array: npt.NDArray[Any]) -> None:
        """See `Device.upload`; copies bytes, so that PyCUDA need not know the type."""
        with self._checked("upload", "load"):
            self._driver.memcpy_htod(address, array.reshape(-1).view(np.uint8))

    def download(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        """See `Device.download`; memcpy_dtoh waits for queued work."""
        found = np.empty(size, np.uint8)
        with self._checked("download", "run"):
            self._driver.memcpy_dtoh(found, address)
        return found

    def fill(self, address: int, size: int, byte: int) -> None:
        """See `Device.fill`; queued."""
        if size:
            with self._checked("fill", "run"):
                self._driver.memset_d8_async(address, byte, size)

    def load(self, cubin: bytes) -> Handle:
        """See `Device.load`; a PyCUDA module."""
        with self._checked("module", "load"):
            return self._driver.module_from_buffer(cubin)

    def unload(self, module: Handle) -> None:
        """See `Device.unload`.

        Does nothing: PyCUDA unloads a module once the last reference to it and its functions is
        gone.
        """

    def kernel(self, module: Handle, name: str, dynamic_shared: int) -> tuple[Handle, KernelFacts]:
        """See `Device.kernel`; a PyCUDA function, whose dynamic limit is set on every load."""
        attributes = self._driver.function_attribute
        with self._checked(name, "load"):
            function = module.get_function(name)
            found = KernelFacts(
                registers=function.get_attribute(attributes.NUM_REGS),
                local_bytes=function.get_attribute(attributes.LOCAL_SIZE_BYTES),
                shared_bytes=function.get_attribute(attributes.SHARED_SIZE_BYTES),
                max_threads=function.get_attribute(attributes.MAX_THREADS_PER_BLOCK),
            )
            if dynamic_shared > _OPT_IN_BYTES:
                function.set_attribute(attributes.MAX_DYNAMIC_SHARED_SIZE_BYTES, dynamic_shared)
        return (name, function), found

    def launch(
        self,
        kernel: Handle,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        dynamic_shared: int,
        pointers: Sequence[int],
    ) -> None:
        """See `Device.launch`; a prepared call, which packs the arguments by a format string."""
        name, function = kernel
        with self._checked(name, "run"):
            function.prepare("P" * len(pointers))
            function.prepared_async_call(grid, block, None, *pointers, shared_size=dynamic_shared)

    def synchronize(self) -> None:
        """See `Device.synchronize`; sleeps instead of spinning."""
        with self._checked("the kernel", "run"):
            done = self._driver.Event(self._driver.event_flags.BLOCKING_SYNC)
            done.record()
            done.synchronize()

    def event(self) -> Handle:
        """See `Device.event`; a PyCUDA event."""
        with self._checked("event", "run"):
            return self._driver.Event()

    def record(self, event: Handle) -> None:
        """See `Device.record`."""
        with self._checked("event", "run"):
            event.record()

    def elapsed(self, first: Handle, second: Handle) -> float:
        """See `Device.elapsed`; PyCUDA returns milliseconds."""
        with self._checked("event", "run"):
            return float(second.time_since(first)) * 1e-3

    def close_gate(self) -> None:
        """See `Device.close_gate`; the kernel polls a flag in mapped host memory."""
        self._flag[:] = 0
        self._help("autosched_gate", "P", (1, 1, 1), (1, 1, 1), self._flag_address)

    def open_gate(self) -> bool:
        """See `Device.open_gate`; the kernel sets the second word when it gives up."""
        held = not self._flag[1]
        self._flag[0] = 1
        return bool(held)

    def flush_l2(self) -> None:
        """See `Device.flush_l2`; overwrites twice the size of the cache."""
        self.fill(self._flush, self._flushed, 0)

    def add(self, left: int, right: int, total: int, count: int) -> None:
        """See `Device.add`."""
        self._help("autosched_add", "PPPQ", (1, 1, 1), _BLOCK, left, right, total, count)

    def compare(
        self,
        got: int,
        want: int,
        count: int,
        dtype: np.dtype[Any],
        allowed: tuple[float, float, float],
    ) -> Difference:
        """See `Device.compare`; one kernel per element type."""
        start = np.array([0, np.iinfo(np.uint64).max, 0], np.uint64)
        self.upload(self._result, start)
        name = compare_name(dtype)
        arguments = (got, want, count, *allowed, self._result)
        self._help(name, "PPQdddP", _GRID, _BLOCK, *arguments)
        found = self.download(self._result, RESULT_BYTES)
        bad, first = (int(value) for value in found[:16].view(np.uint64))
        return Difference(bad, first if bad else -1, float(found[16:20].view(np.float32)[0]))

    def checksum(self, address: int, size: int) -> int:
        """See `Device.checksum`."""
        self.upload(self._result, np.zeros(3, np.uint64))
        self._help("autosched_checksum", "PQP", _GRID, _BLOCK, address, size // 4, self._result)
        return int(self.download(self._result, 8).view(np.uint64)[0])

    def _help(
        self,
        name: str,
        types: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        *arguments: float,
    ) -> None:
        key = name, types
        with self._checked(name, "run"):
            if key not in self._helper_kernels:
                function = self._helpers.get_function(name)
                function.prepare(types)
                self._helper_kernels[key] = function
            self._helper_kernels[key].prepared_async_call(grid, block, None, *arguments)

    @contextmanager
    def _checked(self, where: str, stage: str) -> Iterator[None]:
        """Turn exceptions of PyCUDA into DeviceError."""
        try:
            yield
        except self._driver.Error as error:
            raise device_error(code_of(str(error), self._codes), where, stage) from error

    def _read_facts(self) -> DeviceFacts:
        values: dict[str, int] = {}
        for name, number in _ATTRIBUTES.items():
            found = ctypes.c_int()
            self._library.cuDeviceGetAttribute(ctypes.byref(found), number, 0)
            values[name] = found.value
        driver = int(self._driver.get_driver_version())
        timeout = bool(values.pop("kernel_timeout"))
        return DeviceFacts(
            name=str(self._device.name()),
            uuid=_uuid(self._library, 0),
            capability=tuple(self._device.compute_capability()),
            memory=int(self._device.total_memory()),
            kernel_timeout=timeout,
            driver=f"{driver // 1000}.{driver % 1000 // 10}",
            runtime=f"PyCUDA {version('pycuda')}",
            **values,
        )


def device_uuids() -> list[str]:
    """The UUIDs of all GPUs that CUDA finds, without creating a context. MeasureError for none."""
    library = open_driver()
    number = ctypes.c_int()
    code = library.cuInit(0) or library.cuDeviceGetCount(ctypes.byref(number))
    if code or not number.value:
        raise _missing(f"driver found, no usable GPU (CUDA error {code})")
    return [_uuid(library, index) for index in range(number.value)]


def _uuid(library: ctypes.CDLL, index: int) -> str:
    """A GPU's UUID in the form of NVML and CUDA_VISIBLE_DEVICES."""
    identity, device = (ctypes.c_ubyte * 16)(), ctypes.c_int()
    library.cuDeviceGet(ctypes.byref(device), index)
    library.cuDeviceGetUuid(identity, device)
    return f"GPU-{uuid.UUID(bytes=bytes(identity))}"


def open_driver() -> ctypes.CDLL:
    """The driver's library. Raises MeasureError when there is none."""
    problem = driver_problem()
    if problem is not None:
        raise _missing(no_driver(problem))
    return ctypes.CDLL(LIBRARY)


def import_pycuda() -> Any:
    """Import pycuda.driver. MeasureError, with PyCUDA's warnings, when that fails."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            return importlib.import_module("pycuda.driver")
        except ModuleNotFoundError as error:
            missing = (error.name or "").split(".")[0]
            text = NO_PYCUDA if missing == "pycuda" else f"PyCUDA needs {missing}: {error}"
        except ImportError as error:
            text = _why(str(error))
    said = "".join(f"; {w.message}" for w in caught)
    raise _missing(text + said)


def _why(text: str) -> str:
    if "undefined symbol" in text:
        return f"PyCUDA was linked without the driver library: rebuild as in docs/cuda.md ({text})"
    if "libcuda" in text:
        return no_driver(text)
    return f"PyCUDA cannot be imported: {text}"


def code_of(message: str, codes: dict[str, int]) -> int:
    """The driver's code in a message of PyCUDA: `cuCtxSynchronize failed: TEXT[ - DETAIL]`.

    `codes` maps the driver's texts to codes. 0, which is no error's code, when none is found.
    """
    text = message.partition(" failed: ")[2] or message
    fits = [known for known in codes if text.startswith(known)]
    return codes[max(fits, key=len)] if fits else 0


def _texts(library: ctypes.CDLL) -> dict[str, int]:
    """Error codes by the driver's own texts."""
    found: dict[str, int] = {}
    for code in CODES:
        text = ctypes.c_char_p()
        if library.cuGetErrorString(code, ctypes.byref(text)) == 0 and text.value:
            found[text.value.decode()] = code
    return found


def _missing(text: str) -> MeasureError:
    return MeasureError(text, stage="load", kind="lost")
