"""Replay of steps on schedules: refusals, and agreement with the loop state on random steps."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched import workloads
from autosched.errors import ScheduleError
from autosched.state.dag import ComputeDAG
from autosched.state.iterator import clean_name
from autosched.state.python_schedule import python_schedule
from autosched.state.state import State
from autosched.state.steps import steps_from_json

DAGS = (
    ComputeDAG(workloads.get("dense_bias_relu").tensors(M=6, N=8, K=4)),
    ComputeDAG(workloads.get("softmax").tensors(M=4, N=6)),
    ComputeDAG(workloads.get("norm_bmn").tensors(B=2, M=4, N=6)),
)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([["AN", 9, 0, 3]], "there are only 6 stages"),
        ([["AN", 5, 7, 3]], "no such stage or iterator"),
        ([["AN", 5, 0, 11]], "tensorize"),
        ([["FU", 5, [1, 0]]], "not consecutive"),
        ([["FU", 5, [1, 2]]], "not consecutive"),
        ([["RE", 5, [0, 2]]], "does not list each of the 2 loops once"),
        ([["RE", 5, [1]]], "does not list each of the 2 loops once"),
        ([["CA", 2, 5, 4]], "no such stage or iterator"),
        ([["CHR", 0, "shared", [8]]], "no such stage or iterator"),
        ([["CHR", 0, "shared", [5]]], "does not read A"),
        ([["RF", 2, 0, 1]], "not a reduction axis"),
        ([["FSP", 5, 0, 3, 1], ["SP", 5, 0, 6, [2], 1]], "step 3 is not a split"),
        ([["FSP", 5, 0, 1, 1], ["SP", 5, 1, 8, [2], 1]], "step 1 is not a split"),
    ],
)
def test_refuses(steps: list[Any], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        DAGS[0].apply_steps(steps_from_json(steps))


def test_the_error_says_which_step() -> None:
    steps = steps_from_json([["SP", 5, 0, 6, [2], 1], ["AN", 5, 0, 3], ["CA", 5, 4, 0]])
    with pytest.raises(ScheduleError) as caught:
        DAGS[0].apply_steps(steps)
    assert "in step 2, ComputeAtStep on stage 5" in "".join(caught.value.__notes__)


KINDS = ("split", "fuse", "order", "mark", "at", "inline", "root", "read", "write", "rf")


def random_step(draw: st.DrawFn, state: State) -> State:
    """The state after one random primitive, legal or not."""
    stage_id = draw(st.integers(0, len(state.stages) - 1))
    iters = state.stages[stage_id].iters
    kind = draw(st.sampled_from(KINDS))
    if kind == "inline":
        return state.compute_inline(stage_id)
    if kind == "root":
        return state.compute_root(stage_id)
    if kind == "write":
        return state.cache_write(stage_id, "local")[0]
    if kind == "read":
        return state.cache_read(stage_id, "shared", [draw(st.integers(0, len(state.stages) - 1))])[
            0
        ]
    if not iters:
        return state
    it = iters[draw(st.integers(0, len(iters) - 1))]
    if kind == "split":
        lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
        return state.split(stage_id, it, lengths, draw(st.booleans()))[0]
    if kind == "fuse":
        first = draw(st.integers(0, len(iters) - 1))
        return state.fuse(stage_id, iters[first : first + draw(st.integers(1, 3))])[0]
    if kind == "order":
        return state.reorder(stage_id, draw(st.permutations(iters)))
    if kind == "mark":
        mark = draw(st.sampled_from([State.parallel, State.vectorize, State.unroll]))
        return mark(state, stage_id, it)[0]
    if kind == "rf":
        state, pieces = state.split(stage_id, it, [2])
        return state.rfactor(
            stage_id, pieces[1], len(state.stages[stage_id].op.root_iter_vars) - 1
        )[0]
    reader = draw(st.integers(0, len(state.stages) - 1))
    targets = state.stages[reader].iters
    if not targets:
        return state
    return state.compute_at(stage_id, reader, targets[draw(st.integers(0, len(targets) - 1))])


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.data())
def test_random_steps_agree_with_the_schedule_or_are_refused(data: st.DataObject) -> None:
    dag = data.draw(st.sampled_from(DAGS))
    state = dag.init_state
    for _ in range(data.draw(st.integers(1, 7))):
        try:
            state = data.draw(st.composite(random_step)(state))
        except ScheduleError:
            continue
    try:
        replay = dag.replay(state.steps)
    except ScheduleError:
        return
    assert [len(s.iters) for s in state.stages] == [len(axes) for axes in replay.axes]
    assert [s.name for s in state.stages] == [s.op.name for s in replay.stages]
    for stage, axes in zip(state.stages, replay.axes, strict=True):
        fresh = [it for it in stage.iters if "." not in it.name and "@" not in it.name]
        names = {clean_name(iv.var.name) for iv in axes}
        assert {it.name for it in fresh} <= names
    assert python_schedule(dag, state.steps)
    try:
        bound = dag.infer_bound(state)
    except ScheduleError:
        return
    assert bound.to_str() == dag.infer_bound(bound).to_str()
    assert dag.infer_bound_of(state.steps).to_str() == bound.to_str()
