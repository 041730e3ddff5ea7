"""Arrays between guard bytes, which reveal a kernel that writes outside of its arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.runtime.array_checks import address_of

GUARD = 4096
"""Bytes before and behind each array. All bits are 1: NaN for all floats, -1 for integers."""
_LINE = 64
_ONES = 0xFF

Array = npt.NDArray[Any]


class Guarded:
    """A copy of an array, `array`, that starts at a cache line and has guards on both sides."""

    def __init__(self, values: Array) -> None:
        raw = np.full(values.nbytes + 2 * GUARD + _LINE, _ONES, np.uint8)
        start = GUARD + -(address_of(raw) + GUARD) % _LINE
        self.array: Array = np.ndarray(values.shape, values.dtype, raw.data, start)
        self.array[...] = values
        self._before = raw[:start]
        self._behind = raw[start + values.nbytes :]

    def restore(self) -> None:
        """Reset the guard bytes."""
        self._before[:] = _ONES
        self._behind[:] = _ONES

    def damage(self, name: str) -> str | None:
        """Where the guards of the argument `name` were overwritten; None where they are intact."""
        places = []
        for side, guard in (("before", self._before), ("behind", self._behind)):
            written = np.flatnonzero(guard != _ONES)
            if len(written):
                nearest = len(guard) - written[-1] if side == "before" else written[0] + 1
                size = self.array.itemsize
                places.append(
                    f"{len(written)} bytes {side} it, the nearest in element "
                    f"{-(-nearest // size)} {side} its {'first' if side == 'before' else 'last'}"
                )
        if not places:
            return None
        return f"wrong answer: it writes outside of {name}: {'; '.join(places)}"


def poison(out: Array, want: Array) -> None:
    """Fill an output with values that are wrong everywhere.

    Those are NaN, but other values for integers and where NaN is right. `want` is the reference, of
    the same shape and type.
    """
    if out.dtype.kind in "iub":
        np.invert(want, out=out)
    else:
        out[...] = np.where(np.isnan(want.astype(np.float64)), 1.0, np.nan).astype(out.dtype)
