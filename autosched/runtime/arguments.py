"""Check the arguments of a kernel before it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autosched.errors import MeasureError
from autosched.runtime.array_checks import (
    MASKED,
    address_of,
    array_problem,
    no_view,
    overlap,
    shares,
    view_of,
)
from autosched.runtime.artifact import ParamSpec
from autosched.tir.dimension import sizes_in, solve, value_of
from autosched.tir.dtype import DType


def _refuse(symbol: str, position: int, spec: ParamSpec, problem: str) -> MeasureError:
    return MeasureError(
        f"{symbol}: argument {position + 1} ({spec.name}) {problem}", stage="run", kind="error"
    )


def as_array(symbol: str, position: int, spec: ParamSpec, value: Any) -> np.ndarray[Any, Any]:
    """View `value` as a NumPy array over the same memory, through NumPy's interface or DLPack.

    Raises MeasureError when it is not an array in host memory.
    """
    try:
        return view_of(value)
    except Exception as error:  # whatever a library's arrays raise
        raise _refuse(symbol, position, spec, no_view(value, error)) from error


def _check_array(symbol: str, position: int, spec: ParamSpec, array: np.ndarray[Any, Any]) -> None:
    assert spec.shape is not None
    hint = ""
    if spec.layout is not None:
        hint = f"; it is stored in the order {spec.layout.text}, which kernel.prepare makes"
    problem = array_problem(
        array,
        spec.dtype,
        DType(spec.dtype).numpy,
        spec.shape,
        spec.alignment,
        spec.is_output,
        hint,
    )
    if not problem and spec.most and array.size > spec.most:
        problem = (
            f"has {array.size} elements, of which the kernel's indices tell {spec.most} apart; "
            "declare its sizes as int64, e.g. te.size_var('n', 'int64')"
        )
    if problem:
        raise _refuse(symbol, position, spec, problem)


def _check_aliasing(
    symbol: str, specs: Sequence[ParamSpec], arrays: Mapping[int, np.ndarray[Any, Any]]
) -> None:
    positions = list(arrays)
    spans = [(address_of(a), a.nbytes) for a in arrays.values()]
    found = overlap(spans, [specs[i].is_output for i in positions])
    if found is not None:
        i, j = positions[found[0]], positions[found[1]]
        raise _refuse(symbol, i, specs[i], shares(specs[j].name, j))


def _scalar(symbol: str, position: int, spec: ParamSpec, value: Any) -> np.ndarray[Any, Any]:
    dtype = DType(spec.dtype)
    if isinstance(value, np.ndarray) and value.ndim:
        raise _refuse(symbol, position, spec, f"must be a {spec.dtype} number, found an array")
    if isinstance(value, np.ma.MaskedArray):  # 0-dimensional, such as numpy.ma.masked
        raise _refuse(symbol, position, spec, MASKED)
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
    """Check all arguments. Returns the argument slots (8 bytes each) and the arrays to keep alive.

    Raises MeasureError (stage run) before anything runs, with one paragraph that names the
    argument, what was expected, what was found and what to do.
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
    """Solve for the sizes in the arrays' shapes and add them to `known`.

    Raises MeasureError when arrays or scalars disagree about a size.
    """
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
