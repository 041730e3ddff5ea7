"""Queries on states: consumers through inlining, fusion partners, looking back through steps."""

from __future__ import annotations

import pytest

from autosched import workloads
from autosched.errors import ScheduleError
from autosched.state import queries
from autosched.state.dag import ComputeDAG
from autosched.state.iterator import Iterator, IterKind
from autosched.state.state import State


@pytest.fixture
def dense() -> State:
    """A 0, W 1, T 2, bias 3, U 4, relu 5."""
    return ComputeDAG(workloads.get("dense_bias_relu").tensors(M=16, N=32, K=8)).init_state


@pytest.fixture
def softmax() -> State:
    """A 0, maxelem 1, exp 2, expsum 3, norm 4."""
    return ComputeDAG(workloads.get("softmax").tensors(M=16, N=32)).init_state


def test_consumers_look_through_inlined_stages(dense: State) -> None:
    assert queries.consumers(dense, 2) == [4]
    inlined = dense.compute_inline(4)
    assert queries.consumers(inlined, 2) == [5]
    assert queries.producers(inlined, 5) == [2, 3]
    assert queries.direct_producers(inlined, 5) == [4]
    assert queries.consumers(dense, 5) == []


def test_single_consumer(dense: State, softmax: State) -> None:
    assert queries.single_consumer_id(dense, 5) == -1
    assert queries.single_consumer_id(dense, 2) == 4
    assert queries.consumers(softmax, 2) == [3, 4]
    assert queries.single_consumer_id(softmax, 2) == -1
    attached = softmax.compute_at(3, 4, softmax.stages[4].iters[0])
    assert queries.single_consumer_id(attached, 2) == 4


def test_fusion_partner(dense: State) -> None:
    assert queries.has_single_elementwise_matched_consumer(dense, 2) == 4
    inlined = dense.compute_inline(4)
    assert queries.has_single_elementwise_matched_consumer(inlined, 2) == 5
    assert queries.has_single_elementwise_matched_consumer(dense, 0) == -1
    assert queries.num_common_outer_iterators(dense, 2, 5) == 2
    assert queries.elementwise_match(dense, 2, 5)


def test_flags(dense: State) -> None:
    assert [queries.needs_multi_level_tiling(dense, s) for s in range(6)] == [
        False,
        False,
        True,
        False,
        False,
        False,
    ]
    assert queries.is_strictly_inlineable(dense, 4)
    assert queries.is_simple_access(dense, 4)
    assert queries.is_output(dense, 5)
    assert queries.has_reduce_iter(dense, 2)
    assert not queries.has_reduce_iter(dense, 4)


def test_tiled_and_lengths(dense: State) -> None:
    assert not queries.is_tiled(dense, 2)
    state, _ = dense.split(2, dense.stages[2].iters[0], [4])
    assert queries.is_tiled(state, 2)
    assert queries.cumulative_lengths(state, 2) == (16 * 32, 8)
    open_state, _ = dense.split(2, dense.stages[2].iters[2], [None])
    assert queries.cumulative_lengths(open_state, 2) == (16 * 32, -1)


def test_needs_rfactor() -> None:
    norm = ComputeDAG(workloads.get("norm_bmn").tensors(B=4, M=64, N=64)).init_state
    assert queries.needs_rfactor(norm, 1, num_cores=8)
    assert not queries.needs_rfactor(norm, 1, num_cores=5000)
    assert not queries.needs_rfactor(norm, 2, num_cores=8)
    assert not queries.needs_rfactor(norm, 0, num_cores=8)
    deep = ComputeDAG(workloads.get("matmul").tensors(M=4, N=4, K=4096)).init_state
    assert queries.needs_rfactor(deep, 2, num_cores=8)
    wide = ComputeDAG(workloads.get("matmul").tensors(M=64, N=64, K=64)).init_state
    assert not queries.needs_rfactor(wide, 2, num_cores=8)


def test_cache_write_and_spatial_splits_are_found_under_shifted_ids(dense: State) -> None:
    state, cache = dense.cache_write(2, "local")
    for it in state.stages[cache].iters:
        state, _ = state.split(cache, it, [2])
    assert queries.has_cache_write(state, 2)
    assert not queries.has_cache_write(state, 3)
    state, _ = state.cache_read(0, "shared", [2])
    assert queries.has_cache_write(state, 3)
    assert queries.split_step_ids(state, 3) == [3, 2, 1]
    assert queries.spatial_split_step_ids(state, 3) == [2, 1]
    assert queries.current_stage_id(state.steps, 1) == 3
    assert queries.earlier_stage_id(state.steps, 1, 3) == 2
    assert queries.earlier_stage_id(state.steps, 1, 0) == 0


def test_cross_thread_reduction_of_an_attached_stage(softmax: State) -> None:
    state, (_, inner) = softmax.split(3, softmax.stages[3].iters[1], [8])
    state, _ = state.bind(3, inner, "threadIdx.x")
    assert queries.has_cross_thread_reduction(state, 3)
    assert not queries.has_cross_thread_reduction(state, 4)
    state = state.compute_at(3, 4, state.stages[4].iters[0])
    assert queries.has_cross_thread_reduction(state, 4)
    assert queries.attached_stages(state, 4) == [3]


def test_nested_parallel(dense: State) -> None:
    state = dense.compute_at(2, 4, dense.stages[4].iters[0])
    state, _ = state.parallel(4, state.stages[4].iters[0])
    assert not queries.has_nested_parallel(state)
    state, _ = state.parallel(2, state.stages[2].iters[0])
    assert queries.has_nested_parallel(state)


def test_outermost_reduce_tile(dense: State) -> None:
    state, pieces = dense.split(2, dense.stages[2].iters[2], [4])
    assert queries.last_reduce_iterator_of_outermost_tile(state, 2) is pieces[0]
    with pytest.raises(ScheduleError, match="no outermost reduce tile"):
        queries.last_reduce_iterator_of_outermost_tile(state, 4)


def test_original_names() -> None:
    it = Iterator("ax0@ax1@.0.1", 4, IterKind.SPATIAL)
    assert queries.original_names(it) == ["ax0", "ax1"]
    assert queries.original_names(Iterator("i.0@j.0@i.1@", 4, IterKind.SPATIAL)) == ["i", "j"]
