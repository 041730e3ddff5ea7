"""Pack tables by loop around a store: the loops of each candidate one after the other.

A store has a loop for every loop that is around it in some candidate, 29 in a convolution whose
candidates have eight each. Tables by loop are therefore packed: the first line has the outermost
loop of each candidate, whichever that is, and lines after a candidate's last loop have none.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from autosched.features.batched.along_loops import taken
from autosched.features.batched.forms import Flags, Ints

_Made = TypeVar("_Made", bound=np.generic)


_FEW = 1.6  # with fewer loops for each packed line, packing is not worth while


class PackedLoops:
    """Packs tables by (loop, candidate).

    `number` is the number of loops of each candidate, `most` the number of lines. Where some loops
    are thread axes (`apart`), or where there are few loops, each loop keeps its own line.
    """

    def __init__(self, present: Flags, apart: bool) -> None:
        loops, count = present.shape
        self._depth: Ints = np.zeros((loops + 1, count), np.int64)
        for k, here in enumerate(present):
            np.add(self._depth[k], here, out=self._depth[k + 1])
        self.number: Ints = self._depth[-1]
        self.most = int(self.number.max(initial=0))
        self._apart = apart or loops < _FEW * self.most
        if self._apart:
            self.most = loops
            return
        self._at = np.flatnonzero(present)
        self._to = self._depth.take(self._at) * count + self._at % max(1, count)

    @property
    def depth(self) -> Ints:
        """By level (one more than lines), the number of loops outside."""
        if self._apart:
            return self._depth
        found: Ints = np.minimum(np.arange(self.most + 1)[:, None], self.number)
        return found

    def loops(self, table: npt.NDArray[_Made], default: int = 0) -> npt.NDArray[_Made]:
        """Pack a table by loop; a line without a loop has the `default`."""
        if self._apart:
            return table
        found = np.full((self.most, table.shape[1]), default, table.dtype)
        found.ravel()[self._to] = table.take(self._at)
        return found

    def levels(self, table: npt.NDArray[_Made]) -> npt.NDArray[_Made]:
        """Pack a table by level, whose values are equal on both sides of a loop not present."""
        if self._apart:
            return table
        found = np.repeat(table[-1:], self.most + 1, axis=0)
        found.ravel()[self._to] = table.take(self._at)
        return found

    def unpacked(self, levels: npt.NDArray[_Made]) -> npt.NDArray[_Made]:
        """The entries of a packed table by level at each loop of the store."""
        if self._apart:
            return levels[:-1]
        return taken(levels, self._depth[:-1])
