"""Sampled candidates are legal, different, and repeatable."""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest

from autosched.referee.check import Verdict, check_candidate
from autosched.search.options import SearchOptions, SpaceName
from autosched.search.rules import tiling
from autosched.search.rules.protocol import Context, Decision, FunctionRule
from autosched.search.space import SearchSpace
from autosched.state import queries
from autosched.state.iterator import Annotation
from autosched.state.state import State
from autosched.state.steps import SplitStep, Step
from autosched.target import cpu_target, cuda_target
from autosched.task import Task
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.tir.expr import BufferLoad
from autosched.tir.stmt import AttrStmt, BufferStore, For, Stmt
from autosched.tir.walk import child_stmts, loads
from kit.tir import value_of
from kit.types import MakeSpace, MakeTask


def test_samples_are_legal_and_differ(space: SearchSpace) -> None:
    found = space.sample(np.random.default_rng(1), 8)
    assert len(found) == 8 or space.context.is_gpu
    assert len(found) >= 4
    texts = {space.context.dag.infer_bound_of(steps).to_str() for steps in found}
    assert len(texts) == len(found)
    limit = space.context.options.max_innermost_split_factor
    threads = 512 if space.context.is_gpu else 0  # of stages that are not tiled
    for steps in found:
        for step in steps:
            if isinstance(step, SplitStep):
                assert step.lengths[-1] is not None
                assert step.lengths[-1] <= max(limit, threads)
        if not space.context.is_gpu:
            assert not queries.has_nested_parallel(space.context.dag.state_of(steps))


def test_the_same_seed_gives_the_same_samples(space: SearchSpace) -> None:
    first, second = (space.sample(np.random.default_rng(7), 4) for _ in range(2))
    assert first == second


def test_gpu_samples_are_bound_to_threads(make_space: MakeSpace, make_task: MakeTask) -> None:
    space = make_space(make_task("matmul", "cuda"))
    for steps in space.sample(np.random.default_rng(0), 8):
        state = space.context.dag.infer_bound_of(steps)
        marks = {it.annotation for stage in state.stages for it in stage.iters}
        assert {Annotation.BLOCK_X, Annotation.VTHREAD, Annotation.THREAD_X} <= marks


def test_a_tiny_space_ends(make_space: MakeSpace) -> None:
    space = make_space(Task.from_workload("matmul", M=1, N=1, K=1))
    found = space.sample(np.random.default_rng(0), 50)
    assert 1 <= len(found) < 50


@pytest.mark.parametrize("limit", [1, 4])
def test_vectors_have_a_limit(limit: int, make_space: MakeSpace, make_task: MakeTask) -> None:
    space = make_space(
        make_task("dense_bias_relu"), max_innermost_split_factor=limit, max_vectorize_size=limit
    )
    for steps in space.sample(np.random.default_rng(0), 10):
        for stage in space.context.dag.infer_bound_of(steps).stages:
            for it in stage.iters:
                if it.annotation is Annotation.VECTORIZE:
                    assert it.extent is not None
                    assert it.extent <= limit


def test_samples_that_cannot_be_lowered_are_dropped(
    make_space: MakeSpace, make_task: MakeTask
) -> None:
    space = make_space(make_task("matmul"))
    asked: list[tuple[Step, ...]] = []

    def legal(batch: Sequence[tuple[Step, ...]]) -> list[bool]:
        asked.extend(batch)
        return [k % 2 == 0 for k, _ in enumerate(batch)]

    found = space.sample(np.random.default_rng(0), 10, legal)
    assert len(found) == 10
    assert set(found) < set(asked)


def test_where_few_are_legal_batches_do_not_shrink_with_what_is_left(
    make_space: MakeSpace, make_task: MakeTask
) -> None:
    space = make_space(make_task("matmul"))
    sizes: list[int] = []

    def legal(batch: Sequence[tuple[Step, ...]]) -> list[bool]:
        sizes.append(len(batch))
        return [k % 8 == 0 for k, _ in enumerate(batch)]

    assert len(space.sample(np.random.default_rng(0), 33, legal)) >= 33
    assert sum(sizes) > 200 and len(sizes) <= 5, sizes


def test_what_is_discarded_has_a_reason(make_task: MakeTask) -> None:
    def condition(_: Context, state: State, stage_id: int) -> Decision:
        mine = state.stages[stage_id].name == "C"
        return Decision.APPLY_AND_SKIP_REST if mine else Decision.SKIP

    def apply(_: Context, state: State, stage_id: int) -> list[tuple[State, int]]:
        state, _it = state.vectorize(stage_id, state.stages[stage_id].iters[2])
        state, _it = state.parallel(stage_id, state.stages[stage_id].iters[1])
        return [(state, stage_id - 1)]

    rule = FunctionRule("Mine", condition, apply)
    space = SearchSpace(make_task("matmul"), custom_rules=(rule,))
    rng = np.random.default_rng(0)
    assert space.sample(rng, 4) == [] == space.attempts(rng, 4)
    assert space.discarded(rng, 3) == ["a parallel loop stands inside another one"] * 3
    assert SearchSpace(make_task("matmul")).discarded(rng, 3) == []


def test_nothing_legal_ends(make_space: MakeSpace, make_task: MakeTask) -> None:
    space = make_space(make_task("softmax"))
    refuse = lambda batch: [False] * len(batch)  # noqa: E731
    assert space.sample(np.random.default_rng(0), 4, refuse) == []


def test_those_that_are_wanted_are_asked_about_together(
    make_space: MakeSpace, make_task: MakeTask
) -> None:
    space = make_space(make_task("matmul"))
    asked: list[int] = []

    def legal(batch: Sequence[tuple[Step, ...]]) -> list[bool]:
        asked.append(len(batch))
        return [True] * len(batch)

    found = space.sample(np.random.default_rng(0), 70, legal)
    assert asked == [70] == [len(found)]


def product_of_sums(k: int, n: int, kind: str = "cuda") -> Task:
    expr = "D[i] = sum(k, l, X[k, i] * Y[l, i])"
    target = cuda_target() if kind == "cuda" else cpu_target(threads=2)
    return Task.from_expression(expr, shapes={"X": [k, 2], "Y": [n, 2]}, target=target)


def times(s: Stmt, around: Mapping[object, int]) -> Iterator[int]:
    """How often each store of something made of X happens, but copies of it."""
    if isinstance(s, For):
        around = {**around, s.loop_var: value_of(s.extent)}
    elif isinstance(s, AttrStmt) and s.key in ("thread_extent", "virtual_thread"):
        own = s.node.thread_tag if s.key == "thread_extent" else s.node
        around = {**around, own: value_of(s.value)}
    elif isinstance(s, BufferStore) and not s.buffer.name.startswith("X"):
        read = [load.buffer for load in loads(s.value) if isinstance(load, BufferLoad)]
        if any(buffer.name.startswith("X") for buffer in read):
            yield math.prod(around.values())
    for inner in child_stmts(s):
        yield from times(inner, around)


@pytest.mark.parametrize("lengths", [(65536, 65537), (65536, 65536), (50000, 50000)])
@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("space", ["ansor", "autosched"])
def test_sums_of_more_terms_than_a_loop_may_have(
    lengths: tuple[int, int], kind: str, space: SpaceName
) -> None:
    """Their fused loop had as many as were left of the number in int32: 65,536, or none at all."""
    task = product_of_sums(*lengths, kind)
    terms = 2 * math.prod(lengths)
    found = SearchSpace(task, SearchOptions(space=space)).sample(np.random.default_rng(1), 4)
    assert found
    for steps in found:
        func = schedule_to_prim_func(*task.dag.apply_steps(steps))
        counts = list(times(func.body, {}))
        assert counts
        assert all(terms <= count < 1.1 * terms for count in counts)  # guards are not looked at


def test_sums_of_which_some_loops_are_left_unfused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiling, "MOST_ITERATIONS", 100)
    task = product_of_sums(64, 70)
    space = SearchSpace(task)
    assert len(space.sketches) > 3
    for sketch in space.sketches:
        (steps, *_) = space.sample(np.random.default_rng(0), 1, sketch=sketch)
        report = check_candidate(task, steps, seconds=30)
        assert report.verdict is Verdict.AGREES, report.message
