"""Storage orders of constant inputs: the options of a task, and the description of an order.

This file holds data only, so that every layer may use it. `state/layout_rewrite.py` says how
candidates get a storage order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.errors import ConfigError


class LayoutOption(IntEnum):
    """What to do with layout-free inputs; the integers are those in Ansor's records."""

    NO_REWRITE = 0
    INSERT_TRANSFORM_STAGE = 1
    FOR_PRE_TRANSFORMED = 2

    @property
    def text(self) -> str:
        """The option's name in configuration files and records."""
        return LAYOUT_OPTIONS[self]

    @classmethod
    def parse(cls, value: Any) -> LayoutOption:
        """Parse a name in LAYOUT_OPTIONS, an integer or an option. Raises ConfigError."""
        if value in LAYOUT_OPTIONS:
            return cls(LAYOUT_OPTIONS.index(value))
        if isinstance(value, int) and not isinstance(value, bool) and value in list(cls):
            return cls(value)
        raise ConfigError(
            f"layout_rewrite: expected one of {', '.join(LAYOUT_OPTIONS)}, found {value!r}"
        )


LAYOUT_OPTIONS = ("none", "insert-transform-stage", "pre-transformed")


@dataclass(frozen=True)
class LayoutChange:
    """The new layout of one input.

    - `name`: the input's name.
    - `position`: its position among the arguments.
    - `shape`: its original shape.
    - `dims`: the new dimensions, outermost first, as (original axis, extent). The extents of one
      original axis, in this order, are the digits of its index.
    - `original_layout`, `new_layout`: texts of both, e.g. `8k32j` and `4j4k8j2k`.
    - `joined`: how many of the last dimensions form one dimension of the stored array.
    """

    name: str
    position: int
    shape: tuple[int, ...]
    dims: tuple[tuple[int, int], ...]
    original_layout: str
    new_layout: str
    joined: int = 1

    @classmethod
    def of_axes(
        cls,
        name: str,
        position: int,
        names: Sequence[str],
        shape: Sequence[int],
        dims: Sequence[tuple[int, int]],
        joined: int = 1,
    ) -> LayoutChange | None:
        """The change whose texts name the axes `names`.

        None where the extents of an axis in `dims` do not multiply to its size.
        """
        for axis, size in enumerate(shape):
            if math.prod(extent for own, extent in dims if own == axis) != size:
                return None
        original = "".join(f"{size}{axis}" for size, axis in zip(shape, names, strict=True))
        new = "".join(f"{extent}{names[axis]}" for axis, extent in dims)
        return cls(name, position, tuple(shape), tuple(dims), original, new, joined)

    @property
    def new_shape(self) -> tuple[int, ...]:
        """The shape of the stored input."""
        extents = [extent for _, extent in self.dims]
        last = math.prod(extents[len(extents) - self.joined :])
        return (*extents[: len(extents) - self.joined], last)

    @property
    def text(self) -> str:
        """The change as text: `B: 8k32j -> 4j4k8j2k`."""
        return f"{self.name}: {self.original_layout} -> {self.new_layout}"

    def transform(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """`array` of the original shape, stored in the new layout.

        Raises ConfigError when it has another shape.
        """
        if array.shape != self.shape:
            raise ConfigError(f"{self.name} must have shape {self.shape}, found {array.shape}")
        order = [k for d in range(array.ndim) for k, (axis, _) in enumerate(self.dims) if axis == d]
        split = array.reshape([self.dims[k][1] for k in order])
        return np.ascontiguousarray(split.transpose(np.argsort(order))).reshape(self.new_shape)

    def to_json(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LayoutChange:
        """The inverse of `to_json`."""
        dims = tuple((int(axis), int(extent)) for axis, extent in data["dims"])
        return cls(**{**data, "shape": tuple(data["shape"]), "dims": dims})
