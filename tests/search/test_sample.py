"""Sampled candidates are legal, different, and repeatable."""

from collections.abc import Sequence

import numpy as np
import pytest

from autosched.search.space import SearchSpace
from autosched.state import queries
from autosched.state.iterator import Annotation
from autosched.state.steps import SplitStep, Step
from autosched.task import Task
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
