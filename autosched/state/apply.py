"""The effect of each transform step on a loop state.

`apply_step(state, step)` gives the state with the step appended, or raises ScheduleError naming
the step, the stage and the reason; the argument is never changed.

docs/semantics/states.md has a table of the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from autosched.errors import ScheduleError
from autosched.state.apply_insert import cache_read, cache_write, rfactor, use_instruction
from autosched.state.apply_matrix_tiles import matrix_tiles
from autosched.state.iterator import Annotation, Iterator, IterKind
from autosched.state.refusal import iterator_of, refusal
from autosched.state.stage import ComputeAt
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
from autosched.te.bounds.loop_length import MOST_ITERATIONS

if TYPE_CHECKING:
    from autosched.state.state import State

Lengths = Sequence[int | None]


def apply_step(state: State, step: Step) -> State:
    """`state` with `step` appended and its effect carried out."""
    if not 0 <= step.stage_id < len(state.stages):
        raise refusal(state, step, f"there are only {len(state.stages)} stages")
    result: State = _EFFECTS[type(step)](state, step)
    return result


def _replaced(state: State, step: Step, iters: tuple[Iterator, ...]) -> State:
    stage = state.stages[step.stage_id].with_iters(iters)
    return state.evolve(step, stage=stage)


def _annotate(state: State, step: AnnotationStep) -> State:
    it = iterator_of(state, step, step.iter_id)
    if it.annotation is not Annotation.NONE:
        raise refusal(
            state, step, f"iterator {it.name} is already annotated as {it.annotation.name}"
        )
    iters = state.stages[step.stage_id].iters
    new = it.annotated(step.annotation)
    return _replaced(state, step, (*iters[: step.iter_id], new, *iters[step.iter_id + 1 :]))


def _fuse(state: State, step: FuseStep) -> State:
    ids, stage_id = step.iter_ids, step.stage_id
    if not ids:
        return _replaced(state, step, (Iterator("", 1, IterKind.SPECIAL),))
    first, last = ids[0], ids[-1]
    if last - first >= len(ids) or ids != tuple(range(first, last + 1)):
        raise refusal(state, step, f"iterators {list(ids)} are not consecutive")
    stage = state.stages[stage_id]
    iterator_of(state, step, first)
    iterator_of(state, step, last)
    attach_map = state.attach_map
    for i in ids[:-1]:
        if attach_map.attached_at(stage_id, i):
            raise refusal(
                state, step, f"a stage is attached at {stage.iters[i].name}; compute it inside"
            )
    parts = stage.iters[first : last + 1]
    extent: int | None = 1
    kind = parts[0].kind
    for part in parts:
        extent = None if extent is None or part.extent is None else extent * part.extent
        if part.kind is not kind:
            kind = IterKind.MIXED
    if extent is not None and extent > MOST_ITERATIONS:
        fused_names = ", ".join(f"{part.name} ({part.extent})" for part in parts)
        raise refusal(
            state,
            step,
            f"fusing {fused_names} makes {extent} iterations, expected at most {MOST_ITERATIONS}, "
            "which int32 can count; fuse fewer iterators, or split one before",
        )
    fused = Iterator("".join(f"{p.name}@" for p in parts), extent, kind, orig_iters=parts)
    shift = last - first
    moves = {
        (stage_id, i): (stage_id, first if i <= last else i - shift)
        for i in range(first + 1, len(stage.iters))
    }
    new_stage = stage.with_iters((*stage.iters[:first], fused, *stage.iters[last + 1 :]))
    return state.evolve(step, stage=new_stage, attach_map=attach_map.renamed(moves))


def _pragma(state: State, step: PragmaStep) -> State:
    if step.pragma == "debug_skip_region":
        return state.evolve(step, attach_map=state.attach_map.without_stage(step.stage_id))
    if step.pipeline_stages:
        return state.evolve(step)
    limit = step.unroll_limit
    if limit is None:
        expected = (
            "expected auto_unroll_max_step$N or software_pipeline$N with an integer N, or "
            "debug_skip_region"
        )
        raise refusal(state, step, f"unknown pragma {step.pragma!r}: {expected}")
    stage = state.stages[step.stage_id].with_attrs(auto_unroll_max_step=limit)
    return state.evolve(step, stage=stage)


def _reorder(state: State, step: ReorderStep) -> State:
    iters = state.stages[step.stage_id].iters
    if len(step.after_ids) != len(iters) or set(step.after_ids) != set(range(len(iters))):
        raise refusal(
            state,
            step,
            f"{list(step.after_ids)} does not list each of the {len(iters)} iterators once",
        )
    return _replaced(state, step, tuple([iters[i] for i in step.after_ids]))


def split_pieces(it: Iterator, lengths: Lengths, inner_to_outer: bool) -> tuple[Iterator, ...]:
    """The iterators that splitting `it` by `lengths` gives, outer to inner.

    An undefined length makes the range of its piece and of all pieces after it undefined.
    """
    n = len(lengths)
    low, extent = it.min, it.extent
    pieces: list[Iterator] = []
    for k in range(n):
        length = lengths[n - 1 - k] if inner_to_outer else lengths[k]
        name = f"{it.name}.{n - k if inner_to_outer else k}"
        if length is None or extent is None:
            extent = None
            pieces.append(Iterator(name, None, it.kind))
        else:
            pieces.append(Iterator(name, length, it.kind, min=low))
            low, extent = 0, -(-extent // length)
    rest = Iterator(f"{it.name}.{0 if inner_to_outer else n}", extent, it.kind, min=low)
    pieces.append(rest)
    return tuple(reversed(pieces)) if inner_to_outer else tuple(pieces)


def _split_by(
    state: State, step: Step, iter_id: int, lengths: Lengths, inner_to_outer: bool
) -> State:
    stage_id = step.stage_id
    it = iterator_of(state, step, iter_id)
    for length in lengths:
        if length is not None and length < 1:
            raise refusal(state, step, f"length {length} of {it.name} is not positive")
    stage = state.stages[stage_id]
    pieces = split_pieces(it, lengths, inner_to_outer)
    n = len(lengths)
    attach_map = state.attach_map
    if attach_map.stage_to_iter:
        moves = {
            (stage_id, i): (stage_id, i + n) for i in range(len(stage.iters) - 1, iter_id - 1, -1)
        }
        attach_map = attach_map.renamed(moves)
    iters = (*stage.iters[:iter_id], *pieces, *stage.iters[iter_id + 1 :])
    return state.evolve(
        step,
        stage=stage.with_iters(iters),
        attach_map=attach_map,
        concrete=state.concrete and None not in lengths,
    )


def _split(state: State, step: SplitStep) -> State:
    return _split_by(state, step, step.iter_id, step.lengths, step.inner_to_outer)


def source_split(steps: Sequence[Step], step: Step, src_step_id: int) -> SplitStep:
    """The SP step that `step` follows; ScheduleError when there is none at that index."""
    source = steps[src_step_id] if 0 <= src_step_id < len(steps) else None
    if not isinstance(source, SplitStep):
        raise ScheduleError(
            f"{type(step).__name__} on stage {step.stage_id}: step {src_step_id} is not a split"
        )
    return source


def _product(lengths: Lengths) -> int | None:
    result = 1
    for length in lengths:
        if length is None:
            return None
        result *= length
    return result


def follow_split_lengths(steps: Sequence[Step], step: FollowSplitStep) -> tuple[int | None, ...]:
    """The first n_split - 1 lengths of the source, then the product of the others."""
    lengths = source_split(steps, step, step.src_step_id).lengths
    kept = step.n_split - 1
    if not 0 <= kept <= len(lengths):
        raise ScheduleError(
            f"FollowSplitStep on stage {step.stage_id}: cannot follow {len(lengths)} lengths "
            f"with n_split {step.n_split}"
        )
    return (*lengths[:kept], _product(lengths[kept:]))


def follow_fused_split_length(steps: Sequence[Step], step: FollowFusedSplitStep) -> int | None:
    """The product of lengths[level] over the source steps."""
    lengths: list[int | None] = []
    for src_step_id in step.src_step_ids:
        source = source_split(steps, step, src_step_id).lengths
        if not 0 <= step.level < len(source):
            raise ScheduleError(
                f"FollowFusedSplitStep on stage {step.stage_id}: step {src_step_id} has only "
                f"{len(source)} lengths, so there is no level {step.level}"
            )
        lengths.append(source[step.level])
    return _product(lengths)


def _follow_split(state: State, step: FollowSplitStep) -> State:
    return _split_by(state, step, step.iter_id, follow_split_lengths(state.steps, step), True)


def _follow_fused_split(state: State, step: FollowFusedSplitStep) -> State:
    length = follow_fused_split_length(state.steps, step)
    return _split_by(state, step, step.iter_id, (length,), step.factor_or_nparts)


def _storage_align(state: State, step: StorageAlignStep) -> State:
    iterator_of(state, step, step.iter_id)
    stage = state.stages[step.stage_id].with_attrs(storage_offset=step.offset)
    return state.evolve(step, stage=stage)


def _compute_at(state: State, step: ComputeAtStep) -> State:
    target, stage_id = step.target_stage_id, step.stage_id
    if not 0 <= target < len(state.stages) or target == stage_id:
        raise refusal(state, step, f"stage {target} cannot be computed into")
    n = len(state.stages[target].iters)
    if not 0 <= step.target_iter_id < n:
        raise refusal(
            state,
            step,
            f"stage {target} has {n} iterators, so it has no iterator {step.target_iter_id}",
        )
    stage = state.stages[stage_id].placed(ComputeAt.ITER, keep_ranges=False)
    attach_map = state.attach_map.with_stage(stage_id, target, step.target_iter_id)
    return state.evolve(step, stage=stage, attach_map=attach_map)


def _compute_inline(state: State, step: ComputeInlineStep) -> State:
    stage_id = step.stage_id
    stage = state.stages[stage_id]
    for i, it in enumerate(stage.iters):
        if state.attach_map.attached_at(stage_id, i):
            raise refusal(state, step, f"a stage is attached at {it.name}")
    stage = stage.placed(ComputeAt.INLINED, keep_ranges=True)
    attach_map = state.attach_map.without_stage(stage_id)
    return state.evolve(step, stage=stage, attach_map=attach_map)


def _compute_root(state: State, step: ComputeRootStep) -> State:
    stage = state.stages[step.stage_id].placed(ComputeAt.ROOT, keep_ranges=False)
    attach_map = state.attach_map.without_stage(step.stage_id)
    return state.evolve(step, stage=stage, attach_map=attach_map)


_EFFECTS: dict[type[Step], Callable[[Any, Any], Any]] = {
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
    CacheReadStep: cache_read,
    CacheWriteStep: cache_write,
    RfactorStep: rfactor,
    InstructionStep: use_instruction,
    MatrixTilesStep: matrix_tiles,
}
