"""Steps to schedules, TIR and object code, with and without a layout rewrite."""

from collections.abc import Callable
from typing import Any

import pytest

from autosched import te
from autosched.driver import (
    apply_steps,
    build,
    build_cuda,
    build_cuda_func,
    build_func,
    build_host,
    build_steps,
    lower,
    lower_steps,
)
from autosched.errors import CompileError, ConfigError
from autosched.layout import LayoutOption
from autosched.state.dag import ComputeDAG
from autosched.state.steps import steps_from_json
from autosched.target import cpu_target, cuda_target
from autosched.workloads.workload import shape_of

STEPS = steps_from_json([["SP", 2, 1, 32, [8], 1]])


@pytest.fixture
def dag() -> ComputeDAG:
    """D[i, j] = sum over k of A[i, k] * B[k, j]; B may be stored otherwise."""
    A, B = te.placeholder((16, 8), name="A"), te.placeholder((8, 32), name="B")
    k = te.reduce_axis((0, 8), name="k")
    D = te.compute(
        (16, 32),
        lambda i, j: te.sum(A[i, k] * B[k, j], axis=k),
        name="D",
        attrs={"layout_free_placeholders": [B]},
    )
    return ComputeDAG([A, B, D])


@pytest.mark.parametrize(
    ("layout", "stored"),
    [
        (LayoutOption.NO_REWRITE, (8, 32)),
        (LayoutOption.INSERT_TRANSFORM_STAGE, (8, 32)),
        (LayoutOption.FOR_PRE_TRANSFORMED, (4, 8, 8)),
    ],
)
def test_apply_steps_stores_inputs_as_the_option_says(
    dag: ComputeDAG, layout: LayoutOption, stored: tuple[int, ...]
) -> None:
    schedule, tensors = apply_steps(dag, STEPS, layout)
    assert [t.op.name for t in tensors] == ["A", "B", "D"]
    assert shape_of(tensors[1]) == stored
    stages = [stage.op.name for stage in schedule.stages]
    transform = layout is LayoutOption.INSERT_TRANSFORM_STAGE
    assert ("auto_scheduler_layout_transform" in stages) == transform
    assert len(schedule[tensors[2]].leaf_iter_vars) == 4


def test_only_a_cpu_has_a_code_generator(dag: ComputeDAG) -> None:
    func = lower_steps(dag, (), cpu_target())
    with pytest.raises(
        CompileError, match=r"the target is cuda \(sm_80\); for a GPU write build_cuda_func"
    ):
        build_func(func, cuda_target())


def test_a_schedule_by_hand_becomes_kernels_for_a_gpu() -> None:
    A = te.placeholder((100,), name="A")
    B = te.compute((100,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    block, thread = s[B].split(B.op.axis[0], factor=32)
    s[B].bind(block, te.thread_axis("blockIdx.x"))
    s[B].bind(thread, te.thread_axis("threadIdx.x"))
    target = cuda_target("sm_80")
    artifact = build_cuda_func(lower(s, [A, B], target, "plus"), target)
    (kernel,) = artifact.kernels
    assert (kernel.grid, kernel.block) == ((4, 1, 1), (32, 1, 1))
    assert artifact.cubins and [p.name for p in artifact.params] == ["A", "B"]
    with pytest.raises(CompileError, match=r"makes kernels for GPUs, the target is cpu"):
        build_cuda_func(lower(s, [A, B], target), cpu_target())


def test_what_is_no_function_is_not_compiled() -> None:
    with pytest.raises(ConfigError, match=r"func: expected a PrimFunc, found 3 \(int\)"):
        build_func(3, cpu_target())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("way", "given", "message"),
    [
        (lower_steps, {"dag": None}, r"dag: expected a ComputeDAG, e\.g\. task.* found None"),
        (lower_steps, {"steps": None}, "steps: expected a list of transform steps, found None"),
        (build_steps, {"steps": "xy"}, r"steps\[0\]: expected a Step, found 'x'"),
        (build_steps, {"name": 3}, r"name: expected a text, e\.g\. 'main', found 3"),
        (build_host, {"program": None}, "program: expected an IRModule, .* found None"),
    ],
)
def test_objects_of_wrong_types(
    dag: ComputeDAG, way: Callable[..., object], given: dict[str, Any], message: str
) -> None:
    candidate = {} if way is build_host else {"dag": dag, "steps": ()}
    with pytest.raises(ConfigError, match=message):
        way(**{**candidate, "target": cpu_target(), **given})


@pytest.mark.parametrize("target", ["cpu", "cuda", None])
def test_a_name_is_no_target(dag: ComputeDAG, target: Any) -> None:
    sch, tensors = dag.apply_steps(())
    for way in (
        lambda: lower(sch, tensors, target),
        lambda: build(sch, tensors, target),
        lambda: lower_steps(dag, (), target),
        lambda: build_func(lower_steps(dag, (), cpu_target()), target),
        lambda: build_host(lower_steps(dag, (), cpu_target()), target),
        lambda: build_cuda(dag, (), target),
        lambda: build_cuda_func(lower_steps(dag, (), cpu_target()), target),
    ):
        with pytest.raises(ConfigError, match=r"target: expected a Target, e\.g\."):
            way()
