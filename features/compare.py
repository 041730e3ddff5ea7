"""Compare feature rows with Ansor's as multisets.

Ansor orders rows, and slots with equal cache lines and bytes, by memory addresses: neither order
counts here.
"""

from __future__ import annotations

import numpy as np

from autosched.features.ansor.names import BUFFER_WIDTH, FEATURE_NAMES, GROUPS, MAX_BUFFERS
from autosched.features.ansor.rows import FeatureRows

_FIRST_SLOT = len(GROUPS["computation"])
_BYTES = FEATURE_NAMES.index("B0.bytes") - _FIRST_SLOT
_LINES = FEATURE_NAMES.index("B0.lines") - _FIRST_SLOT


def canonical_rows(rows: FeatureRows) -> FeatureRows:
    """The rows in a canonical order: tied slots of each row by their values, then the rows."""
    result = np.round(rows.astype(np.float64), 4)
    exact = rows.astype(np.float64)
    order = []
    for k in range(len(rows)):
        slots = [
            slice(at, at + BUFFER_WIDTH)
            for at in range(_FIRST_SLOT, _FIRST_SLOT + MAX_BUFFERS * BUFFER_WIDTH, BUFFER_WIDTH)
        ]
        keys = [(-result[k, s][_LINES], -result[k, s][_BYTES], tuple(result[k, s])) for s in slots]
        ranks = sorted(range(MAX_BUFFERS), key=keys.__getitem__)
        exact[k] = _permuted(exact[k], slots, ranks)
        result[k] = _permuted(result[k], slots, ranks)
        order.append(tuple(result[k]))
    return exact[sorted(range(len(rows)), key=order.__getitem__)].astype(np.float32)


def _permuted(row: np.ndarray, slots: list[slice], ranks: list[int]) -> np.ndarray:
    new = row.copy()
    for slot, source in zip(slots, ranks, strict=True):
        new[slot] = row[slots[source]]
    return new


def first_difference(found: FeatureRows, expected: FeatureRows, tolerance: float = 1e-5) -> str:
    """The first differing feature by name, with both values; empty when all rows agree."""
    if len(found) != len(expected):
        return f"{len(found)} rows, expected {len(expected)}"
    ours, theirs = canonical_rows(found), canonical_rows(expected)
    allowed = tolerance * np.maximum(1.0, np.abs(theirs))
    bad = np.argwhere(np.abs(ours - theirs) > allowed)
    if not len(bad):
        return ""
    row, column = bad[0]
    return (
        f"row {row}, {FEATURE_NAMES[column]}: found {ours[row, column]:.7g}, "
        f"expected {theirs[row, column]:.7g}"
    )
