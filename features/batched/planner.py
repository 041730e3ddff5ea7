"""Steps become a plan: a replay on integers only, which number loops as they are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from autosched.features.batched.plan import (
    FIRST_THREAD,
    Columns,
    Factored,
    Loops,
    Plan,
    StagePlan,
    UnsupportedError,
    common_first,
    crosses,
)
from autosched.state.dag import ComputeDAG
from autosched.state.iterator import Annotation
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
    PragmaStep,
    ReorderStep,
    RfactorStep,
    SplitStep,
    Step,
    StorageAlignStep,
)
from autosched.te.operations.operation import ComputeOp


@dataclass(eq=False)
class PlannedStage:
    """A stage while steps are replayed. `base` is its number among the stages that te knows.

    `data` of its axes are data axes. `part` is empty, or "rf" or "repl" for the two stages of a
    factored reduction, described by `factored`. `rank` are the dimensions of what it computes.
    """

    base: int
    axes: int
    data: int
    part: str = ""
    factored: Factored | None = None
    rank: int = 0
    relations: list[tuple[int, int, int, int] | tuple[int, int, int]] = field(default_factory=list)
    factors: list[Columns] = field(default_factory=list)
    leaves: list[int] = field(default_factory=list)
    kinds: dict[int, int] = field(default_factory=dict)
    next_id: int = 0
    unroll: int = -1
    unroll_number: int = 0
    inlined: bool = False
    target: PlannedStage | None = None
    at: int = -1

    def __post_init__(self) -> None:
        self.leaves = list(range(self.axes))
        self.next_id = self.axes

    def fresh(self) -> int:
        """An id for a new loop."""
        self.next_id += 1
        return self.next_id - 1

    def loops(self) -> Loops:
        """The loops as they are now; a limit of unrolling on a loop of threads says nothing."""
        if self.kinds.get(self.unroll, 0) >= FIRST_THREAD:
            self.unroll, self.unroll_number = -1, 0
        unroll = self.leaves.index(self.unroll) if self.unroll >= 0 else -1
        kinds = tuple([self.kinds.get(leaf, 0) for leaf in self.leaves])
        return Loops(self.axes, tuple(self.relations), tuple(self.leaves), kinds, unroll)


class _Planner:
    """Replays steps on ids. Number 0 of a candidate is 1; its own are counted from 1."""

    def __init__(self, dag: ComputeDAG) -> None:
        self.stages: list[PlannedStage] = []
        for k, op in enumerate(dag.ops):
            data = len(op.axis) if isinstance(op, ComputeOp) else 0
            axes = len(op.root_iter_vars) if isinstance(op, ComputeOp) else 0
            self.stages.append(PlannedStage(k, axes, data, rank=op.output(0).ndim))
        self.known = len(self.stages)
        self.op_steps: list[Step] = []
        self.splits: dict[int, list[int]] = {}
        self.number = 0

    def run(self, steps: Sequence[Step]) -> Plan:
        for k, step in enumerate(steps):
            effect = _EFFECTS.get(type(step))
            if effect is None:
                raise UnsupportedError(type(step).__name__)
            effect(self, step, k)
        return self._plan()

    def te_id(self, stage: PlannedStage) -> int:
        """The stage's id among those that te knows of."""
        return sum(1 for s in self.stages[: self.stages.index(stage)] if s.part != "rf")

    def insert(self, position: int, stage: PlannedStage) -> None:
        self.stages.insert(position, stage)

    def split(self, stage: PlannedStage, at: int, lengths: list[Columns], inner: bool) -> None:
        rest = stage.leaves[at]
        pieces: list[int] = []
        for columns in reversed(lengths) if inner else lengths:
            one, two = stage.fresh(), stage.fresh()
            stage.relations.append((rest, one, two, int(inner)))
            stage.factors.append(columns)
            rest, piece = (one, two) if inner else (two, one)
            pieces.append(piece)
        pieces.append(rest)
        stage.leaves[at : at + 1] = reversed(pieces) if inner else pieces

    def _plan(self) -> Plan:
        active = [s for s in self.stages if s.leaves and not s.inlined]
        for stage in active:
            if any(kind >= FIRST_THREAD for kind in stage.kinds.values()):
                stage.leaves = common_first(stage.loops(), stage.data)
                if any(s.target is stage for s in active) and crosses(stage.loops(), stage.data):
                    raise UnsupportedError("a stage computed in a reduction across threads")
        place = {stage: k for k, stage in enumerate(active)}
        planned = []
        for stage in active:
            loops = stage.loops()
            target, at = -1, -1
            if stage.target is not None:
                if stage.target not in place:
                    raise UnsupportedError("computed at a stage that is inlined")
                target = place[stage.target]
                at = _followed(stage.target, stage.at)
            by = stage.factored_by if isinstance(stage, _Factor) else ()
            planned.append(
                StagePlan(
                    *(stage.base, stage.part, stage.factored, stage.data, loops),
                    *(tuple(stage.factors), by, target, at, stage.unroll_number),
                )
            )
        threads = any(k >= FIRST_THREAD for s in planned for k in s.loops.kinds)
        what = planned if threads else [(s.base, s.part, s.factored) for s in planned]
        ops = tuple(self.op_steps)
        return Plan((ops, *what), ops, tuple(planned), threads)


@dataclass(eq=False)
class _Factor(PlannedStage):
    """The new stage of an rfactor; `factored_by` are the factors of the old stage's splits."""

    factored_by: tuple[Columns, ...] = ()


def _followed(stage: PlannedStage, leaf: int) -> int:
    """The position of the loop that stands for `leaf` after later splits and fusions."""
    follow: dict[int, int] = {}
    for relation in stage.relations:
        if len(relation) == 4:
            follow[relation[0]] = relation[2]
        else:
            follow[relation[1]] = relation[2]
    while leaf not in stage.leaves:
        if leaf not in follow:
            raise UnsupportedError("computed at a loop that is gone")
        leaf = follow[leaf]
    return stage.leaves.index(leaf)


def _split(p: _Planner, step: SplitStep, k: int) -> None:
    first = p.number + 1
    p.number += len(step.lengths)
    p.splits[k] = list(range(first, p.number + 1))
    lengths: list[Columns] = [(column,) for column in p.splits[k]]
    p.split(p.stages[step.stage_id], step.iter_id, lengths, step.inner_to_outer)


def _follow_split(p: _Planner, step: FollowSplitStep, k: int) -> None:
    source = p.splits.get(step.src_step_id)
    if source is None or not 0 <= step.n_split - 1 <= len(source):
        raise UnsupportedError("follows no split")
    kept = step.n_split - 1
    lengths: list[Columns] = [(column,) for column in source[:kept]]
    lengths.append(tuple(source[kept:]))
    p.split(p.stages[step.stage_id], step.iter_id, lengths, True)


def _follow_fused_split(p: _Planner, step: FollowFusedSplitStep, k: int) -> None:
    sources = [p.splits.get(source) for source in step.src_step_ids]
    if any(own is None or not 0 <= step.level < len(own) for own in sources):
        raise UnsupportedError("follows no split")
    length = tuple(own[step.level] for own in sources if own is not None)
    p.split(p.stages[step.stage_id], step.iter_id, [length], step.factor_or_nparts)


def _fuse(p: _Planner, step: FuseStep, k: int) -> None:
    stage = p.stages[step.stage_id]
    ids = step.iter_ids
    if not ids or ids != tuple(range(ids[0], ids[-1] + 1)) or ids[-1] >= len(stage.leaves):
        raise UnsupportedError("a fusion of no loops, or of loops that are not consecutive")
    fused = stage.leaves[ids[0]]
    for at in ids[1:]:
        new = stage.fresh()
        stage.relations.append((fused, stage.leaves[at], new))
        fused = new
    stage.leaves[ids[0] : ids[-1] + 1] = [fused]


def _reorder(p: _Planner, step: ReorderStep, k: int) -> None:
    stage = p.stages[step.stage_id]
    if sorted(step.after_ids) != list(range(len(stage.leaves))):
        raise UnsupportedError("a reordering that is none")
    stage.leaves = [stage.leaves[i] for i in step.after_ids]


def _annotate(p: _Planner, step: AnnotationStep, k: int) -> None:
    if step.annotation is Annotation.TENSORIZE:
        raise UnsupportedError("a tensor instruction")
    stage = p.stages[step.stage_id]
    if step.annotation is not Annotation.NONE:
        stage.kinds[stage.leaves[step.iter_id]] = int(step.annotation)


def _pragma(p: _Planner, step: PragmaStep, k: int) -> None:
    if step.unroll_limit is None:
        raise UnsupportedError("a pragma other than the limit of unrolling")
    p.number += 1
    stage = p.stages[step.stage_id]
    if step.iter_id < len(stage.leaves):
        if stage.unroll >= 0:
            raise UnsupportedError("two limits of unrolling")
        stage.unroll = stage.leaves[step.iter_id]
        stage.unroll_number = p.number


def _compute_at(p: _Planner, step: ComputeAtStep, k: int) -> None:
    stage, target = p.stages[step.stage_id], p.stages[step.target_stage_id]
    stage.target, stage.at = target, target.leaves[step.target_iter_id]


def _compute_root(p: _Planner, step: ComputeRootStep, k: int) -> None:
    p.stages[step.stage_id].target = None


def _inline(p: _Planner, step: ComputeInlineStep, k: int) -> None:
    stage = p.stages[step.stage_id]
    if stage.part:
        raise UnsupportedError("a factored reduction inlined")
    stage.inlined = True
    p.op_steps.append(ComputeInlineStep(p.te_id(stage)))


def _cache_write(p: _Planner, step: CacheWriteStep, k: int) -> None:
    stage = p.stages[step.stage_id]
    if stage.part or stage.relations or stage.kinds or stage.target is not None:
        raise UnsupportedError("cache_write of a stage with transformed loops")
    if stage.leaves != list(range(stage.axes)):  # the axes of the cache are in this order
        p.op_steps.append(ReorderStep(p.te_id(stage), tuple(stage.leaves)))
    p.op_steps.append(CacheWriteStep(p.te_id(stage), step.scope))
    cache = PlannedStage(p.known, stage.axes, stage.data, rank=stage.rank)
    stage.axes, stage.leaves = stage.data, list(range(stage.data))
    stage.next_id = stage.axes
    p.known += 1
    p.insert(step.stage_id, cache)


def _cache_read(p: _Planner, step: CacheReadStep, k: int) -> None:
    stage = p.stages[step.stage_id]
    readers = [p.stages[reader] for reader in step.reader_stage_ids]
    if stage.part or any(reader.part for reader in readers):
        raise UnsupportedError("cache_read of a factored reduction, or for one")
    ids = tuple(map(p.te_id, readers))
    p.op_steps.append(CacheReadStep(p.te_id(stage), step.scope, ids))
    p.insert(step.stage_id + 1, PlannedStage(p.known, stage.rank, stage.rank, rank=stage.rank))
    p.known += 1


def _rfactor(p: _Planner, step: RfactorStep, k: int) -> None:
    stage = p.stages[step.stage_id]
    if stage.part or stage.target is not None or stage.kinds or stage.unroll >= 0:
        raise UnsupportedError("rfactor of a transformed stage")
    data, loops = stage.data, stage.loops()
    axis = stage.leaves[step.iter_id]
    if stage.leaves[:data] != list(range(data)) or axis < data:
        raise UnsupportedError("rfactor of a stage whose data axes are transformed")
    position = step.factor_iter_id if step.factor_iter_id >= 0 else step.factor_iter_id + data + 1
    rest = tuple(leaf for leaf in stage.leaves[data:] if leaf != axis)
    if not 0 <= position <= data or not rest:
        raise UnsupportedError("rfactor with no loop left")
    factored = Factored(loops, data, axis, position, rest)
    new = _Factor(
        stage.base, data + 1 + len(rest), data + 1, "rf", factored, factored_by=tuple(stage.factors)
    )
    old = PlannedStage(stage.base, data + 1, data, "repl", factored)
    _replace(p, stage, old)
    p.insert(step.stage_id, new)


def _replace(p: _Planner, old: PlannedStage, new: PlannedStage) -> None:
    for other in p.stages:
        if other.target is old:
            raise UnsupportedError("a stage computed at what is then factored")
    p.stages[p.stages.index(old)] = new


_EFFECTS: dict[type[Step], Callable[[_Planner, Any, int], None]] = {
    AnnotationStep: _annotate,
    FuseStep: _fuse,
    PragmaStep: _pragma,
    ReorderStep: _reorder,
    SplitStep: _split,
    FollowSplitStep: _follow_split,
    FollowFusedSplitStep: _follow_fused_split,
    StorageAlignStep: lambda p, step, k: None,
    ComputeAtStep: _compute_at,
    ComputeInlineStep: _inline,
    ComputeRootStep: _compute_root,
    CacheReadStep: _cache_read,
    CacheWriteStep: _cache_write,
    RfactorStep: _rfactor,
}


def plan_of(dag: ComputeDAG, steps: Sequence[Step]) -> Plan:
    """The plan of `steps`, whatever their numbers. Raises UnsupportedError."""
    try:
        return _Planner(dag).run(steps)
    except IndexError:
        raise UnsupportedError("a stage or loop that does not exist") from None
