"""Rows are compared as a multiset, tied slots in any order."""

import numpy as np

from autosched.features.ansor.names import BUFFER_WIDTH, FEATURE_NAMES, NUM_FEATURES
from autosched.features.compare import canonical_rows, first_difference


def test_rows_in_any_order() -> None:
    rows = np.random.default_rng(0).random((3, NUM_FEATURES), np.float32)
    np.testing.assert_array_equal(canonical_rows(rows), canonical_rows(rows[::-1]))
    assert first_difference(rows, rows[[2, 0, 1]]) == ""


def test_tied_slots_may_swap() -> None:
    rows = np.zeros((1, NUM_FEATURES), np.float32)
    first = FEATURE_NAMES.index("B0.stride")
    rows[0, first] = 7.0
    other = np.zeros_like(rows)
    other[0, first + BUFFER_WIDTH] = 7.0
    assert first_difference(rows, other) == ""
    rows[0, FEATURE_NAMES.index("B0.lines")] = 2.0  # no tie any more
    assert "B0.lines" in first_difference(rows, other) or "B0.stride" in first_difference(
        rows, other
    )


def test_tolerance_is_relative_above_one() -> None:
    rows = np.full((1, NUM_FEATURES), 20.0, np.float32)
    assert first_difference(rows, rows + np.float32(1e-4)) == ""
    assert first_difference(rows, rows + np.float32(1e-3)).startswith("row 0, float_mad: found 20")
