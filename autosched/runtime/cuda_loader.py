"""Compiled CUDA kernels, called on arrays of NumPy, CuPy, PyTorch, Numba and PyCUDA.

This file needs the standard library and NumPy only, because exported modules hold a copy of it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np

from autosched.runtime.array_checks import no_view, overlap, shares, view_of
from autosched.runtime.calling import Refusal, arrange, no_copy, result_of, signature
from autosched.runtime.cuda_api import LEGACY, Driver, current
from autosched.runtime.cuda_arrays import DeviceArray, View, is_on_gpu, view_on_gpu

ALIGNMENT = 16
"""Bytes: kernels read and write vectors of up to 16."""


@dataclass(frozen=True)
class Parameter:
    """An array parameter of the kernel; `element` is its NumPy type."""

    name: str
    dtype: str
    element: Any
    shape: tuple[int, ...]
    is_output: bool


class Step(NamedTuple):
    """A launch: its configuration, and the names of parameters and workspaces that it passes."""

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    dynamic_shared: int
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Program:
    """A kernel's code and launches.

    - `cubins`: code by architecture.
    - `workspaces`: sizes in bytes by name.
    - `steps`: the launches in order.
    - `ptx`: (architecture, text) that the driver compiles for a GPU for which there is no cubin.
    """

    name: str
    parameters: tuple[Parameter, ...]
    cubins: Mapping[str, bytes]
    workspaces: Mapping[str, int]
    steps: tuple[Step, ...]
    ptx: tuple[str, bytes] | None = None


class _Loaded(NamedTuple):
    module: int
    functions: Mapping[str, int]
    workspaces: dict[int, Mapping[str, int]]  # by stream: launches in different streams may overlap


class GpuKernel:
    """A CUDA kernel. Call it with its inputs, and optionally its outputs.

        c = kernel(a, b)    kernel(a, b, c)    kernel(a, b, out=c)    kernel(A=a, B=b, stream=s)

    Either all arrays are NumPy arrays, which are copied to the GPU and back before the call
    returns, or all are in GPU memory: anything with __cuda_array_interface__ or __dlpack__ (CuPy,
    PyTorch, Numba, PyCUDA). In the second case the kernel is queued in `stream` (a handle, or a
    stream of one of these libraries; default: the legacy default stream) after the work for which
    the arrays wait, and outputs that were not given are DeviceArrays. Every argument is checked
    first: dtype, shape, contiguity, alignment to 16 bytes, device, writability, outputs sharing
    memory. Several threads may call it at once.
    """

    def __init__(
        self, program: Program, driver: Driver, refusal: Refusal = ValueError, device: int = 0
    ) -> None:
        self.program = program
        self._driver = driver
        self._refusal = refusal
        self._device = device  # for NumPy arrays
        self.origin: object = None  # set where it was built from a record file
        self._lock = threading.Lock()
        self._loaded: dict[int, _Loaded] = {}

    def __reduce__(self) -> NoReturn:
        raise no_copy()

    def __repr__(self) -> str:
        program = self.program
        archs = ", ".join(program.cubins)
        origin = "" if self.origin is None else f"; {self.origin}"
        return f"<CUDA kernel {signature(program.name, program.parameters)} for {archs}{origin}>"

    def __call__(self, *args: Any, stream: Any = None, **named: Any) -> Any:
        """Run once. Returns the outputs that were not given: an array, or a tuple of several."""
        program = self.program
        values, made = arrange(
            program.name, program.parameters, args, named, lambda spec: None, self._refusal
        )
        handle = handle_of(stream, self._refusal)
        given = [i for i, value in enumerate(values) if value is not None]
        there = [i for i in given if is_on_gpu(values[i])]
        if not there:
            return self._on_host(values, handle)
        if len(there) < len(given):
            here = next(i for i in given if i not in there)
            raise self._refuse(
                here,
                f"is a {type(values[here]).__name__} in host memory, but "
                f"{program.parameters[there[0]].name} is on a GPU; copy one of them",
            )
        results = self._on_device(values, handle)
        return result_of(results if made else [])

    def __del__(self) -> None:
        for context, loaded in getattr(self, "_loaded", {}).items():
            with suppress(Exception), current(self._driver, context):  # the driver may be gone
                for workspaces in loaded.workspaces.values():
                    for address in workspaces.values():
                        self._driver.free(address)
                self._driver.unload(loaded.module)

    def _on_host(self, values: Sequence[Any], stream: int) -> Any:
        """Copy the inputs to the GPU, run, copy the outputs back, and wait."""
        parameters = self.program.parameters
        arrays: list[np.ndarray[Any, Any]] = []
        made = []
        for i, (value, parameter) in enumerate(zip(values, parameters, strict=True)):
            if value is None:
                made.append(np.empty(parameter.shape, parameter.element))
                arrays.append(made[-1])
                continue
            array = self._host_array(i, value)
            strides = None if array.flags.c_contiguous else array.strides
            address, writable = array.ctypes.data, array.flags.writeable
            seen = View(address, str(array.dtype), array.shape, strides, not writable, None, array)
            self._check(i, seen, aligned=False)
            arrays.append(array)
        self._check_aliasing([(array.ctypes.data, array.nbytes) for array in arrays])
        driver = self._driver
        context = driver.primary(self._device)
        with self._lock, current(driver, context):
            buffers: dict[str, int] = {}
            try:
                for parameter, array in zip(parameters, arrays, strict=True):
                    buffers[parameter.name] = driver.alloc(array.nbytes)
                    if not parameter.is_output:
                        driver.upload(buffers[parameter.name], array, stream)
                self._launch(context, self._device, buffers, stream)
                for parameter, array in zip(parameters, arrays, strict=True):
                    if parameter.is_output:
                        driver.download(array, buffers[parameter.name], stream)
                driver.synchronize(stream)
            finally:
                for address in buffers.values():
                    driver.free(address)
        return result_of(made)

    def _host_array(self, position: int, value: Any) -> np.ndarray[Any, Any]:
        try:
            return view_of(value)
        except Exception as error:  # whatever a library's arrays raise
            raise self._refuse(position, no_view(value, error)) from error

    def _on_device(self, values: Sequence[Any], stream: int) -> list[Any]:
        """Queue the launches; returns the outputs that it made."""
        parameters = self.program.parameters
        views: dict[int, View] = {}
        for i, value in enumerate(values):
            if value is not None:
                views[i] = self._view(i, value, stream)
                self._check(i, views[i], aligned=True)
        context, device = self._place(views)
        driver = self._driver
        made: list[Any] = []
        with self._lock, current(driver, context):
            for other in dict.fromkeys(view.stream for view in views.values()):
                if other is not None and other != stream:
                    driver.wait(stream, other)
            addresses = {parameters[i].name: view.address for i, view in views.items()}
            for i, parameter in enumerate(parameters):
                if i not in views:
                    result = DeviceArray(
                        driver, context, device, parameter.shape, parameter.element
                    )
                    result.stream = stream
                    addresses[parameter.name] = result.address
                    made.append(result)
            sizes = [_bytes(p) for p in parameters]
            spans = [(addresses[p.name], size) for p, size in zip(parameters, sizes, strict=True)]
            self._check_aliasing(spans)
            self._launch(context, device, addresses, stream)
        return made

    def _view(self, position: int, value: Any, stream: int) -> View:
        parameter = self.program.parameters[position]
        try:
            return view_on_gpu(value, parameter.dtype, stream)
        except (AttributeError, BufferError, KeyError, RuntimeError, TypeError, ValueError) as why:
            raise self._refuse(
                position, f"({type(value).__name__}) cannot be viewed: {why}"
            ) from why

    def _place(self, views: Mapping[int, View]) -> tuple[int, int]:
        """The context and device of all arrays. Raises the refusal where they differ."""
        found: tuple[int, int] | None = None
        first = -1
        for i, view in views.items():
            place = self._driver.place(view.address)
            if place is None:
                raise self._refuse(i, f"is not memory of a GPU: address {view.address:#x}")
            context, device = place[0] or self._driver.primary(place[1]), place[1]
            if found is None:
                found, first = (context, device), i
            elif found != (context, device):
                name = self.program.parameters[first].name
                there = f"GPU {device}" + (" in another context" if found[1] == device else "")
                raise self._refuse(
                    i, f"must be where {name} is (GPU {found[1]}), found {there}; copy it there"
                )
        assert found is not None
        return found

    def _check(self, position: int, view: View, *, aligned: bool) -> None:
        parameter = self.program.parameters[position]
        if view.dtype != parameter.dtype:
            raise self._refuse(position, f"must have dtype {parameter.dtype}, found {view.dtype}")
        if view.shape != parameter.shape:
            raise self._refuse(position, f"must have shape {parameter.shape}, found {view.shape}")
        if view.strides is not None:
            raise self._refuse(
                position,
                f"must be contiguous in row-major order, found strides {view.strides} (bytes) for "
                f"shape {view.shape}; copy it",
            )
        if aligned and view.address % ALIGNMENT:
            raise self._refuse(
                position,
                f"must start at a multiple of {ALIGNMENT} bytes, found address "
                f"{view.address:#x}, as views of a part have; copy it",
            )
        if parameter.is_output and view.read_only:
            raise self._refuse(position, "is written by the kernel but is read-only; pass a copy")

    def _check_aliasing(self, spans: Sequence[tuple[int, int]]) -> None:
        """Refuse outputs that share memory with another array; spans are (address, bytes)."""
        parameters = self.program.parameters
        found = overlap(spans, [parameter.is_output for parameter in parameters])
        if found is not None:
            raise self._refuse(found[0], shares(parameters[found[1]].name, found[1]))

    def _launch(self, context: int, device: int, addresses: Mapping[str, int], stream: int) -> None:
        """Queue all launches; the caller holds the lock and has made the context current."""
        loaded = self._loaded.get(context)
        if loaded is None:
            loaded = self._loaded[context] = self._load(device)
        if stream not in loaded.workspaces:
            alloc = self._driver.alloc
            workspaces = self.program.workspaces
            loaded.workspaces[stream] = {name: alloc(size) for name, size in workspaces.items()}
        known = {**addresses, **loaded.workspaces[stream]}
        for step in self.program.steps:
            pointers = [known[name] for name in step.arguments]
            function = loaded.functions[step.kernel]
            self._driver.launch(
                function, step.grid, step.block, step.dynamic_shared, stream, pointers
            )

    def _load(self, device: int) -> _Loaded:
        module = self._driver.load(self._image(self._driver.capability(device)))
        functions = {
            step.kernel: self._driver.function(module, step.kernel, step.dynamic_shared)
            for step in self.program.steps
        }
        return _Loaded(module, functions, {})

    def _image(self, capability: tuple[int, int]) -> bytes:
        """The code for a GPU: a cubin of the same major version, else PTX.

        The cubin is that of the GPU's architecture, or of the highest lower minor version.
        """
        program = self.program
        fits = {}
        for arch, cubin in program.cubins.items():
            major, minor = divmod(int(arch.removeprefix("sm_")), 10)
            if major == capability[0] and minor <= capability[1]:
                fits[minor] = cubin
        if fits:
            return fits[max(fits)]
        if program.ptx is not None:
            arch, text = program.ptx
            if divmod(int(arch.removeprefix("sm_")), 10) <= capability:
                return text
        has = ", ".join(program.cubins) or "none"
        wanted = f"sm_{capability[0]}{capability[1]}"
        raise self._refusal(
            f"{program.name}: no code for this GPU ({wanted}): there is {has}; build it for "
            f"{wanted}"
        )

    def _refuse(self, position: int, problem: str) -> Exception:
        name = self.program.parameters[position].name
        return self._refusal(f"{self.program.name}: argument {position + 1} ({name}) {problem}")


def handle_of(stream: Any, refusal: Refusal = ValueError) -> int:
    """The handle of a stream: a number, or an object of PyTorch, CuPy, Numba or PyCUDA."""
    if stream is None:
        return LEGACY
    offered = getattr(stream, "__cuda_stream__", None)
    if offered is not None:
        stream = (offered() if callable(offered) else offered)[1]
    for name in ("cuda_stream", "ptr", "handle", "value"):
        if not isinstance(stream, int):
            stream = getattr(stream, name, stream)
    if stream is None:  # ctypes turns the handle 0 into None
        return LEGACY
    if not isinstance(stream, int) or isinstance(stream, bool) or stream < 0:
        raise refusal(
            "stream: expected a handle or a stream of PyTorch, CuPy, Numba or PyCUDA, found "
            f"{type(stream).__name__}"
        )
    return stream or LEGACY


def _bytes(parameter: Parameter) -> int:
    return int(np.prod(parameter.shape, dtype=np.int64)) * int(np.dtype(parameter.element).itemsize)
