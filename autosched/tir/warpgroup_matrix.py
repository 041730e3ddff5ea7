"""Matrix products of a warpgroup, four warps one behind the other: what wgmma reads and computes.

A warp adds to its C (16, n) the product of its 16 rows of A (16, 64) and all of B (64, n). Both lie
in shared memory, in rows of 128 bytes, the elements of which lie as wgmma's 128-byte swizzle has
them (`WGMMA_SWIZZLE`) once a pass has exchanged them:

| operand | layout | rows | element |
|---|---|---|---|
| A | mk | of 64 terms | m * 64 + k |
| A | km | of 64 of the warpgroup's rows, of which the warp has 16 | k * 64 + m |
| B | nk | of 64 terms | n * 64 + k |
| B | kn | of 64 columns; `slab` elements from 64 columns to the next | n // 64 * slab + k * 64 + n % 64 |

C is held as that of mma.sync is: fragments of 16 x 8, side by side.
"""  # noqa: E501

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.tir.dtype import DType
from autosched.tir.swizzle import Swizzle
from autosched.tir.warp_matrix import RESULT, WARP

Array = np.ndarray[Any, Any]
GROUP = 4
"""Warps of a warpgroup."""
ROW = 64
"""Elements of 16 bits in a row of 128 bytes; the terms of one call, too."""
ROWS_OF_WARP = 16
STEP = 16
"""Terms that one instruction adds up."""
TILE_ALIGNMENT = 1024
"""Bytes: eight rows, within which elements change places."""
WGMMA_SWIZZLE = Swizzle(3, 3, 6)
MOST_COLUMNS = 256
KINDS = {"fp16": DType("float16"), "bf16": DType("bfloat16")}
LAYOUTS_A, LAYOUTS_B = ("mk", "km"), ("kn", "nk")
WGMMA_TILES, WGMMA_SWIZZLED, WGMMA_PENDING = (6, 8), 11, 12
"""Arguments of ptx_wgmma: the tiles, whether their elements changed places, what may be pending."""


@dataclass(frozen=True, slots=True)
class GroupProduct:
    """What a call of ptx_wgmma computes.

    `swizzled` says whether the elements have changed places; of the groups of products that a warp
    has begun, `pending` may be under way when it goes on.
    """

    columns: int
    dtype: DType
    layout_a: str
    layout_b: str
    slab: int
    swizzled: bool
    pending: int

    def place_of_a(self) -> Array:
        """The elements (16, 64) of A behind the first one."""
        m, k = np.arange(ROWS_OF_WARP)[:, None], np.arange(ROW)
        return np.asarray(m * ROW + k if self.layout_a == "mk" else k * ROW + m)

    def place_of_b(self) -> Array:
        """The elements (64, columns) of B behind the first one."""
        k, n = np.arange(ROW)[:, None], np.arange(self.columns)
        if self.layout_b == "nk":
            return np.asarray(n * ROW + k)
        return np.asarray(n // ROW * self.slab + k * ROW + n % ROW)

    def kept_at(self, elements: Array) -> Array:
        """Where elements of a tile lie, by their numbers in memory that is aligned for it."""
        if not self.swizzled:
            return elements
        row = elements >> WGMMA_SWIZZLE.source & ((1 << WGMMA_SWIZZLE.bits) - 1)
        return np.asarray(elements ^ row << WGMMA_SWIZZLE.base)

    @property
    def values(self) -> int:
        """Elements of C that a lane holds."""
        return ROWS_OF_WARP * self.columns // WARP

    def multiply(self, a: Array, b: Array, c: Array) -> Array:
        """C of each warp: arrays (warps, 16, 64), (warps, 64, columns) and (warps, 16, columns).

        The products of one instruction and what they are added to are exact and rounded once, where
        a GPU rounds in between.
        """
        left, right = a.astype(np.float64), b.astype(np.float64)
        for k in range(0, ROW, STEP):
            exact = c.astype(np.float64) + left[..., k : k + STEP] @ right[:, k : k + STEP]
            c = exact.astype(np.float32)
        return c

    def lanes(self) -> tuple[Array, Array]:
        """Row and column of C of each lane's values: arrays (32, values)."""
        first = np.arange(0, self.columns, RESULT_COLUMNS)[:, None]
        rows = np.broadcast_to(RESULT[:, None, :, 0], (WARP, len(first), RESULT.shape[1]))
        columns = RESULT[:, None, :, 1] + first
        return rows.reshape(WARP, -1), columns.reshape(WARP, -1)


RESULT_COLUMNS = 8


def group_product_of(args: tuple[Any, ...]) -> GroupProduct | str:
    """The product that the arguments of ptx_wgmma describe; in words what is wrong with them.

    `ptx_wgmma(columns, type, layout of A, layout of B, c, at, a, at, b, at, slab, swizzled,
    pending)` with offsets in elements: those of A are of the warp's first row.
    """
    if len(args) != 13:
        return f"13 arguments are expected, found {len(args)}"
    columns, kind, a, b = (getattr(e, "value", None) for e in args[:4])
    slab, swizzled, pending = (getattr(e, "value", None) for e in args[10:])
    dtype = KINDS.get(str(kind))
    if dtype is None:
        return f"the type {kind} is not known, only {', '.join(KINDS)}"
    if a not in LAYOUTS_A or b not in LAYOUTS_B:
        return f"the layouts {a} and {b} are not known, only mk and km, kn and nk"
    if not isinstance(columns, int) or columns % ROW or not ROW <= columns <= MOST_COLUMNS:
        return f"columns must be a multiple of {ROW} up to {MOST_COLUMNS}, found {columns}"
    if not isinstance(slab, int) or not isinstance(swizzled, int) or not isinstance(pending, int):
        return "the distance of slabs, swizzled and pending must be constants"
    if slab % (TILE_ALIGNMENT // dtype.bytes):
        return (
            f"slabs of B must be a multiple of {TILE_ALIGNMENT} bytes apart, found {slab} elements"
        )
    return GroupProduct(columns, dtype, str(a), str(b), slab, bool(swizzled), pending)
