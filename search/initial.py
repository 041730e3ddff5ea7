"""Rules of the initial population: fill in a sketch at random.

A rule takes a state and returns the new one, or None when the sample is to be discarded. All
draws come from the generator that is passed in.

docs/semantics/search.md has a summary of the rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import TypeVar

import numpy as np

from autosched.errors import ScheduleError
from autosched.search.factors import factorizations
from autosched.search.rules.protocol import Context
from autosched.search.rules.tensor_core import draw_tiles
from autosched.state import queries
from autosched.state.iterator import Annotation, Iterator, IterKind
from autosched.state.stage import ComputeAt
from autosched.state.state import State
from autosched.state.steps import MatrixTilesStep, RfactorStep, SplitStep, Step
from autosched.te.schedule.instruction_stages import is_beside_tiles

Rng = np.random.Generator
Choice = TypeVar("Choice")
InitialRule = Callable[[Context, State, Rng], State | None]

CPU_UNROLL = (0, 16, 64, 512)
GPU_UNROLL = (0, 16, 64, 512, 1024)
OWN_GPU_UNROLL = (0, 16, 64, 512, 1024, 4096)
"""Unroll limits of the space `autosched`: 16 terms of 8 by 16 elements are 2,048 multiply-adds."""
PIPELINE_STAGES = (1, 2, 3, 4)
"""How many tiles of each operand a block holds in shared memory; with 1 it fetches none ahead."""


def pick(rng: Rng, n: int) -> int:
    """Draw an index below `n` uniformly."""
    return int(rng.integers(n))


def one_of(rng: Rng, choices: Sequence[Choice]) -> Choice:
    """Draw one of `choices` uniformly."""
    return choices[pick(rng, len(choices))]


def fill_tile_size(context: Context, state: State, rng: Rng) -> State | None:
    """Draw the open lengths of every split among all factorizations of its extent."""
    steps = list(state.steps)
    limit = context.options.max_innermost_split_factor
    for k, step in enumerate(steps):
        if isinstance(step, SplitStep) and None in step.lengths:
            if step.extent is None:
                raise ScheduleError(f"step {k}: a split of unknown extent has open lengths")
            choices = factorizations(step.extent, len(step.lengths), limit)
            lengths = one_of(rng, choices)
            steps[k] = step.with_lengths(lengths)
        elif isinstance(step, MatrixTilesStep) and not step.stages:
            steps[k] = draw_tiles(context.dag.state_of(steps[:k]), step, rng)
    return context.dag.state_of(steps)


def change_compute_location(context: Context, state: State, rng: Rng) -> State | None:
    """Move untiled stages at random: inline, to the root, or into a loop of their consumer.

    In the space `autosched`, stages that their sketch has placed (FuseRows) stay. In Ansor's space
    no sketch places these, and the lengths of splits count as unknown: a loop of one iteration is
    a place like others.
    """
    if context.options.disable_change_compute_location:
        return state
    ids = range(len(state.stages))
    if context.options.space != "ansor":
        placed = [stage.compute_at is ComputeAt.ITER for stage in state.stages]
        state = _moved(state, [k for k, fixed in enumerate(placed) if not fixed], rng)
    elif any(may_move(state, k) for k in ids):
        steps = _moved(context.dag.state_of(_opened(state.steps)), ids, rng).steps
        state = state.apply_all(steps[len(state.steps) :])
    return state


def _opened(steps: Sequence[Step]) -> list[Step]:
    """The steps with the lengths of splits as sketches have them: open, but 1 before a rfactor."""
    found: list[Step] = []
    for step, following in zip_longest(steps, steps[1:]):
        if isinstance(step, SplitStep):
            known = 1 if isinstance(following, RfactorStep) else None
            step = step.with_lengths((known,) * len(step.lengths))
        found.append(step)
    return found


def _moved(state: State, stage_ids: Sequence[int], rng: Rng) -> State:
    """Draw a place for each of the stages that may move, from the last one to the first."""
    for stage_id in reversed(stage_ids):
        if not may_move(state, stage_id):
            continue
        places = compute_locations(state, stage_id)
        choice = pick(rng, len(places) + 2)
        if choice == 0:
            if queries.has_reduce_iter(state, stage_id):
                continue
            if state.stages[stage_id].compute_at is ComputeAt.ITER:
                state = state.compute_inline(stage_id)
        elif choice == 1:
            state = state.compute_root(stage_id)
        else:
            target, it = places[choice - 2]
            state = state.compute_at(stage_id, target, it)
    return state


def may_move(state: State, stage_id: int) -> bool:
    """Whether the stage may move: no placeholder, not inlined, tiled, cached or still to be tiled.

    The sums of an instruction's offset and the storing of its tiles (`is_beside_tiles`) stay where
    their sketch has placed them.
    """
    stage = state.stages[stage_id]
    return not (
        stage.is_placeholder
        or stage.is_inlined
        or is_beside_tiles(stage.op)
        or queries.is_tiled(state, stage_id)
        or queries.needs_multi_level_tiling(state, stage_id)
        or queries.is_cache_read(state, stage_id)
    )


def compute_locations(state: State, stage_id: int) -> list[tuple[int, Iterator]]:
    """The loops that a stage may move into, as (stage id, iterator).

    They are loops of its only consumer, and of the stage that the consumer is attached to.
    """
    target = queries.single_consumer_id(state, stage_id)
    if target < 0:
        return []
    found: list[tuple[int, Iterator]] = []
    attached = state.stages[target].compute_at is ComputeAt.ITER
    seen_reduction = False
    for i, it in enumerate(state.stages[target].iters):
        if it.kind is IterKind.REDUCTION:
            seen_reduction = True
            if not queries.is_tiled(state, target):
                break
        elif seen_reduction and it.kind is IterKind.SPATIAL:
            break
        if it.annotation in (Annotation.UNROLL, Annotation.TENSORIZE):
            break
        if it.extent == 1:
            continue
        if attached and it.kind is IterKind.SPATIAL and it.name.endswith(".0"):
            continue
        found.append((target, it))
        if state.attach_map.attached_at(target, i):
            break
    place = state.attach_map.target_of(target) if attached else None
    if place is not None:
        outer = place[0]
        for i, it in enumerate(state.stages[outer].iters):
            if (
                it.kind is IterKind.REDUCTION
                or state.attach_map.attached_at(outer, i)
                or it.annotation is Annotation.UNROLL
            ):
                break
            if it.extent != 1:
                found.append((outer, it))
    return found


def parallel(context: Context, state: State, rng: Rng) -> State | None:
    """Run the outer loops of every root stage in parallel.

    A stage whose outer loops have one iteration in all, with other stages inside, stays serial: a
    small stage is done before another core has woken. Ansor marks these loops and those of the
    stages inside as parallel, and then drops the sample.
    """
    for stage_id in range(len(state.stages)):
        stage = state.stages[stage_id]
        if not stage.is_placeholder and stage.compute_at is ComputeAt.ROOT:
            state = _parallel_stage(context, state, stage_id, 0)
    return state


def _parallel_stage(context: Context, state: State, stage_id: int, start: int) -> State:
    iters = state.stages[stage_id].iters
    fused: list[Iterator] = []
    degree = 1
    at = start
    for at in range(start, len(iters)):
        it = iters[at]
        if it.kind is IterKind.REDUCTION or it.annotation is not Annotation.NONE:
            break
        fused.append(it)
        degree *= it.extent_or_unknown
        if degree > 16 * context.hardware.num_cores or state.attach_map.attached_at(stage_id, at):
            break
    if at < len(iters) and degree == 1:
        inner = state.attach_map.attached_at(stage_id, at)
        if inner:
            if context.options.space != "ansor":
                return state
            for attached in inner:
                state = _parallel_stage(context, state, attached, 0)
            state = _parallel_stage(context, state, stage_id, at + 1)
    if not fused:
        return state
    first = iters.index(fused[0])
    current = state.stages[stage_id].iters[first : first + len(fused)]
    if len(current) == 1:
        return state.parallel(stage_id, current[0])[0]
    state, merged = state.fuse(stage_id, current)
    return state.parallel(stage_id, merged)[0]


def unroll_limits(context: Context) -> tuple[int, ...]:
    """The values that auto_unroll_max_step is drawn from."""
    if not context.is_gpu:
        return CPU_UNROLL
    return GPU_UNROLL if context.options.space == "ansor" else OWN_GPU_UNROLL


def pipeline(context: Context, state: State, rng: Rng) -> State | None:
    """Draw how many tiles of each operand are held in shared memory; not in Ansor's space.

    A reduction loop is pipelined if only fetches to shared memory are attached to it. The number is
    drawn among those of PIPELINE_STAGES whose tiles fit in shared memory.
    """
    if context.options.space == "ansor" or not context.copies_ahead:
        return state
    for stage_id, stage in enumerate(state.stages):
        for i, it in enumerate(stage.iters):
            attached = state.attach_map.attached_at(stage_id, i)
            fetched = [state.stages[k].name.endswith(".shared") for k in attached]
            if it.kind is IterKind.REDUCTION and fetched and all(fetched):
                size = sum(_bytes(state, k) for k in attached)
                stages = [n for n in PIPELINE_STAGES if n * size <= context.shared_bytes] or [1]
                pragma = f"software_pipeline${one_of(rng, stages)}"
                state = state.pragma(stage_id, it, pragma)
    return state


def _bytes(state: State, stage_id: int) -> int:
    stage = state.stages[stage_id]
    elements = math.prod(it.extent_or_unknown for it in stage.iters)
    return elements * stage.op.output(0).dtype.bytes


def unroll(context: Context, state: State, rng: Rng) -> State | None:
    """Unroll the loops that attributes name, and draw auto_unroll_max_step of reductions."""
    choices = unroll_limits(context)
    for stage_id, stage in enumerate(state.stages):
        if stage.is_placeholder or stage.is_inlined:
            continue
        wanted = queries.stage_attr_names(state, stage_id, queries.ALWAYS_UNROLL_INNER)
        if wanted:
            state = _unroll_inner(state, stage_id, wanted)
        if queries.has_reduce_iter(state, stage_id) and not stage.note:
            value = one_of(rng, choices)
            first = state.stages[stage_id].iters[0]
            state = state.pragma(stage_id, first, f"auto_unroll_max_step${value}")
    return state


def _unroll_inner(state: State, stage_id: int, wanted: frozenset[str]) -> State:
    seen: set[str] = set()
    for i in range(len(state.stages[stage_id].iters) - 1, -1, -1):
        it = state.stages[stage_id].iters[i]
        names = queries.original_names(it)
        if seen.issuperset(names):
            break
        seen.update(names)
        if len(names) == 1 and names[0] in wanted and it.annotation is Annotation.NONE:
            state, _ = state.unroll(stage_id, it)
    return state


def vectorize(context: Context, state: State, rng: Rng) -> State | None:
    """Fuse and vectorize a random number of inner loops, up to `max_vectorize_size` elements."""
    for stage_id, stage in enumerate(state.stages):
        if stage.is_placeholder or stage.is_inlined:
            continue
        iters = state.stages[stage_id].iters
        tiled = queries.is_tiled(state, stage_id)
        count, product = 0, 1
        for i in range(len(iters) - 1, -1, -1):
            it = iters[i]
            if (
                state.attach_map.attached_at(stage_id, i)
                or it.kind is IterKind.REDUCTION
                or it.annotation is not Annotation.NONE
                or (tiled and count != 0)
            ):
                break
            product *= it.extent_or_unknown
            if product > context.options.max_vectorize_size:
                break
            count += 1
        if count > 1:
            count = 1 + pick(rng, count - 1)
        if count == 0:
            continue
        if count == 1:
            state, _ = state.vectorize(stage_id, iters[-1])
        else:
            state, fused = state.fuse(stage_id, iters[-count:])
            state, _ = state.vectorize(stage_id, fused)
    return state
