"""Compile loops over arrays of numbers that are written as Python functions.

    @compiled
    def count(numbers: Ints, found: Ints) -> None:
        for k in range(len(numbers)):
            found[numbers[k]] += 1

Such a function takes arrays, integers and dataclasses of these, of which it sees no other fields,
and returns nothing. It consists of assignments to variables and elements, `for` over a range with a
step of 1 or -1, `while`, `if`, and calls of other functions of this kind. Its values are int64 and
wrap around; elements may be of other integer types or bool. It may call `len` of an array, `min`
and `max` of two numbers, `abs`, and `ones`. Integers of its module are constants. Arrays that it is
given share no memory, and no integer that it is given is assigned to. As Python, on arrays, it does
the same a thousand times as slowly: that is its definition, with which tests compare.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from autosched.errors import CompileError, MeasureError
from autosched.runtime.loop_cache import Kind, loop_files, loop_key
from autosched.target import Target, cpu_target

if TYPE_CHECKING:
    from autosched.runtime.native import Library

_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class NoCodeError(Exception):
    """A function has no code here: Python has no source of it, or LLVM nothing for the machine."""


def ones(bits: int) -> int:
    """The number of bits that are set in an int64."""
    return (int(bits) & (1 << 64) - 1).bit_count()


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The arrays and integers that an argument consists of, each with what the function calls
    it."""
    if is_dataclass(value):
        for field in fields(value):
            yield from _parts(f"{name}.{field.name}", getattr(value, field.name))
    elif isinstance(value, int | np.integer) or (
        isinstance(value, np.ndarray) and value.dtype.kind in "biu"
    ):
        yield name, value


def _kind(name: str, value: np.ndarray[Any, Any] | int) -> Kind:
    if not isinstance(value, np.ndarray):
        return Kind(name)
    return Kind(name, value.dtype.char, value.ndim, value.strides[-1] == value.itemsize)


def compiled(function: Callable[..., None]) -> Compiled:
    """Decorate a function of this module's kind."""
    return Compiled(function)


class Compiled:
    """A function, compiled for each combination of argument types.

    `definition` is the function as Python runs it.
    """

    def __init__(self, definition: Callable[..., None]) -> None:
        self.definition = definition
        self._names = definition.__code__.co_varnames[: definition.__code__.co_argcount]
        self._known: dict[tuple[Kind, ...], Callable[[int], int]] = {}

    def __call__(self, *args: Any) -> None:
        """Run with these arguments, arrays of at least one axis. Raises NoCodeError."""
        pairs = zip(self._names, args, strict=True)
        parts = [part for name, value in pairs for part in _parts(name, value)]
        kinds = tuple([_kind(*part) for part in parts])
        if kinds not in self._known:
            self._known[kinds] = self._compiled(kinds)
        entry = self._known[kinds]
        slots: list[int] = []
        for _, a in parts:
            if isinstance(a, np.ndarray):
                slots.append(a.__array_interface__["data"][0])
                slots.append(len(a))
                slots += [step // a.itemsize for step in a.strides]
            else:
                slots.append(a)
        table = np.array(slots, np.int64)
        entry(table.__array_interface__["data"][0])

    def _compiled(self, kinds: tuple[Kind, ...]) -> Callable[[int], int]:
        """The code for arguments of these kinds."""
        try:
            library = _library(self.definition, kinds)
        except (OSError, CompileError, MeasureError) as error:
            raise NoCodeError(f"{self.definition.__name__}: {error}") from error
        entry: Any = _ENTRY(library.addresses[self.definition.__name__])
        entry.keep = library
        return entry  # type: ignore[no-any-return]  # ctypes has no types


def _library(definition: Callable[..., None], kinds: tuple[Kind, ...]) -> Library:
    """The function's code, from the folder of the cache if it is there."""
    from autosched.runtime.native import load_object

    target, files, symbols = cpu_target(1), loop_files(), [definition.__name__]
    key = loop_key(definition, kinds, target)
    known = None if files is None or key is None else files.get(key)
    if known is not None:
        with suppress(MeasureError):
            return load_object(known, symbols)
    code = _object_code(definition, kinds, target)
    if files is not None and key is not None:
        files.put(key, code)
    return load_object(code, symbols)


def _object_code(definition: Callable[..., None], kinds: tuple[Kind, ...], target: Target) -> bytes:
    from autosched.codegen.llvm import emit_llvm
    from autosched.codegen.llvm_compile import compile_object
    from autosched.runtime.loops_as_tir import function_of

    return compile_object(emit_llvm(function_of(definition, kinds), target), target, "scalar")
