"""GPU buffers in one allocation, with guard bands that show writes outside of the buffers.

| band | A | band | B | band |        each buffer at a multiple of 256 bytes, bands of 4 KiB
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from autosched.errors import MeasureError
from autosched.runtime.device import Device

ALIGNMENT = 256
BAND = 4096
GUARD = 0xA5
POISON = 0xFF  # NaN as a float, -1 as an integer


class Slab:
    """Buffers of the given sizes (bytes). Raises MeasureError (memory) when there is no room."""

    def __init__(self, device: Device, sizes: Mapping[str, int]) -> None:
        self._device = device
        offsets, end = _layout(sizes)
        self.size = end + BAND
        self._base: int | None = None
        try:
            base = device.alloc(self.size)
        except MeasureError as error:
            if error.kind != "memory":
                raise
            raise MeasureError(
                f"the GPU has no room for {self.size:,} bytes ({', '.join(sizes)})",
                stage="load",
                kind="memory",
            ) from error
        self._base = base
        self.address = {name: base + offset for name, offset in offsets.items()}
        self._sizes = dict(sizes)
        self._bands = list(_bands(offsets, sizes, self.size))
        self.mend_bands()

    def free(self) -> None:
        """Free the memory. A second call does nothing."""
        if self._base is not None:
            self._device.free(self._base)
            self._base = None

    def poison(self, names: Iterable[str], byte: int = POISON) -> None:
        """Overwrite buffers with a byte that no kernel computes."""
        for name in names:
            self._device.fill(self.address[name], self._sizes[name], byte)

    def mend_bands(self) -> None:
        """Rewrite the guard bands."""
        assert self._base is not None
        for _, offset, size in self._bands:
            self._device.fill(self._base + offset, size, GUARD)

    def beside(self) -> str | None:
        """Where a kernel wrote outside all buffers, or None; the bands are then rewritten."""
        assert self._base is not None
        for name, offset, size in self._bands:
            found = self._device.download(self._base + offset, size)
            bad = np.flatnonzero(found != GUARD)
            if bad.size:
                self.mend_bands()
                return f"{bad.size} bytes {_place(name, offset, int(bad[0]), self._sizes)}"
        return None


def _layout(sizes: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """The offset of each buffer, and the end of the last one."""
    offsets: dict[str, int] = {}
    end = 0
    for name, size in sizes.items():
        offsets[name] = -(-(end + BAND) // ALIGNMENT) * ALIGNMENT
        end = offsets[name] + size
    return offsets, end


def _bands(
    offsets: Mapping[str, int], sizes: Mapping[str, int], total: int
) -> Iterable[tuple[str, int, int]]:
    """(buffer before it, or "", offset, size) of each band between buffers."""
    name, end = "", 0
    for after, start in offsets.items():
        yield name, end, start - end
        name, end = after, start + sizes[after]
    yield name, end, total - end


def _place(name: str, offset: int, bad: int, sizes: Mapping[str, int]) -> str:
    if not name:
        return f"before {next(iter(sizes))}"
    return f"behind {name}, the first {bad} bytes after its end"
