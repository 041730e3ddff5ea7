"""Every mutation of a valid candidate is valid or refused, never a crash."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.driver import lower_steps
from autosched.errors import ScheduleError
from autosched.features.lowering import features_of_steps
from autosched.search.evolution import mutated
from autosched.search.mutation import mutate_compute_location, mutate_parallel, restructured
from autosched.search.options import SearchOptions
from autosched.search.population import Structures
from autosched.search.rules.protocol import Context
from autosched.search.space import SearchSpace
from autosched.state import queries
from autosched.state.dag import ComputeDAG
from autosched.state.iterator import Annotation
from autosched.state.steps import (
    AnnotationStep,
    ComputeAtStep,
    FuseStep,
    Step,
    steps_from_json,
    steps_to_json,
)
from autosched.target import HardwareParams, cuda_target
from autosched.task import Task
from autosched.workloads import WORKLOADS
from kit.types import MakeContext, MakeSpace, MakeTask


def population(space: SearchSpace, seed: int = 3, count: int = 6) -> list[tuple[Step, ...]]:
    return space.sample(np.random.default_rng(seed), count)


def differences(before: tuple[Step, ...], after: tuple[Step, ...]) -> list[tuple[Step, ...]]:
    return [(a, b) for a, b in zip(before, after, strict=True) if a != b]


SMALL: dict[str, dict[str, Any]] = {
    "matmul": {"M": 6, "N": 8, "K": 9},
    "batch_matmul": {"B": 2, "M": 3, "N": 4, "K": 7},
    "dense_bias_relu": {"M": 4, "N": 15, "K": 6},
    "conv1d_nlc": {"N": 1, "L": 9, "CI": 2, "CO": 4, "K": 3, "stride": 2, "padding": 1},
    "conv2d_nhwc": {"N": 1, "H": 4, "W": 5, "CI": 2, "CO": 4, "KH": 3, "KW": 1}
    | {"stride": 1, "padding": 1},
    "conv3d_ndhwc": {"N": 1, "D": 2, "H": 3, "W": 2, "CI": 2, "CO": 3, "K": 2}
    | {"stride": 1, "padding": 0},
    "depthwise_conv2d_nhwc": {"N": 1, "H": 4, "W": 3, "C": 4, "K": 3, "stride": 1, "padding": 1},
    "conv2d_transpose_nhwc": {"N": 1, "H": 2, "W": 2, "CI": 2, "CO": 2, "K": 4}
    | {"stride": 2, "padding": 1},
    "conv2d_capsule_nhwijc": {"N": 1, "H": 2, "W": 2, "CI": 1, "CO": 2, "K": 2}
    | {"stride": 1, "padding": 0, "CAP": 2},
    "norm_bmn": {"B": 2, "M": 5, "N": 8},
    "conv2d_winograd_nhwc": {"N": 1, "H": 5, "W": 4, "CI": 2, "CO": 4, "tile": 2},
    "conv2d_nchw_bn_relu": {"N": 1, "H": 3, "W": 4, "CI": 2, "CO": 3, "K": 3}
    | {"stride": 1, "padding": 1},
    "dense_requantised": {"M": 4, "N": 15, "K": 6},
    "conv2d_nhwc_requantised": {"N": 1, "H": 4, "W": 5, "CI": 2, "CO": 4, "KH": 3, "KW": 1}
    | {"stride": 1, "padding": 1},
    "softmax": {"M": 4, "N": 15},
    "transpose_batch_matmul_softmax": {"B": 1, "S": 4, "H": 2, "D": 3},
    "max_pool2d_nchw": {"N": 1, "C": 2, "H": 6, "W": 5, "K": 3, "stride": 2, "padding": 1},
    "layer_norm": {"M": 3, "N": 8},
    "add_relu": {"M": 1, "N": 9},
}


def test_every_workload_is_mutated() -> None:
    assert set(SMALL) == set(WORKLOADS)


def _changed(
    space: SearchSpace, steps: tuple[Step, ...], rng: np.random.Generator
) -> tuple[Step, ...] | None:
    """Another structure, or else another number."""
    if rng.random() < 0.5:
        return restructured(space.context, steps, rng)
    structures = Structures()
    rows = mutated(space.context, structures, structures.rows([steps]), rng)
    (changed,) = structures.candidates(rows)
    return changed


@pytest.mark.parametrize("name", SMALL)
def test_chains_of_mutations_are_valid_or_refused(
    name: str, target: str, make_space: MakeSpace
) -> None:
    """Each one can be lowered and featurised, or ScheduleError says why not; nothing else."""
    kind = cuda_target() if target == "cuda" else "cpu"
    task = Task.from_workload(name, target=kind, **SMALL[name])
    space = make_space(task)
    accepted = 0
    for seed, steps in enumerate(population(space, count=2)):
        rng = np.random.default_rng(seed)
        for _ in range(2):
            changed = _changed(space, steps, rng)
            if changed is None:
                continue
            try:
                text = space.context.dag.infer_bound_of(changed).to_str()
                lower_steps(space.context.dag, changed, task.target)
                rows = features_of_steps(space.context.dag, changed, task.target)
            except ScheduleError:
                continue
            assert np.isfinite(rows).all()
            assert rows.any()
            again = steps_from_json(json.loads(json.dumps(steps_to_json(changed))))
            assert again == changed
            assert space.context.dag.infer_bound_of(again).to_str() == text
            accepted += 1
            steps = changed
    assert accepted or name == "add_relu"  # which has no tiles


def test_parallel_fuses_another_number_of_loops(make_space: MakeSpace, make_task: MakeTask) -> None:
    space = make_space(make_task("matmul"))
    rng = np.random.default_rng(0)
    changed_once = False
    for steps in population(space, count=24):
        changed = mutate_parallel(space.context, steps, rng)
        if changed is None:
            continue
        fuses = [(a, b) for a, b in differences(steps, changed) if isinstance(b, FuseStep)]
        assert len(fuses) == 1
        state = space.context.dag.infer_bound_of(changed)
        marks = [it.annotation for s in state.stages for it in s.iters]
        assert marks.count(Annotation.PARALLEL) >= 1
        assert not queries.has_nested_parallel(state)
        changed_once = True
    assert changed_once


def test_compute_location_moves_one_stage(make_space: MakeSpace, make_task: MakeTask) -> None:
    space = make_space(make_task("softmax"))
    rng = np.random.default_rng(0)
    moved = 0
    for steps in population(space, count=24):
        changed = mutate_compute_location(space.context, steps, rng)
        if changed is None or changed == steps:
            continue
        assert all(isinstance(b, ComputeAtStep) for _, b in differences(steps, changed))
        assert not queries.has_nested_parallel(space.context.dag.state_of(changed))
        moved += 1
    assert moved


def test_compute_location_can_be_switched_off(make_space: MakeSpace, make_task: MakeTask) -> None:
    space = make_space(make_task("softmax"), disable_change_compute_location=True)
    rng = np.random.default_rng(0)
    for steps in population(space):
        assert mutate_compute_location(space.context, steps, rng) is None


@pytest.mark.parametrize("rule", [restructured, mutate_compute_location, mutate_parallel])
def test_nothing_to_mutate_is_refused(
    rule: Callable[..., Any], make_context: MakeContext, make_task: MakeTask
) -> None:
    context = make_context(make_task("matmul"))
    rng = np.random.default_rng(0)
    assert rule(context, (), rng) is None
    assert rule(context, (AnnotationStep(2, 0, Annotation.PARALLEL),), rng) is None


def test_a_candidate_with_nested_parallel_loops_is_refused(make_context: MakeContext) -> None:
    """One parallel loop in all of B, which is computed inside C, and C: never a second one."""
    A = te.placeholder((8, 6), name="A")
    B = te.compute((8, 6), lambda i, j: te.exp(A[i, j]), name="B")
    dag = ComputeDAG([A, te.compute((8, 6), lambda i, j: B[i, j] + 1.0, name="C")])
    one = steps_from_json([["CA", 1, 2, 0], ["AN", 1, 1, 3]])
    assert isinstance(one[1], AnnotationStep) and one[1].annotation is Annotation.PARALLEL
    context = Context(dag, HardwareParams(8), False, SearchOptions())
    rng = np.random.default_rng(0)
    assert mutate_compute_location(context, one, rng) == one  # the only place there is
    assert mutate_compute_location(context, (*one, replace(one[1], stage_id=2)), rng) is None
