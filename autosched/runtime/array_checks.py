"""Check whether an array in host memory is what a kernel expects, and say what is wrong.

This file needs NumPy only, because exported modules hold a copy of it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

MASKED = "is a masked array, whose mask is not seen; pass its .filled(VALUE), or its .data"
_SAYING = (AttributeError, BufferError, RuntimeError, TypeError, ValueError)
"""Errors whose text is a sentence; that of a KeyError is the key alone."""
_FOREIGN = {f"torch.{name}": name for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")}


def element_of(dtype: str) -> np.dtype[Any]:
    """The NumPy type of that name; bfloat16 and float8 types come from the package ml_dtypes.

    Where ml_dtypes is missing, the unsigned integer of as many bits replaces them.
    """
    try:
        return np.dtype(dtype)
    except TypeError:
        pass
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype(np.uint16 if dtype == "bfloat16" else np.uint8)
    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, dtype))
    return found


def view_of(value: Any) -> np.ndarray[Any, Any]:
    """View `value` as a NumPy array over the same memory. Raises what NumPy or `value` does.

    A number of NumPy's becomes a read-only array.
    """
    if type(value) is np.ndarray:
        return value
    if isinstance(value, np.ndarray):
        if isinstance(value, np.ma.MaskedArray):
            raise TypeError(MASKED)
        return np.asarray(value)
    array: np.ndarray[Any, Any]
    if isinstance(value, np.generic):  # such as an element x[i], whose memory has no view
        array = np.asarray(value)
        array.flags.writeable = False
        return array
    if is_torch(type(value)):  # its own view takes a sixth of DLPack's time and refuses the same
        try:
            array = value.numpy()
        except TypeError:  # a type that NumPy lacks, or on a GPU: DLPack tells
            element = _FOREIGN.get(str(getattr(value, "dtype", None)))
            if element is not None and element_of(element).isbuiltin == 2:
                bits = getattr(sys.modules["torch"], f"uint{element_of(element).itemsize * 8}")
                return view_of(value.view(bits)).view(element_of(element))
        else:
            if array.size and not value.untyped_storage().nbytes():  # such a view is of any memory
                raise ValueError("its storage is empty; use tensor.untyped_storage().resize_")
            return array
    if hasattr(value, "__dlpack__"):
        array = np.from_dlpack(value)
        return array
    if hasattr(value, "__array_interface__"):
        return np.asarray(value)
    raise TypeError(f"{type(value).__name__} offers no array")


def is_torch(kind: type) -> bool:
    """Whether a type is PyTorch's own tensor type, not a subclass of it."""
    return kind.__name__ == "Tensor" and kind.__module__ == "torch"


def no_view(value: Any, error: Exception) -> str:
    """Say why `value` was refused, after `view_of` raised `error`."""
    if isinstance(value, np.ma.MaskedArray):
        return MASKED
    kind = type(value).__name__
    if not hasattr(value, "__dlpack__") and not hasattr(value, "__array_interface__"):
        return (
            "must be a NumPy array or offer __dlpack__ or __array_interface__, found "
            f"{kind}; convert it with numpy.asarray"
        )
    why = str(error).rstrip(".")
    if not why or not isinstance(error, _SAYING):
        why = f"{type(error).__name__}: {why}" if why else type(error).__name__
    if "use tensor." not in why.lower():  # PyTorch's own remedy, such as tensor.detach()
        why += "; copy it to a NumPy array first"
    return f"({kind}) cannot be viewed in host memory: {why}"


def array_problem(
    array: np.ndarray[Any, Any],
    name: str,
    dtype: Any,
    shape: Sequence[Any],
    alignment: int,
    written: bool,
    hint: str,
) -> str:
    """Say what is wrong with `array`; empty where nothing is.

    `name` is the expected type's name, `dtype` its NumPy type. Extents of `shape` that are not
    integers match any. `hint` is added to a message about the shape. For a type that is not NumPy's
    own (bfloat16, float8), unsigned integers of as many bits are accepted, too, because other
    libraries' tensors arrive as such.
    """
    wanted = np.dtype(dtype)
    foreign = wanted.isbuiltin == 2
    if array.dtype != wanted and not (foreign and array.dtype == f"u{wanted.itemsize}"):
        remedy = f"convert it with .astype({name!r})"
        if foreign:
            bits = f"uint{wanted.itemsize * 8}"
            remedy = f"convert it with .astype(ml_dtypes.{name}), or pass its bits as {bits}"
        return f"must have dtype {name}, found {array.dtype}; {remedy}"
    if not array.flags.c_contiguous:
        return (
            f"must be contiguous in row-major order, found strides {array.strides} for shape "
            f"{array.shape}; copy it with numpy.ascontiguousarray"
        )
    if array.ndim != len(shape) or any(
        isinstance(want, int) and want != have
        for want, have in zip(shape, array.shape, strict=True)
    ):
        wanted = ", ".join(map(str, shape))
        return f"must have shape ({wanted}), found {array.shape}{hint}"
    address = address_of(array)
    if address % alignment:
        return (
            f"must start at a multiple of {alignment} bytes, found address {address:#x}; copy it "
            "to a fresh array"
        )
    if written and not array.flags.writeable:
        return "is written by the kernel but is read-only; pass a copy"
    return ""


def address_of(array: np.ndarray[Any, Any]) -> int:
    """The address of the array's first element."""
    return int(array.__array_interface__["data"][0])


def overlap(spans: Sequence[tuple[int, int]], written: Sequence[bool]) -> tuple[int, int] | None:
    """The first written span that shares memory with another one, as indices (written, other).

    Spans are (address, bytes). None where no written span shares memory; empty spans share none.
    """
    for i, (low, size) in enumerate(spans):
        for j, (other, length) in enumerate(spans):
            if written[i] and i != j and size and length and low < other + length:
                if other < low + size:
                    return i, j
    return None


def shares(name: str, position: int) -> str:
    """The message about a written argument that shares memory with `name` at `position`."""
    return (
        f"is written by the kernel but shares memory with argument {position + 1} ({name}); pass "
        "arrays that do not overlap"
    )
