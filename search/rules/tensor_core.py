"""TensorCore: matrix products on tensor cores, in the space `autosched` for NVIDIA GPUs.

C = sum(A * B)      ->    blocks, warps, fragments by `Schedule.matrix_tiles`, and what reads C

A sketch fixes the instruction (on sm_90 one sketch has wgmma and one mma.sync); sizes and stages
are drawn (`draw_tiles`) and mutated (`change_tiles`). Long sums with few results have another
sketch, in which blocks share the terms:

C.rf[s] = sum(A * B) of slice s         ->    blocks of their own for each slice
C = sum over s of C.rf[s], what reads C ->    a second kernel
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np

from autosched.search.rules.common import FEW_BLOCKS
from autosched.search.rules.protocol import Context, Decision, FunctionRule
from autosched.search.rules.tiling import in_slices
from autosched.state import queries
from autosched.state.iterator import Annotation
from autosched.state.stage import ComputeAt
from autosched.state.state import State
from autosched.state.steps import MatrixTilesStep
from autosched.te.intrin.instruction import Instruction
from autosched.te.intrin.nvidia import TF32
from autosched.te.intrin.registry import instruction
from autosched.te.intrin.warpgroup import is_of_warpgroup
from autosched.te.operations.operation import CONST_TENSOR_ATTR
from autosched.te.schedule.matrix_view import MatrixView, matrix_view, total
from autosched.tir.constants import whole_number
from autosched.tir.gpu import WARP
from autosched.tir.warpgroup_matrix import ROWS_OF_WARP

_BLOCKS = (16, 32, 64, 128, 256)
_WARPS = (16, 32, 64, 128)
_STEPS = (1, 2, 4)
_STAGES = (2, 3, 4)
_MOST_WARPS = 8
_MOST_SUMS = 128
"""Elements of the result that a thread of a warp has registers for."""
_LEAST_SUMS = 8
_TILE = 64
_LONG_SUM = 1024
"""From so many terms on, half of them pay for another kernel and for partial sums in memory."""

_ROWS_OF_WARPGROUPS = (64, 128, 256)
_COLUMNS_OF_WARPGROUPS = (64, 128, 192, 256)
_STEPS_OF_WARPGROUPS = (1, 2)
_MOST_STAGES = 6
_MOST_REGISTERS = 65536
_OTHER_REGISTERS = 40
"""Registers of a thread beside its sums."""
_MOST_TILE_BYTES = 224 << 10
"""The most bytes of all stages of both tiles: sm_90, the only one with wgmma, gives a block 227
KiB."""


def fitting_instructions(context: Context, state: State, stage_id: int) -> list[Instruction]:
    """The first instruction of a warpgroup that computes the stage, and the first of a warp."""
    op = state.stages[stage_id].op
    found: dict[bool, Instruction] = {}
    for it in context.instructions:
        kind = is_of_warpgroup(it)
        if kind not in found and isinstance(matrix_view(op, it), MatrixView):
            if TF32 in it.features and _is_transformed(state, stage_id):
                continue
            found[kind] = it
    return list(found.values())


def _is_transformed(state: State, stage_id: int) -> bool:
    """Whether the stage, or one that depends on it, is a product with a table of numbers.

    Winograd's transforms are: they magnify what the factors of a product lose.
    """
    if CONST_TENSOR_ATTR in state.stages[stage_id].op.attrs:
        return True
    return any(_is_transformed(state, reader) for reader in queries.consumers(state, stage_id))


def is_untouched(state: State, stage_id: int) -> bool:
    """Whether no rule has changed the stage's loops so far."""
    stage = state.stages[stage_id]
    return (
        stage.compute_at is ComputeAt.ROOT
        and not queries.is_tiled(state, stage_id)
        and all(it.annotation is Annotation.NONE for it in stage.iters)
    )


def writer_of(state: State, stage_id: int) -> int:
    """The element-by-element consumer of the stage, if it is untouched; else the stage itself."""
    reader = queries.has_single_elementwise_matched_consumer(state, stage_id)
    return reader if reader >= 0 and is_untouched(state, reader) else stage_id


def _condition(context: Context, state: State, stage_id: int) -> Decision:
    if queries.has_cache_write(state, stage_id) or not is_untouched(state, stage_id):
        return Decision.SKIP
    if not fitting_instructions(context, state, stage_id):
        return Decision.SKIP
    return Decision.APPLY if _is_read_whole(context, state, stage_id) else Decision.SKIP


def _is_read_whole(context: Context, state: State, stage_id: int) -> bool:
    """Whether every element of the stage is read: a fragment is stored as a whole."""
    op = state.stages[stage_id].op
    before = (stage for stage in context.dag.infer_bound_of(()).stages if stage.op is op)
    needed = next(before, None)
    return needed is None or all(
        iv.dom is None or whole_number(iv.dom.extent) == it.extent
        for it, iv in zip(needed.iters, op.root_iter_vars, strict=True)
    )


def _apply(context: Context, state: State, stage_id: int) -> list[tuple[State, int]]:
    writer = writer_of(state, stage_id)
    found = []
    for it in fitting_instructions(context, state, stage_id):
        step = it.extent("k")
        smallest = (64, 64, step, 16, 64) if is_of_warpgroup(it) else (16, 16, step, 16, 16)
        tiles = MatrixTilesStep(stage_id, writer, it.name, smallest, 0, True)
        found.append((state.apply(tiles), stage_id - 1))
        place = _long_sum(state, stage_id, it)
        if place is not None:
            sliced = in_slices(state, stage_id, state.stages[stage_id].iters[place], writer)
            found.append((sliced.apply(replace(tiles, writer_id=stage_id)), stage_id - 1))
    return found


def _long_sum(state: State, stage_id: int, it: Instruction) -> int | None:
    """The index of the loop whose terms blocks should share; None if tiles are enough for a GPU."""
    view = matrix_view(state.stages[stage_id].op, it)
    assert isinstance(view, MatrixView)
    rows, columns, terms = view.sizes()
    tiles = -(-rows // _TILE) * -(-columns // _TILE) * total(view.batch)
    if tiles >= FEW_BLOCKS or terms < _LONG_SUM:
        return None
    longest = max(view.k, key=lambda axis: total((axis,)))
    return state.stages[stage_id].op.root_iter_vars.index(longest)


TENSOR_CORE = FunctionRule("TensorCore", _condition, _apply)


@lru_cache(maxsize=64)
def _choices(name: str, rows: int, columns: int, terms: int) -> tuple[tuple[int, ...], ...]:
    """The sizes (m, n, k, warp m, warp n) worth trying for a product.

    No tile is much larger than the product, and no warp is idle.
    """
    step = instruction(name).extent("k")
    if is_of_warpgroup(instruction(name)):
        return tuple(_of_warpgroups(step, rows, columns, terms))

    def all_sizes() -> Iterator[tuple[int, ...]]:
        for m in _blocks(rows):
            for n in _blocks(columns):
                for warp_m in _WARPS:
                    for warp_n in _WARPS:
                        sums = warp_m * warp_n // WARP
                        whole = m % warp_m == 0 and n % warp_n == 0
                        if not whole or not _LEAST_SUMS <= sums <= _MOST_SUMS:
                            continue
                        if (m // warp_m) * (n // warp_n) > _MOST_WARPS:
                            continue
                        for k in _STEPS:
                            if k == 1 or step * k < 2 * terms:
                                yield m, n, step * k, warp_m, warp_n

    return tuple(all_sizes())


def _of_warpgroups(step: int, rows: int, columns: int, terms: int) -> Iterator[tuple[int, ...]]:
    least_m, least_n = _ROWS_OF_WARPGROUPS[0], _COLUMNS_OF_WARPGROUPS[0]
    for m in _ROWS_OF_WARPGROUPS:
        for n in _COLUMNS_OF_WARPGROUPS:
            if (m > least_m and m >= 2 * rows) or (n > least_n and n >= 2 * columns):
                continue
            if n & (n - 1) and columns % n:  # 192 gains nothing if it leaves columns over
                continue
            if WARP * m // ROWS_OF_WARP * (n // 2 + _OTHER_REGISTERS) > _MOST_REGISTERS:
                continue
            for k in _STEPS_OF_WARPGROUPS:
                if k == 1 or step * k < 2 * terms:
                    yield m, n, step * k, ROWS_OF_WARP, n


def _stages_for(step: MatrixTilesStep) -> tuple[int, ...]:
    """The numbers of stages that may be tried for the sizes of a step."""
    if not is_of_warpgroup(instruction(step.instruction)):
        return _STAGES
    m, n, k, *_ = step.sizes
    each = (m + n) * k * instruction(step.instruction).a.dtype.bytes
    return tuple(s for s in range(_STAGES[0], _MOST_STAGES + 1) if s * each <= _MOST_TILE_BYTES)


def _blocks(size: int) -> tuple[int, ...]:
    return tuple(b for b in _BLOCKS if b == _BLOCKS[0] or b < 2 * size)


def _sizes_for(state: State, step: MatrixTilesStep) -> tuple[tuple[int, ...], ...]:
    op = state.stages[step.stage_id].op
    view = matrix_view(op, instruction(step.instruction))
    return _choices(step.instruction, *view.sizes()) if isinstance(view, MatrixView) else ()


def draw_tiles(state: State, step: MatrixTilesStep, rng: np.random.Generator) -> MatrixTilesStep:
    """`step`, the next step of `state`, with sizes and stages drawn, and a swizzled layout."""
    choices = _sizes_for(state, step)
    sizes = choices[int(rng.integers(len(choices)))]
    step = replace(step, sizes=sizes, swizzle=True)
    stages = _stages_for(step)
    return replace(step, stages=stages[int(rng.integers(len(stages)))])


def change_tiles(
    state: State, step: MatrixTilesStep, rng: np.random.Generator
) -> MatrixTilesStep | None:
    """`step` with one thing changed: the stages, or sizes that differ in at most two places.

    None when nothing else is possible.
    """
    if rng.random() < 0.25:
        others = [n for n in _stages_for(step) if n != step.stages]
        return replace(step, stages=others[int(rng.integers(len(others)))]) if others else None
    near = [
        sizes
        for sizes in _sizes_for(state, step)
        if 0 < sum(a != b for a, b in zip(sizes, step.sizes, strict=True)) <= 2
    ]
    if not near:
        return None
    step = replace(step, sizes=near[int(rng.integers(len(near)))])
    return replace(step, stages=min(step.stages, _stages_for(step)[-1]))
