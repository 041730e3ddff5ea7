"""Swizzles: elements of a tile in shared memory that change places, so that columns meet all banks.

Eight rows of 16 bytes that ldmatrix loads, or that a thread stores one below the other, lie a whole
row apart: with rows of 128 bytes all of them in the same four of the 32 banks.
"""

from __future__ import annotations

from dataclasses import dataclass

from autosched.tir.expr import Call, Expr
from autosched.tir.op import floordiv, floormod, mul


@dataclass(frozen=True, slots=True)
class Swizzle:
    """Element number e is kept at e ^ ((e >> source) % 2**bits << base)."""

    bits: int
    base: int
    source: int

    def __str__(self) -> str:
        return f"{self.bits} {self.base} {self.source}"

    @classmethod
    def from_text(cls, text: str) -> Swizzle:
        """From three numbers in a text. Raises ValueError when they describe none."""
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
        """So many elements change places among themselves."""
        return 1 << (self.source + self.bits)

    def place(self, index: Expr) -> Expr:
        """Where element `index` is kept."""
        row = floormod(floordiv(index, 1 << self.source), 1 << self.bits)
        return Call(index.dtype, "bitwise_xor", (index, mul(row, 1 << self.base)))


def swizzle_for(row_elements: int, element_bytes: int) -> Swizzle | None:
    """The exchange without which 8 rows of 16 bytes meet in the same banks; None: they do not.

    Rows of `row_elements` lie one behind the other. Those of 128 bytes and more take turns in
    their eight pieces of 16 bytes; of shorter ones, several of which make 128 bytes, as many as
    there are pieces in a row. None for rows whose length is no power of two.
    """
    row = row_elements * element_bytes
    if row <= 16 or row & (row - 1):
        return None
    bits = min(row.bit_length() - 5, 3)
    unit = element_bytes.bit_length() - 1
    return Swizzle(bits, 4 - unit, max(row.bit_length() - 1, 7) - unit)
