"""Checking the arguments of a kernel before it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autosched.errors import MeasureError
from autosched.runtime.artifact import ParamSpec
from autosched.tir.dimension import sizes_in, solve, value_of
from autosched.tir.dtype import DType


def _refuse(symbol: str, position: int, spec: ParamSpec, problem: str) -> MeasureError:
    return MeasureError(
        f"{symbol}: argument {position + 1} ({spec.name}) {problem}", stage="run", kind="error"
    )


def view_of(value: Any) -> np.ndarray[Any, Any]:
    """`value` as a NumPy array over the same memory. Raises whatever NumPy or `value` does."""
    if type(value) is np.ndarray:
        return value
    if hasattr(value, "__dlpack__"):
        array: np.ndarray[Any, Any] = np.from_dlpack(value)
        return array
    if hasattr(value, "__array_interface__"):
        return np.asarray(value)
    raise TypeError(f"{type(value).__name__} offers no array")


def as_array(symbol: str, position: int, spec: ParamSpec, value: Any) -> np.ndarray[Any, Any]:
    """`value` as a NumPy array over the same memory: by DLPack or NumPy's interface of arrays.

    Raises MeasureError when it is not an array in host memory.
    """
    if isinstance(value, np.ndarray):
        return value
    if not hasattr(value, "__dlpack__") and not hasattr(value, "__array_interface__"):
        raise _refuse(
            symbol,
            position,
            spec,
            "must be a NumPy array or offer __dlpack__ or __array_interface__, found "
            f"{type(value).__name__}; convert it with numpy.asarray",
        )
    try:
        return view_of(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise _refuse(
            symbol,
            position,
            spec,
            f"({type(value).__name__}) cannot be viewed in host memory: {error}; copy it to a "
            "NumPy array first",
        ) from error


def _check_array(symbol: str, position: int, spec: ParamSpec, array: np.ndarray[Any, Any]) -> None:
    assert spec.shape is not None
    kind = DType(spec.dtype)
    bits = kind.is_storage_float and array.dtype == np.dtype(f"uint{kind.bits}")
    if array.dtype != kind.numpy and not bits:
        remedy = f"convert it with .astype({spec.dtype!r})"
        if kind.is_storage_float:
            remedy = (
                f"convert it with .astype(ml_dtypes.{spec.dtype}), or pass its bits as "
                f"uint{kind.bits}"
            )
        raise _refuse(
            symbol, position, spec, f"must have dtype {spec.dtype}, found {array.dtype}; {remedy}"
        )
    if not array.flags.c_contiguous:
        raise _refuse(
            symbol,
            position,
            spec,
            f"must be contiguous in row-major order, found strides {array.strides} for shape "
            f"{array.shape}; copy it with numpy.ascontiguousarray",
        )
    if array.ndim != len(spec.shape) or any(
        isinstance(want, int) and want != have
        for want, have in zip(spec.shape, array.shape, strict=True)
    ):
        wanted = ", ".join(map(str, spec.shape))
        hint = ""
        if spec.layout is not None:
            hint = f"; it is stored in the order {spec.layout.text}, which kernel.prepare makes"
        raise _refuse(
            symbol, position, spec, f"must have shape ({wanted}), found {array.shape}{hint}"
        )
    if address_of(array) % spec.alignment:
        raise _refuse(
            symbol,
            position,
            spec,
            f"must start at a multiple of {spec.alignment} bytes, found address "
            f"{address_of(array):#x}; copy it to a fresh array",
        )
    if spec.is_output and not array.flags.writeable:
        raise _refuse(
            symbol, position, spec, "is written by the kernel but is read-only; pass a copy"
        )


def address_of(array: np.ndarray[Any, Any]) -> int:
    """The address of the first element."""
    return int(array.__array_interface__["data"][0])


def _check_aliasing(
    symbol: str, specs: Sequence[ParamSpec], arrays: Mapping[int, np.ndarray[Any, Any]]
) -> None:
    ranges = [(address_of(a), address_of(a) + a.nbytes, i) for i, a in arrays.items() if a.nbytes]
    for low, high, i in ranges:
        if not specs[i].is_output:
            continue
        for other_low, other_high, j in ranges:
            if i != j and low < other_high and other_low < high:
                raise _refuse(
                    symbol,
                    i,
                    specs[i],
                    f"is written by the kernel but shares memory with argument {j + 1} "
                    f"({specs[j].name}); pass arrays that do not overlap",
                )


def _scalar(symbol: str, position: int, spec: ParamSpec, value: Any) -> np.ndarray[Any, Any]:
    dtype = DType(spec.dtype)
    if isinstance(value, np.ndarray) and value.ndim:
        raise _refuse(symbol, position, spec, f"must be a {spec.dtype} number, found an array")
    number = np.asarray(value)
    if number.dtype.kind not in "biuf" and number.dtype != dtype.numpy:
        raise _refuse(symbol, position, spec, f"must be a {spec.dtype} number, found {value!r}")
    if dtype.is_integral and (number.dtype.kind == "f" or not _fits(int(number), dtype)):
        raise _refuse(symbol, position, spec, f"must fit {spec.dtype}, found {value!r}")
    return number.astype(dtype.numpy).reshape(1)


def _fits(value: int, dtype: DType) -> bool:
    return dtype.min_value <= value <= dtype.max_value


def check(
    symbol: str, specs: Sequence[ParamSpec], sizes: Sequence[str], values: Sequence[Any]
) -> tuple[bytearray, list[np.ndarray[Any, Any]]]:
    """The argument slots of a call (8 bytes each) and the arrays that must stay alive.

    Raises MeasureError (stage run) with one paragraph naming the argument, what was expected, what
    was found and what to do; nothing has run then.
    """
    if len(values) != len(specs):
        names = ", ".join(s.name for s in specs)
        raise MeasureError(
            f"{symbol} takes {len(specs)} arguments ({names}), found {len(values)}", stage="run"
        )
    slots = bytearray(8 * (len(specs) + len(sizes)))
    arrays: dict[int, np.ndarray[Any, Any]] = {}
    known: dict[str, int] = {}
    source: dict[str, str] = {}
    for i, (spec, value) in enumerate(zip(specs, values, strict=True)):
        if spec.shape is None:
            number = _scalar(symbol, i, spec, value)
            data = number.tobytes()
            slots[8 * i : 8 * i + len(data)] = data
            if number.dtype.kind in "iu":
                known[spec.name] = int(number[0])
                source[spec.name] = "the argument"
            continue
        array = as_array(symbol, i, spec, value)
        _check_array(symbol, i, spec, array)
        for want in spec.shape:
            if isinstance(want, str):
                source.setdefault(want, spec.name)
        arrays[i] = array
        slots[8 * i : 8 * i + 8] = address_of(array).to_bytes(8, "little")
    if source:
        _check_sizes(symbol, specs, arrays, known, source)
    _check_aliasing(symbol, specs, arrays)
    for i, name in enumerate(sizes, len(specs)):
        slots[8 * i : 8 * i + 8] = known[name].to_bytes(8, "little")
    return slots, list(arrays.values())


def _check_sizes(
    symbol: str,
    specs: Sequence[ParamSpec],
    arrays: Mapping[int, np.ndarray[Any, Any]],
    known: dict[str, int],
    source: Mapping[str, str],
) -> None:
    """Complete `known`, the sizes so far, from the arrays; MeasureError when they disagree."""
    solve(
        (
            pair
            for i, array in arrays.items()
            for pair in zip(specs[i].shape or (), array.shape, strict=True)
        ),
        known,
    )
    for i, array in arrays.items():
        for want, have in zip(specs[i].shape or (), array.shape, strict=True):
            if isinstance(want, int):
                continue
            try:
                expected = value_of(want, known)
            except ZeroDivisionError:
                raise _refuse(
                    symbol, i, specs[i], f"has the dimension {want}, which divides by 0 here"
                ) from None
            wrong = [name for name in sizes_in(want) if known[name] < 0]
            if expected == have and not wrong:
                continue
            if want in known and source[want] != specs[i].name:
                giver = source[want]
                has = "the argument says" if giver == "the argument" else f"{giver} has"
                problem = f"must have {want} = {expected}, as {has}"
            else:
                values = ", ".join(f"{n} = {known[n]}" for n in sorted(sizes_in(want)))
                problem = f"must have the dimension {want} ({values})"
            raise _refuse(symbol, i, specs[i], f"{problem}, found shape {array.shape}")
