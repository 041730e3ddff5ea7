"""Swizzles: permute the elements of a tile in shared memory to avoid bank conflicts of columns.

The eight rows of 16 bytes that ldmatrix loads, or that threads store one below the other, are a
whole row of the tile apart. With rows of 128 bytes all of them are in the same 4 of the 32 banks.
"""

from __future__ import annotations

from dataclasses import dataclass

from autosched.tir.expr import Call, Expr
from autosched.tir.op import floordiv, floormod, mul


@dataclass(frozen=True, slots=True)
class Swizzle:
    """The permutation that stores element number e at e ^ ((e >> source) % 2**bits << base)."""

    bits: int
    base: int
    source: int

    def __str__(self) -> str:
        return f"{self.bits} {self.base} {self.source}"

    @classmethod
    def from_text(cls, text: str) -> Swizzle:
        """The swizzle of a text "bits base source". Raises ValueError when it describes none."""
        parts = text.split()
        if len(parts) != 3 or not all(part.isdecimal() for part in parts):
            raise ValueError(f"a swizzle: expected 'bits base source', found {text!r}")
        found = cls(*map(int, parts))
        if found.bits < 1 or found.source < found.base + found.bits or found.source > 24:
            raise ValueError(
                f"the swizzle {text!r} mixes bits with themselves: source must be at least "
                "base + bits, and at most 24"
            )
        return found

    @property
    def period(self) -> int:
        """The number of consecutive elements that the swizzle permutes among themselves."""
        return 1 << (self.source + self.bits)

    def place(self, index: Expr) -> Expr:
        """The position at which element `index` is stored."""
        row = floormod(floordiv(index, 1 << self.source), 1 << self.bits)
        return Call(index.dtype, "bitwise_xor", (index, mul(row, 1 << self.base)))


def swizzle_for(row_elements: int, element_bytes: int) -> Swizzle | None:
    """The swizzle that avoids bank conflicts of 8 rows of 16 bytes; None if there are none.

    Rows have `row_elements` and are adjacent. In rows of 128 bytes or more, the swizzle permutes
    eight pieces of 16 bytes. In shorter rows it permutes the pieces of a row, and changes every 128
    bytes. None also for rows whose length is not a power of two.
    """
    row = row_elements * element_bytes
    if row <= 16 or row & (row - 1):
        return None
    bits = min(row.bit_length() - 5, 3)
    unit = element_bytes.bit_length() - 1
    return Swizzle(bits, 4 - unit, max(row.bit_length() - 1, 7) - unit)
