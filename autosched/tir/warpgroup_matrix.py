"""Models wgmma, the matrix products of a warpgroup of four consecutive warps.

A warp adds to its C (16, n) the product of its 16 rows of A (16, k) and all of B (k, n). A and B
are in shared memory, in rows of 128 bytes (r elements: 64 of 16 bits, or 128 bytes). A pass puts
their elements in the order of wgmma's 128-byte swizzle. A call sums r terms:

| operand | layout | rows | element |
|---|---|---|---|
| A | mk | of r terms | m * r + k |
| A, 16 bits | km | of 64 of the warpgroup's rows, of which the warp has 16 | k * 64 + m |
| B | nk | of r terms | n * r + k |
| B, 16 bits | kn | of 64 columns; `slab` elements from 64 columns to the next | n // 64 * slab + k * 64 + n % 64 |

C is held in registers as for mma.sync: fragments of 16 x 8, side by side.
"""  # noqa: E501

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.tir.dtype import DType
from autosched.tir.gpu import WARP
from autosched.tir.swizzle import Swizzle, swizzle_for
from autosched.tir.warp_matrix import RESULT

Array = np.ndarray[Any, Any]
GROUP = 4
"""The number of warps of a warpgroup."""
ROWS_OF_WARP = 16
SLAB = 64
"""The number of columns of B (and C) in a slab, whose rows are adjacent in memory."""
RESULT_COLUMNS = 8
IN_SLAB = SLAB // RESULT_COLUMNS
"""The number of 8-column results side by side in a slab."""
MOST_COLUMNS = 256
TILE_ALIGNMENT = 1024
"""The alignment of tiles in bytes: eight rows, within which the swizzle permutes elements."""
_ROW_BYTES = 128
_STEP_BYTES = 32
"""The bytes of the terms (elements along k) that one instruction sums."""
KINDS = {
    "fp16": DType("float16"),
    "bf16": DType("bfloat16"),
    "int8": DType("int8"),
    "uint8": DType("uint8"),
}
LAYOUTS_A, LAYOUTS_B = ("mk", "km"), ("kn", "nk")
WGMMA_SUMS, WGMMA_TILES, WGMMA_SWIZZLED, WGMMA_PENDING = 5, (7, 9), 12, 13
"""Argument positions of ptx_wgmma: the sums, the two tiles, `swizzled`, `pending`."""


def row_of(dtype: DType) -> int:
    """The number of elements of a row, which is also the number of terms of a call."""
    return _ROW_BYTES // dtype.bytes


def wgmma_swizzle(dtype: DType) -> Swizzle:
    """wgmma's 128-byte swizzle for elements of `dtype`."""
    found = swizzle_for(row_of(dtype), dtype.bytes)
    assert found is not None
    return found


def result_of(dtype: DType) -> DType:
    """The type of the sums for operands of `dtype`."""
    return DType("float32") if dtype.is_float else DType("int32")


@dataclass(frozen=True, slots=True)
class GroupProduct:
    """The product of a call of ptx_wgmma.

    `slab` is the distance of B's slabs in elements. `swizzled` says whether the elements of the
    tiles are swizzled. The warp continues when at most `pending` of the groups of products that it
    has begun are unfinished.
    """

    columns: int
    left: DType
    right: DType
    layout_a: str
    layout_b: str
    slab: int
    swizzled: bool
    pending: int

    @property
    def row(self) -> int:
        """The number of elements of a row of a tile."""
        return row_of(self.left)

    def place_of_a(self) -> Array:
        """The positions (16, k) of the elements of A, relative to the first one."""
        m, k = np.arange(ROWS_OF_WARP)[:, None], np.arange(self.row)
        return np.asarray(m * self.row + k if self.layout_a == "mk" else k * self.row + m)

    def place_of_b(self) -> Array:
        """The positions (k, columns) of the elements of B, relative to the first one."""
        k, n = np.arange(self.row)[:, None], np.arange(self.columns)
        if self.layout_b == "nk":
            return np.asarray(n * self.row + k)
        return np.asarray(n // SLAB * self.slab + k * self.row + n % SLAB)

    def kept_at(self, elements: Array) -> Array:
        """The swizzled positions of elements, given by their positions in aligned memory."""
        if not self.swizzled:
            return elements
        swizzle = wgmma_swizzle(self.left)
        row = elements >> swizzle.source & ((1 << swizzle.bits) - 1)
        return np.asarray(elements ^ row << swizzle.base)

    @property
    def values(self) -> int:
        """The number of elements of C that a lane holds."""
        return ROWS_OF_WARP * self.columns // WARP

    def multiply(self, a: Array, b: Array, c: Array) -> Array:
        """The new C of each warp, from A (warps, 16, k), B (warps, k, columns) and the old C.

        C is (warps, 16, columns). The sum of C and the products of one instruction is computed
        exactly and rounded once, where a GPU rounds in between; integers wrap.
        """
        exact = np.float64 if self.left.is_float else np.int64
        left, right, step = a.astype(exact), b.astype(exact), _STEP_BYTES // self.left.bytes
        for k in range(0, self.row, step):
            total = c.astype(exact) + left[..., k : k + step] @ right[:, k : k + step]
            c = total.astype(result_of(self.left).numpy)
        return c

    def lanes(self) -> tuple[Array, Array]:
        """The rows and the columns in C of each lane's values: two arrays (32, values)."""
        first = np.arange(0, self.columns, RESULT_COLUMNS)[:, None]
        rows = np.broadcast_to(RESULT[:, None, :, 0], (WARP, len(first), RESULT.shape[1]))
        columns = RESULT[:, None, :, 1] + first
        return rows.reshape(WARP, -1), columns.reshape(WARP, -1)


def group_product_of(args: tuple[Any, ...]) -> GroupProduct | str:
    """The product that the arguments of ptx_wgmma describe, or a text that says what is wrong.

    `ptx_wgmma(columns, type of A, type of B, layout of A, layout of B, c, at, a, at, b, at, slab,
    swizzled, pending)` with offsets in elements; that of A is the offset of the warp's first row.
    """
    if len(args) != 14:
        return f"14 arguments are expected, found {len(args)}"
    columns, first, second, a, b = (getattr(e, "value", None) for e in args[:5])
    slab, swizzled, pending = (getattr(e, "value", None) for e in args[11:])
    left, right = KINDS.get(str(first)), KINDS.get(str(second))
    if left is None or right is None or (left is not right and left.bytes + right.bytes > 2):
        return f"products of {first} and {second} are not known"
    if a not in LAYOUTS_A or b not in LAYOUTS_B:
        return f"the layouts {a} and {b} are not known, only mk and km, kn and nk"
    if left.bytes == 1 and (a, b) != ("mk", "nk"):
        return f"bytes are read in the layouts mk and nk alone, found {a} and {b}"
    if not isinstance(columns, int) or columns % SLAB or not SLAB <= columns <= MOST_COLUMNS:
        return f"columns must be a multiple of {SLAB} up to {MOST_COLUMNS}, found {columns}"
    if not isinstance(slab, int) or not isinstance(swizzled, int) or not isinstance(pending, int):
        return "the distance of slabs, swizzled and pending must be constants"
    unit = TILE_ALIGNMENT // left.bytes
    if slab % unit:
        return f"slabs of B must be a multiple of {unit} elements apart, found {slab}"
    return GroupProduct(columns, left, right, str(a), str(b), slab, bool(swizzled), pending)
