"""Load modules of host functions and call them with packed arguments.

module = load_host(driver.build_host(func, target))
module(a, b)
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autosched.codegen.llvm_compile import compile_object
from autosched.codegen.llvm_host import called_outside, emit_host, module_messages
from autosched.codegen.llvm_storage import keep_registers
from autosched.codegen.llvm_tiles import NO_TILES, TILES_REFUSED
from autosched.errors import MeasureError
from autosched.runtime.array_checks import MASKED, no_view
from autosched.runtime.artifact import written
from autosched.runtime.cpu import callable_addresses, registered
from autosched.runtime.native import load_object
from autosched.runtime.packed import ERRORS, pack, runtime_functions, unpack
from autosched.runtime.parallel import ensure_pool
from autosched.target import Target
from autosched.tir.dtype import DType
from autosched.tir.function import IRModule, PrimFunc
from autosched.tir.packed import PACKED, ArgCode
from autosched.transform.host.make_packed_api import RESOURCE

_ENTRY = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter: an array (`is_array`, written by the function if `is_output`) or a value.

    A value of type handle is an address; an array passed for it means the address of its first
    element.
    """

    name: str
    dtype: str
    is_array: bool = False
    is_output: bool = False


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a function.

    - `alone`: no array that is written may share memory with another one.
    """

    params: tuple[Parameter, ...]
    alone: bool = True


@dataclass(frozen=True, slots=True)
class HostArtifact:
    """Object code of a module of host functions.

    - `functions`: the signatures of the exported functions.
    - `messages`: the messages of their assertions.
    - `externs`: the external C functions that they call.
    - `threads`: the number of threads of their parallel loops.
    """

    object_code: bytes
    functions: Mapping[str, Signature]
    messages: tuple[str, ...] = ()
    externs: tuple[str, ...] = ()
    threads: int = 1


def signature_of(func: PrimFunc) -> Signature:
    """The signature of a function, taken before MakePackedAPI."""
    stored = written(func)
    params = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is not None:
            is_output = buffer.data in stored
            params.append(Parameter(param.name, buffer.dtype.name, True, is_output))
        elif param.name != RESOURCE:
            params.append(Parameter(param.name, param.dtype.name))
    return Signature(tuple(params), func.noalias)


def prepared(module: IRModule) -> tuple[IRModule, dict[str, Signature]]:
    """The module as the host pipeline expects it, and the signatures of its functions.

    Allocations that become registers are marked so that passes leave them in place.
    """
    functions = module.functions
    kept = IRModule({name: keep_registers(func) for name, func in functions.items()}, module.attrs)
    return kept, {name: signature_of(func) for name, func in functions.items()}


def host_artifact(
    module: IRModule, signatures: Mapping[str, Signature], target: Target
) -> HostArtifact:
    """Compile lowered host functions. Raises CompileError."""
    code = compile_object(emit_host(module, target), target)
    packed = [n for n, f in module.functions.items() if f.attrs.get("calling_conv") == PACKED]
    return HostArtifact(
        code,
        {name: signatures[name] for name in packed},
        module_messages(module),
        called_outside(module),
        target.threads,
    )


class HostFunction:
    """A compiled function that takes packed arguments and checks them itself.

    For the arguments see `autosched.runtime.packed.pack`. Raises MeasureError with the message of
    the check that an argument fails, and whatever a packed function raised that it called.
    """

    def __init__(self, module: HostModule, name: str, address: int) -> None:
        self.name = name
        self.module = module
        self._signature = module.artifact.functions[name]
        self._entry = _ENTRY(address)

    def __call__(self, *args: Any) -> Any:
        """Run the function. Returns the value of its `ret`, or None."""
        params = self._signature.params
        args = tuple(self._viewed(i, arg) for i, arg in enumerate(args))
        if len(args) == len(params):
            self._check_values(args)
            self._check_outputs(args)
        values, codes, keep = bytearray(), [], []
        for i, arg in enumerate(args):
            is_address = i < len(params) and not params[i].is_array
            if is_address and isinstance(arg, np.ndarray) and params[i].dtype == "handle":
                arg = ctypes.c_void_p(arg.__array_interface__["data"][0])
            try:
                code, data, owner = pack(arg)
            except TypeError as error:
                raise MeasureError(f"{self._where(i)}: {error}", stage="run") from error
            values += data
            codes.append(int(code))
            keep.append(owner)
        ensure_pool(self.module.artifact.threads)
        slots = (ctypes.c_char * max(8, len(values))).from_buffer(values or bytearray(8))
        kinds = (ctypes.c_int32 * max(1, len(codes)))(*codes)
        result, kind = ctypes.c_uint64(0), ctypes.c_int32(ArgCode.NULL)
        where = ctypes.addressof(slots), ctypes.addressof(kinds)
        with ERRORS.of_call():
            status = self.call_raw(*where, len(codes), result, kind)
            del keep
            if status:
                raise self._failure(status, args)
        return unpack(kind.value, result.value)

    def call_raw(
        self,
        args: int | None,
        codes: int | None,
        count: int,
        result: ctypes.c_uint64,
        kind: ctypes.c_int32,
    ) -> int:
        """Call the function with addresses as given; returns its status."""
        out, out_code = ctypes.addressof(result), ctypes.addressof(kind)
        return int(self._entry(args, codes, count, out, out_code, None))

    def _viewed(self, position: int, value: Any) -> Any:
        """View an array of another library as NumPy's; return anything else unchanged."""
        if isinstance(value, np.ma.MaskedArray):
            raise MeasureError(f"{self._where(position)} {MASKED}", stage="run")
        if isinstance(value, np.ndarray | np.generic) or not hasattr(value, "__dlpack__"):
            return value
        try:
            return np.from_dlpack(value)
        except Exception as error:  # whatever the library raises
            raise MeasureError(
                f"{self._where(position)} {no_view(value, error)}", stage="run"
            ) from error

    def _where(self, position: int) -> str:
        params = self._signature.params
        name = f" ({params[position].name})" if position < len(params) else ""
        return f"{self.name}: argument {position + 1}{name}"

    def _check_values(self, args: tuple[Any, ...]) -> None:
        """Refuse integers that do not fit their parameters: the function truncates 64 bits."""
        for i, (param, value) in enumerate(zip(self._signature.params, args, strict=True)):
            dtype = DType(param.dtype)
            number = isinstance(value, int | np.integer) and not param.is_array
            if number and dtype.code in ("int", "uint"):
                if not dtype.min_value <= value <= dtype.max_value:
                    raise MeasureError(
                        f"{self._where(i)} must fit {param.dtype}, found {value}", stage="run"
                    )

    def _check_outputs(self, args: tuple[Any, ...]) -> None:
        """Check what the function itself cannot: arrays that are read-only or share memory."""
        arrays = {i: a for i, a in enumerate(args) if isinstance(a, np.ndarray)}
        outputs = [i for i in arrays if self._signature.params[i].is_output]
        for i in outputs:
            if not arrays[i].flags.writeable:
                raise MeasureError(
                    f"{self._where(i)} is written by the function but is read-only; pass a copy",
                    stage="run",
                )
            for j, other in arrays.items() if self._signature.alone else ():
                if i != j and _overlap(arrays[i], other):
                    raise MeasureError(
                        f"{self._where(i)} is written by the function but shares memory with "
                        f"argument {j + 1}; pass arrays that do not overlap",
                        stage="run",
                    )

    def _failure(self, status: int, args: tuple[Any, ...]) -> BaseException:
        if status < -1:
            error = ERRORS.take(status)
            if error is not None:
                return error
        if status == NO_TILES:
            return MeasureError(f"{self.name}: {TILES_REFUSED}", stage="run")
        if status < 0:
            return MeasureError(f"{self.name}: out of memory", stage="run", kind="memory")
        failed = MeasureError(self.module.artifact.messages[status - 1], stage="run")
        given = ", ".join(map(_described, args)) or "nothing"
        names = ", ".join(param.name for param in self._signature.params)
        failed.add_note(f"{self.name}({names}) was given {given}")
        return failed


def _overlap(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Whether the arrays share an element, or that would take too long to find out."""
    try:
        work = 10_000
        return bool(np.shares_memory(a, b, max_work=work))  # type: ignore[arg-type]  # 0 and -1 only
    except np.exceptions.TooHardError:
        return True


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        strides = "" if value.flags.c_contiguous else f" strides {value.strides}"
        return f"{value.dtype}{list(value.shape)}{strides}"
    if isinstance(value, bool | int | float | str | np.generic) or value is None:
        return f"{type(value).__name__} {value!r:.80}" if value is not None else "None"
    return type(value).__name__


@dataclass
class HostModule:
    """The loaded functions of a module: `module["name"](...)`; `module(...)` if only one."""

    artifact: HostArtifact
    functions: dict[str, HostFunction] = field(default_factory=dict)
    _library: Any = None

    def __getitem__(self, name: str) -> HostFunction:
        """The function of this name. Raises MeasureError when the module exports none."""
        if name not in self.functions:
            raise MeasureError(
                f"the module exports no {name!r}; it has {', '.join(self.functions) or 'nothing'}",
                stage="load",
            )
        return self.functions[name]

    def __call__(self, *args: Any) -> Any:
        """Call the only function. Raises MeasureError when there are several, or as it does."""
        if len(self.functions) != 1:
            names = ", ".join(self.functions) or "nothing"
            raise MeasureError(f"the module exports {names}; name one", stage="load")
        (function,) = self.functions.values()
        return function(*args)


def load_host(artifact: HostArtifact) -> HostModule:
    """Load the functions of `artifact` into this process.

    Raises MeasureError (stage load) when a C function that they call is missing.
    """
    functions = runtime_functions().items()
    imports = callable_addresses("a host function", artifact.externs, functions)
    called = registered(artifact.externs)
    library = load_object(artifact.object_code, list(artifact.functions), imports, called)
    module = HostModule(artifact, {}, library)
    for name, address in library.addresses.items():
        module.functions[name] = HostFunction(module, name, address)
    return module
