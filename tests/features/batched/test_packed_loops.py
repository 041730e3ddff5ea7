"""Tables by loop without the loops that a candidate does not have."""

from __future__ import annotations

import numpy as np

from autosched.features.batched.autosched_1.packed_loops import PackedLoops
from autosched.features.batched.forms import Flags, Ints

PRESENT: Flags = np.array([[1, 0, 0], [0, 0, 1], [0, 0, 0], [1, 0, 0], [0, 0, 0], [0, 0, 1]], bool)
TABLE: Ints = np.arange(18).reshape(6, 3)


def test_loops_follow_each_other() -> None:
    packed = PackedLoops(PRESENT, apart=False)
    assert packed.most == 2 and packed.number.tolist() == [2, 0, 2]
    assert packed.loops(TABLE, -1).tolist() == [[0, -1, 5], [9, -1, 17]]
    assert packed.depth.tolist() == [[0, 0, 0], [1, 0, 1], [2, 0, 2]]


def test_levels_are_those_outside_of_loops() -> None:
    packed = PackedLoops(PRESENT, apart=False)
    levels = np.arange(21).reshape(7, 3)
    found = packed.levels(levels)
    assert found.tolist() == [[0, 19, 5], [9, 19, 17], [18, 19, 20]]
    at = packed.unpacked(found)
    assert at[PRESENT].tolist() == levels[:-1][PRESENT].tolist()


def test_threads_and_few_loops_keep_their_lines() -> None:
    for packed in (PackedLoops(PRESENT, apart=True), PackedLoops(PRESENT[[0, 1, 3]], apart=False)):
        table = TABLE[: packed.most]
        assert packed.loops(table) is table
        assert packed.unpacked(np.arange(3 * packed.most + 3).reshape(-1, 3)).shape == table.shape
        assert packed.depth[-1].tolist() == packed.number.tolist()
