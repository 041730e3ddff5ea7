"""Load compiled CPU kernels and call them on arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from autosched import arguments
from autosched.codegen.llvm import compile_object, emit_llvm
from autosched.codegen.llvm_compile import Level
from autosched.codegen.llvm_tiles import NO_TILES, TILES_REFUSED
from autosched.errors import ConfigError, MeasureError
from autosched.runtime.arguments import as_array, check
from autosched.runtime.array_checks import view_of
from autosched.runtime.artifact import CpuArtifact, ParamSpec, artifact_of
from autosched.runtime.calling import (
    Spec,
    arrange,
    constant_shape,
    is_constant,
    no_copy,
    result_of,
    signature,
)
from autosched.runtime.made_outputs import MadeOutputs
from autosched.runtime.memory import aligned_copy
from autosched.runtime.memory import empty as aligned_empty
from autosched.runtime.native import has_symbol, kernel_imports, load_object, runtime_library
from autosched.runtime.origin import Origin
from autosched.runtime.parallel import ensure_pool
from autosched.runtime.parallel_ir import THREADS_OFFSET
from autosched.runtime.quick_call import UNFIT, Expected, learn_tensors, quick_call
from autosched.target import Target
from autosched.tir.dtype import DType
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

_ONE = ctypes.c_int32(1)  # the number of threads that a kernel without parallel loops needs

_externs: dict[str, Any] = {}
_POINTERS: tuple[type[Any], ...] = (ctypes.CFUNCTYPE(None).__bases__[0], ctypes.c_void_p)
"""The types of what ctypes knows the address of."""


def build_artifact(func: PrimFunc, target: Target, level: Level = "auto") -> CpuArtifact:
    """Compile `func` (flat TIR) for `target`. Raises CompileError."""
    code = compile_object(emit_llvm(func, target), target, level)
    return artifact_of(func, code, target.threads)


def register_extern(name: str, function: Any) -> None:
    """Make `function` callable from kernels by call_extern("name", ...).

    `function` is a ctypes function pointer, e.g. `ctypes.CFUNCTYPE(c_float, c_float)(f)` for a
    Python function f. It must be registered before a kernel that calls it is loaded, which keeps
    calling this one if another is registered later. Raises ConfigError for what has no address.
    """
    if not isinstance(function, _POINTERS) or not ctypes.cast(function, ctypes.c_void_p).value:
        raise ConfigError(
            f"register_extern {name}: expected a function of ctypes, e.g. ctypes.CFUNCTYPE("
            f"ctypes.c_float, ctypes.c_float)(f) for f of Python, {arguments.found(function)}"
        )
    _externs[arguments.text("register_extern: name", name, "f")] = function


def registered(names: Iterable[str]) -> list[Any]:
    """The functions of `register_extern` with these names."""
    return [_externs[name] for name in names if name in _externs]


def callable_addresses(
    caller: str, externs: Sequence[str], functions: Iterable[tuple[str, Any]] = ()
) -> dict[str, int]:
    """The addresses of what loaded code may call, by name.

    These are the runtime's functions, those of `register_extern`, and `functions`. Raises
    MeasureError (stage load) if one of `externs`, which `caller` calls, is missing.
    """
    found = kernel_imports()
    for name, function in (*_externs.items(), *functions):
        address = ctypes.cast(function, ctypes.c_void_p).value
        if address is not None:
            found[name] = address
    for name in externs:
        if name not in found and not has_symbol(name):
            raise MeasureError(
                f"{caller} calls the function {name!r}, which is not in this process; "
                "register it with autosched.runtime.cpu.register_extern before loading",
                stage="load",
            )
    return found


class BoundKernel:
    """A kernel with checked arguments: a call takes a fraction of a microsecond.

    It keeps the arrays alive; each call reads and writes their memory.
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
        """Run the kernel once. Raises MeasureError when one of its assertions fails."""
        status = self._entry(self._address)
        if status:
            raise self._kernel.failure(status)

    def time_ns(self, calls: int = 1) -> int:
        """The nanoseconds of `calls` calls in a native loop. Raises MeasureError as `run` does."""
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

        kernel(a, b, c)    c = kernel(a, b)    kernel(A=a, B=b, C=c)    kernel(a, b, out=c)

    Arrays are NumPy arrays or anything in host memory that offers __dlpack__ or
    __array_interface__. Outputs are written in place, or made and returned where none is given. All
    arguments are checked (count, dtype, shape, contiguity, alignment, writability, outputs sharing
    memory) before anything runs. Several threads may call it at once, because it releases the
    interpreter's lock while it runs.

    - `addresses`: the addresses of `symbols`, which are other symbols of its code.
    - `quick`: a function of a tuple of all arrays. It returns the kernel's status (`failure`), or
      UNFIT before anything runs if the arrays do not fit or are not all plain NumPy arrays or
      PyTorch tensors.
    """

    def __init__(
        self, artifact: CpuArtifact, threads: int | None = None, symbols: Sequence[str] = ()
    ) -> None:
        self.artifact = artifact
        self._threads = threads
        imports = callable_addresses(artifact.symbol, artifact.externs)
        self._parallel = artifact.parallel
        self._library = load_object(
            artifact.object_code, [artifact.symbol, *symbols], imports, registered(artifact.externs)
        )
        self.raw_pointer = self._library.addresses[artifact.symbol]
        self.addresses = {name: self._library.addresses[name] for name in symbols}
        expected = expected_of(artifact.params)
        self.quick = self.quick_call(self.raw_pointer, expected)
        self.origin: Origin | None = None  # set where it was built from a record file
        self._outputs = MadeOutputs(expected, [p.name for p in artifact.params])
        self._inputs = self._outputs.inputs

    @property
    def threads(self) -> int:
        """The number of threads of its parallel loops, 1 where it has none."""
        return (self._threads or self.artifact.threads) if self._parallel else 1

    def quick_call(
        self, address: int, expected: Sequence[Expected]
    ) -> Callable[[tuple[Any, ...]], int]:
        """A function as `quick`, of code at `address` whose parallel loops are this kernel's.

        It always returns UNFIT where nothing is expected.
        """
        if not expected:
            return lambda args: UNFIT
        addresses = runtime_library().addresses
        word = addresses["autosched_pool"] + THREADS_OFFSET
        if not self._parallel:
            word = ctypes.addressof(_ONE)
        entry = addresses["autosched_call"]
        return quick_call(entry, address, expected, word, self.threads, self._library)

    def _ensure_pool(self) -> None:
        if self._parallel:
            ensure_pool(self.threads)

    def __reduce__(self) -> NoReturn:
        raise no_copy()

    def __repr__(self) -> str:
        artifact = self.artifact
        threads = f", {self.threads} threads" if self._parallel else ""
        origin = "" if self.origin is None else f"; {self.origin}"
        return f"<CPU kernel {signature(artifact.symbol, artifact.params)}{threads}{origin}>"

    def bind(self, *args: Any, **named: Any) -> BoundKernel:
        """Check the arguments and return the call. Raises MeasureError as a call does.

        All arguments must be given, outputs as well.
        """
        artifact = self.artifact
        if named:
            args = tuple(
                arrange(artifact.symbol, artifact.params, args, named, _not_given, _refused)[0]
            )
        slots, arrays = check(artifact.symbol, artifact.params, artifact.sizes, args)
        self._ensure_pool()
        return BoundKernel(self, slots, arrays)

    def prepare(self, *args: Any) -> tuple[Any, ...]:
        """The arguments (all, or only the first ones) in the storage order that the kernel expects.

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

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run once. Returns the outputs that were not given: an array, or a tuple of several.

        Arguments are given by position, or by the names of the tensors; `out` is another name of
        the output. Raises MeasureError when an argument does not fit or an assertion fails.
        """
        given: tuple[Any, ...] = args
        made: Sequence[Any] = ()
        if named or len(args) == self._inputs:
            given, made = self._outputs.complete(args, named)
        status = self.quick(given)
        if status:
            return self._unfit(status, args, named, given, made)
        return result_of(made) if made else None

    def _unfit(
        self,
        status: int,
        args: tuple[Any, ...],
        named: Mapping[str, Any],
        given: tuple[Any, ...],
        made: Sequence[Any],
    ) -> Any:
        """Handle a call that `quick` did not run, or that failed with `status`.

        Such calls have other tensors than NumPy's, arguments by name, or wrong ones. `given` are
        all arguments where they are known, `made` the outputs among them. Raises MeasureError for a
        status of the kernel's own.
        """
        if status != UNFIT:
            raise self.failure(status)
        if learn_tensors((*args, *named.values())):
            return self(*args, **named)
        try:
            status = self.quick(tuple(map(view_of, given)))
        except Exception:  # the general call reports any problem
            status = UNFIT
        if status == UNFIT:
            return self._general(args, named)
        if status:
            raise self.failure(status)
        return result_of(made)

    def _general(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """Run a call with names, numbers or variable shapes; or report why a call does not fit."""
        artifact = self.artifact
        values, made = arrange(artifact.symbol, artifact.params, args, named, _empty_like, _refused)
        for i, (value, spec) in enumerate(zip(values, artifact.params, strict=True)):
            if type(value) is not np.ndarray and spec.shape is not None:
                values[i] = as_array(artifact.symbol, i, spec, value)
        self._ensure_pool()
        status = self.quick(tuple(values))
        if status == UNFIT:
            self.bind(*values).run()
        elif status:
            raise self.failure(status)
        return result_of(made)

    def timer(self, *args: Any) -> Callable[[int], int]:
        """A function from a number of calls to their nanoseconds, on checked arguments."""
        return self.bind(*args).time_ns

    def failure(self, status: int) -> MeasureError:
        """The error of a call that returned `status`."""
        name = self.artifact.symbol
        if status == NO_TILES:
            return MeasureError(f"{name}: {TILES_REFUSED}", stage="run")
        if status < 0:
            return MeasureError(f"{name}: out of workspace memory", stage="run", kind="memory")
        return MeasureError(
            f"{name}: assertion failed: {self.artifact.messages[status - 1]}", stage="run"
        )


def expected_of(params: Sequence[ParamSpec]) -> list[Expected]:
    """What the arguments must be; empty where shapes are variable or numbers are passed."""
    if not all(map(is_constant, params)):
        return []
    return [
        Expected(DType(p.dtype).numpy, constant_shape(p), p.alignment, p.is_output) for p in params
    ]


def _refused(text: str) -> MeasureError:
    return MeasureError(text, stage="run")


def _empty_like(spec: Spec) -> np.ndarray[Any, Any]:
    return aligned_empty(constant_shape(spec), DType(spec.dtype).numpy)


def _not_given(spec: Spec) -> Any:
    raise MeasureError(f"bind needs the output {spec.name} too", stage="run")


def load(artifact: CpuArtifact, threads: int | None = None) -> CpuKernel:
    """Load the kernel of `artifact` into this process.

    `threads` replaces the number of threads for which its parallel loops were compiled. Raises
    MeasureError (stage load) when a symbol that it needs is missing, and ConfigError for arguments
    of other types.
    """
    arguments.instance("artifact", artifact, CpuArtifact, "autosched.driver.build(...)")
    if threads is not None:
        threads = arguments.integer("threads", threads, 1)
    return CpuKernel(artifact, threads)
