"""Loading compiled CPU kernels and calling them on arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from autosched.codegen.llvm import compile_object, emit_llvm
from autosched.codegen.llvm_compile import Level
from autosched.errors import MeasureError
from autosched.runtime.arguments import as_array, check
from autosched.runtime.artifact import CpuArtifact, ParamSpec, artifact_of
from autosched.runtime.native import has_symbol, kernel_imports, load_object, runtime_library
from autosched.runtime.parallel import ensure_pool
from autosched.target import Target
from autosched.tir.function import PrimFunc

__all__ = [
    "BoundKernel",
    "CpuArtifact",
    "CpuKernel",
    "ParamSpec",
    "aligned_copy",
    "aligned_empty",
    "artifact_of",
    "build_artifact",
    "load",
    "register_extern",
]

_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_TIME = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p
)

_externs: dict[str, Any] = {}


def build_artifact(func: PrimFunc, target: Target, level: Level = "auto") -> CpuArtifact:
    """`func` (flat TIR) compiled for `target`. Raises CompileError."""
    code = compile_object(emit_llvm(func, target), target, level)
    return artifact_of(func, code, target.threads)


def register_extern(name: str, function: Any) -> None:
    """Makes `function` callable from kernels by call_extern("name", ...).

    `function` is a ctypes function pointer, e.g. `ctypes.CFUNCTYPE(c_float, c_float)(f)` for a
    Python function f. It must be registered before a kernel that calls it is loaded.
    """
    _externs[name] = function


def aligned_empty(
    shape: tuple[int, ...], dtype: Any = np.float32, alignment: int = 64
) -> np.ndarray[Any, Any]:
    """An uninitialised array that starts at a multiple of `alignment` bytes.

    NumPy's own arrays start at multiples of 16, which makes each 64-byte vector straddle two cache
    lines; kernels accept both.
    """
    kind = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    raw = np.empty(size + alignment, np.uint8)
    start = -int(raw.__array_interface__["data"][0]) % alignment
    array: np.ndarray[Any, Any] = raw[start : start + size].view(kind).reshape(shape)
    return array


def aligned_copy(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A row-major copy of `array` that starts at a cache line."""
    result = aligned_empty(array.shape, array.dtype)
    result[...] = array
    return result


class BoundKernel:
    """A kernel with checked arguments: calling it costs a fraction of a microsecond.

    The arrays are kept alive; their memory is read and written by each call.
    """

    def __init__(
        self, kernel: CpuKernel, slots: bytearray, arrays: list[np.ndarray[Any, Any]]
    ) -> None:
        self._kernel = kernel
        self._arrays = arrays
        self._slots = (ctypes.c_char * max(1, len(slots))).from_buffer(slots or bytearray(8))
        self._address = ctypes.addressof(self._slots)
        self._entry = _ENTRY(kernel.raw_pointer)
        self._time = _TIME(runtime_library().addresses["autosched_time"])

    def run(self) -> None:
        """Runs the kernel once. Raises MeasureError when one of its assertions fails."""
        status = self._entry(self._address)
        if status:
            raise self._kernel.failure(status)

    def time_ns(self, calls: int = 1) -> int:
        """Nanoseconds of `calls` calls in a native loop. Raises MeasureError as `run` does."""
        if calls < 1:
            raise ValueError(f"a timing needs at least 1 call, found {calls}")
        status = ctypes.c_int32(0)
        elapsed: int = self._time(
            self._kernel.raw_pointer, self._address, calls, ctypes.addressof(status)
        )
        if status.value:
            raise self._kernel.failure(status.value)
        return elapsed


class CpuKernel:
    """A loaded kernel. Call it with one argument for each of `artifact.params`.

    Arrays are NumPy arrays or anything in host memory that offers __dlpack__; outputs are written
    in place. All arguments are checked (count, dtype, shape, contiguity, alignment, writability,
    outputs sharing memory) before anything runs.
    """

    def __init__(self, artifact: CpuArtifact, threads: int | None = None) -> None:
        self.artifact = artifact
        self._threads = threads
        imports = kernel_imports()
        for name, function in _externs.items():
            address = ctypes.cast(function, ctypes.c_void_p).value
            assert address is not None
            imports[name] = address
        for name in artifact.externs:
            if name not in imports and not has_symbol(name):
                raise MeasureError(
                    f"{artifact.symbol} calls the function {name!r}, which is not in this process; "
                    "register it with autosched.runtime.cpu.register_extern before loading",
                    stage="load",
                )
        self._library = load_object(artifact.object_code, [artifact.symbol], imports)
        self.raw_pointer = self._library.addresses[artifact.symbol]

    def bind(self, *args: Any) -> BoundKernel:
        """Checks the arguments and returns the call. Raises MeasureError as calling does."""
        artifact = self.artifact
        slots, arrays = check(artifact.symbol, artifact.params, artifact.sizes, args)
        ensure_pool(self._threads or artifact.threads)
        return BoundKernel(self, slots, arrays)

    def prepare(self, *args: Any) -> tuple[Any, ...]:
        """The arguments (all, or only the first ones) as the kernel expects them stored.

        Where it was built for pre-transformed inputs (`layout_rewrite: pre-transformed`), each such
        array is copied into its new order; the others are passed through. A constant input needs
        this once, not at every call. Raises MeasureError or ConfigError when one does not fit.

            a, stored = kernel.prepare(a, b)
            kernel(a, stored, c)
        """
        artifact = self.artifact
        result = list(args)
        for i, (spec, value) in enumerate(zip(artifact.params, args, strict=False)):
            if spec.layout is not None:
                array = as_array(artifact.symbol, i, spec, value)
                result[i] = aligned_copy(spec.layout.transform(array))
        return tuple(result)

    def __call__(self, *args: Any) -> None:
        """Run once. Raises MeasureError when an argument does not fit or an assertion fails."""
        self.bind(*args).run()

    def timer(self, *args: Any) -> Callable[[int], int]:
        """A function from a number of calls to their nanoseconds, on checked arguments."""
        return self.bind(*args).time_ns

    def failure(self, status: int) -> MeasureError:
        """The error of a call that returned `status`."""
        name = self.artifact.symbol
        if status < 0:
            return MeasureError(f"{name}: out of workspace memory", stage="run", kind="memory")
        return MeasureError(
            f"{name}: assertion failed: {self.artifact.messages[status - 1]}", stage="run"
        )


def load(artifact: CpuArtifact, threads: int | None = None) -> CpuKernel:
    """The kernel of `artifact`, loaded into this process.

    `threads` replaces the number of threads its parallel loops were compiled for. Raises
    MeasureError (stage load) when a symbol it needs is missing.
    """
    return CpuKernel(artifact, threads)
