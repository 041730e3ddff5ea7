"""The primitives of a loop state: what they give, what they refuse, the text."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from autosched import te, workloads
from autosched.errors import ScheduleError
from autosched.state.apply import apply_step
from autosched.state.dag import ComputeDAG
from autosched.state.iterator import Annotation, IterKind, clean_name
from autosched.state.state import State
from autosched.state.steps import FuseStep, steps_from_json, steps_to_json


@pytest.fixture
def matmul() -> State:
    return ComputeDAG(workloads.get("matmul").tensors(M=16, N=32, K=8)).init_state


@pytest.fixture
def dense() -> State:
    return ComputeDAG(workloads.get("dense_bias_relu").tensors(M=16, N=32, K=8)).init_state


WORKED_STEPS = [
    ["SP", 2, 0, 16, [1, 1, 8], 1],
    ["SP", 2, 4, 32, [2, 1, 16], 1],
    ["SP", 2, 8, 8, [1], 1],
    ["RE", 2, [0, 4, 1, 5, 8, 2, 6, 9, 3, 7]],
    ["FU", 2, [0, 1, 2, 3]],
    ["AN", 2, 0, 3],
    ["PR", 2, 0, "auto_unroll_max_step$16"],
    ["AN", 2, 6, 2],
]
WORKED_TEXT = """\
Placeholder: A, B
C auto_unroll: 16
parallel i.0@j.0@i.1@j.1@ (0,4)
  for k.0 (0,8)
    for i.3 (0,8)
      vectorize j.3 (0,16)
        C = ...
"""


def test_worked_example(matmul: State) -> None:
    assert matmul.apply_all(steps_from_json(WORKED_STEPS)).to_str() == WORKED_TEXT


def test_the_same_by_primitives(matmul: State) -> None:
    i, j, k = matmul.stages[2].iters
    state, i4 = matmul.split(2, i, [1, 1, 8])
    state, j4 = state.split(2, j, [2, 1, 16])
    state, k2 = state.split(2, k, [1])
    state = state.reorder(2, [i4[0], j4[0], i4[1], j4[1], k2[0], i4[2], j4[2], k2[1], i4[3], j4[3]])
    state, fused = state.fuse(2, [i4[0], j4[0], i4[1], j4[1]])
    state, fused = state.parallel(2, fused)
    state = state.pragma(2, fused, "auto_unroll_max_step$16")
    state, vector = state.vectorize(2, j4[3])
    assert steps_to_json(state.steps) == WORKED_STEPS
    assert state.to_str() == WORKED_TEXT
    assert vector.annotation is Annotation.VECTORIZE
    assert state == matmul.apply_all(state.steps)
    assert len({state, matmul, matmul.apply_all(state.steps)}) == 2
    assert matmul.steps == ()


def test_initial_text(dense: State) -> None:
    assert str(dense).startswith("Placeholder: A, W, bias\nfor i (0,16)\n  for j (0,32)\n")


def test_split_of_an_open_length_leaves_ranges_undefined(matmul: State) -> None:
    state, pieces = matmul.split(2, matmul.stages[2].iters[0], [None, 4])
    assert [it.extent for it in pieces] == [None, None, 4]
    assert [it.name for it in pieces] == ["i.0", "i.1", "i.2"]
    assert not state.concrete
    assert "for i.0 (None)" in state.to_str()


def test_split_rounds_up_and_outer_to_inner_counts_from_outside(matmul: State) -> None:
    i = matmul.stages[2].iters[0]
    assert [it.extent for it in matmul.split(2, i, [5])[1]] == [4, 5]
    pieces = matmul.split(2, i, [2, 3], inner_to_outer=False)[1]
    assert [(it.name, it.extent) for it in pieces] == [("i.0", 2), ("i.1", 3), ("i.2", 3)]


def test_follow_splits(dense: State) -> None:
    i, j, _ = dense.stages[2].iters
    state, _ = dense.split(2, i, [2, 2, 4])
    state, _ = state.split(2, j, [1, 4, 8])
    relu = state.stages[5].iters
    state, pieces = state.follow_split(5, relu[0], 0, 2)
    assert [it.extent for it in pieces] == [1, 2, 8]
    state, pair = state.follow_fused_split(5, relu[1], [0, 1], 1, True)
    assert [it.extent for it in pair] == [4, 8]
    state, pair = state.follow_fused_split(5, pair[0], [0, 1], 1, False)
    assert [it.extent for it in pair] == [8, 1]


def test_fuse_of_nothing_leaves_one_iterator(matmul: State) -> None:
    state, fused = matmul.fuse(2, [])
    assert state.stages[2].iters == (fused,)
    assert (fused.name, fused.extent, fused.kind) == ("", 1, IterKind.SPECIAL)


def test_fuse_mixes_kinds_and_moves_attached_stages(dense: State) -> None:
    state = dense.compute_at(2, 4, dense.stages[4].iters[1])
    state, fused = state.fuse(4, state.stages[4].iters)
    assert state.attach_map.target_of(2) == (4, 0)
    assert fused.kind is IterKind.SPATIAL
    assert "    for i (None)" not in state.to_str()
    _, mixed = dense.fuse(2, dense.stages[2].iters[1:])
    assert mixed.kind is IterKind.MIXED
    assert mixed.extent == 32 * 8


def test_split_moves_attached_stages(dense: State) -> None:
    state = dense.compute_at(2, 4, dense.stages[4].iters[1])
    state, _ = state.split(4, state.stages[4].iters[0], [2, 2])
    assert state.attach_map.target_of(2) == (4, 3)


def test_compute_at_prints_inside_and_root_comes_back(dense: State) -> None:
    state = dense.compute_at(2, 4, dense.stages[4].iters[0])
    assert "for i (0,16)\n  for i (None)\n    for j (None)\n" in state.to_str()
    back = state.compute_root(2)
    assert back.attach_map.stage_to_iter == {}
    assert [it.extent for it in back.stages[2].iters] == [None] * 3


def test_inline_hides_the_stage(dense: State) -> None:
    state = dense.compute_inline(4)
    assert "U = ..." not in state.to_str()
    assert [it.extent for it in state.stages[4].iters] == [16, 32]


def test_storage_align_and_pragma_are_attributes(matmul: State) -> None:
    state = matmul.storage_align(2, matmul.stages[2].iters[0], 32, 8)
    state = state.pragma(2, state.stages[2].iters[0], "auto_unroll_max_step$64")
    assert "C auto_unroll: 64\nC storage_offset: 8\nfor i" in state.to_str()


def test_unroll_keeps_long_loops(matmul: State) -> None:
    i = matmul.stages[2].iters[0]
    state, same = matmul.unroll(2, i, max_unroll=8)
    assert state is matmul
    assert same is i
    assert matmul.unroll(2, i, 16)[1].annotation is Annotation.UNROLL


def test_bind(matmul: State) -> None:
    state, it = matmul.bind(2, matmul.stages[2].iters[0], "threadIdx.x")
    assert it.annotation is Annotation.THREAD_X
    assert "threadIdx.x i (0,16)" in state.to_str()


def test_cache_stages(dense: State) -> None:
    state = dense.compute_at(4, 5, dense.stages[5].iters[0])
    state, cache = state.cache_write(2, "local")
    assert [s.name for s in state.stages[2:4]] == ["T.local", "T"]
    assert [it.name for it in state.stages[cache].iters] == ["i_c", "j_c", "k"]
    assert state.attach_map.target_of(5) == (6, 0)
    state, shared = state.cache_read(0, "shared", [2])
    assert state.stages[shared].name == "A.shared"
    assert [it.name for it in state.stages[shared].iters] == ["ax0", "ax1"]
    assert state.attach_map.target_of(6) == (7, 0)
    assert [op.name for op in state.access_dag.ops] == [s.name for s in state.stages]
    assert all(s.op is op for s, op in zip(state.stages, state.access_dag.ops, strict=True))


def test_rfactor() -> None:
    dag = ComputeDAG(workloads.get("norm_bmn").tensors(B=2, M=8, N=8))
    state, fused = dag.init_state.fuse(1, dag.init_state.stages[1].iters[1:])
    state, (_, inner) = state.split(1, fused, [4])
    state, rf = state.rfactor(1, inner, 1)
    assert [s.name for s in state.stages] == ["A", "C.rf", "C.repl", "D"]
    names = [[it.name for it in state.stages[s].iters] for s in (rf, rf + 1)]
    assert names == [["b", "i_j_fused_i", "i_j_fused_o"], ["ax0", "i_j_fused_i_v"]]


def test_with_steps_keeps_the_structure(matmul: State) -> None:
    state, _ = matmul.split(2, matmul.stages[2].iters[0], [4])
    other = state.with_steps(steps_from_json([["SP", 2, 0, 16, [2], 1]]))
    assert other.stages == state.stages
    assert state.dag.infer_bound(other).stages[2].iters[0].extent == 8


def test_clean_name() -> None:
    assert clean_name("k.inner.v") == "k_i_v"
    assert clean_name("i.outer@j") == "i_o_j"


def test_primitives_refuse(dense: State) -> None:
    relu = dense.stages[5].iters
    annotated, it = dense.parallel(5, relu[0])
    attached = dense.compute_at(2, 5, relu[0])
    with pytest.raises(ScheduleError, match="has no iterator"):
        dense.parallel(2, relu[0])
    with pytest.raises(ScheduleError, match="already annotated as PARALLEL"):
        annotated.vectorize(5, it)
    with pytest.raises(ScheduleError, match=r"'threadIdx\.w' is not a thread axis"):
        dense.bind(5, relu[0], "threadIdx.w")
    with pytest.raises(ScheduleError, match="not consecutive"):
        dense.fuse(5, [relu[1], relu[0]])
    with pytest.raises(ScheduleError, match="not consecutive"):  # not looked at one by one
        apply_step(dense, FuseStep(5, (0, 2**40)))
    with pytest.raises(ScheduleError, match="a stage is attached at i"):
        attached.fuse(5, attached.stages[5].iters)
    with pytest.raises(ScheduleError, match="a stage is attached at i"):
        attached.compute_inline(5)
    with pytest.raises(ScheduleError, match="does not list each of the 2 iterators once"):
        dense.reorder(5, relu[:1])
    with pytest.raises(ScheduleError, match="unknown pragma"):
        dense.pragma(5, relu[0], "tensor_core")
    with pytest.raises(ScheduleError, match="with an integer N"):
        dense.pragma(5, relu[0], "auto_unroll_max_step$x")
    with pytest.raises(ScheduleError, match="there are only 6 stages"):
        dense.compute_inline(6)
    with pytest.raises(ScheduleError, match="is not a split"):
        dense.follow_split(5, relu[0], 0, 1)
    with pytest.raises(ScheduleError, match="length 0 of i is not positive"):
        dense.split(5, relu[0], [0])
    with pytest.raises(ScheduleError, match="not a reduction iterator"):
        dense.rfactor(2, dense.stages[2].iters[0], 1)
    with pytest.raises(ScheduleError, match="its loops were changed before"):
        dense.split(2, dense.stages[2].iters[0], [4])[0].cache_write(2, "local")
    split, parts = dense.split(5, relu[0], [4])
    swapped = split.reorder(5, [split.stages[5].iters[2], *parts])
    with pytest.raises(ScheduleError, match=r"CacheWriteStep .*: its loops were changed before"):
        swapped.cache_write(5, "local")
    with pytest.raises(ScheduleError, match="its loops were changed before"):
        reordered(dense, 2).split(5, relu[0], [4])[0].cache_write(2, "local")
    with pytest.raises(ScheduleError, match="before it is inlined or attached"):
        attached.cache_write(2, "local")
    with pytest.raises(ScheduleError, match="cannot be computed into"):
        dense.compute_at(5, 5, relu[0])


def test_integers_of_numpy_become_those_of_python(dense: State) -> None:
    """A record could not hold them: a TypeError of JSON at the end of a batch."""
    two: Any = np.int64(2)
    zero: Any = np.int32(0)
    five: Any = np.uint8(5)
    state, _ = dense.split(five, dense.stages[5].iters[0], [two, five])
    state, _ = state.follow_split(5, state.stages[5].iters[3], zero, two)
    state, _ = state.follow_fused_split(2, state.stages[2].iters[0], [zero], zero, True)
    state = state.storage_align(2, state.stages[2].iters[0], five, two)
    state, copy = state.cache_read(zero, "local", [two])
    state, _ = state.unroll(3, state.stages[3].iters[0], five)
    assert copy == 1
    written = json.loads(json.dumps(steps_to_json(state.steps)))
    assert dense.apply_all(steps_from_json(written)) == state
    summed, _ = dense.split(2, dense.stages[2].iters[2], [five])
    factored, _ = summed.rfactor(2, summed.stages[2].iters[3], two)
    assert json.dumps(steps_to_json(factored.steps)) == '[["SP", 2, 2, 8, [5], 1], ["RF", 2, 3, 2]]'


@pytest.mark.parametrize("value", [2.0, 2.5, True, "2", np.float64(2)])
def test_what_is_no_integer_is_refused_by_name(dense: State, value: Any) -> None:
    """A length of 2.5 made candidates of which none could be drawn, without a word."""
    it, reduced = dense.stages[5].iters[0], dense.stages[2].iters[2]
    for refused, name in (
        (lambda: dense.split(5, it, [None, value]), "split: lengths"),
        (lambda: dense.follow_split(5, it, value, 1), "follow_split: src_step_id"),
        (lambda: dense.follow_split(5, it, 0, value), "follow_split: n_split"),
        (lambda: dense.follow_fused_split(5, it, [value], 0, True), "src_step_ids"),
        (lambda: dense.follow_fused_split(5, it, [0], value, True), "level"),
        (lambda: dense.storage_align(5, it, value, 0), "storage_align: factor"),
        (lambda: dense.storage_align(5, it, 1, value), "storage_align: offset"),
        (lambda: dense.rfactor(2, reduced, value), "rfactor: factor_iter_id"),
        (lambda: dense.cache_read(0, "local", [value]), "cache_read: reader_stage_ids"),
        (lambda: dense.cache_read(value, "local", [2]), "cache_read: stage_id"),
        (lambda: dense.cache_write(value, "local"), "cache_write: stage_id"),
        (lambda: dense.compute_at(value, 5, it), "compute_at: stage_id"),
        (lambda: dense.compute_inline(value), "compute_inline: stage_id"),
        (lambda: dense.compute_root(value), "compute_root: stage_id"),
        (lambda: dense.use_instruction(value, "x", 1, 1), "use_instruction: stage_id"),
        (lambda: dense.use_instruction(2, "x", value, 1), "use_instruction: rows"),
        (lambda: dense.use_instruction(2, "x", 1, value), "use_instruction: columns"),
        (lambda: dense.unroll(5, it, value), "unroll: max_unroll"),
        (lambda: dense.reorder(value, [it]), "stage_id"),
    ):
        with pytest.raises(ScheduleError, match=f"{name}: expected an integer, found "):
            refused()


def test_a_fusion_that_no_loop_variable_can_count() -> None:
    state = ComputeDAG(workloads.get("matmul").tensors(M=1500, N=1500, K=1500)).init_state
    i, j, k = state.stages[2].iters
    found = (
        r"step 0 FuseStep on stage 2 \(C\): fusing i \(1500\), j \(1500\), k \(1500\) makes "
        "3375000000 iterations, expected at most 2147483647, which int32 can count; fuse fewer"
    )
    with pytest.raises(ScheduleError, match=found):
        state.fuse(2, [i, j, k])
    assert state.fuse(2, [i, j])[1].extent == 2250000


def reordered(state: State, stage_id: int) -> State:
    i, j, *rest = state.stages[stage_id].iters
    return state.reorder(stage_id, [j, i, *rest])


def test_an_order_right_before_cache_write_is_that_of_its_axes(dense: State) -> None:
    state, cache = reordered(dense, 2).cache_write(2, "local")
    assert [it.name for it in state.stages[cache].iters] == ["j_c", "i_c", "k"]
    assert [it.name for it in state.stages[cache + 1].iters] == ["i", "j"]
    assert [str(n) for n in state.stages[cache].op.output(0).shape] == ["32", "16"]
    schedule = state.dag.apply_steps(state.steps)[0]
    assert [iv.var.name for iv in schedule.stages[cache].leaf_iter_vars] == ["j.c", "i.c", "k"]
    again, _ = state.split(cache, state.stages[cache].iters[0], [4])
    assert state.dag.infer_bound(again).stages[cache].iters[0].extent == 8


def test_only_placeholders_and_computes() -> None:
    with pytest.raises(ScheduleError, match="neither a placeholder nor a compute"):
        A = te.placeholder((4,), name="A")
        scan = te.extern((4,), [A], lambda ins, outs: te.call_extern("f", outs[0][0]), name="E")
        _ = ComputeDAG([A, te.compute((4,), lambda i: scan[i] + A[i], name="B")]).init_state
