"""The effect of the XM step: the stages before a matrix product, and the loops of all of them.

The loops are those that `Schedule.matrix_tiles` gives the stages, taken from a replay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosched.state.apply_insert import inserting_steps
from autosched.state.iterator import (
    THREAD_ANNOTATIONS,
    Annotation,
    Iterator,
    IterKind,
    clean_name,
)
from autosched.state.refusal import refusal
from autosched.state.stage import ComputeAt, StateStage
from autosched.state.steps import MatrixTilesStep, inserted_stages
from autosched.te.relations import AttachType
from autosched.te.schedule.stage import Stage
from autosched.tir import expr
from autosched.tir.expr import IterVar

if TYPE_CHECKING:
    from autosched.state.state import State


def matrix_tiles(state: State, step: MatrixTilesStep) -> State:
    """Insert the stages of a product on tensor cores; the DAG is replayed."""
    if not 0 <= step.writer_id < len(state.stages):
        raise refusal(state, step, f"writer stage {step.writer_id} does not exist")
    for stage_id in {step.stage_id, step.writer_id}:
        stage = state.stages[stage_id]
        if len(stage.iters) != len(stage.op.root_iter_vars) or any(
            it.annotation is not Annotation.NONE for it in stage.iters
        ):
            raise refusal(state, step, f"the loops of {stage.name} were changed before")
        if stage.compute_at is not ComputeAt.ROOT:
            raise refusal(state, step, f"{stage.name} was inlined or attached before")
    steps = (*state.steps, step)
    replay = state.dag.replay(inserting_steps(steps))
    dag = state.dag.replayed(steps)
    added, s = inserted_stages(step), step.stage_id
    ops = dag.ops
    old = [*state.stages[:s], *(None for _ in range(added)), *state.stages[s:]]
    writer = step.writer_id + (added if step.writer_id >= s else 0)
    touched = {*range(s, s + added + 1), writer}
    stages: list[StateStage] = []
    attach_map = state.attach_map.offset(s, added)
    for k, (before, op) in enumerate(zip(old, ops, strict=True)):
        if before is not None and k not in touched:
            stages.append(before.with_op(op))
            continue
        made = replay.stages[k]
        iters = tuple(_iterator(made, iv) for iv in replay.axes[k])
        placed = StateStage.of(op).with_iters(iters)
        if made.attach_type is AttachType.INLINE:
            placed = placed.placed(ComputeAt.INLINED, keep_ranges=True)
        elif made.attach_type is AttachType.SCOPE:
            assert made.attach_stage is not None
            target = replay.stages.index(made.attach_stage)
            place = [iv is made.attach_ivar for iv in replay.axes[target]].index(True)
            placed = placed.placed(ComputeAt.ITER, keep_ranges=True)
            attach_map = attach_map.with_stage(k, target, place)
        if op.name.endswith(".acc"):
            placed = placed.noted(f"{step.instruction}, {step.stages} stages, {_layout(step)}")
        stages.append(placed)
    return state.evolve(
        step,
        stages=tuple(stages),
        attach_map=attach_map,
        current_dag=dag,
        concrete=state.concrete and step.stages > 0,
    )


def _layout(step: MatrixTilesStep) -> str:
    return "swizzled" if step.swizzle else "plain"


def _iterator(stage: Stage, iv: IterVar) -> Iterator:
    attr = stage.iter_var_attrs.get(iv)
    kind = IterKind.REDUCTION if iv.kind == expr.IterKind.REDUCE else IterKind.SPATIAL
    it = Iterator(clean_name(iv.var.name), None, kind)
    if attr is None:
        return it
    if attr.bind_thread is not None:
        return it.annotated(THREAD_ANNOTATIONS[attr.bind_thread.thread_tag])
    if attr.iter_kind == expr.IterKind.VECTORIZED:
        return it.annotated(Annotation.VECTORIZE)
    if attr.iter_kind == expr.IterKind.TENSORIZED:
        return it.annotated(Annotation.TENSORIZE)
    return it
