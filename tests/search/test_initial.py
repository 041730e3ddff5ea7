"""Each rule of the initial population by itself."""

from dataclasses import replace
from math import prod
from typing import Any, get_args

import numpy as np
import pytest

from autosched import te
from autosched.search.initial import (
    CPU_UNROLL,
    GPU_UNROLL,
    OWN_GPU_UNROLL,
    PIPELINE_STAGES,
    change_compute_location,
    compute_locations,
    fill_tile_size,
    parallel,
    pipeline,
    unroll,
    vectorize,
)
from autosched.search.options import SearchOptions, SpaceName
from autosched.search.rules.protocol import Context
from autosched.search.sample import Sampler
from autosched.search.sketch import generate_sketches
from autosched.state import queries
from autosched.state.dag import ComputeDAG
from autosched.state.iterator import Annotation
from autosched.state.stage import ComputeAt
from autosched.state.state import State
from autosched.state.steps import ComputeAtStep, PragmaStep, RfactorStep, SplitStep
from autosched.target import HardwareParams
from autosched.task import Task
from kit.types import MakeContext, MakeSpace, MakeTask


def made(state: State | None) -> State:
    """What a rule made, which must be something."""
    assert state is not None
    return state


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def elementwise(shape: tuple[int, ...], **attrs: list[str]) -> Context:
    a = te.placeholder(shape, name="A")
    b = te.compute(shape, lambda *i: a(*i) * 2.0, name="B", attrs=attrs or None)
    return Context(ComputeDAG([a, b]), HardwareParams(8), False, SearchOptions())


def test_tile_sizes_divide(make_space: MakeSpace, make_task: MakeTask) -> None:
    space = make_space(make_task("matmul"), space="ansor")
    for sketch in space.sketches:
        filled = fill_tile_size(space.context, sketch, rng())
        assert filled is not None
        assert filled.concrete
        for step in filled.steps:
            if isinstance(step, SplitStep):
                assert step.extent is not None
                assert step.extent % prod([int(n or 0) for n in step.lengths]) == 0


def test_parallel_fuses_until_there_is_enough() -> None:
    context = elementwise((4, 8, 16, 32))
    state = made(parallel(context, context.dag.init_state, rng()))
    # 4 * 8 = 32, times 16 is over 16 * 8 cores: three loops
    assert state.to_str().splitlines()[1] == "parallel i0@i1@i2@ (0,512)"
    single = elementwise((200, 4))
    state = made(parallel(single, single.dag.init_state, rng()))
    assert state.to_str().splitlines()[1] == "parallel i0 (0,200)"


@pytest.mark.parametrize(("space", "marked"), [("ansor", "PPP"), ("autosched", "....")])
def test_one_block_with_all_that_it_is_computed_from(space: SpaceName, marked: str) -> None:
    """In Ansor the loops of length one are marked, too; sampling drops what nests."""
    a = te.placeholder((1, 64), name="A")
    b = te.compute((1, 64), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((1, 64), lambda i, j: b[i, j] * b[i, j], name="C")
    context = Context(ComputeDAG([a, c]), HardwareParams(8), False, SearchOptions(space=space))
    state = context.dag.init_state
    state = state.compute_at(1, 2, state.stages[2].iters[0])
    state = made(parallel(context, context.dag.infer_bound(state), rng()))
    marks = [it.annotation is Annotation.PARALLEL for s in state.stages[1:] for it in s.iters]
    assert "".join(".P"[mark] for mark in marks) == marked
    assert queries.has_nested_parallel(state) == (space == "ansor")


@pytest.mark.parametrize("seed", range(4))
def test_vectorize_stays_within_the_limit(seed: int) -> None:
    context = elementwise((4, 8, 2))
    state = context.dag.infer_bound(made(vectorize(context, context.dag.init_state, rng(seed))))
    last = state.stages[1].iters[-1]
    assert last.annotation is Annotation.VECTORIZE
    assert last.extent in (2, 16)
    wide = elementwise((4, 17))
    assert vectorize(wide, wide.dag.init_state, rng(seed)) is wide.dag.init_state


def test_unroll_draws_a_value_for_reductions(
    make_context: MakeContext, make_task: MakeTask
) -> None:
    for target, space, values in (
        ("cpu", "autosched", CPU_UNROLL),
        ("cuda", "ansor", GPU_UNROLL),
        ("cuda", "autosched", OWN_GPU_UNROLL),
    ):
        context = make_context(make_task("matmul", target), space=space)
        seen = set()
        for seed in range(60):
            (step,) = made(unroll(context, context.dag.init_state, rng(seed))).steps
            assert isinstance(step, PragmaStep)
            seen.add(int(step.pragma.removeprefix("auto_unroll_max_step$")))
        assert seen == set(values)


def test_unroll_obeys_the_operation() -> None:
    context = elementwise((4, 2, 3), auto_scheduler_always_unroll_inner=["i2"])
    state = made(unroll(context, context.dag.init_state, rng()))
    marks = [it.annotation for it in state.stages[1].iters]
    assert marks == [Annotation.NONE, Annotation.NONE, Annotation.UNROLL]


def test_compute_location_draws_every_place(make_context: MakeContext, make_task: MakeTask) -> None:
    context = make_context(make_task("softmax"))
    initial = context.dag.init_state
    ids = range(len(initial.stages))
    kinds = {
        made(change_compute_location(context, initial, rng(seed))).stages[k].compute_at
        for seed in range(20)
        for k in ids
    }
    assert {ComputeAt.ROOT, ComputeAt.ITER} <= kinds
    off = make_context(make_task("softmax"), disable_change_compute_location=True)
    assert change_compute_location(off, initial, rng()) is initial


def test_places_of_one_iteration_are_drawn_as_by_ansor(make_space: MakeSpace) -> None:
    """Loops 0 to 10 hold the padding; the first one is parallel then, inside a parallel loop.

    Of 1,500 candidates of Ansor's some 30 to 50 have it at each of the others, also at the fourth,
    which is the inner loop of a batch of one. The space `autosched` leaves that one out.
    """
    sizes: dict[str, Any] = {"N": 1, "H": 28, "W": 28, "CI": 64, "CO": 64}
    task = Task.from_workload("conv2d_nchw_bn_relu", **sizes, K=3, stride=1, padding=1)
    places: dict[str, set[int]] = {}
    for name in get_args(SpaceName):
        space = make_space(task, space=name)
        for steps in space.attempts(rng(), 600):
            moved = {s.stage_id: s for s in steps if isinstance(s, ComputeAtStep)}
            if 3 not in moved and 1 in moved and moved[1].target_stage_id == 3:
                places.setdefault(name, set()).add(moved[1].target_iter_id)
    assert places["ansor"] == set(range(1, 11))
    assert 4 not in places["autosched"]


def test_sketches_with_rfactor_are_filled(make_space: MakeSpace, make_task: MakeTask) -> None:
    """Two of the three sketches of a norm."""
    for name in get_args(SpaceName):
        found = make_space(make_task("norm_bmn"), space=name).attempts(rng(), 60)
        assert sum(any(isinstance(s, RfactorStep) for s in steps) for steps in found) > 20


def test_locations_are_loops_of_the_consumer(
    make_context: MakeContext, make_task: MakeTask
) -> None:
    context = make_context(make_task("dense_bias_relu"))
    state = context.dag.init_state
    outputs = len(state.stages) - 1
    assert compute_locations(state, outputs) == []
    for target, it in compute_locations(state, outputs - 1):
        assert target == outputs
        assert it in state.stages[target].iters


@pytest.mark.parametrize(
    ("copies_ahead", "shared"), [(True, 48 << 10), (True, 8 << 10), (False, 48 << 10)]
)
def test_tiles_that_fit_are_held_ahead(
    copies_ahead: bool, shared: int, make_task: MakeTask, make_context: MakeContext
) -> None:
    """As many as shared memory has room for; none where a GPU cannot copy ahead, or as Ansor."""
    context = replace(
        make_context(make_task("matmul", "cuda")), copies_ahead=copies_ahead, shared_bytes=shared
    )
    found = set()
    for steps in Sampler(context).drawn(generate_sketches(context), rng(), 60):
        stages = [s.pipeline_stages for s in steps if isinstance(s, PragmaStep)]
        found |= {n for n in stages if n is not None}
        bound = context.dag.infer_bound_of(steps)
        tiles = [s for s in bound.stages if s.name.endswith(".shared") and not s.is_inlined]
        size = 4 * sum(prod(it.extent or 1 for it in s.iters) for s in tiles)
        assert all(n == 1 or n * size <= shared for n in stages if n is not None)
    assert found == (set(PIPELINE_STAGES) if copies_ahead else set())
    ansor = replace(context, options=SearchOptions(space="ansor"), copies_ahead=True)
    state = context.dag.state_of(steps)
    assert pipeline(ansor, state, rng()) is state
