"""The loops of a stage after steps: one object for the same steps, and where loops went."""

from __future__ import annotations

import pytest

from autosched.features.batched.loop_state import LoopState
from autosched.features.batched.plan import Loops, UnsupportedError


def test_the_same_steps_lead_to_the_same_object() -> None:
    start = LoopState(2)
    once = start.split(0, 2, True).fuse((0, 1)).annotate(0, 3).limit(1)
    again = start.split(0, 2, True).fuse((0, 1)).annotate(0, 3).limit(1)
    assert once is again and once.loops is again.loops
    assert start.leaves == (0, 1) and not start.kinds
    # axis 0 -> (2, 3), 2 -> (4, 5), then 4 and 5 fused
    relations = ((0, 2, 3, 1), (2, 4, 5, 1), (4, 5, 6))
    assert once.loops == Loops(2, relations, (6, 3, 1), (3, 0, 0), 1)


def test_positions_follow_splits_and_fusions() -> None:
    state = LoopState(2).split(0, 1, True)
    assert [state.position(loop) for loop in (0, 2, 3, 1)] == [1, 0, 1, 2]
    fused = state.fuse((1, 2)).reorder((1, 0))
    assert [fused.position(loop) for loop in (1, 2)] == [0, 1]
    with pytest.raises(UnsupportedError, match="a loop that no longer exists"):
        fused.position(3)


def test_what_no_plan_can_be_made_of() -> None:
    state = LoopState(3)
    with pytest.raises(UnsupportedError, match="not consecutive"):
        state.fuse((0, 2))
    with pytest.raises(UnsupportedError, match="an order that does not list each loop once"):
        state.reorder((0, 0, 1))
    with pytest.raises(UnsupportedError, match="two unroll limits"):
        state.limit(0).limit(1)
    with pytest.raises(UnsupportedError, match="two annotations"):
        state.annotate(0, 1).annotate(0, 2)


def test_a_limit_on_a_loop_that_is_split_or_fused_has_no_effect() -> None:
    limited = LoopState(3).limit(1)
    for later in (limited.split(1, 1, True), limited.fuse((0, 1))):
        assert not later.limited and later.loops.unroll == -1
        assert later.limit(0).loops.unroll == 0


def test_a_fusion_of_more_loops_than_memory_holds_is_refused_at_once() -> None:
    with pytest.raises(UnsupportedError, match="not consecutive"):
        LoopState(3).fuse((0, 2**40))
