"""Sketch rules of every target, each by its condition and its result."""

from collections.abc import Mapping
from typing import Any

import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.search.options import SearchOptions
from autosched.search.rules.common import (
    ADD_CACHE_WRITE,
    ADD_RFACTOR,
    ALWAYS_INLINE,
    MULTI_LEVEL_TILING,
    MULTI_LEVEL_TILING_WITH_FUSION,
    SIMPLIFY_COMPUTE_WITH_CONST_TENSOR,
    SKIP_STAGE,
)
from autosched.search.rules.protocol import Context, Decision, FunctionRule
from autosched.state.dag import ComputeDAG
from autosched.state.steps import steps_to_json
from autosched.target import HardwareParams

CONST = "auto_scheduler_simplify_const_tensor_indices"


def context_of(dag: ComputeDAG, *, gpu: bool = False, **options: Any) -> Context:
    hardware = HardwareParams.default("cuda") if gpu else HardwareParams(8)
    return Context(dag, hardware, gpu, SearchOptions(**options))


def chain(
    m: int = 16, n: int = 16, depth: int = 16, attrs: Mapping[str, list[str]] | None = None
) -> tuple[ComputeDAG, dict[str, int]]:
    """A 0, B 1, E 2 = exp(A), C 3 = E @ B, D 4 = C + 1."""
    a, b = te.placeholder((m, depth), name="A"), te.placeholder((depth, n), name="B")
    e = te.compute((m, depth), lambda i, j: te.exp(a[i, j]), name="E")
    k = te.reduce_axis((0, depth), name="k")
    c = te.compute((m, n), lambda i, j: te.sum(e[i, k] * b[k, j], axis=k), name="C", attrs=attrs)
    dag = ComputeDAG([a, b, te.compute((m, n), lambda i, j: c[i, j] + 1.0, name="D")])
    return dag, {op.name: k for k, op in enumerate(dag.ops)}


REST = Decision.APPLY_AND_SKIP_REST
CONDITIONS = [
    (SKIP_STAGE, "A", Decision.APPLY, Decision.APPLY),
    (ALWAYS_INLINE, "A", Decision.SKIP, Decision.SKIP),
    (ALWAYS_INLINE, "E", Decision.SKIP, REST),  # exp is dear: inlined on a GPU alone
    (ALWAYS_INLINE, "C", Decision.SKIP, Decision.SKIP),
    (ALWAYS_INLINE, "D", Decision.SKIP, Decision.SKIP),
    (MULTI_LEVEL_TILING, "C", REST, REST),
    (MULTI_LEVEL_TILING, "D", Decision.SKIP, Decision.SKIP),
    (MULTI_LEVEL_TILING_WITH_FUSION, "C", Decision.APPLY, REST),
    (ADD_CACHE_WRITE, "C", Decision.SKIP, Decision.SKIP),
    (ADD_RFACTOR, "C", Decision.SKIP, None),
]


@pytest.mark.parametrize(
    ("rule", "stage", "cpu", "gpu"), CONDITIONS, ids=[f"{c[0].name}-{c[1]}" for c in CONDITIONS]
)
def test_conditions(rule: FunctionRule, stage: str, cpu: Decision, gpu: Decision | None) -> None:
    dag, ids = chain()
    assert rule.condition(context_of(dag), dag.init_state, ids[stage]) is cpu
    if gpu is not None:
        assert rule.condition(context_of(dag, gpu=True), dag.init_state, ids[stage]) is gpu


@pytest.mark.parametrize("gpu", [False, True], ids=["cpu", "gpu"])
def test_a_stage_of_two_outputs_is_not_inlined(gpu: bool) -> None:
    """compute_inline refuses it: every candidate of such a program failed."""
    a = te.placeholder((16,), name="A")
    p, q = te.compute((16,), lambda i: (a[i] * 2.0, a[i] > 0), name="P")
    dag = ComputeDAG([a, te.compute((16,), lambda i: te.select(q[i], p[i], 0.0), name="R")])
    context = context_of(dag, gpu=gpu)
    assert ALWAYS_INLINE.condition(context, dag.init_state, 1) is Decision.SKIP


def test_an_output_is_written_through_a_cache_and_fused_with_it() -> None:
    dag, ids = chain()
    alone = ComputeDAG([*dag.tensors[:2], dag.ops[ids["C"]].output(0)])
    stage_id = len(alone.ops) - 1
    context = context_of(alone)
    assert ADD_CACHE_WRITE.condition(context, alone.init_state, stage_id) is Decision.APPLY
    ((state, following),) = ADD_CACHE_WRITE.apply(context, alone.init_state, stage_id)
    assert following == stage_id
    assert [stage.name for stage in state.stages[-2:]] == ["C.local", "C"]
    assert MULTI_LEVEL_TILING_WITH_FUSION.condition(context, state, stage_id) is REST
    assert ADD_CACHE_WRITE.condition(context, state, stage_id) is Decision.SKIP


@pytest.mark.parametrize(
    ("structure", "places"), [("SSRSRS", [1, 3]), ("SRSRS", [1]), ("RSSRS", [3])]
)
def test_fusion_at_each_spatial_level(structure: str, places: list[int]) -> None:
    dag, ids = chain()
    context = context_of(dag, cpu_multi_level_tiling_structure=structure)
    results = MULTI_LEVEL_TILING_WITH_FUSION.apply(context, dag.init_state, ids["C"])
    assert [steps_to_json(s.steps[-1:])[0] for s, _ in results] == [
        ["CA", ids["C"], ids["D"], at] for at in places
    ]


def test_rfactor_gives_both_orders() -> None:
    dag, ids = chain(m=2, n=2, depth=4096)
    context, stage_id = context_of(dag), ids["C"]
    assert ADD_RFACTOR.condition(context, dag.init_state, stage_id) is Decision.APPLY
    (outer, _), (inner, following) = ADD_RFACTOR.apply(context, dag.init_state, stage_id)
    assert following == stage_id - 1
    split = ["SP", stage_id, 2, 4096, [1], 1]
    assert steps_to_json(outer.steps) == [split, ["RF", stage_id, 2, 2]]
    assert steps_to_json(inner.steps) == [
        split,
        ["RF", stage_id, 3, 2],
        ["RE", stage_id, [0, 1, 3, 2]],
    ]


def test_constant_indices_are_unrolled_inside() -> None:
    dag, ids = chain(attrs={CONST: ["k"]})
    context, stage_id = context_of(dag), ids["C"]
    rule = SIMPLIFY_COMPUTE_WITH_CONST_TENSOR
    assert rule.condition(context, dag.init_state, stage_id) is REST
    assert rule.condition(context, dag.init_state, ids["D"]) is Decision.SKIP
    assert MULTI_LEVEL_TILING.condition(context, dag.init_state, stage_id) is Decision.SKIP
    ((state, following),) = rule.apply(context, dag.init_state, stage_id)
    assert following == stage_id - 1
    stage = state.stages[stage_id]
    assert [it.name for it in stage.iters] == ["i.0", "j.0", "i.1", "j.1", "k"]
    assert repr(stage.iters[-1]) == "unroll k (0,16)"
    dag, ids = chain(attrs={CONST: ["i"]})
    with pytest.raises(ScheduleError, match="reduction k is not listed"):
        rule.apply(context_of(dag), dag.init_state, ids["C"])
