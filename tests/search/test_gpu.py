"""Sketch rules of GPUs: what is fetched into shared memory, reductions across threads."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from autosched import te
from autosched.driver import lower_for_features
from autosched.referee.check import Verdict, check_candidate
from autosched.search.options import SearchOptions, SpaceName
from autosched.search.rules.gpu import (
    ADD_CACHE_READ,
    CROSS_THREAD_REDUCTION,
    SPECIAL_COMPUTE_LOCATION_GPU,
)
from autosched.search.rules.protocol import Context, Decision, FunctionRule
from autosched.search.space import SearchSpace
from autosched.state.dag import ComputeDAG
from autosched.state.iterator import Annotation, IterKind
from autosched.state.stage import StateStage
from autosched.state.state import State
from autosched.state.steps import CacheReadStep, SplitStep, Step, steps_to_json
from autosched.target import HardwareParams, cuda_target
from autosched.task import Task

GPU = HardwareParams.default("cuda")


def context_of(dag: ComputeDAG) -> Context:
    return Context(dag, GPU, True, SearchOptions())


def row_sums(m: int, n: int, *, divided: bool = False) -> ComputeDAG:
    a = te.placeholder((m, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    s = te.compute((m,), lambda i: te.sum(a[i, k], axis=k), name="S")
    if not divided:
        return ComputeDAG([a, s])
    return ComputeDAG([a, te.compute((m, n), lambda i, j: a[i, j] / s[i], name="D")])


def residual(n: int = 64) -> ComputeDAG:
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return ComputeDAG([a, b, te.compute((n, n), lambda i, j: c[i, j] + a[i, j], name="D")])


def test_a_consumer_without_reduction_reads_the_tensor_itself() -> None:
    dag = residual()
    space = SearchSpace.of(context_of(dag))
    sketch, turned = space.sketches
    for each in (sketch, turned):
        reads = [step for step in each.steps if isinstance(step, CacheReadStep)]
        assert [(r.stage_id, r.reader_stage_ids) for r in reads] == [(1, (2,)), (0, (3,))]
    target = cuda_target()

    def legal(batch: Sequence[tuple[Step, ...]]) -> list[bool]:
        for steps in batch:
            try:
                lower_for_features(dag, steps, target)
            except Exception as error:
                refused.append(type(error).__name__)
        return [True] * len(batch)

    refused: list[str] = []
    found = space.sample(np.random.default_rng(0), 4, legal)
    assert len(found) == 4
    assert set(refused) <= {"ScheduleError"}
    assert len(refused) < 4


@pytest.mark.parametrize(
    ("sums_first", "space", "readers"),
    [
        (False, "autosched", [(2,), (3,)]),
        (False, "ansor", [(2,), (3,)]),
        (True, "autosched", [(3,), (4,)]),
        (True, "ansor", [(3,)]),  # Ansor fetches nothing whose first reader does not
    ],
)
def test_sums_of_rows_beside_a_product_read_the_tensor_itself(
    sums_first: bool, space: SpaceName, readers: list[tuple[int, ...]]
) -> None:
    n = 64
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k, r = te.reduce_axis((0, n), name="k"), te.reduce_axis((0, n), name="r")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    d = te.compute((n,), lambda i: te.sum(a[i, r], axis=r), name="D")
    dag = ComputeDAG([a, b, d, c] if sums_first else [a, b, c, d])
    context = Context(dag, GPU, True, SearchOptions(space=space))
    sketches = SearchSpace.of(context).sketches
    assert sketches
    for sketch in sketches:
        reads = [step for step in sketch.steps if isinstance(step, CacheReadStep)]
        assert [read.reader_stage_ids for read in reads] == readers
        for steps in SearchSpace.of(context).sample(np.random.default_rng(0), 4, sketch=sketch):
            lower_for_features(dag, steps, cuda_target(), ansor_limits=False)


def test_an_outer_product_has_nothing_to_fetch() -> None:
    a, b = te.placeholder((64,), name="A"), te.placeholder((64,), name="B")
    dag = ComputeDAG([a, b, te.compute((64, 64), lambda i, j: a[i] * b[j], name="C")])
    space = SearchSpace.of(context_of(dag))
    (sketch,) = space.sketches
    assert [step.code for step in sketch.steps] == ["CHW", "CI"]
    (steps,) = space.sample(np.random.default_rng(0), 1)
    assert "threadIdx.x" in dag.infer_bound_of(steps).to_str()


def test_every_reduction_gets_its_own_fetch() -> None:
    n = 64
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k, r = te.reduce_axis((0, n), name="k"), te.reduce_axis((0, n), name="r")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    d = te.compute((n, n), lambda i, j: te.sum(a[i, r] * c[r, j], axis=r), name="D")
    sketch, *turned = SearchSpace.of(context_of(ComputeDAG([a, b, d]))).sketches
    names = [stage.name for stage in sketch.stages]
    assert [name for name in names if "A" in name] == ["A", "A.d.shared", "A.shared"]
    reads = [step for step in sketch.steps if isinstance(step, CacheReadStep)]
    assert [read.reader_stage_ids for read in reads if read.stage_id == 0] == [(3,), (7,)]
    names = [stage.name for stage in turned[0].stages if not stage.is_inlined]
    assert [name for name in names if "A" in name] == [
        "A",
        "A.d.shared.shared",
        "A.shared.shared",
    ]


@pytest.mark.parametrize(
    ("size", "decision"),
    [((4, 64), Decision.APPLY), ((4, 32), Decision.SKIP), ((4, 33), Decision.APPLY)],
)
def test_reductions_longer_than_a_warp_may_cross_threads(
    size: tuple[int, int], decision: Decision
) -> None:
    dag = row_sums(*size)
    found = CROSS_THREAD_REDUCTION.condition(context_of(dag), dag.init_state, 1)
    assert found is decision


def test_a_reduction_with_init_is_not_shared_by_threads() -> None:
    """Threads cannot share one: half of the candidates were refused."""
    a = te.placeholder((4, 64), name="A")
    k = te.reduce_axis((0, 64), name="k")
    b = te.compute((4,), lambda i: te.sum(a[i, k], axis=k, init=a[i, 0]), name="B")
    dag = ComputeDAG([a, b])
    found = CROSS_THREAD_REDUCTION.condition(context_of(dag), dag.init_state, 1)
    assert found is Decision.SKIP


def test_a_reduction_across_threads() -> None:
    dag = row_sums(4, 64)
    ((state, following),) = CROSS_THREAD_REDUCTION.apply(context_of(dag), dag.init_state, 1)
    assert following == 0
    assert steps_to_json(state.steps) == [["SP", 1, 1, 64, [32], 1], ["AN", 1, 2, 6]]


def test_the_consumer_is_split_for_the_same_threads() -> None:
    dag = row_sums(4, 64, divided=True)
    ((state, following),) = CROSS_THREAD_REDUCTION.apply(context_of(dag), dag.init_state, 1)
    assert following == 0
    assert steps_to_json(state.steps) == [
        ["SP", 2, 1, 64, [32], 1],
        ["AN", 2, 2, 6],
        ["FSP", 1, 1, 0, 1],
        ["AN", 1, 2, 6],
        ["CA", 1, 2, 0],
    ]


def test_a_rule_that_fails_is_passed_over() -> None:
    def twice(context: Context, state: State, stage_id: int) -> list[tuple[State, int]]:
        for position in (0, 2):
            state, _ = state.split(stage_id, state.stages[stage_id].iters[position], [2])
        return [(state, stage_id - 1)]

    # A consumer that is split twice: no reduction can follow both.
    rule = FunctionRule(
        "Twice", lambda c, s, i: Decision.APPLY_AND_SKIP_REST if i == 2 else Decision.SKIP, twice
    )
    dag = row_sums(4, 64, divided=True)
    (sketch,) = SearchSpace.of(context_of(dag), [rule]).sketches
    assert [step.code for step in sketch.steps] == ["SP", "SP"]


def constant(attrs: Mapping[str, list[str]]) -> ComputeDAG:
    a = te.placeholder((8, 8), name="A")
    b = te.compute((8, 8), lambda i, j: a[i, j] * 2.0, name="B")
    k = te.reduce_axis((0, 3), name="k")
    c = te.compute((6, 8), lambda i, j: te.sum(b[i + k, j], axis=k), name="C", attrs=attrs)
    return ComputeDAG([a, c])


def test_inputs_of_constant_transforms_are_computed_inside() -> None:
    dag = constant({"auto_scheduler_simplify_const_tensor_indices": ["k"]})
    context, state = context_of(dag), dag.init_state
    rule = SPECIAL_COMPUTE_LOCATION_GPU
    assert rule.condition(context, state, 1) is Decision.APPLY_AND_SKIP_REST
    assert rule.condition(context, state, 2) is Decision.SKIP
    state, _ = state.unroll(2, state.stages[2].iters[2])
    ((state, _),) = rule.apply(context, state, 1)
    assert steps_to_json(state.steps)[-1] == ["CA", 1, 2, 1]
    plain = constant({})
    assert rule.condition(context_of(plain), plain.init_state, 1) is Decision.SKIP


def test_untiled_consumers_need_no_fetch() -> None:
    dag = row_sums(4, 64)
    assert ADD_CACHE_READ.condition(context_of(dag), dag.init_state, 0) is Decision.SKIP
    assert ADD_CACHE_READ.condition(context_of(dag), dag.init_state, 1) is Decision.SKIP


def test_several_warps_share_a_sum() -> None:
    """One, four or eight in the space `autosched`, for all sums alike; in Ansor's one."""

    def threads(
        terms: int, space: SpaceName, op: str = "softmax", rows: int = 2048
    ) -> list[set[int]]:
        task = Task.from_workload(op, M=rows, N=terms, target=cuda_target())
        sketches = SearchSpace(task, SearchOptions(space=space)).sketches
        bound = [
            {
                it.extent_or_unknown
                for stage in sketch.stages
                for it in stage.iters
                if it.annotation is Annotation.THREAD_X
                and it.kind is IterKind.REDUCTION
                and it.extent_or_unknown > 0  # others follow
            }
            for sketch in sketches
        ]
        return [each for each in bound if each]

    found = threads(1024, "autosched")
    assert all(len(each) == 1 for each in (*found, *threads(1024, "autosched", "layer_norm", 64)))
    assert set().union(*found) == {32, 128, 256}
    assert set().union(*threads(600, "autosched")) == {32, 128}
    assert set().union(*threads(1024, "ansor")) == {32}


@pytest.mark.parametrize("threads", [128, 256])
def test_sums_of_several_warps_compute_it(threads: int) -> None:
    task = Task.from_workload("softmax", M=5, N=1100, target=cuda_target())
    space = SearchSpace(task)
    sketch = next(
        s
        for s in space.sketches
        if [step.lengths for step in s.steps if isinstance(step, SplitStep)] == [(threads,)]
    )
    (steps,) = space.sample(np.random.default_rng(0), 1, sketch=sketch)
    assert check_candidate(task, steps, seconds=60).verdict is Verdict.AGREES


@pytest.mark.parametrize(
    ("expr", "shapes", "sums"),
    [
        (
            "m[c] = sum(h, X[h, c]); z[k] = max(sum(c, m[c] * A[c, k]), 0);"
            "G[c] = sum(k, z[k] * B[k, c])",
            {"X": (64, 40), "A": (40, 48), "B": (48, 40)},
            ("m", "z"),
        ),
        (
            "D[i, j] = sum(k, A[i, k] * B[j, k]); a[i] = sum(k, A[i, k] * A[i, k]);"
            "b[j] = sum(k, B[j, k] * B[j, k]); Y[i, j] = a[i] + b[j] - 2 * D[i, j]",
            {"A": (12, 40), "B": (10, 40)},
            ("a", "b"),
        ),
    ],
    ids=["fetched by a tile", "beside a tile"],
)
def test_sums_for_a_tile_are_kernels_of_their_own(
    expr: str, shapes: Mapping[str, tuple[int, ...]], sums: tuple[str, ...]
) -> None:
    """Where the tile is fetched or written, its threads have the place of theirs."""
    task = Task.from_expression(expr, shapes, target=cuda_target())
    space = SearchSpace(task)
    crossing = 0
    for sketch in space.sketches:
        (steps, *_) = space.sample(np.random.default_rng(0), 1, sketch=sketch)
        assert check_candidate(task, steps, seconds=30).verdict is Verdict.AGREES
        crossing += sum(stage.name in sums for stage in sketch.stages if _crosses(stage))
    assert crossing


def _crosses(stage: StateStage) -> bool:
    """Whether a reduction of the stage goes through threads."""
    kinds = ((it.annotation, it.kind) for it in stage.iters)
    return (Annotation.THREAD_X, IterKind.REDUCTION) in kinds
