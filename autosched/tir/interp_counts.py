"""How well the accesses of a warp fit the memory: bank conflicts and sectors.

Shared memory has 32 banks of 4 bytes; a warp's access takes as many passes as the fullest bank has
different words. Accesses of 8 and 16 bytes are made by half and quarter warps. Global memory is
moved in sectors of 32 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.tir.gpu import BANK, BANKS, SECTOR, WARP

Array = np.ndarray[Any, Any]


@dataclass
class AccessCount:
    """What one statement's accesses to one buffer came to.

    `requests` counts warps that made an access; `passes` of shared memory and `sectors` of global
    memory add up over them. One pass, and sectors as few as the bytes allow, are the best.
    """

    requests: int = 0
    passes: int = 0
    sectors: int = 0

    @property
    def conflict_degree(self) -> float:
        """Passes per request of shared memory; 1 is free of conflicts."""
        return self.passes / self.requests if self.requests else 0.0

    @property
    def sectors_per_request(self) -> float:
        """Sectors per request of global memory."""
        return self.sectors / self.requests if self.requests else 0.0


def count_shared(count: AccessCount, warps: Array, lanes: Array, first: Array, size: int) -> None:
    """Adds accesses of `size` bytes at byte addresses `first` by lanes of warps."""
    together = min(WARP, WARP * BANK // max(size, BANK))
    groups = warps * (WARP // together) + lanes // together
    words = -(-size // BANK)
    word = (first // BANK)[:, None] + np.arange(words)
    group = np.broadcast_to(groups[:, None], word.shape)
    pairs = np.unique(np.stack([group.reshape(-1), word.reshape(-1)]), axis=1)
    banks, members = np.unique(pairs[0] * BANKS + pairs[1] % BANKS, return_counts=True)
    owners = banks // BANKS
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    count.passes += int(np.maximum.reduceat(members, starts).sum()) if owners.size else 0
    count.requests += int(np.unique(groups).size)


def count_global(count: AccessCount, warps: Array, first: Array, size: int) -> None:
    """Adds accesses of `size` bytes at byte addresses `first` by threads of warps."""
    parts = -(-size // SECTOR) + (0 if SECTOR % size == 0 else 1)
    ends = np.minimum(first[:, None] + np.arange(parts) * SECTOR, first[:, None] + size - 1)
    sector = ends // SECTOR
    warp = np.broadcast_to(warps[:, None], sector.shape)
    pairs = np.unique(np.stack([warp.reshape(-1), sector.reshape(-1)]), axis=1)
    count.sectors += int(pairs.shape[1])
    count.requests += int(np.unique(warps).size)
