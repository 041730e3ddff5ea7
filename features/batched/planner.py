"""Make plans from steps: a replay on integers only, which number loops as they are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from autosched.errors import ScheduleError
from autosched.features.batched.loop_state import LoopState
from autosched.features.batched.plan import (
    NO_UNROLLING,
    Columns,
    Factored,
    Plan,
    StagePlan,
    UnsupportedError,
    crosses,
)
from autosched.state.dag import ComputeDAG
from autosched.state.iterator import Annotation
from autosched.state.queries import sliced_products
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
    PragmaStep,
    ReorderStep,
    RfactorStep,
    SplitStep,
    Step,
    StorageAlignStep,
    inserted_stages,
)
from autosched.te.operations.operation import ComputeOp, Operation
from autosched.te.schedule.stage import Stage


class PlannedStage:
    """A stage while steps are replayed.

    `base` is its number among the stages that te knows. The first `data` of its axes are data axes.
    `loops` are its loops, `factors` the factors of their splits. `part` is empty, or "rf" or "repl"
    for the two stages of a factored reduction, which `factored` describes, or "middle" for the
    stage between them where partial results were factored again. `factored_by` are the factors of
    the old stage's splits. `rank` is the number of dimensions of what the stage computes.
    """

    __slots__ = (
        *("aligned", "at", "base", "data", "factored", "factored_by", "factors", "inlined"),
        *("loops", "part", "pipelined", "placeholder", "rank", "target", "tiles_number"),
        "unroll_number",
    )

    def __init__(
        self,
        base: int,
        loops: LoopState,
        data: int,
        rank: int = 0,
        part: str = "",
        factored: Factored | None = None,
        factored_by: tuple[Columns, ...] = (),
        placeholder: bool = False,
    ) -> None:
        self.base, self.loops, self.data, self.rank = base, loops, data, rank
        self.part, self.factored, self.factored_by = part, factored, factored_by
        self.factors: list[Columns] = []
        self.unroll_number = self.tiles_number = 0
        self.pipelined = -1
        self.aligned: tuple[tuple[int, int, int], ...] = ()
        self.placeholder, self.inlined = placeholder, False
        self.target: PlannedStage | None = None
        self.at = -1


class Planner:
    """Makes plans for one DAG; the effect of steps on loops is kept for the next plan."""

    def __init__(self, dag: ComputeDAG) -> None:
        self._dag = dag
        self._inserted: dict[tuple[Step, ...], list[Stage]] = {}
        self._roots: dict[tuple[int, int], LoopState] = {}

    def stages(self) -> list[PlannedStage]:
        """The stages before all steps."""
        return [self.stage(k, op) for k, op in enumerate(self._dag.ops)]

    def stage(self, base: int, op: Operation) -> PlannedStage:
        """The stage `base` of `op`, which no step has changed."""
        loops = self.root(base, len(op.root_iter_vars) if isinstance(op, ComputeOp) else 0)
        data, rank = len(op.axis) if isinstance(op, ComputeOp) else 0, op.output(0).ndim
        return PlannedStage(base, loops, data, rank, placeholder=not isinstance(op, ComputeOp))

    def inserted(self, op_steps: Sequence[Step]) -> list[Stage]:
        """The stages that the last one of `op_steps` inserts before its own, as te has them.

        Raises ScheduleError where it is illegal.
        """
        key = tuple(op_steps)
        found = self._inserted.get(key)
        if found is None:
            at, count = key[-1].stage_id, inserted_stages(key[-1])
            found = self._inserted[key] = self._dag.replay(key).stages[at : at + count]
        return found

    def root(self, base: int, axes: int) -> LoopState:
        """The loops of a stage that no step has changed."""
        found = self._roots.get((base, axes))
        if found is None:
            found = self._roots[base, axes] = LoopState(axes)
        return found

    def plan_of(self, steps: Sequence[Step]) -> Plan:
        """The plan of `steps`, which does not depend on their numbers. Raises UnsupportedError."""
        try:
            return _Replay(self).run(steps)
        except IndexError:
            raise UnsupportedError("a stage or loop that does not exist") from None
        except ScheduleError:
            raise UnsupportedError("an instruction that the stage cannot use") from None


class _Replay:
    """Replays steps on ids. Number 0 of a candidate is 1; its own numbers are counted from 1."""

    def __init__(self, planner: Planner) -> None:
        self.planner = planner
        self.stages = planner.stages()
        self.root = planner.root
        self.known = len(self.stages)
        self.op_steps: list[Step] = []
        self.splits: dict[int, list[int]] = {}
        self.slices: dict[int, SplitStep] = {}  # splits into slices, by their rfactor's position
        self.number = 0

    def run(self, steps: Sequence[Step]) -> Plan:
        for k, _ in sliced_products(steps):
            step = steps[k]
            assert isinstance(step, SplitStep)
            self.slices[k + 1] = step
        for k, step in enumerate(steps):
            effect = _EFFECTS.get(type(step))
            if effect is None:
                raise UnsupportedError(type(step).__name__)
            effect(self, step, k)
        return self._plan()

    def te_id(self, stage: PlannedStage) -> int:
        """The stage's id among the stages that te knows."""
        before = self.stages[: self.stages.index(stage)]
        return sum(1 for s in before if s.part not in ("rf", "middle"))

    def split(self, stage: PlannedStage, at: int, lengths: list[Columns], inner: bool) -> None:
        stage.loops = stage.loops.split(at, len(lengths), inner)
        stage.factors += reversed(lengths) if inner else lengths

    def _plan(self) -> Plan:
        active = [s for s in self.stages if not (s.placeholder or s.inlined)]
        for stage in active:
            if stage.loops.threads:
                stage.loops = stage.loops.common_first(stage.data)
                if any(s.target is stage for s in active) and crosses(
                    stage.loops.loops, stage.data
                ):
                    raise UnsupportedError("a stage computed in a reduction across threads")
        place = {stage: k for k, stage in enumerate(active)}
        planned = []
        for stage in active:
            target, at = -1, -1
            if stage.target is not None:
                if stage.target not in place:
                    raise UnsupportedError("computed at a stage that is inlined")
                target = place[stage.target]
                if target <= place[stage]:  # else loops would be around each other
                    raise UnsupportedError("computed at a stage that does not read it")
                at = stage.target.loops.position(stage.at)
            unroll = stage.unroll_number if stage.loops.limited else 0
            tiles = -1
            if stage.tiles_number:
                tiles = stage.loops.position(stage.pipelined)
            planned.append(
                StagePlan(
                    *(stage.base, stage.part, stage.factored, stage.data, stage.loops.loops),
                    *(tuple(stage.factors), stage.factored_by, target, at, unroll),
                    *(tiles, stage.tiles_number, stage.aligned),
                )
            )
        threads = any(s.loops.threads for s in active)
        if not threads and any(s.tiles_number for s in active):
            raise UnsupportedError("prefetched tiles without threads")
        what = planned if threads else [(s.base, s.part, s.factored) for s in planned]
        ops = tuple(self.op_steps)
        return Plan((ops, *what), ops, tuple(planned), threads)


def _split(p: _Replay, step: SplitStep, k: int) -> None:
    first = p.number + 1
    p.number += len(step.lengths)
    p.splits[k] = list(range(first, p.number + 1))
    lengths: list[Columns] = [(column,) for column in p.splits[k]]
    p.split(p.stages[step.stage_id], step.iter_id, lengths, step.inner_to_outer)


def _follow_split(p: _Replay, step: FollowSplitStep, k: int) -> None:
    source = p.splits.get(step.src_step_id)
    if source is None or not 0 <= step.n_split - 1 <= len(source):
        raise UnsupportedError("follows no split")
    kept = step.n_split - 1
    lengths: list[Columns] = [(column,) for column in source[:kept]]
    lengths.append(tuple(source[kept:]))
    p.split(p.stages[step.stage_id], step.iter_id, lengths, True)


def _follow_fused_split(p: _Replay, step: FollowFusedSplitStep, k: int) -> None:
    sources = [p.splits.get(source) for source in step.src_step_ids]
    if any(own is None or not 0 <= step.level < len(own) for own in sources):
        raise UnsupportedError("follows no split")
    length = tuple(own[step.level] for own in sources if own is not None)
    p.split(p.stages[step.stage_id], step.iter_id, [length], step.factor_or_nparts)


def _fuse(p: _Replay, step: FuseStep, k: int) -> None:
    stage = p.stages[step.stage_id]
    stage.loops = stage.loops.fuse(step.iter_ids)


def _reorder(p: _Replay, step: ReorderStep, k: int) -> None:
    stage = p.stages[step.stage_id]
    stage.loops = stage.loops.reorder(step.after_ids)


def _annotate(p: _Replay, step: AnnotationStep, k: int) -> None:
    stage = p.stages[step.stage_id]
    if step.annotation is Annotation.TENSORIZE:
        if stage.loops.leaves[step.iter_id] in dict(stage.loops.kinds):
            raise UnsupportedError("a tensor instruction instead of a loop with an annotation")
    elif step.annotation is not Annotation.NONE:
        stage.loops = stage.loops.annotate(step.iter_id, int(step.annotation))


def _pragma(p: _Replay, step: PragmaStep, k: int) -> None:
    if step.unroll_limit is None and step.pipeline_stages is None:
        raise UnsupportedError("a pragma without a number")
    p.number += 1
    stage = p.stages[step.stage_id]
    if step.pipeline_stages is not None:
        if stage.tiles_number:
            raise UnsupportedError("a stage whose tiles are prefetched for two loops")
        stage.pipelined, stage.tiles_number = stage.loops.leaves[step.iter_id], p.number
    elif step.iter_id < len(stage.loops.leaves):
        stage.loops = stage.loops.limit(step.iter_id)
        stage.unroll_number = p.number


def _align(p: _Replay, step: StorageAlignStep, k: int) -> None:
    stage = p.stages[step.stage_id]
    axis = stage.loops.leaves[step.iter_id]
    if axis >= stage.data:
        raise UnsupportedError("storage aligned along a loop that is not an axis")
    stage.aligned = (*stage.aligned, (axis, step.factor, step.offset))


def _compute_at(p: _Replay, step: ComputeAtStep, k: int) -> None:
    stage, target = _placed(p, step.stage_id), p.stages[step.target_stage_id]
    stage.target, stage.at = target, target.loops.leaves[step.target_iter_id]


def _compute_root(p: _Replay, step: ComputeRootStep, k: int) -> None:
    _placed(p, step.stage_id).target = None


def _placed(p: _Replay, stage_id: int) -> PlannedStage:
    """The stage, which gets another place. Raises UnsupportedError where it was inlined before."""
    stage = p.stages[stage_id]
    if stage.inlined:
        raise UnsupportedError("a stage that is no longer inlined")
    return stage


def _inline(p: _Replay, step: ComputeInlineStep, k: int) -> None:
    stage = p.stages[step.stage_id]
    if stage.part:
        raise UnsupportedError("a factored reduction inlined")
    stage.inlined = True
    p.op_steps.append(ComputeInlineStep(p.te_id(stage)))


def _cache_write(p: _Replay, step: CacheWriteStep, k: int) -> None:
    stage = p.stages[step.stage_id]
    loops = stage.loops
    marked = loops.kinds or loops.unroll >= 0
    if stage.part or loops.relations or marked or stage.target is not None:
        raise UnsupportedError("cache_write of a stage with transformed loops")
    if loops.leaves != tuple(range(loops.axes)):  # the axes of the cache are in this order
        p.op_steps.append(ReorderStep(p.te_id(stage), loops.leaves))
    p.op_steps.append(CacheWriteStep(p.te_id(stage), step.scope))
    cache = PlannedStage(p.known, p.root(p.known, loops.axes), stage.data, stage.rank)
    stage.loops = p.root(stage.base, stage.data)
    p.known += 1
    p.stages.insert(step.stage_id, cache)


def _use_instruction(p: _Replay, step: InstructionStep, k: int) -> None:
    stage = p.stages[step.stage_id]
    changed = stage.loops is not p.root(stage.base, stage.loops.axes)
    if stage.part or changed or stage.target is not None:
        raise UnsupportedError("an instruction for a stage with transformed loops")
    p.op_steps.append(replace(step, stage_id=p.te_id(stage)))
    stage.loops = p.root(stage.base, stage.data)
    for offset, inserted in enumerate(p.planner.inserted(p.op_steps)):
        made = p.planner.stage(p.known, inserted.op)
        if inserted.iter_var_attrs:  # a copy that no limit around it unrolls
            made.loops, made.unroll_number = made.loops.limit(made.data - 1), NO_UNROLLING
        p.stages.insert(step.stage_id + offset, made)
        p.known += 1


def _cache_read(p: _Replay, step: CacheReadStep, k: int) -> None:
    stage = p.stages[step.stage_id]
    readers = [p.stages[reader] for reader in step.reader_stage_ids]
    if stage.part or any(reader.part for reader in readers):
        raise UnsupportedError("cache_read of or for a factored reduction")
    ids = tuple(map(p.te_id, readers))
    p.op_steps.append(CacheReadStep(p.te_id(stage), step.scope, ids))
    loops = p.root(p.known, stage.rank)
    p.stages.insert(step.stage_id + 1, PlannedStage(p.known, loops, stage.rank, stage.rank))
    p.known += 1


def _sliced(p: _Replay, step: RfactorStep, split: SplitStep) -> None:
    """Replay the rfactor of a product in a known number of slices: te knows both of its stages."""
    stage = p.stages[step.stage_id]
    if stage.part or len(stage.loops.relations) > 1 or not 0 <= step.factor_iter_id <= stage.data:
        raise UnsupportedError("slices of a transformed product")
    te_id = p.te_id(stage)
    p.op_steps += [replace(split, stage_id=te_id), replace(step, stage_id=te_id)]
    rest = _left(stage.loops, stage.loops.leaves[step.iter_id], stage.data)
    data, known = stage.data + 1, p.known
    p.known += 1
    _replace(p, stage, PlannedStage(stage.base, p.root(stage.base, data), stage.data, stage.rank))
    loops = p.root(known, data + len(rest))
    p.stages.insert(step.stage_id, PlannedStage(known, loops, data, stage.rank + 1))


def _rfactor(p: _Replay, step: RfactorStep, k: int) -> None:
    if k in p.slices:
        _sliced(p, step, p.slices[k])
        return
    stage = p.stages[step.stage_id]
    state, base, data = stage.loops, stage.base, stage.data
    if stage.target is not None or state.kinds or state.unroll >= 0:
        raise UnsupportedError("rfactor of a transformed stage")
    axis = state.leaves[step.iter_id]
    if state.leaves[:data] != tuple(range(data)) or axis < data:
        raise UnsupportedError("rfactor of a stage whose data axes are transformed")
    rest = _left(state, axis, data)
    position = step.factor_iter_id if step.factor_iter_id >= 0 else step.factor_iter_id + data + 1
    if not 0 <= position <= data or not rest:
        raise UnsupportedError("rfactor with no loop left")
    if stage.part:
        factored = _factored_again(stage, axis, position)
        for other in p.stages:
            if other.base == base:
                other.factored = factored
    else:
        order = (*range(position), axis, *range(position, data))
        factored = Factored(state.loops, order, (axis,), rest)
    part = "middle" if stage.part else "repl"
    _replace(p, stage, PlannedStage(base, p.root(base, data + 1), data, 0, part, factored))
    loops = p.root(base, data + 1 + len(rest))
    by = (*stage.factored_by, *stage.factors)
    p.stages.insert(step.stage_id, PlannedStage(base, loops, data + 1, 0, "rf", factored, by))


def _factored_again(stage: PlannedStage, axis: int, position: int) -> Factored:
    """Factor a part of a loop of partial results again, in terms of the oldest axes."""
    first, state = stage.factored, stage.loops
    if first is None or stage.part != "rf" or len(first.made) > 1 or len(state.relations) != 1:
        raise UnsupportedError("rfactor of sums of partial results")
    relation = state.relations[0]
    if len(relation) != 4 or axis not in relation[1:3] or relation[0] < stage.data:
        raise UnsupportedError("rfactor of partial results whose other loops were changed")
    old = first.rest[relation[0] - stage.data]
    at = first.loops.leaves.index(old)
    loops = LoopState.of(first.loops).split(at, 1, bool(relation[3]))
    outer, inner = loops.relations[-1][1:3]
    factor, left = (outer, inner) if axis == relation[1] else (inner, outer)
    order = (*first.order[:position], factor, *first.order[position:])
    rest = (*(leaf for leaf in first.rest if leaf != old), left)
    return Factored(loops.loops, order, (*first.made, factor), rest)


def _left(state: LoopState, axis: int, data: int) -> tuple[int, ...]:
    """The leaves to reduce over once the loop `axis` is factored: whole axes first, as in te."""
    touched, size = {axis}, 0
    while size != len(touched):
        size = len(touched)
        for relation in state.relations:
            if not touched.isdisjoint(relation[:3]):
                touched.update(relation[:3])
    whole = [leaf for leaf in range(data, state.axes) if leaf not in touched]
    if any(leaf not in state.leaves for leaf in whole):
        raise UnsupportedError("rfactor of a stage whose other reduction loops are split or fused")
    return *whole, *(leaf for leaf in state.leaves if leaf in touched and leaf != axis)


def _replace(p: _Replay, old: PlannedStage, new: PlannedStage) -> None:
    for other in p.stages:
        if other.target is old:
            raise UnsupportedError("a stage computed at a stage that is factored later")
    p.stages[p.stages.index(old)] = new


_EFFECTS: dict[type[Step], Callable[[_Replay, Any, int], None]] = {
    AnnotationStep: _annotate,
    FuseStep: _fuse,
    PragmaStep: _pragma,
    ReorderStep: _reorder,
    SplitStep: _split,
    FollowSplitStep: _follow_split,
    FollowFusedSplitStep: _follow_fused_split,
    StorageAlignStep: _align,
    ComputeAtStep: _compute_at,
    ComputeInlineStep: _inline,
    ComputeRootStep: _compute_root,
    CacheReadStep: _cache_read,
    CacheWriteStep: _cache_write,
    RfactorStep: _rfactor,
    InstructionStep: _use_instruction,
}
