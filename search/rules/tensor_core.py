"""Matrix products on tensor cores, in the search space `autosched` for NVIDIA GPUs.

C = sum(A * B)      ->    blocks, warps, fragments by `Schedule.matrix_tiles`, and what reads C

A sketch has the instruction; sizes, stages and layout are drawn (`draw_tiles`) and mutated
(`change_tiles`). Long sums of few elements have a second one, in which blocks share the terms:

C.rf[s] = sum(A * B) of slice s         ->    blocks of their own for each slice
C = sum over s of C.rf[s], what reads C ->    a second kernel
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np

from autosched.search.factors import divisors
from autosched.search.rules.protocol import Context, Decision, FunctionRule
from autosched.state import queries
from autosched.state.iterator import Annotation
from autosched.state.stage import ComputeAt
from autosched.state.state import State
from autosched.state.steps import MatrixTilesStep
from autosched.te.intrin.instruction import Instruction
from autosched.te.intrin.registry import instruction
from autosched.te.schedule.matrix_view import MatrixView, matrix_view, total

_BLOCKS = (16, 32, 64, 128, 256)
_WARPS = (16, 32, 64, 128)
_STEPS = (1, 2, 4)
_STAGES = (2, 3, 4)
_MOST_WARPS = 8
_MOST_SUMS = 128
"""Elements of the result that a thread of a warp has registers for."""
_LEAST_SUMS = 8
_TILE = 64
_FEW_TILES = 128
"""Fewer blocks than this leave multiprocessors of a large GPU (108 of an A100, 132 of an H100)
without work."""
_LONG_SUM = 1024
"""Terms from which on half of them pay for another kernel and for partial sums in memory."""


def _fitting(context: Context, state: State, stage_id: int) -> Instruction | None:
    op = state.stages[stage_id].op
    for it in context.instructions:
        if isinstance(matrix_view(op, it), MatrixView):
            return it
    return None


def _untouched(state: State, stage_id: int) -> bool:
    stage = state.stages[stage_id]
    return (
        stage.compute_at is ComputeAt.ROOT
        and not queries.is_tiled(state, stage_id)
        and all(it.annotation is Annotation.NONE for it in stage.iters)
    )


def _condition(context: Context, state: State, stage_id: int) -> Decision:
    if queries.has_cache_write(state, stage_id) or not _untouched(state, stage_id):
        return Decision.SKIP
    if _fitting(context, state, stage_id) is None:
        return Decision.SKIP
    return Decision.APPLY


def _apply(context: Context, state: State, stage_id: int) -> list[tuple[State, int]]:
    it = _fitting(context, state, stage_id)
    assert it is not None
    writer = queries.has_single_elementwise_matched_consumer(state, stage_id)
    if writer < 0 or not _untouched(state, writer):
        writer = stage_id
    smallest = (16, 16, it.extent("k"), 16, 16)
    step = MatrixTilesStep(stage_id, writer, it.name, smallest, 0, True)
    found = [(state.apply(step), stage_id - 1)]
    place = _long_sum(state, stage_id, it)
    if place is not None:
        sliced = _in_slices(state, stage_id, writer, place)
        step = replace(step, writer_id=stage_id)
        found.append((sliced.apply(step), stage_id - 1))
    return found


def _long_sum(state: State, stage_id: int, it: Instruction) -> int | None:
    """The loop whose terms blocks should share, where tiles are fewer than multiprocessors."""
    view = matrix_view(state.stages[stage_id].op, it)
    assert isinstance(view, MatrixView)
    rows, columns, terms = view.sizes()
    tiles = -(-rows // _TILE) * -(-columns // _TILE) * total(view.batch)
    if tiles >= _FEW_TILES or terms < _LONG_SUM:
        return None
    longest = max(view.k, key=lambda axis: total((axis,)))
    return state.stages[stage_id].op.root_iter_vars.index(longest)


def _in_slices(state: State, stage_id: int, writer: int, place: int) -> State:
    """The sums of slices as a stage of their own, and what adds them up beside its reader.

    How many slices is drawn later, like the lengths of other splits.
    """
    axis = state.stages[stage_id].iters[place]
    least = divisors(axis.extent_or_unknown)[1]
    state, (outer, _) = state.split(stage_id, axis, [least], inner_to_outer=False)
    state, _ = state.rfactor(stage_id, outer, 0)
    if writer == stage_id:
        return state
    return state.compute_at(stage_id + 1, writer + 1, state.stages[writer + 1].iters[-1])


TENSOR_CORE = FunctionRule("TensorCore", _condition, _apply)


@lru_cache(maxsize=64)
def _choices(name: str, rows: int, columns: int, terms: int) -> tuple[tuple[int, ...], ...]:
    """The sizes worth trying for a product: no tile much larger than it, no warp idle."""
    step = instruction(name).extent("k")

    def all_sizes() -> Iterator[tuple[int, ...]]:
        for m in _blocks(rows):
            for n in _blocks(columns):
                for warp_m in _WARPS:
                    for warp_n in _WARPS:
                        sums = warp_m * warp_n // 32
                        whole = m % warp_m == 0 and n % warp_n == 0
                        if not whole or not _LEAST_SUMS <= sums <= _MOST_SUMS:
                            continue
                        if (m // warp_m) * (n // warp_n) > _MOST_WARPS:
                            continue
                        for k in _STEPS:
                            if k == 1 or step * k < 2 * terms:
                                yield m, n, step * k, warp_m, warp_n

    return tuple(all_sizes())


def _blocks(size: int) -> tuple[int, ...]:
    return tuple(b for b in _BLOCKS if b == _BLOCKS[0] or b < 2 * size)


def _sizes_for(state: State, step: MatrixTilesStep) -> tuple[tuple[int, ...], ...]:
    op = state.stages[step.stage_id].op
    view = matrix_view(op, instruction(step.instruction))
    return _choices(step.instruction, *view.sizes()) if isinstance(view, MatrixView) else ()


def draw_tiles(state: State, step: MatrixTilesStep, rng: np.random.Generator) -> MatrixTilesStep:
    """`step`, the next one of `state`, with sizes, stages and a layout drawn."""
    choices = _sizes_for(state, step)
    sizes = choices[int(rng.integers(len(choices)))]
    stages = _STAGES[int(rng.integers(len(_STAGES)))]
    return replace(step, sizes=sizes, stages=stages, swizzle=True)


def change_tiles(
    state: State, step: MatrixTilesStep, rng: np.random.Generator
) -> MatrixTilesStep | None:
    """`step` with one thing changed: the stages, or sizes that differ in at most two places."""
    if rng.random() < 0.25:
        others = [n for n in _STAGES if n != step.stages]
        return replace(step, stages=others[int(rng.integers(len(others)))])
    near = [
        sizes
        for sizes in _sizes_for(state, step)
        if 0 < sum(a != b for a, b in zip(sizes, step.sizes, strict=True)) <= 2
    ]
    return replace(step, sizes=near[int(rng.integers(len(near)))]) if near else None
