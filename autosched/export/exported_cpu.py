"""The last part of an exported CPU module: it loads the library and wraps its kernels.

It is bundled with the files it imports (`bundle.py`); in autosched itself only tests import it.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from autosched.runtime.array_checks import (
    address_of,
    array_problem,
    element_of,
    no_view,
    overlap,
    shares,
    view_of,
)
from autosched.runtime.calling import arrange, result_of, signature
from autosched.runtime.made_outputs import MadeOutputs
from autosched.runtime.memory import aligned_copy, empty
from autosched.runtime.quick_call import UNFIT, Expected, learn_tensors, quick_call

_FILE = Path(__file__).with_suffix(".json")
_ONE = ctypes.c_int32(1)  # number of threads passed by the caller; the library manages its own
Shapes = tuple[tuple[int, ...], ...]
"""The shapes of several arrays."""


class Parameter(NamedTuple):
    """An array that a kernel takes.

    `shape` is the stored shape. If the kernel expects another storage order, `original` is the
    logical shape and `dims` holds the (axis, extent) of each stored dimension; otherwise `dims` is
    empty.
    """

    name: str
    dtype: str
    element: Any
    shape: tuple[int, ...]
    is_output: bool
    original: tuple[int, ...]
    dims: tuple[tuple[int, int], ...]


class Kernel:
    """A kernel of the library. Call it with its inputs, and optionally its outputs.

        c = kernel(a, b)    kernel(a, b, c)    kernel(a, b, out=c)    kernel(A=a, B=b)

    Arrays are NumPy arrays, or any object in host memory with __dlpack__ or __array_interface__.
    Every argument is checked first; a ValueError names the one that does not fit. Several threads
    may call it at once.
    """

    def __init__(
        self, name: str, entry: Mapping[str, Any], library: ctypes.CDLL, prefix: str
    ) -> None:
        self.name = name
        self.parameters = tuple(map(_parameter, entry["parameters"]))
        self._run = getattr(library, f"{prefix}_run_{name}")
        self._message = getattr(library, f"{prefix}_message")
        self._message.restype = ctypes.c_char_p
        expected = [
            Expected(p.element, p.shape, p.element.alignment, p.is_output) for p in self.parameters
        ]
        self._quick = quick_call(
            _address(getattr(library, f"{prefix}_call")),
            _address(self._run),
            expected,
            ctypes.addressof(_ONE),
            1,
        )
        self._outputs = MadeOutputs(expected, [p.name for p in self.parameters])

    def __repr__(self) -> str:
        return f"<kernel {signature(self.name, self.parameters)}>"

    def __reduce__(self) -> str:
        """For pickle and copy: this module's function of the same name."""
        return self.name

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run once; return the outputs that were not passed: an array, or a tuple of several."""
        given: tuple[Any, ...] = args
        made: Sequence[Any] = ()
        if named or len(args) == self._outputs.inputs:
            given, made = self._outputs.complete(args, named)
        status = self._quick(given)
        if not status:
            return result_of(made) if made else None
        if status == UNFIT and learn_tensors((*args, *named.values())):
            return self(*args, **named)
        if status == UNFIT:
            status, made = self._general(args, named)
        if status:
            raise RuntimeError(f"{self.name}: {self._message(status).decode()}")
        return result_of(made)

    def prepare(self, *args: Any) -> tuple[Any, ...]:
        """The arguments, copied if the kernel expects another storage order."""
        found = list(args)
        for i, (p, value) in enumerate(zip(self.parameters, args, strict=False)):
            if p.dims:
                array = view_of(value)
                if array.shape != p.original:
                    raise self._refusal(i, f"must have shape {p.original}, found {array.shape}")
                found[i] = aligned_copy(_stored(array, p.dims).reshape(p.shape))
        return tuple(found)

    def _general(self, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[int, list[Any]]:
        values, made = arrange(self.name, self.parameters, args, named, self._allocate, ValueError)
        arrays = []
        for i, (p, value) in enumerate(zip(self.parameters, values, strict=True)):
            try:
                array = view_of(value)
            except Exception as error:  # whatever a library's arrays raise
                raise self._refusal(i, no_view(value, error)) from error
            hint = "; kernel.prepare stores it so" if p.dims else ""
            problem = array_problem(
                array, p.dtype, p.element, p.shape, p.element.alignment, p.is_output, hint
            )
            if problem:
                raise self._refusal(i, problem)
            arrays.append(array)
        spans = [(address_of(array), array.nbytes) for array in arrays]
        found = overlap(spans, [p.is_output for p in self.parameters])
        if found is not None:
            raise self._refusal(found[0], shares(self.parameters[found[1]].name, found[1]))
        slots = (ctypes.c_void_p * len(spans))(*(address for address, _ in spans))
        return int(self._run(slots)), made

    def _allocate(self, spec: Any) -> np.ndarray[Any, Any]:
        return empty(spec.shape, spec.element)

    def _refusal(self, position: int, problem: str) -> ValueError:
        name = self.parameters[position].name
        return ValueError(f"{self.name}: argument {position + 1} ({name}) {problem}")


class Choice:
    """A function that chooses among kernels by the shapes of its arrays.

    If several kernels take inputs of the same shapes, such as pooling with different padding, the
    shapes of the outputs decide, so these must be passed.
    """

    def __init__(self, name: str, kernels: Sequence[Kernel]) -> None:
        self.name = name
        self.kernels = tuple(kernels)
        first = self.kernels[0].parameters
        self._inputs = [p.name for p in first if not p.is_output]
        self._outputs = [p.name for p in first if p.is_output]
        self._by_shapes: dict[Shapes, dict[Shapes, Kernel]] = {}
        for kernel in self.kernels:
            inputs, outputs = (
                tuple(p.shape for p in kernel.parameters if p.is_output == wanted)
                for wanted in (False, True)
            )
            self._by_shapes.setdefault(inputs, {})[outputs] = kernel

    def __repr__(self) -> str:
        return f"<{self.name}: one of {len(self.kernels)} kernels, by shape>"

    def __reduce__(self) -> str:
        """For pickle and copy: this module's function of the same name."""
        return self.name

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Call the kernel for these shapes. A ValueError lists the available shapes."""
        return self.kernel_for(*args, **named)(*args, **named)

    def kernel_for(self, *args: Any, **named: Any) -> Kernel:
        """The kernel that a call with these arguments uses."""
        count = len(self._inputs)
        self._require_inputs(_given(self._inputs, args[:count], named))
        inputs = _shapes_of(self._inputs, args[:count], named)
        fitting = self._by_shapes.get(inputs)
        if fitting is None:
            raise ValueError(
                f"{self.name}: no kernel for the shapes {', '.join(map(str, inputs))} of "
                f"{', '.join(self._inputs)}; there are {_listed(self._by_shapes)}"
            )
        if len(fitting) == 1:
            return next(iter(fitting.values()))
        out = None if "out" in self._inputs else named.get("out")
        several = () if out is None else out if isinstance(out, tuple | list) else (out,)
        given = (*args[count:], *several)
        found = fitting.get(_shapes_of(self._outputs, given, named))
        if found is None:
            raise ValueError(
                f"{self.name}: {len(fitting)} kernels take inputs of these shapes; pass "
                f"{', '.join(self._outputs)}, too, of one of the shapes {_listed(fitting)}"
            )
        return found

    def _require_inputs(self, given: Sequence[Any]) -> None:
        """Raise ValueError if an input is missing or has no shape."""
        if len(given) < len(self._inputs):
            raise ValueError(
                f"{self.name}: takes the inputs {', '.join(self._inputs)}, found {len(given)} of "
                "them"
            )
        for position, (name, value) in enumerate(zip(self._inputs, given, strict=True)):
            if not hasattr(value, "shape"):
                raise ValueError(
                    f"{self.name}: argument {position + 1} ({name}) must be an array, found "
                    f"{type(value).__name__}"
                )


def _given(names: Sequence[str], args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
    """Positional arguments, followed by those of `names` that are passed by name."""
    return [*args, *(named[name] for name in names[len(args) :] if name in named)]


def _shapes_of(names: Sequence[str], args: Sequence[Any], named: Mapping[str, Any]) -> Shapes:
    given = _given(names, args, named)
    return tuple(tuple(getattr(value, "shape", ())) for value in given)


def _listed(known: Iterable[Shapes]) -> str:
    return "; ".join(", ".join(map(str, shapes)) for shapes in known)


def _parameter(entry: Mapping[str, Any]) -> Parameter:
    layout = entry.get("layout") or {"shape": entry["shape"], "dims": []}
    return Parameter(
        entry["name"],
        entry["dtype"],
        element_of(entry["dtype"]),
        tuple(entry["shape"]),
        entry["output"],
        tuple(layout["shape"]),
        tuple((axis, extent) for axis, extent in layout["dims"]),
    )


def _stored(array: np.ndarray[Any, Any], dims: Sequence[tuple[int, int]]) -> np.ndarray[Any, Any]:
    order = [k for axis in range(array.ndim) for k, (of, _) in enumerate(dims) if of == axis]
    return array.reshape([dims[k][1] for k in order]).transpose(np.argsort(order))


def _address(function: Any) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


def _load() -> dict[str, Any]:
    """The functions of the library by name. Raises ImportError if this machine cannot run it."""
    again = "export it again, or copy all of its files"
    try:
        about = json.loads(_FILE.read_text(encoding="utf-8"))
        file = _FILE.with_name(about["library"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ImportError(
            f"{_FILE} does not describe the library: {type(error).__name__}: {error}; {again}"
        ) from error
    try:
        if _is_cut_short(file):
            raise ImportError(f"{file} is cut short; {again}")
        library = ctypes.CDLL(str(file))
        return _functions_of(library, file, about)
    except OSError as error:
        if file.is_file() and os.statvfs(file).f_flag & os.ST_NOEXEC:
            again = "no code runs on its file system (noexec): copy the folder to another one"
        raise ImportError(f"{file} cannot be loaded: {error}; {again}") from error
    except (AttributeError, KeyError) as error:
        raise ImportError(
            f"{file} is not the library of {_FILE.name}: {type(error).__name__}: {error}; {again}"
        ) from error


def _is_cut_short(file: Path) -> bool:
    """Whether the end of an ELF file is missing, where its table of sections is.

    The system's loader would end the process.
    """
    with file.open("rb") as opened:
        head = opened.read(64)
    if len(head) < 64 or not head.startswith(b"\x7fELF\x02\x01"):
        return False  # no such file: the loader says so
    table, size, number = struct.unpack_from("<40xQ10xHH", head)
    end: int = table + size * number
    return file.stat().st_size < end


def _functions_of(library: ctypes.CDLL, file: Path, about: Mapping[str, Any]) -> dict[str, Any]:
    prefix = about["name"]
    build = getattr(library, f"{prefix}_build")
    build.restype = ctypes.c_char_p
    if build().decode() != about["build"]:
        # A process never loads a second library from the same path.
        raise ImportError(
            f"{file} is from another build ({build().decode()}) than {_FILE.name} "
            f"({about['build']}); if the files were just replaced, restart Python"
        )
    problem = getattr(library, f"{prefix}_problem")
    problem.restype = ctypes.c_char_p
    text = problem()
    if text is not None:
        raise ImportError(f"{file}: {text.decode()}")
    found: dict[str, Any] = {
        name: Kernel(name, entry, library, prefix) for name, entry in about["kernels"].items()
    }
    for name, kernels in about["dispatch"].items():
        found[name] = Choice(name, [found[kernel] for kernel in kernels])
    return found


def names() -> list[str]:
    """The names of the kernels of this module."""
    return list(_functions)


_functions = {} if __name__.startswith("autosched.") else _load()  # not exported here
globals().update(_functions)
