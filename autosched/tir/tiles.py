"""A bit-exact model of AMX: eight tile registers of 16 rows of 64 bytes, and their instructions.

| LLVM intrinsic | meaning |
|---|---|
| llvm.x86.ldtilecfg() | configure the tiles, all of full size |
| llvm.x86.tilezero(t) | set tile t to zero |
| llvm.x86.tileloadd64(t, address, pitch) | load 16 rows of 64 bytes, `pitch` bytes apart |
| llvm.x86.tilestored64(t, address, pitch) | store 16 rows of 64 bytes, `pitch` bytes apart |
| llvm.x86.tdpbssd(c, a, b) and the like | C += A * B; a row of B holds four k of 16 columns |
| llvm.x86.tdpbf16ps(c, a, b) | the same for bfloat16, two k at a time |
| llvm.x86.tilerelease() | release the tiles |

Sums of byte products wrap. tdpbf16ps sums the products of even k and those of odd k separately,
by fused multiply-adds, then adds the two sums, and their sum to C. It treats denormal operands and
results as zero and rounds to nearest even (Intel SDM, TDPBF16PS; tests/tir/test_tiles.py compares
with the processor).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from autosched.tir.dot_products import Array, as_elements, flushed
from autosched.tir.interp_math import fused_multiply_add

ROWS, ROW_BYTES, TILES = 16, 64, 8
DOTS: dict[str, tuple[str, str]] = {
    "llvm.x86.tdpbssd": ("int8", "int8"),
    "llvm.x86.tdpbsud": ("int8", "uint8"),
    "llvm.x86.tdpbusd": ("uint8", "int8"),
    "llvm.x86.tdpbuud": ("uint8", "uint8"),
    "llvm.x86.tdpbf16ps": ("bfloat16", "bfloat16"),
}
"""The product instructions, and the types of A and B of each."""
CONFIGURE, RELEASE = "llvm.x86.ldtilecfg", "llvm.x86.tilerelease"
ZERO, LOAD, STORE = "llvm.x86.tilezero", "llvm.x86.tileloadd64", "llvm.x86.tilestored64"
TILE_CALLS = frozenset((CONFIGURE, RELEASE, ZERO, LOAD, STORE, *DOTS))
SCOPE = "amx.tile"
"""The scope of sums that stay in tiles: no memory holds them."""


class Tiles:
    """The tile registers of a thread; `registers` is None while they are not configured."""

    def __init__(self) -> None:
        self.registers: Array | None = None

    def call(self, name: str, args: list[Any]) -> int:
        """Execute one instruction; RuntimeError if the tiles are not configured."""
        if name == CONFIGURE:
            # The content is undefined until a tile is zeroed or loaded; all ones is NaN as a float.
            self.registers = np.full((TILES, ROWS, ROW_BYTES), 0xFF, np.uint8)
            return 0
        if self.registers is None:
            raise RuntimeError(f"{name}: no tiles are in use; call {CONFIGURE} first")
        if name == RELEASE:
            self.registers = None
        elif name == ZERO:
            self.registers[args[0]] = 0
        elif name in DOTS:
            c, a, b = (self.registers[number] for number in args)
            c[:] = product(name, c, a, b)
        else:
            self._move(self.registers[args[0]], args[1].array(0), int(args[2]), name == LOAD)
        return 0

    def _move(self, tile: Array, memory: Array, pitch: int, load: bool) -> None:
        size = memory.itemsize
        last = (ROWS - 1) * pitch + ROW_BYTES
        if pitch % size or last > memory.size * size:
            raise RuntimeError(
                f"a tile of {ROWS} rows {pitch} bytes apart reaches beyond memory of "
                f"{memory.size * size} bytes"
            )
        for row in range(ROWS):
            part = memory[row * pitch // size : (row * pitch + ROW_BYTES) // size]
            if load:
                tile[row] = np.ascontiguousarray(part).view(np.uint8)
            else:
                part[:] = tile[row].view(memory.dtype)


def product(name: str, c: Array, a: Array, b: Array) -> Array:
    """The bytes of C + A * B, each a tile (16, 64) of bytes."""
    kinds = DOTS[name]
    count = 2 if kinds[0] == "bfloat16" else 4
    left = as_elements(a, kinds[0], count)  # (m, k / count, count)
    right = as_elements(b, kinds[1], count)  # (k / count, n, count)
    if count == 4:
        totals = c.view(np.int32).astype(np.int64)
        totals += np.einsum("mkc,knc->mn", left.astype(np.int64), right.astype(np.int64))
        return totals.astype(np.int32).view(np.uint8)
    left, right = flushed(left), flushed(right)
    sums = np.zeros((ROWS, ROWS, 2), np.float32)  # (m, n, parity of k)
    for k in range(ROWS):
        sums = flushed(fused_multiply_add(left[:, k, None], right[None, k], sums))
    total = flushed(flushed(c.view(np.float32)) + flushed(sums[..., 0] + sums[..., 1]))
    return total.view(np.uint8)
