"""State: an immutable loop nest, reached from a ComputeDAG by a tuple of transform steps.

Primitives take a stage id and iterators of that stage (found by identity), append one step and
return the new state, with the new iterators where there are any:

    bind(stage_id, it, "threadIdx.x") -> (State, Iterator)
    parallel / vectorize(stage_id, it) -> (State, Iterator)
    unroll(stage_id, it, max_unroll=-1) -> (State, Iterator)
    fuse(stage_id, iters) -> (State, Iterator)
    pragma(stage_id, it, pragma) -> State
    reorder(stage_id, order) -> State
    split(stage_id, it, lengths, inner_to_outer=True) -> (State, [Iterator, ...])
    follow_split(stage_id, it, src_step_id, n_split) -> (State, [Iterator, ...])
    follow_fused_split(stage_id, it, src_step_ids, level, factor_or_nparts) -> (State, [...])
    storage_align(stage_id, it, factor, offset) -> State
    compute_at(stage_id, target_stage_id, target_iter) -> State
    compute_inline / compute_root(stage_id) -> State
    cache_read(stage_id, scope, reader_stage_ids) -> (State, int: id of the new stage)
    cache_write(stage_id, scope) -> (State, int: id of the cache stage)
    rfactor(stage_id, it, factor_iter_id) -> (State, int: id of the .rf stage)
    use_instruction(stage_id, name, rows, columns, pack_a, over) -> (State, int: id of the tiles)

`apply(step)` appends a given step. Illegal uses raise ScheduleError. Queries: `queries.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from autosched.arguments import integer
from autosched.errors import ConfigError, ScheduleError
from autosched.state.apply import apply_step
from autosched.state.attach_map import AttachMap
from autosched.state.iterator import (
    THREAD_ANNOTATIONS,
    Annotation,
    Iterator,
)
from autosched.state.stage import ComputeAt, StateStage
from autosched.state.steps import (
    CacheReadStep,
    CacheWriteStep,
    ComputeAtStep,
    ComputeInlineStep,
    ComputeRootStep,
    FollowFusedSplitStep,
    FollowSplitStep,
    InstructionStep,
    ReorderStep,
    RfactorStep,
    SplitStep,
    Step,
    StorageAlignStep,
    packed_stages,
    shared_annotation,
    shared_fusion,
    shared_pragma,
)

if TYPE_CHECKING:
    from autosched.state.dag import ComputeDAG


def _integer(name: str, value: Any) -> int:
    """`value` if it is an integer, NumPy's as Python's: no record could hold a NumPy integer.

    Raises ScheduleError. A plain int returns at once, because sketches make many calls.
    """
    if type(value) is int:
        return value
    try:
        return integer(name, value)
    except ConfigError as error:
        raise ScheduleError(str(error)) from None


class State:
    """A loop nest: stages, where they are attached, and the steps that led here.

    `dag` is the task's DAG, `current_dag` the DAG after the stage-inserting steps, None before the
    first of them; `access_dag` is the one to use for accesses. `concrete` is False once a split
    with an undefined length was applied. Equality and hash are those of `to_str()`.
    """

    __slots__ = ("_text", "attach_map", "concrete", "current_dag", "dag", "stages", "steps")

    def __init__(
        self,
        dag: ComputeDAG,
        stages: tuple[StateStage, ...],
        steps: tuple[Step, ...] = (),
        attach_map: AttachMap | None = None,
        concrete: bool = True,
        current_dag: ComputeDAG | None = None,
    ) -> None:
        self.dag = dag
        self.stages = stages
        self.steps = steps
        self.attach_map = attach_map or AttachMap()
        self.concrete = concrete
        self.current_dag = current_dag
        self._text: str | None = None

    @property
    def access_dag(self) -> ComputeDAG:
        """The DAG that the stages belong to."""
        return self.current_dag or self.dag

    def evolve(
        self,
        step: Step,
        *,
        stage: StateStage | None = None,
        stages: tuple[StateStage, ...] | None = None,
        attach_map: AttachMap | None = None,
        concrete: bool | None = None,
        current_dag: ComputeDAG | None = None,
    ) -> State:
        """The state with `step` appended and its stage, or all, replaced; None keeps a part."""
        if stages is None:
            stages = self.stages
            if stage is not None:
                stages = (*stages[: step.stage_id], stage, *stages[step.stage_id + 1 :])
        return State(
            self.dag,
            stages,
            (*self.steps, step),
            attach_map or self.attach_map,
            self.concrete if concrete is None else concrete,
            current_dag or self.current_dag,
        )

    def with_steps(self, steps: Sequence[Step], *, concrete: bool | None = None) -> State:
        """The same loops under another step list, e.g. with other split lengths.

        The ranges are then stale until `dag.infer_bound`; the loop structure must be the same.
        """
        return State(
            self.dag,
            self.stages,
            tuple(steps),
            self.attach_map,
            self.concrete if concrete is None else concrete,
            self.current_dag,
        )

    def with_stages(self, stages: Sequence[StateStage]) -> State:
        """The same state with other stages, e.g. other ranges or attributes."""
        return State(
            self.dag, tuple(stages), self.steps, self.attach_map, self.concrete, self.current_dag
        )

    def apply(self, step: Step) -> State:
        """The state with `step` appended; ScheduleError when it is illegal here."""
        return apply_step(self, step)

    def apply_all(self, steps: Iterable[Step]) -> State:
        """The state with all of `steps` appended."""
        state = self
        for step in steps:
            state = apply_step(state, step)
        return state

    # ---- primitives

    def bind(self, stage_id: int, it: Iterator, thread: str) -> tuple[State, Iterator]:
        """Run `it` over a thread axis: blockIdx.*, threadIdx.* or vthread."""
        annotation = THREAD_ANNOTATIONS.get(thread)
        if annotation is None:
            known = ", ".join(THREAD_ANNOTATIONS)
            raise ScheduleError(f"bind: {thread!r} is not a thread axis, expected one of {known}")
        return self._annotate(stage_id, it, annotation)

    def parallel(self, stage_id: int, it: Iterator) -> tuple[State, Iterator]:
        """Distribute the iterations of `it` over the cores."""
        return self._annotate(stage_id, it, Annotation.PARALLEL)

    def vectorize(self, stage_id: int, it: Iterator) -> tuple[State, Iterator]:
        """Turn the iterations of `it` into vector lanes."""
        return self._annotate(stage_id, it, Annotation.VECTORIZE)

    def unroll(self, stage_id: int, it: Iterator, max_unroll: int = -1) -> tuple[State, Iterator]:
        """Unroll `it`, unless its constant extent exceeds `max_unroll` (-1: no limit)."""
        max_unroll = _integer("unroll: max_unroll", max_unroll)
        if max_unroll != -1 and it.extent is not None and it.extent > max_unroll:
            return self, it
        return self._annotate(stage_id, it, Annotation.UNROLL)

    def _annotate(
        self, stage_id: int, it: Iterator, annotation: Annotation
    ) -> tuple[State, Iterator]:
        i = self.index_of(stage_id, it)
        state = apply_step(self, shared_annotation(stage_id, i, annotation))
        return state, state.stages[stage_id].iters[i]

    def fuse(self, stage_id: int, iters: Sequence[Iterator]) -> tuple[State, Iterator]:
        """Fuse consecutive iterators; an empty list makes one iterator of extent 1."""
        ids = tuple(self.index_of(stage_id, it) for it in iters)
        state = apply_step(self, shared_fusion(stage_id, ids))
        return state, state.stages[stage_id].iters[ids[0] if ids else 0]

    def pragma(self, stage_id: int, it: Iterator, pragma: str) -> State:
        """Attach a pragma such as `auto_unroll_max_step$64`."""
        return apply_step(self, shared_pragma(stage_id, self.index_of(stage_id, it), pragma))

    def reorder(self, stage_id: int, order: Sequence[Iterator]) -> State:
        """Put all iterators of the stage in `order`."""
        ids = tuple(self.index_of(stage_id, it) for it in order)
        return apply_step(self, ReorderStep(stage_id, ids))

    def split(
        self,
        stage_id: int,
        it: Iterator,
        lengths: Sequence[int | None],
        inner_to_outer: bool = True,
    ) -> tuple[State, list[Iterator]]:
        """Split by `lengths` (outer to inner, None: still to be chosen) into one piece more."""
        i = self.index_of(stage_id, it)
        written = tuple(
            [None if length is None else _integer("split: lengths", length) for length in lengths]
        )
        step = SplitStep(stage_id, i, it.extent, written, inner_to_outer)
        return self._split(step, i, len(written))

    def _split(self, step: Step, iter_id: int, n: int) -> tuple[State, list[Iterator]]:
        state = apply_step(self, step)
        return state, list(state.stages[step.stage_id].iters[iter_id : iter_id + n + 1])

    def follow_split(
        self, stage_id: int, it: Iterator, src_step_id: int, n_split: int
    ) -> tuple[State, list[Iterator]]:
        """Split into n_split + 1 pieces by the lengths of the SP step `src_step_id`."""
        i = self.index_of(stage_id, it)
        src_step_id = _integer("follow_split: src_step_id", src_step_id)
        n_split = _integer("follow_split: n_split", n_split)
        return self._split(FollowSplitStep(stage_id, i, src_step_id, n_split), i, n_split)

    def follow_fused_split(
        self,
        stage_id: int,
        it: Iterator,
        src_step_ids: Sequence[int],
        level: int,
        factor_or_nparts: bool,
    ) -> tuple[State, list[Iterator]]:
        """Split in two by the product of lengths[level] of the SP steps `src_step_ids`."""
        i = self.index_of(stage_id, it)
        ids = tuple([_integer("follow_fused_split: src_step_ids", k) for k in src_step_ids])
        level = _integer("follow_fused_split: level", level)
        step = FollowFusedSplitStep(stage_id, i, ids, level, factor_or_nparts)
        return self._split(step, i, 1)

    def storage_align(self, stage_id: int, it: Iterator, factor: int, offset: int) -> State:
        """Align the stride of the storage axis of `it`."""
        i = self.index_of(stage_id, it)
        factor = _integer("storage_align: factor", factor)
        offset = _integer("storage_align: offset", offset)
        return apply_step(self, StorageAlignStep(stage_id, i, factor, offset))

    def compute_at(self, stage_id: int, target_stage_id: int, target_iter: Iterator) -> State:
        """Compute the stage inside `target_iter` of another stage."""
        i = self.index_of(target_stage_id, target_iter)
        stage_id = _integer("compute_at: stage_id", stage_id)
        return apply_step(self, ComputeAtStep(stage_id, target_stage_id, i))

    def compute_inline(self, stage_id: int) -> State:
        """Inline the stage into its readers."""
        return apply_step(self, ComputeInlineStep(_integer("compute_inline: stage_id", stage_id)))

    def compute_root(self, stage_id: int) -> State:
        """Compute the stage on its own."""
        return apply_step(self, ComputeRootStep(_integer("compute_root: stage_id", stage_id)))

    def cache_read(
        self, stage_id: int, scope: str, reader_stage_ids: Sequence[int]
    ) -> tuple[State, int]:
        """Insert a copy of the stage's output in `scope`, after the stage, for the readers."""
        stage_id = _integer("cache_read: stage_id", stage_id)
        ids = tuple([_integer("cache_read: reader_stage_ids", k) for k in reader_stage_ids])
        step = CacheReadStep(stage_id, scope, ids)
        return apply_step(self, step), stage_id + 1

    def cache_write(self, stage_id: int, scope: str) -> tuple[State, int]:
        """Compute the stage in `scope` first, in a cache stage that takes the stage's id."""
        stage_id = _integer("cache_write: stage_id", stage_id)
        return apply_step(self, CacheWriteStep(stage_id, scope)), stage_id

    def rfactor(self, stage_id: int, it: Iterator, factor_iter_id: int) -> tuple[State, int]:
        """Factor the reduction iterator `it` out; the .rf stage takes the stage's id."""
        i = self.index_of(stage_id, it)
        factor_iter_id = _integer("rfactor: factor_iter_id", factor_iter_id)
        return apply_step(self, RfactorStep(stage_id, i, factor_iter_id)), stage_id

    def use_instruction(
        self,
        stage_id: int,
        name: str,
        rows: int,
        columns: int,
        pack_a: bool = False,
        over: bool = False,
    ) -> tuple[State, int]:
        """Compute the stage by a tensor instruction; it becomes a copy of the tiles before it."""
        stage_id = _integer("use_instruction: stage_id", stage_id)
        rows = _integer("use_instruction: rows", rows)
        columns = _integer("use_instruction: columns", columns)
        step = InstructionStep(stage_id, name, rows, columns, pack_a, over)
        return apply_step(self, step), stage_id + packed_stages(step)

    def index_of(self, stage_id: int, it: Iterator) -> int:
        """The position of `it` in the stage, by identity; ScheduleError when it is not there."""
        if not 0 <= _integer("stage_id", stage_id) < len(self.stages):
            raise ScheduleError(f"stage {stage_id}: there are only {len(self.stages)} stages")
        for k, other in enumerate(self.stages[stage_id].iters):
            if other is it:
                return k
        name = self.stages[stage_id].name
        raise ScheduleError(f"stage {stage_id} ({name}) has no iterator {it!r}; take a fresh one")

    # ---- text

    def to_str(self) -> str:
        """The loop nest as text, which identifies a state."""
        if self._text is None:
            names = [stage.name for stage in self.stages if stage.is_placeholder]
            lines = ["Placeholder: " + ", ".join(names)]
            for stage_id, stage in enumerate(self.stages):
                if not stage.is_placeholder and stage.compute_at is ComputeAt.ROOT:
                    self._print_stage(stage_id, 0, lines)
            self._text = "\n".join(lines) + "\n"
        return self._text

    def _print_stage(self, stage_id: int, base: int, lines: list[str]) -> None:
        stage = self.stages[stage_id]
        pad = " " * base
        if stage.auto_unroll_max_step:
            lines.append(f"{pad}{stage.name} auto_unroll: {stage.auto_unroll_max_step}")
        if stage.note:
            lines.append(f"{pad}{stage.name} {stage.note}")
        if stage.storage_offset:
            lines.append(f"{pad}{stage.name} storage_offset: {stage.storage_offset}")
        attached = self.attach_map.iter_to_stages
        for i, it in enumerate(stage.iters):
            if it.extent != 1:
                lines.append(pad + repr(it))
                pad += "  "
            for inner in attached.get((stage_id, i), ()):
                self._print_stage(inner, len(pad), lines)
        lines.append(f"{pad}{stage.name} = ...")

    def __str__(self) -> str:
        return self.to_str()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self.to_str() == other.to_str()

    def __hash__(self) -> int:
        return hash(self.to_str())
