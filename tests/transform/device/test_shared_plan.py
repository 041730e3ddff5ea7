"""Where buffers lie: sizes worked out by hand, and no two in use at once overlap."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autosched.transform.device.shared_liveness import Interval
from autosched.transform.device.shared_plan import Plan, Request, align_up, plan_memory

PLANNERS = ("first_fit", "best_fit", "auto")


def requests(*rows: tuple[int, int, int]) -> list[Request]:
    """Requests of (bytes, first, last), aligned to 16 bytes, called A, B, ..."""
    return [
        Request(chr(ord("A") + k), size, 16, Interval(first, last))
        for k, (size, first, last) in enumerate(rows)
    ]


def check(wanted: list[Request], plan: Plan) -> None:
    for k, a in enumerate(wanted):
        assert plan.offsets[k] % a.alignment == 0
        assert plan.offsets[k] + a.size <= plan.total
        for j, b in enumerate(wanted[:k]):
            apart = (
                plan.offsets[k] + a.size <= plan.offsets[j]
                or plan.offsets[j] + b.size <= plan.offsets[k]
            )
            assert apart or not a.live.meets(b.live), (a, b, plan)


STREAM_K = requests((33280, 1, 8), (32768, 1, 8), (131072, 9, 16), (2048, 17, 22))
"""A and B shared, the reduction's buffer, C shared: the places of the seed's listing."""


@pytest.mark.parametrize(
    ("planner", "total"), [("first_fit", 131072), ("best_fit", 133120), ("auto", 131072)]
)
def test_stream_k(planner: str, total: int) -> None:
    """best_fit leaves the last 2048 bytes beside: what is free is more than 16 times as long."""
    plan = plan_memory(STREAM_K, planner)
    check(STREAM_K, plan)
    assert plan.total == total
    if planner == "first_fit":
        assert plan.offsets == (0, 33280, 0, 0)


@pytest.mark.parametrize(
    ("planner", "total"), [("first_fit", 2048), ("best_fit", 3072), ("auto", 2048)]
)
def test_one_after_the_other(planner: str, total: int) -> None:
    """best_fit gives the whole of a free piece to the first that asks."""
    wanted = requests((2048, 0, 3), (1024, 4, 8), (1024, 5, 8))
    assert plan_memory(wanted, planner).total == total


def test_pieces_that_were_freed_are_joined_without_overlap() -> None:
    """A, then B beside what A's place still holds, then D over all: FIX-19 of the planner.

    B and C are read by one statement, after A is done with: they must stay apart.
    """
    wanted = requests((1024, 0, 2), (2048, 1, 4), (4096, 2, 4), (8192, 5, 6))
    for planner in PLANNERS:
        check(wanted, plan_memory(wanted, planner))


def test_odd_sizes_keep_alignment() -> None:
    wanted = [
        Request("a", 33, 16, Interval(0, 2)),
        Request("b", 41, 16, Interval(0, 2)),
        Request("c", 128, 64, Interval(0, 2)),
    ]
    for planner in PLANNERS:
        plan = plan_memory(wanted, planner)
        check(wanted, plan)
        assert plan.total <= 128 + 48 + 48


INTERVALS = st.tuples(st.integers(0, 12), st.integers(0, 5)).map(lambda p: Interval(p[0], sum(p)))
REQUESTS = st.lists(
    st.builds(
        Request,
        st.sampled_from("abcd"),
        st.integers(1, 5000),
        st.sampled_from([16, 32, 48, 128]),
        INTERVALS,
    ),
    max_size=9,
)


@given(wanted=REQUESTS, planner=st.sampled_from(PLANNERS))
def test_nothing_in_use_at_once_overlaps(wanted: list[Request], planner: str) -> None:
    plan = plan_memory(wanted, planner)
    check(wanted, plan)
    assert plan.total <= sum(r.size + r.alignment for r in wanted) + 8192


@given(wanted=REQUESTS)
def test_auto_is_the_better_one(wanted: list[Request]) -> None:
    totals = [plan_memory(wanted, planner).total for planner in PLANNERS[:2]]
    assert plan_memory(wanted, "auto").total == min(totals)


def test_align_up() -> None:
    assert [align_up(n, 16) for n in (0, 1, 16, 17)] == [0, 16, 16, 32]


def test_a_planner_that_there_is_not() -> None:
    with pytest.raises(ValueError, match="'worst_fit', only first_fit, best_fit, auto"):
        plan_memory([], "worst_fit")
