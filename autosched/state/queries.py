"""Queries on a state that sketch rules, sampling and mutation use.

All take the state and a stage id, and use the DAG that the state's stages belong to. Signatures:

    consumers(state, s) -> list[int]            producers(state, s) -> list[int]
    direct_producers(state, s) -> list[int]     single_consumer_id(state, s) -> int (-1: none)
    reads_in_two_roles(state, s, producer)
    needs_multi_level_tiling / is_strictly_inlineable / is_simple_access / is_output(state, s)
    num_common_outer_iterators(state, s, target)    elementwise_match(state, s, target)
    has_reduce_iter / is_tiled / has_cache_write / is_cache_read(state, s)
    has_single_elementwise_matched_consumer(state, s) -> int (-1: no)
    has_cross_thread_reduction(state, s)        has_nested_parallel(state)
    cumulative_lengths(state, s) -> (space, reduce)   needs_rfactor(state, s, num_cores)
    spatial_split_step_ids(state, s)            last_reduce_iterator_of_outermost_tile(state, s)
    original_names(it)  stage_attr_names(state, s, attr)
    current_stage_id(steps, k)  earlier_stage_id(steps, k, s)  sliced_products(steps)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from autosched.errors import ScheduleError
from autosched.state.access import variables_in
from autosched.state.iterator import Annotation, Iterator, IterKind
from autosched.state.stage import ComputeAt
from autosched.state.state import State
from autosched.state.steps import (
    STAGE_INSERTING,
    CacheReadStep,
    CacheWriteStep,
    RfactorStep,
    SplitStep,
    Step,
    id_before,
    inserted_stages,
)
from autosched.te.operations.operation import ComputeOp
from autosched.tir.expr import StringImm

NO_SPLIT_AT_INNER = "auto_scheduler_no_split_at_inner"
ALWAYS_UNROLL_INNER = "auto_scheduler_always_unroll_inner"
TILED = 3
"""The fewest lengths in the split of a tiled axis; on a GPU, virtual threads, threads and
elements."""

# ---- who reads what


def consumers(state: State, stage_id: int) -> list[int]:
    """The stages that read the stage, looking through inlined ones; ascending."""
    return _reachable(state, stage_id, [list(r) for r in state.access_dag.access.read_by])


def producers(state: State, stage_id: int) -> list[int]:
    """The stages that the stage reads, looking through inlined ones; ascending."""
    return _reachable(state, stage_id, [list(r) for r in state.access_dag.access.read_from])


def direct_producers(state: State, stage_id: int) -> list[int]:
    """The stages that the stage reads in its body, inlined or not; ascending."""
    return sorted(state.access_dag.access.read_from[stage_id])


def _reachable(state: State, stage_id: int, edges: Sequence[Sequence[int]]) -> list[int]:
    found: set[int] = set()
    seen: set[int] = set()
    stack = list(edges[stage_id])
    while stack:
        s = stack.pop()
        if s in seen:
            continue
        seen.add(s)
        if state.stages[s].is_inlined:
            stack.extend(edges[s])
        else:
            found.add(s)
    return sorted(found)


def needs_multi_level_tiling(state: State, stage_id: int) -> bool:
    """Whether the operation reuses what it reads along some axes."""
    return state.access_dag.access.needs_multi_level_tiling[stage_id]


def reads_in_two_roles(state: State, stage_id: int, producer: int) -> bool:
    """Whether the stage reads another one along different axes, as A in A[i, k] * A[j, k].

    A block of loops then reads parts of it that are far apart.
    """
    reads = state.access_dag.access.read_from[stage_id].get(producer, [])
    return len(set(map(variables_in, reads))) > 1


def is_strictly_inlineable(state: State, stage_id: int) -> bool:
    """Whether inlining the operation never repeats expensive work."""
    return state.access_dag.access.is_strictly_inlineable[stage_id]


def is_simple_access(state: State, stage_id: int) -> bool:
    """Whether every index of its reads is an axis plus a constant."""
    return state.access_dag.access.is_simple_access[stage_id]


def is_output(state: State, stage_id: int) -> bool:
    """Whether no operation reads the stage."""
    return state.access_dag.access.is_output[stage_id]


def num_common_outer_iterators(state: State, stage_id: int, target: int) -> int:
    """How many leading axes the stage and its (indirect) reader `target` share."""
    return state.access_dag.access.common_outer_iterators_to(stage_id, target)


def elementwise_match(state: State, stage_id: int, target: int) -> bool:
    """Whether only element-wise reads lead from the stage to `target`."""
    return state.access_dag.access.elementwise_match(stage_id, target)


def single_consumer_id(state: State, stage_id: int) -> int:
    """The only consumer, or the root stage that all consumers are computed in; else -1."""
    readers = consumers(state, stage_id)
    if len(readers) <= 1:
        return readers[0] if readers else -1
    roots: set[int] = set()
    for reader in readers:
        kind = state.stages[reader].compute_at
        if kind is ComputeAt.INLINED:
            raise ScheduleError(f"stage {reader} is inlined and cannot be a consumer")
        target = state.attach_map.target_of(reader)
        roots.add(target[0] if kind is ComputeAt.ITER and target is not None else reader)
    return roots.pop() if len(roots) == 1 else -1


def has_single_elementwise_matched_consumer(state: State, stage_id: int) -> int:
    """The only consumer when the stage can be fused into it element by element, else -1.

    A consumer that already follows the tiles of another stage cannot follow those of this one, too.
    """
    target = elementwise_consumer(state, stage_id)
    return -1 if target < 0 or is_tiled(state, target) else target


def elementwise_consumer(state: State, stage_id: int) -> int:
    """The only consumer when it reads the stage element by element, else -1.

    Also -1 when both stages reduce, and when the consumer is a copy in shared memory.
    """
    readers = consumers(state, stage_id)
    if len(readers) != 1:
        return -1
    target = readers[0]
    if not elementwise_match(state, stage_id, target):
        return -1
    if has_reduce_iter(state, stage_id) and has_reduce_iter(state, target):
        return -1
    return -1 if state.stages[target].name.endswith(".shared") else target


# ---- the loops of a stage


def has_reduce_iter(state: State, stage_id: int) -> bool:
    """Whether some iterator is not spatial."""
    return any(it.kind is not IterKind.SPATIAL for it in state.stages[stage_id].iters)


def is_tiled(state: State, stage_id: int) -> bool:
    """Whether the stage no longer has exactly one iterator per axis."""
    stage = state.stages[stage_id]
    return len(stage.iters) != len(stage.op.root_iter_vars)


def has_cross_thread_reduction(state: State, stage_id: int) -> bool:
    """Whether the stage, or one attached to it, reduces over threadIdx.x."""

    def crosses(s: int) -> bool:
        return any(
            it.annotation is Annotation.THREAD_X and it.kind is IterKind.REDUCTION
            for it in state.stages[s].iters
        )

    return crosses(stage_id) or any(crosses(s) for s in attached_stages(state, stage_id))


def attached_stages(state: State, stage_id: int) -> list[int]:
    """The stages attached at any iterator of the stage, outermost first."""
    return [
        s
        for i in range(len(state.stages[stage_id].iters))
        for s in state.attach_map.attached_at(stage_id, i)
    ]


def _parallel_iterators(state: State, stage_id: int) -> int:
    """The number of parallel iterators of the stage and of the stages attached inside it."""
    own = sum(it.annotation is Annotation.PARALLEL for it in state.stages[stage_id].iters)
    return own + sum(_parallel_iterators(state, s) for s in attached_stages(state, stage_id))


def has_nested_parallel(state: State) -> bool:
    """Whether a root stage and the stages inside it together have several parallel iterators."""
    return any(
        _parallel_iterators(state, stage_id) >= 2
        for stage_id, stage in enumerate(state.stages)
        if not stage.is_placeholder and stage.compute_at is ComputeAt.ROOT
    )


def cumulative_lengths(state: State, stage_id: int) -> tuple[int, int]:
    """The products of the spatial and of the reduction extents; -1 where an extent is undefined."""
    space = reduce = 1
    for it in state.stages[stage_id].iters:
        if it.kind is IterKind.SPATIAL:
            space = -1 if space < 0 or it.extent is None else space * it.extent
        elif it.kind is IterKind.REDUCTION:
            reduce = -1 if reduce < 0 or it.extent is None else reduce * it.extent
    return space, reduce


def needs_rfactor(state: State, stage_id: int, num_cores: int) -> bool:
    """Whether the spatial axes alone give too little parallelism."""
    if state.stages[stage_id].is_placeholder:
        return False
    space, reduce = cumulative_lengths(state, stage_id)
    if needs_multi_level_tiling(state, stage_id):
        return not (space > reduce or space > 16 * num_cores)
    return reduce > num_cores if reduce > 1 else False


def original_names(it: Iterator) -> list[str]:
    """The names of the axes that an iterator comes from, without repeats, in order."""
    parts = it.name.replace("@", ".").split(".")
    return list(dict.fromkeys(p for p in parts if p and not p[0].isdigit()))


def stage_attr_names(state: State, stage_id: int, attr: str) -> frozenset[str]:
    """The axis names that an attribute of the stage's operation lists; empty without it."""
    value = state.stages[stage_id].op.attrs.get(attr)
    if value is None:
        return frozenset()
    names = [value] if isinstance(value, str | StringImm) else value
    return frozenset(name.value if isinstance(name, StringImm) else str(name) for name in names)


def num_reduce_axes(state: State, stage_id: int) -> int:
    """The number of reduction axes of the operation that may be split at the inner level."""
    op = state.stages[stage_id].op
    if not isinstance(op, ComputeOp):
        return 0
    excluded = stage_attr_names(state, stage_id, NO_SPLIT_AT_INNER)
    return sum(axis.var.name not in excluded for axis in op.reduce_axis)


def last_reduce_iterator_of_outermost_tile(state: State, stage_id: int) -> Iterator:
    """The reduction iterator that completes the outermost reduction tile."""
    wanted = num_reduce_axes(state, stage_id)
    seen: set[str] = set()
    for it in state.stages[stage_id].iters:
        if it.kind is not IterKind.REDUCTION:
            continue
        seen.update(original_names(it))
        if len(seen) == wanted or wanted == 0:
            return it
    raise ScheduleError(
        f"stage {stage_id} ({state.stages[stage_id].name}) has no outermost reduce tile"
    )


# ---- looking back through the steps


def has_cache_write(state: State, stage_id: int) -> bool:
    """Whether the stage is a cache write's cache stage, with the writing stage after it."""
    for step in reversed(state.steps):
        if isinstance(step, CacheWriteStep) and step.stage_id == stage_id:
            return True
        stage_id = id_before(step, stage_id)
    return False


def is_cache_read(state: State, stage_id: int) -> bool:
    """Whether the stage is the copy that a cache read made."""
    for step in reversed(state.steps):
        if isinstance(step, STAGE_INSERTING):
            if isinstance(step, CacheReadStep) and step.stage_id == stage_id - 1:
                return True
            stage_id = id_before(step, stage_id)
    return False


def split_step_ids(state: State, stage_id: int) -> list[int]:
    """The indices of the SP steps applied to the stage, last first.

    For a factored stage, only the steps since: rfactor gives it new loops.
    """
    found: list[int] = []
    for k in range(len(state.steps) - 1, -1, -1):
        step = state.steps[k]
        stage_id = id_before(step, stage_id)
        if isinstance(step, RfactorStep) and step.stage_id == stage_id:
            break
        if isinstance(step, SplitStep) and step.stage_id == stage_id:
            found.append(k)
    return found


def spatial_split_step_ids(state: State, stage_id: int) -> list[int]:
    """The indices of the SP steps of the stage's spatial iterators, last first.

    Reduction axes are split after the spatial ones, so their steps come first in `split_step_ids`
    and are left out.
    """
    return split_step_ids(state, stage_id)[num_reduce_axes(state, stage_id) :]


def current_stage_id(steps: Sequence[Step], k: int) -> int:
    """The id that the stage of step k has after all `steps`."""
    base = steps[k].stage_id
    shift = 0
    for step in steps[k + 1 :]:
        if isinstance(step, STAGE_INSERTING) and step.stage_id <= base + shift:
            shift += inserted_stages(step)
    return base + shift


def earlier_stage_id(steps: Sequence[Step], k: int, stage_id: int) -> int:
    """The id that a stage had when step k was applied; `stage_id` is its id after all `steps`."""
    for step in reversed(steps[k + 1 :]):
        stage_id = id_before(step, stage_id)
    return stage_id


def sliced_products(steps: Sequence[Step]) -> list[tuple[int, int]]:
    """The tiled sums in slices, as SliceProduct makes them, as pairs of step positions.

    A pair is the split into slices and the split of the slices' own axis. With other lengths of the
    first, the tiles would not fit.
    """
    found = []
    for k, (step, after) in enumerate(pairwise(steps)):
        if isinstance(step, SplitStep) and isinstance(after, RfactorStep):
            tiled = _first_tiled(steps, k + 2).get(step.stage_id)
            if tiled is not None:
                found.append((k, tiled))
    return found


def _first_tiled(steps: Sequence[Step], start: int) -> dict[int, int]:
    """The first tiled split of each stage from step `start` on, by the stage's id at that step."""
    found: dict[int, int] = {}
    for k in range(len(steps) - 1, start - 1, -1):
        step = steps[k]
        found = {id_before(step, stage_id): first for stage_id, first in found.items()}
        if isinstance(step, SplitStep) and len(step.lengths) >= TILED:
            found[step.stage_id] = k
    return found
