"""Replay transform steps on a te.Schedule.

`Replay` tracks the schedule's stages in id order and, for each, its loops in the order of the loop
state. An illegal step raises ScheduleError with the number and kind of the step added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from autosched import te
from autosched.errors import ScheduleError
from autosched.state.apply import (
    follow_fused_split_length,
    follow_split_lengths,
)
from autosched.state.iterator import ANNOTATION_TEXT, Annotation
from autosched.state.steps import (
    AnnotationStep,
    CacheReadStep,
    CacheWriteStep,
    ComputeAtStep,
    ComputeInlineStep,
    ComputeRootStep,
    FollowFusedSplitStep,
    FollowSplitStep,
    FuseStep,
    InstructionStep,
    MatrixTilesStep,
    PragmaStep,
    ReorderStep,
    RfactorStep,
    SplitStep,
    Step,
    StorageAlignStep,
)
from autosched.te.operations.operation import Operation
from autosched.te.schedule.matrix_stages import MatrixTile
from autosched.te.schedule.schedule import Schedule
from autosched.te.schedule.stage import Stage
from autosched.te.schedule.use_instruction import instruction_of
from autosched.tir.expr import IterVar


class Replay:
    """A schedule under construction: `stages[id]` and `axes[id]` follow the loop state."""

    __slots__ = ("axes", "schedule", "stages")

    def __init__(self, ops: Sequence[Operation], outputs: Sequence[Operation]) -> None:
        self.schedule: Schedule = te.create_schedule(list(outputs))
        self.stages: list[Stage] = [self.schedule[op] for op in ops]
        self.axes: list[list[IterVar]] = [list(s.leaf_iter_vars) for s in self.stages]

    def copy(self) -> Replay:
        """An independent copy with the same operations and loops."""
        new = Replay.__new__(Replay)
        new.schedule = self.schedule.copy()
        table = dict(zip(self.schedule.stages, new.schedule.stages, strict=True))
        new.stages = [table[stage] for stage in self.stages]
        new.axes = [list(axes) for axes in self.axes]
        return new

    def run(self, steps: Iterable[Step]) -> Replay:
        """Apply `steps` in order and return self."""
        steps = tuple(steps)
        for k in range(len(steps)):
            self.apply(steps, k)
        return self

    def apply(self, steps: Sequence[Step], k: int) -> None:
        """Apply `steps[k]`; the steps before it must have been applied."""
        step = steps[k]
        try:
            if not 0 <= step.stage_id < len(self.stages):
                raise ScheduleError(f"there are only {len(self.stages)} stages")
            _EFFECTS[type(step)](self, step, steps[:k])
        except ScheduleError as error:
            error.add_note(f"in step {k}, {type(step).__name__} on stage {step.stage_id}")
            raise
        except IndexError:
            raise ScheduleError(
                f"step {k} {type(step).__name__} on stage {step.stage_id} "
                f"({self._name(step.stage_id)}): no such stage or iterator: {step}"
            ) from None

    def _name(self, stage_id: int) -> str:
        return self.stages[stage_id].op.name if stage_id < len(self.stages) else "?"

    def insert(self, stage_id: int, op: Operation) -> None:
        """Track the schedule's new stage for `op` at position `stage_id`."""
        stage = self.schedule[op]
        self.stages.insert(stage_id, stage)
        self.axes.insert(stage_id, list(stage.leaf_iter_vars))

    def refresh(self, stage_id: int) -> None:
        """Read the stage's loops again, after its operation was rewritten."""
        self.axes[stage_id] = list(self.stages[stage_id].leaf_iter_vars)


_ANNOTATIONS: dict[Annotation, Callable[[Stage, IterVar], None]] = {
    Annotation.NONE: lambda stage, axis: None,
    Annotation.UNROLL: Stage.unroll,
    Annotation.VECTORIZE: Stage.vectorize,
    Annotation.PARALLEL: Stage.parallel,
}


def _annotate(r: Replay, step: AnnotationStep, steps: Sequence[Step]) -> None:
    stage, axis = r.stages[step.stage_id], r.axes[step.stage_id][step.iter_id]
    if step.annotation is Annotation.TENSORIZE:
        intrin = instruction_of(stage.op)
        if intrin is None:
            raise ScheduleError(f"annotation tensorize on {stage.op.name}: it cannot be replayed")
        stage.tensorize(axis, intrin)
        return
    apply = _ANNOTATIONS.get(step.annotation)
    if apply is None:
        stage.bind(axis, te.thread_axis(ANNOTATION_TEXT[step.annotation]))
    else:
        apply(stage, axis)


def _fuse(r: Replay, step: FuseStep, steps: Sequence[Step]) -> None:
    stage, axes = r.stages[step.stage_id], r.axes[step.stage_id]
    if not step.iter_ids:
        r.axes[step.stage_id] = [stage.fuse()]
        return
    first, last = step.iter_ids[0], step.iter_ids[-1]
    if last >= len(axes) or step.iter_ids != tuple(range(first, last + 1)):
        raise ScheduleError(f"fuse on {stage.op.name}: {list(step.iter_ids)} are not consecutive")
    fused = axes[first]
    for axis in axes[first + 1 : last + 1]:
        fused = stage.fuse(fused, axis)
    axes[first : last + 1] = [fused]


def _pragma(r: Replay, step: PragmaStep, steps: Sequence[Step]) -> None:
    stage, axes = r.stages[step.stage_id], r.axes[step.stage_id]
    limit = step.unroll_limit
    if step.pipeline_stages:
        stage.pragma(axes[step.iter_id], "software_pipeline", step.pipeline_stages)
    elif limit is None:
        stage.pragma(axes[step.iter_id], step.pragma)
    elif step.iter_id < len(axes):
        stage.pragma(axes[step.iter_id], "auto_unroll_max_step", limit)
        stage.pragma(axes[step.iter_id], "unroll_explicit", 1)


def _reorder(r: Replay, step: ReorderStep, steps: Sequence[Step]) -> None:
    stage, axes = r.stages[step.stage_id], r.axes[step.stage_id]
    if sorted(step.after_ids) != list(range(len(axes))):
        raise ScheduleError(
            f"reorder on {stage.op.name}: {list(step.after_ids)} does not list each of the "
            f"{len(axes)} loops once"
        )
    order = [axes[i] for i in step.after_ids]
    stage.reorder(*order)
    r.axes[step.stage_id] = order


def _split_by(
    r: Replay, step: Step, iter_id: int, lengths: Sequence[int | None], inner_to_outer: bool
) -> None:
    stage, axes = r.stages[step.stage_id], r.axes[step.stage_id]
    rest = axes[iter_id]
    pieces: list[IterVar] = []
    for length in reversed(lengths) if inner_to_outer else lengths:
        if length is None:
            raise ScheduleError(
                f"split of {rest.var.name} on {stage.op.name}: a length has not been chosen yet"
            )
        if inner_to_outer:
            rest, piece = stage.split(rest, factor=length)
        else:
            piece, rest = stage.split(rest, nparts=length)
        pieces.append(piece)
    pieces.append(rest)
    axes[iter_id : iter_id + 1] = reversed(pieces) if inner_to_outer else pieces


def _split(r: Replay, step: SplitStep, steps: Sequence[Step]) -> None:
    _split_by(r, step, step.iter_id, step.lengths, step.inner_to_outer)


def _follow_split(r: Replay, step: FollowSplitStep, steps: Sequence[Step]) -> None:
    _split_by(r, step, step.iter_id, follow_split_lengths(steps, step), True)


def _follow_fused_split(r: Replay, step: FollowFusedSplitStep, steps: Sequence[Step]) -> None:
    length = follow_fused_split_length(steps, step)
    _split_by(r, step, step.iter_id, (length,), step.factor_or_nparts)


def _storage_align(r: Replay, step: StorageAlignStep, steps: Sequence[Step]) -> None:
    stage, axis = r.stages[step.stage_id], r.axes[step.stage_id][step.iter_id]
    if not stage.is_output:  # the caller owns an output's storage; Ansor's replay skips it, too
        stage.storage_align(axis, step.factor, step.offset)


def _compute_at(r: Replay, step: ComputeAtStep, steps: Sequence[Step]) -> None:
    target = step.target_stage_id
    axis = r.axes[target][step.target_iter_id]
    r.stages[step.stage_id].compute_at(r.stages[target], axis)


def _compute_inline(r: Replay, step: ComputeInlineStep, steps: Sequence[Step]) -> None:
    r.stages[step.stage_id].compute_inline()


def _compute_root(r: Replay, step: ComputeRootStep, steps: Sequence[Step]) -> None:
    r.stages[step.stage_id].compute_root()


def _cache_read(r: Replay, step: CacheReadStep, steps: Sequence[Step]) -> None:
    readers = [r.stages[reader].origin_op for reader in step.reader_stage_ids]
    tensor = r.stages[step.stage_id].origin_op.output(0)
    cache = r.schedule.cache_read(tensor, step.scope, readers)
    r.insert(step.stage_id + 1, cache.op)


def _cache_write(r: Replay, step: CacheWriteStep, steps: Sequence[Step]) -> None:
    stage = r.stages[step.stage_id]
    outputs = list(stage.origin_op.outputs)
    cache: Any = r.schedule.cache_write(outputs if len(outputs) > 1 else outputs[0], step.scope)
    first = cache[0] if isinstance(cache, Sequence) else cache
    r.refresh(step.stage_id)
    r.insert(step.stage_id, first.op)


def _rfactor(r: Replay, step: RfactorStep, steps: Sequence[Step]) -> None:
    axis = r.axes[step.stage_id][step.iter_id]
    tensor = r.stages[step.stage_id].origin_op.output(0)
    factored: Any = r.schedule.rfactor(tensor, axis, step.factor_iter_id)
    first = factored[0] if isinstance(factored, Sequence) else factored
    r.refresh(step.stage_id)
    r.insert(step.stage_id, first.op)


def _use_instruction(r: Replay, step: InstructionStep, steps: Sequence[Step]) -> None:
    tensor = r.stages[step.stage_id].origin_op.output(0)
    tile = step.rows, step.columns
    new = r.schedule.use_instruction(tensor, step.instruction, tile, step.pack_a, step.over)
    r.refresh(step.stage_id)
    for offset, made in enumerate(new):
        r.insert(step.stage_id + offset, made.op)


def _matrix_tiles(r: Replay, step: MatrixTilesStep, steps: Sequence[Step]) -> None:
    stage, writer = r.stages[step.stage_id], r.stages[step.writer_id]
    block_m, block_n, block_k, warp_m, warp_n = step.sizes
    stages = max(step.stages, 1)  # 0 while the number is still to be chosen
    tile = MatrixTile(block_m, block_n, block_k, warp_m, warp_n, stages, step.swizzle)
    last = None if writer is stage else writer.op
    tensors = r.schedule.matrix_tiles(stage.op, tile, step.instruction, last)
    for k, tensor in enumerate(tensors):
        r.insert(step.stage_id + k, tensor.op)
    for each in (stage, writer):
        r.refresh(r.stages.index(each))


_EFFECTS: dict[type[Step], Callable[[Replay, Any, Sequence[Step]], None]] = {
    AnnotationStep: _annotate,
    FuseStep: _fuse,
    PragmaStep: _pragma,
    ReorderStep: _reorder,
    SplitStep: _split,
    FollowSplitStep: _follow_split,
    FollowFusedSplitStep: _follow_fused_split,
    StorageAlignStep: _storage_align,
    ComputeAtStep: _compute_at,
    ComputeInlineStep: _compute_inline,
    ComputeRootStep: _compute_root,
    CacheReadStep: _cache_read,
    CacheWriteStep: _cache_write,
    RfactorStep: _rfactor,
    InstructionStep: _use_instruction,
    MatrixTilesStep: _matrix_tiles,
}
