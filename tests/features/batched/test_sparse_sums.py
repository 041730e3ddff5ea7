"""Which loops are left of a sum of what is zero but for a remainder."""

from typing import cast

import numpy as np

from autosched.features.batched.autosched_1.piece import SparseSum
from autosched.features.batched.stores import Store


def test_depths_count_the_loops_that_are_left() -> None:
    """Three loops, of two candidates: the first has no second one, and leaves the first out."""
    present = [np.array([True, True]), np.array([False, True]), np.array([True, True])]
    gone = [np.array([True, False]), np.array([False, True]), np.array([False, False])]
    sparse = SparseSum(cast(Store, None), gone, present)
    depths = np.array([[0, 0], [1, 1], [2, 2], [2, 3]])
    assert [sparse.outside(depth).tolist() for depth in depths] == [[0, 0], [0, 1], [1, 1], [1, 2]]
