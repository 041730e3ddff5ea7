"""The effect of the steps that insert stages: cache read and write, rfactor, instructions.

These steps change the DAG. It is replayed with the stage-inserting steps alone, and the state's
stages take their operations from the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from autosched.errors import ScheduleError
from autosched.state.iterator import Annotation, IterKind
from autosched.state.refusal import iterator_of, refusal
from autosched.state.stage import ComputeAt, StateStage
from autosched.state.steps import (
    STAGE_INSERTING,
    CacheReadStep,
    CacheWriteStep,
    FuseStep,
    InstructionStep,
    ReorderStep,
    RfactorStep,
    SplitStep,
    Step,
    inserted_stages,
)

if TYPE_CHECKING:
    from autosched.state.state import State


def cache_read(state: State, step: CacheReadStep) -> State:
    """Insert a cache stage after the stage; the DAG is replayed."""
    for reader in step.reader_stage_ids:
        if not 0 <= reader < len(state.stages):
            raise refusal(state, step, f"reader stage {reader} does not exist")
    dag = state.dag.replayed((*state.steps, step))
    s, ops = step.stage_id, dag.ops
    stages = [
        *state.stages[:s],
        state.stages[s].with_op(ops[s]),
        StateStage.of(ops[s + 1]),
        *_with_ops(state.stages[s + 1 :], ops[s + 2 :]),
    ]
    attach_map = state.attach_map.offset(s + 1, 1)
    return state.evolve(step, stages=tuple(stages), attach_map=attach_map, current_dag=dag)


def cache_write(state: State, step: CacheWriteStep) -> State:
    """Insert a cache stage before the stage, whose loops are reset.

    Where the step before reorders the stage's loops, the axes of the cache are in that order.
    """
    if state.stages[step.stage_id].compute_at is not ComputeAt.ROOT:
        raise refusal(state, step, "cache a stage before it is inlined or attached")
    _check_loops(state, step, inserting_steps((*state.steps, step), len(state.steps))[:-1])
    return _inserted_before(state, step)


def rfactor(state: State, step: RfactorStep) -> State:
    """Insert the .rf stage before the stage, whose loops are reset."""
    it = iterator_of(state, step, step.iter_id)
    if it.kind is not IterKind.REDUCTION:
        raise refusal(state, step, f"{it.name} is not a reduction iterator")
    before = inserting_steps((*state.steps, step), len(state.steps))[:-1]
    _check_loops(state, step, before)
    return _inserted_before(state, step)


def use_instruction(state: State, step: InstructionStep) -> State:
    """Insert packed operands and tiles before the stage, whose loops are reset."""
    if state.stages[step.stage_id].compute_at is not ComputeAt.ROOT:
        raise refusal(state, step, "use an instruction before the stage is inlined or attached")
    _check_loops(state, step, ())
    return _inserted_before(state, step)


def _inserted_before(state: State, step: Step) -> State:
    """The state after a step that inserts stages before its own, whose loops are reset."""
    dag = state.dag.replayed((*state.steps, step))
    s, ops, added = step.stage_id, dag.ops, inserted_stages(step)
    reset = StateStage.of(ops[s + added])
    stages = [
        *state.stages[:s],
        *map(StateStage.of, ops[s : s + added]),
        reset.placed(state.stages[s].compute_at, keep_ranges=True),
        *_with_ops(state.stages[s + 1 :], ops[s + added + 1 :]),
    ]
    attach_map = state.attach_map.offset(s, added)
    return state.evolve(step, stages=tuple(stages), attach_map=attach_map, current_dag=dag)


def _check_loops(state: State, step: Step, before: Sequence[Step]) -> None:
    """Refuse when the stage's loops are not those of its operation after the steps `before`.

    The stage's loops are reset and the DAG is replayed without any other step on the stage, so the
    state would no longer describe the schedule.
    """
    stage = state.stages[step.stage_id]
    fresh = state.with_stages(
        [
            *state.stages[: step.stage_id],
            StateStage.of(stage.op),
            *state.stages[step.stage_id + 1 :],
        ]
    )
    expected: list[tuple[str, Annotation]] | None = None
    with suppress(ScheduleError):  # `before` may need loops that only other steps make
        expected = _loops(fresh.apply_all(before).stages[step.stage_id])
    if _loops(stage) != expected:
        raise refusal(state, step, "its loops were changed before; cache or factor a stage first")


def _loops(stage: StateStage) -> list[tuple[str, Annotation]]:
    return [(it.name, it.annotation) for it in stage.iters]


def inserting_steps(steps: Sequence[Step], start: int = 0) -> tuple[Step, ...]:
    """The stage-inserting steps (CHR, CHW, RF, TI, XM) from `start` on, each after those it needs.

    An RF step needs the SP step before it, which splits its iterator (and an FU step before that);
    a CHW step needs an RE step right before it.
    """
    kept: list[Step] = []
    for k in range(start, len(steps)):
        step = steps[k]
        if not isinstance(step, STAGE_INSERTING):
            continue
        if isinstance(step, RfactorStep):
            before = steps[k - 1] if k >= 1 else None
            if not isinstance(before, SplitStep) or before.stage_id != step.stage_id:
                raise ScheduleError(
                    f"step {k} RfactorStep on stage {step.stage_id}: the step before it must "
                    "split an iterator of the same stage"
                )
            if not before.iter_id <= step.iter_id <= before.iter_id + len(before.lengths):
                raise ScheduleError(
                    f"step {k} RfactorStep on stage {step.stage_id}: the step before it split "
                    f"iterator {before.iter_id}, and {step.iter_id} is not a part of it; split the "
                    "iterator that is factored"
                )
            fuse = steps[k - 2] if k >= 2 else None
            if isinstance(fuse, FuseStep) and fuse.stage_id == step.stage_id:
                if before.iter_id in fuse.iter_ids[:1]:
                    kept.append(fuse)
            kept.append(before)
        elif isinstance(step, CacheWriteStep) and k >= 1:
            order = steps[k - 1]
            if isinstance(order, ReorderStep) and order.stage_id == step.stage_id:
                kept.append(order)
        kept.append(step)
    return tuple(kept)


def _with_ops(stages: Sequence[StateStage], ops: Sequence[Any]) -> list[StateStage]:
    return [stage.with_op(op) for stage, op in zip(stages, ops, strict=True)]
