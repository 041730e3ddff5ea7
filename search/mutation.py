"""Mutations of a candidate's structure: each returns a new candidate, or None if none is valid.

A candidate is a tuple of steps. The changed steps are replayed, so a mutation of a valid candidate
is either valid as a whole or rejected because of a ScheduleError.
"""

from __future__ import annotations

from dataclasses import replace

from autosched.errors import ScheduleError
from autosched.search.initial import Rng, compute_locations, may_move, one_of, pick
from autosched.search.rules.protocol import Context
from autosched.search.rules.tensor_core import change_tiles
from autosched.search.structure import Steps
from autosched.state import queries
from autosched.state.iterator import Annotation, IterKind
from autosched.state.steps import (
    STAGE_INSERTING,
    AnnotationStep,
    ComputeAtStep,
    FuseStep,
    MatrixTilesStep,
    PragmaStep,
    Step,
)

_PARALLEL = 0.2  # share of mutations that change a parallel loop first, not a compute location


def mutate_compute_location(context: Context, steps: Steps, rng: Rng) -> Steps | None:
    """Attach an untiled stage to another loop."""
    if context.options.disable_change_compute_location:
        return None
    state = context.dag.state_of(steps)
    movable = []
    for k, step in enumerate(steps):
        if isinstance(step, ComputeAtStep):
            stage_id = queries.current_stage_id(steps, k)
            if may_move(state, stage_id):
                movable.append((k, step, stage_id))
    if not movable:
        return None
    k, step, stage_id = one_of(rng, movable)
    state = context.dag.infer_bound_of(steps)
    places = compute_locations(state, stage_id)
    if not places:
        return None
    target, it = one_of(rng, places)
    iter_id = state.index_of(target, it)
    target = queries.earlier_stage_id(steps, k, target)
    moved = replace(step, target_stage_id=target, target_iter_id=iter_id)
    return _replayed(context, (*steps[:k], moved, *steps[k + 1 :]))


def mutate_parallel(context: Context, steps: Steps, rng: Rng) -> Steps | None:
    """Change how many outer loops are fused to a parallel loop."""
    found = [
        k
        for k in range(1, len(steps))
        if isinstance(step := steps[k], AnnotationStep)
        and step.annotation is Annotation.PARALLEL
        and step.iter_id == 0
        and isinstance(before := steps[k - 1], FuseStep)
        and before.stage_id == step.stage_id
        and before.iter_ids[:1] == (0,)
    ]
    if not found:
        return None
    k = one_of(rng, found)
    fuse = steps[k - 1]
    assert isinstance(fuse, FuseStep)
    stage_id = fuse.stage_id
    state = context.dag.state_of(steps[: k - 1])
    most = 0
    for i, it in enumerate(state.stages[stage_id].iters):
        if it.kind is IterKind.REDUCTION or it.annotation is not Annotation.NONE:
            break
        if state.attach_map.attached_at(stage_id, i):
            break
        most += 1
    if most == 0:
        return None
    last = pick(rng, most)
    offset = fuse.iter_ids[-1] - last
    if offset == 0:
        return None
    rest: list[Step] = []
    for step in steps[k + 1 :]:
        if isinstance(step, STAGE_INSERTING):
            return None
        if step.stage_id == stage_id:
            if not isinstance(step, AnnotationStep | PragmaStep):
                return None
            if step.iter_id != 0:
                step = replace(step, iter_id=step.iter_id + offset)
        rest.append(step)
    fused = replace(fuse, iter_ids=tuple(range(last + 1)))
    return _replayed(context, (*steps[: k - 1], fused, steps[k], *rest))


def _replayed(context: Context, steps: Steps) -> Steps | None:
    """The steps if they can be applied and, on a CPU, no parallel loop is inside another."""
    try:
        state = context.dag.state_of(steps)
    except ScheduleError:
        return None
    nested = not context.is_gpu and queries.has_nested_parallel(state)
    return None if nested else steps


def mutate_matrix_tiles(context: Context, steps: Steps, rng: Rng) -> Steps | None:
    """Change the sizes, or the number of stages, of a product on tensor cores."""
    found = [(k, step) for k, step in enumerate(steps) if isinstance(step, MatrixTilesStep)]
    if not found:
        return None
    k, step = one_of(rng, found)
    changed = change_tiles(context.dag.state_of(steps[:k]), step, rng)
    return None if changed is None else _replayed(context, (*steps[:k], changed, *steps[k + 1 :]))


def restructured(context: Context, steps: Steps, rng: Rng) -> Steps | None:
    """Change the structure of a candidate and keep its numbers; None when no change was found.

    On a GPU only the structure of a product on tensor cores can change: it includes the sizes.
    """
    if context.is_gpu and any(isinstance(step, MatrixTilesStep) for step in steps):
        try:
            return mutate_matrix_tiles(context, steps, rng)
        except ScheduleError:
            return None
    if context.is_gpu:
        return None
    first, second = mutate_compute_location, mutate_parallel
    if rng.random() < _PARALLEL:
        first, second = second, first
    try:
        return first(context, steps, rng) or second(context, steps, rng)
    except ScheduleError:
        return None
