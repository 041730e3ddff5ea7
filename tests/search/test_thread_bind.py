"""Loops of GPU candidates on blocks, virtual threads and threads."""

import math

import numpy as np
import pytest

from autosched import te
from autosched.search.initial import Rng, fill_tile_size
from autosched.search.options import SearchOptions, SpaceName
from autosched.search.rules.protocol import Context
from autosched.search.space import SearchSpace
from autosched.search.thread_bind import bind_tiles, thread_bind
from autosched.search.thread_tiles import ThreadTile, sizes_of, suits
from autosched.state.dag import ComputeDAG
from autosched.state.iterator import Annotation
from autosched.state.state import State
from autosched.target import HardwareParams
from autosched.te.operations.tensor import Tensor
from autosched.tir import op
from kit.types import MakeSpace, MakeTask

GPU = HardwareParams.default("cuda")


def bind(context: Context, state: State, rng: Rng) -> State | None:
    """What a sample becomes; None where it is discarded."""
    kept = bind_tiles(context, state, rng)
    return None if kept is None else thread_bind(context, context.dag.infer_bound(kept), rng)


def bound(tensors: list[Tensor], seed: int = 0, space: SpaceName = "ansor") -> State:
    dag = ComputeDAG(tensors)
    context = Context(dag, GPU, True, SearchOptions(space=space))
    (sketch,) = SearchSpace.of(context).sketches
    rng = np.random.default_rng(seed)
    filled = fill_tile_size(context, sketch, rng)
    assert filled is not None
    state = bind(context, filled, rng)
    assert state is not None
    return dag.infer_bound(state)


def elementwise(shape: tuple[int, int]) -> list[Tensor]:
    a = te.placeholder(shape, name="A")
    return [a, te.compute(shape, lambda *i: a(*i) * 2.0, name="B")]


def test_a_short_stage_is_one_block_of_threads() -> None:
    lines = bound(elementwise((4, 8))).to_str().splitlines()
    assert lines[1] == "threadIdx.x i0@i1@ (0,32)"


def test_a_long_stage_is_cut_into_warps() -> None:
    lines = bound(elementwise((64, 33))).to_str().splitlines()
    assert lines[1:3] == ["blockIdx.x i0@i1@.0 (0,66)", "  threadIdx.x i0@i1@.1 (0,32)"]


def shapes_of_threads(tensors: list[Tensor]) -> set[tuple[int, int]]:
    """Threads of a block, and elements of a thread, that the space `autosched` draws."""
    found = set()
    for seed in range(60):
        its = bound(tensors, seed, "autosched").stages[-1].iters
        extents = {it.annotation: it.extent or 0 for it in its}
        found.add((extents[Annotation.THREAD_X], extents.get(Annotation.VECTORIZE, 1)))
    return found


@pytest.mark.parametrize(
    ("columns", "dtype", "lanes"),
    [
        (4096, "float32", {1, 2, 4}),
        (4098, "float32", {1, 2}),  # a vector stays in its row
        (4099, "float32", {1}),
        (4096, "float64", {1, 2}),
        (4096, "int8", {1, 2, 4, 8, 16}),
    ],
)
def test_blocks_of_threads_and_their_vectors_are_drawn(
    columns: int, dtype: str, lanes: set[int]
) -> None:
    a = te.placeholder((8, columns), dtype, name="A")
    b = te.compute((8, columns), lambda i, j: a[i, j] + a[i, j], name="B")
    found = shapes_of_threads([a, b])
    assert {threads for threads, _ in found} == {32, 64, 128, 256, 512}
    assert {n for _, n in found} == lanes
    # The widest type that is read or written counts: a GPU moves 16 bytes at once.
    wide = te.compute((8, columns), lambda i, j: op.cast("float64", a[i, j]), name="B")
    assert max(n for _, n in shapes_of_threads([a, wide])) <= 2


def test_no_vectors_around_other_loops() -> None:
    a = te.placeholder((512, 4, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    sums = te.compute((512, 4), lambda i, j: te.sum(a[i, j, k], axis=k), name="B")
    assert {n for _, n in shapes_of_threads([a, sums])} == {1}


def test_tiled_stages_keep_the_limits_or_are_discarded(
    make_space: MakeSpace, make_task: MakeTask
) -> None:
    space = make_space(make_task("matmul", "cuda"))
    sketch = space.sketches[0]
    outcomes = set()
    for seed in range(60):
        rng = np.random.default_rng(seed)
        filled = fill_tile_size(space.context, sketch, rng)
        assert filled is not None
        state = bind(space.context, filled, rng)
        outcomes.add(state is None)
        if state is None:
            continue
        for stage in state.stages:
            for it in stage.iters:
                if it.annotation is Annotation.VTHREAD:
                    assert it.extent is not None and it.extent <= GPU.max_vthread_extent
                if it.annotation is Annotation.THREAD_X and "shared" not in stage.name:
                    assert it.extent is not None and it.extent >= GPU.warp_size
    assert outcomes == {True, False}


@pytest.mark.parametrize("name", ["matmul", "conv2d_nhwc"])
def test_what_is_discarded_is_out_of_range(
    name: str, make_space: MakeSpace, make_task: MakeTask
) -> None:
    """Before any bounds are inferred."""
    space = make_space(make_task(name, "cuda"))
    for seed in range(40):
        rng = np.random.default_rng(seed)
        filled = fill_tile_size(space.context, space.sketches[0], rng)
        assert filled is not None
        state = bind_tiles(space.context, filled, rng)
        stage = space.context.dag.infer_bound(filled).stages[-1]
        vthreads, threads, own = (
            math.prod(it.extent or 0 for it in stage.iters if it.name.endswith(f".{level}"))
            for level in (1, 2, 3)
        )
        tile = ThreadTile(vthreads, threads, vthreads * own)
        in_range = suits(GPU, sizes_of(filled, len(filled.stages) - 1), 4, tile)
        assert in_range == (state is not None), seed


def test_fetches_into_shared_memory_use_the_same_threads(
    make_space: MakeSpace, make_task: MakeTask
) -> None:
    space = make_space(make_task("matmul", "cuda"))
    sketch = space.sketches[0]
    state = None
    for seed in range(60):
        rng = np.random.default_rng(seed)
        filled = fill_tile_size(space.context, sketch, rng)
        assert filled is not None
        state = state or bind(space.context, filled, rng)
    assert state is not None
    state = space.context.dag.infer_bound(state)
    threads = {
        it.extent
        for stage in state.stages
        for it in stage.iters
        if it.annotation is Annotation.THREAD_X
    }
    assert len(threads) == 1
