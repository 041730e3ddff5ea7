"""Data types of scalar and vector values: interned, compared by identity."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import ml_dtypes
import numpy as np

_PATTERN = re.compile(r"(float|bfloat|int|uint)(\d+)(?:x(\d+))?")
_CUSTOM = re.compile(r"(custom\[[A-Za-z_]\w*\])(8|16|32|64)(?:x(\d+))?")
_FLOAT8 = re.compile(r"(?:float8_(e4m3fn|e5m2)|(e4m3|e5m2)_float8)(?:x(\d+))?")
_WIDTHS = {
    "float": (16, 32, 64),
    "bfloat": (16,),
    "int": (8, 16, 32, 64),
    "uint": (8, 16, 32, 64),
}

TypeLike: TypeAlias = "str | DType | np.dtype[Any] | type[np.generic]"
"""A name of a type, or an object that stands for one: a DType or a NumPy type."""


class DType:
    """One data type: a code, bits and lanes.

    The code is `float`, `bfloat`, `int`, `uint`, `bool`, `handle`, that of an 8-bit float (`e4m3fn`
    or `e5m2`), or `custom[NAME]` for a type that LowerCustomDatatypes lowers.
    `DType("float32x8")` always returns the same object, so types compare with `is`; `==` also
    accepts names and NumPy types. TVM 0.19's e4m3_float8 and e5m2_float8 are called float8_e4m3fn
    and float8_e5m2 here. Raises ValueError for a name that is not a type, TypeError for an argument
    that does not name one.
    """

    _table: ClassVar[dict[str, DType]] = {}
    code: str
    bits: int
    lanes: int
    name: str
    _of_lanes: dict[int, DType]  # cache of with_lanes

    def __new__(cls, name: TypeLike) -> DType:
        """The unique object for the type called `name`, such as float32x8, or for a NumPy type."""
        if isinstance(name, DType):
            return name
        if not isinstance(name, str):
            return cls(_name_in_numpy(name))
        found = cls._table.get(name)
        if found is not None:
            return found
        plain = _plain_name(name)
        if plain != name:
            return cls(plain)
        self = object.__new__(cls)
        self.name = name
        self.code, self.bits, self.lanes = _parse(name)
        self._of_lanes = {self.lanes: self}
        cls._table[name] = self
        return self

    @classmethod
    def made(cls) -> tuple[DType, ...]:
        """All types made in this process so far; no program here contains any other."""
        return tuple(cls._table.values())

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        """Whether `other` names this type: `tensor.dtype == "float16"`."""
        if isinstance(other, DType):
            return self is other
        try:
            return DType(other) is self  # type: ignore[arg-type]  # what is no name raises
        except (TypeError, ValueError):
            return NotImplemented

    __hash__ = object.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return (DType, (self.name,))

    @cached_property
    def is_float(self) -> bool:
        """True for floats of every kind."""
        return self.code in ("float", "bfloat", "e4m3fn", "e5m2")

    @cached_property
    def is_float8(self) -> bool:
        """True for float8_e4m3fn and float8_e5m2."""
        return self.code in ("e4m3fn", "e5m2")

    @cached_property
    def is_storage_float(self) -> bool:
        """True for storage-only floats: bfloat16 and 8-bit floats.

        Code computes them in float32 (or float16) and rounds the result.
        """
        return self.code in ("bfloat", "e4m3fn", "e5m2")

    @cached_property
    def is_int(self) -> bool:
        """True for signed integers (not bool, not uint)."""
        return self.code == "int"

    @cached_property
    def is_integral(self) -> bool:
        """True for int, uint and bool."""
        return self.code in ("int", "uint", "bool")

    @cached_property
    def is_bool(self) -> bool:
        """Whether elements are truth values."""
        return self.code == "bool"

    @cached_property
    def is_handle(self) -> bool:
        """Whether elements are pointers."""
        return self.code == "handle"

    @cached_property
    def is_index(self) -> bool:
        """True for the scalar types of index arithmetic: int32 and int64."""
        return self.code == "int" and self.bits >= 32 and self.lanes == 1

    @cached_property
    def bytes(self) -> int:
        """Bytes of one lane: ceil(bits / 8)."""
        return (self.bits + 7) // 8

    @cached_property
    def value_bytes(self) -> int:
        """Bytes of a value with all its lanes."""
        return self.bytes * self.lanes

    @cached_property
    def element(self) -> DType:
        """The type of one lane."""
        return self.with_lanes(1)

    def with_lanes(self, lanes: int) -> DType:
        """The vector type of `lanes` elements of this type."""
        found = self._of_lanes.get(lanes)
        if found is None:
            base = self.name[: self.name.rindex("x")] if self.lanes > 1 else self.name
            found = DType(base if lanes == 1 else f"{base}x{lanes}")
            self._of_lanes[lanes] = found
        return found

    @cached_property
    def is_custom(self) -> bool:
        """True for user-registered types, which are stored as unsigned integers."""
        return self.code.startswith("custom")

    @cached_property
    def min_value(self) -> int | float:
        """Smallest finite value."""
        if self.is_float:
            return float(ml_dtypes.finfo(self.numpy).min)  # type: ignore[no-untyped-call]  # ml_dtypes is untyped
        return -(1 << (self.bits - 1)) if self.code == "int" else 0

    @cached_property
    def max_value(self) -> int | float:
        """Largest finite value."""
        if self.is_float:
            return float(ml_dtypes.finfo(self.numpy).max)  # type: ignore[no-untyped-call]  # ml_dtypes is untyped
        return (1 << (self.bits - (self.code == "int"))) - 1

    @property
    def dtype(self) -> np.dtype[Any]:
        """The same as `numpy`; NumPy looks for this attribute in `array.astype(A.dtype)`."""
        return self.numpy

    def __format__(self, spec: str) -> str:
        return format(self.name, spec)

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type of one lane (that of ml_dtypes for bfloat16 and 8-bit floats)."""
        if self.is_storage_float:
            stored: np.dtype[Any] = np.dtype(getattr(ml_dtypes, self.element.name))
            return stored
        if self.is_custom:
            return np.dtype(f"uint{self.bits}")
        if self.code == "bool":
            return np.dtype(np.bool_)
        if self.code == "handle":
            return np.dtype(np.uint64)
        return np.dtype(f"{self.code}{self.bits}")


def _name_in_numpy(kind: Any) -> str:
    """The name of a NumPy type, such as the dtype of an array."""
    if isinstance(kind, np.dtype) or (isinstance(kind, type) and issubclass(kind, np.generic)):
        return np.dtype(kind).name
    raise TypeError(f"expected a type such as 'float32' or numpy.float32, found {kind!r:.60}")


def _plain_name(name: str) -> str:
    """The canonical name of an 8-bit float; any other name unchanged."""
    match = _FLOAT8.fullmatch(name)
    if match is None:
        return name
    kind = match[1] or {"e4m3": "e4m3fn"}.get(match[2], match[2])
    return f"float8_{kind}" + (f"x{match[3]}" if match[3] else "")


def _parse(name: str) -> tuple[str, int, int]:
    if name == "handle":
        return "handle", 64, 1
    if re.fullmatch(r"bool(x\d+)?", name):
        return "bool", 1, int(name[5:] or 1)
    small = _FLOAT8.fullmatch(name)
    if small is not None:
        return small[1], 8, int(small[3] or 1)
    custom = _CUSTOM.fullmatch(name)
    if custom is not None:
        return custom[1], int(custom[2]), int(custom[3] or 1)
    match = _PATTERN.fullmatch(name)
    if match is None or int(match[2]) not in _WIDTHS[match[1]]:
        raise ValueError(
            f"unknown dtype {name!r}; expected float16/32/64, bfloat16, float8_e4m3fn, "
            "float8_e5m2, int8..64, uint8..64, bool, handle or custom[NAME]8..64, with an optional "
            "xN for vectors"
        )
    return match[1], int(match[2]), int(match[3] or 1)


bool_ = DType("bool")
int32 = DType("int32")
int64 = DType("int64")
uint64 = DType("uint64")
float32 = DType("float32")
handle = DType("handle")
