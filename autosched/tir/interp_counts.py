"""Counts bank conflicts and sectors of a warp's memory accesses.

Shared memory has 32 banks of 4 bytes. A warp's access takes as many passes as it has different
words in the bank with the most of them. Accesses of 8 and 16 bytes are made by half and quarter
warps. Global memory is transferred in sectors of 32 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.tir.gpu import BANK, BANKS, SECTOR, WARP

Array = np.ndarray[Any, Any]


@dataclass
class AccessCount:
    """The totals of one statement's accesses to one buffer.

    `requests` is the number of accesses by a warp. `passes` of shared memory and `sectors` of
    global memory are sums over them. Ideal are one pass per request, and only as many sectors as
    the bytes need.
    """

    requests: int = 0
    passes: int = 0
    sectors: int = 0

    @property
    def conflict_degree(self) -> float:
        """Passes per request of shared memory; 1 means no bank conflicts."""
        return self.passes / self.requests if self.requests else 0.0

    @property
    def sectors_per_request(self) -> float:
        """Sectors per request of global memory."""
        return self.sectors / self.requests if self.requests else 0.0


def count_shared(count: AccessCount, warps: Array, lanes: Array, first: Array, size: int) -> None:
    """Add shared-memory accesses of `size` bytes to `count`.

    Access k is made by lane `lanes[k]` of warp `warps[k]` at byte address `first[k]`.
    """
    together = min(WARP, WARP * BANK // max(size, BANK))
    groups = warps * (WARP // together) + lanes // together
    words = -(-size // BANK)
    word = (first // BANK)[:, None] + np.arange(words)
    span = -(-(int(word.max()) + 1) // BANKS) * BANKS
    met = _distinct((groups[:, None] * span + word).reshape(-1))
    banks = np.sort(met // span * BANKS + met % BANKS)
    starts = np.flatnonzero(np.diff(banks, prepend=-1))
    members = np.diff(starts, append=banks.size)
    first_banks = np.flatnonzero(np.diff(banks[starts] // BANKS, prepend=-1))
    count.passes += int(np.maximum.reduceat(members, first_banks).sum())
    count.requests += first_banks.size


def count_global(count: AccessCount, warps: Array, first: Array, size: int) -> None:
    """Add global-memory accesses of `size` bytes to `count`.

    Access k is made by a thread of warp `warps[k]` at byte address `first[k]`.
    """
    parts = -(-size // SECTOR) + (0 if SECTOR % size == 0 else 1)
    ends = np.minimum(first[:, None] + np.arange(parts) * SECTOR, first[:, None] + size - 1)
    sector = ends // SECTOR
    span = int(sector.max()) + 1
    met = _distinct((warps[:, None] * span + sector).reshape(-1))
    count.sectors += met.size
    count.requests += _distinct(met // span).size


def _distinct(values: Array) -> Array:
    """The distinct values in ascending order; for few values faster than np.unique."""
    ordered = np.sort(values)
    found: Array = ordered[np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1))]
    return found
