"""The loops with which threads fetch a tile."""

from __future__ import annotations

from autosched.features.batched.plan import Loops


def fetching_loops(axes: int) -> Loops:
    """All axes fused, then split into rounds, threads and lanes."""
    fused = [(0 if k == 1 else axes + k - 2, k, axes + k - 1) for k in range(1, axes)]
    whole = 2 * axes - 2
    cuts = (whole, whole + 1, whole + 2, 1), (whole + 1, whole + 3, whole + 4, 1)
    return Loops(axes, (*fused, *cuts), (whole + 3, whole + 4, whole + 2), (0, 6, 2), -1)
