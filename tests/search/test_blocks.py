"""Sizes of blocks: what is drawn, what mutation leaves, and that any of them computes the same."""

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest

from autosched.driver import build_steps, lower_steps
from autosched.measure.check import compare
from autosched.runtime.cpu import load
from autosched.search.blocks import blocked_stages, fill_blocks, nested_splits
from autosched.search.population import Structures, moved_factors
from autosched.search.rules import blocking
from autosched.search.space import SearchSpace
from autosched.state import queries
from autosched.state.state import State
from autosched.state.steps import SplitStep, Step
from autosched.target import Target, cpu_target
from autosched.task import Task
from autosched.tir.stmt import For, ForKind
from autosched.tir.walk import stmts

Steps = tuple[Step, ...]


def image(**others: int) -> dict[str, int]:
    return {"N": 1, "H": 7, "W": 9, "CI": 5, "stride": 1, "padding": 1, **others}


SIZES: list[tuple[str, dict[str, Any]]] = [
    ("matmul", {"M": 37, "N": 53, "K": 29}),
    ("matmul", {"M": 1, "N": 64, "K": 1}),
    ("matmul", {"M": 90, "N": 1, "K": 70}),
    ("matmul", {"M": 19, "N": 47, "K": 140, "dtype": "float64"}),
    ("matmul", {"M": 23, "N": 71, "K": 130, "dtype": "int32"}),
    ("batch_matmul", {"B": 3, "M": 13, "N": 41, "K": 31}),
    ("dense_bias_relu", {"M": 9, "N": 43, "K": 67}),
    ("conv2d_nhwc", image(CO=37, KH=3, KW=3)),
    ("conv2d_nchw_bn_relu", image(CO=11, K=3)),
]


def blocked(task: Task) -> list[State]:
    return [s for s in SearchSpace(task).sketches if any(True for _ in nested_splits(s.steps))]


@pytest.fixture
def pack_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operands of any size are packed."""
    monkeypatch.setattr(blocking, "LEAST_BYTES", 0)
    monkeypatch.setattr(blocking, "LEAST_REUSE", 1)


@pytest.mark.usefixtures("pack_all")
@pytest.mark.parametrize(("op", "args"), SIZES, ids=lambda p: str(p).replace(" ", ""))
def test_any_sizes_compute_the_reference(op: str, args: dict[str, Any]) -> None:
    task = Task.from_workload(op, **args, target=cpu_target(threads=3))
    space = SearchSpace(task)
    inputs = task.inputs(seed=1)
    (want,) = task.reference(inputs)
    rng = np.random.default_rng(len(str(args)))
    for sketch in blocked(task):
        (steps, *_) = space.sample(rng, 1, sketch=sketch)
        got = np.full_like(want, 77)
        load(build_steps(task.dag, steps, task.target))(*inputs, got)
        assert compare("C", got, want) is None, steps


@pytest.mark.usefixtures("pack_all")
def test_sizes_suit_the_machine() -> None:
    """Accumulators fit the registers, panels the second cache; every thread has work; no loop
    leaves its block by more than one tile."""
    task = Task.from_workload("matmul", M=500, N=1000, K=733, target=cpu_target(threads=4))
    space = SearchSpace(task)
    for sketch in blocked(task):
        for steps in space.sample(np.random.default_rng(0), 30, sketch=sketch):
            (blocks,) = blocked_stages(space.context, task.dag.state_of(steps))
            rows, columns = (split(steps, k + 1) for k in blocks.axes)
            (depth,) = split(steps, blocks.reductions[0]).lengths
            width = columns.lengths[-1] or 0
            vectors = -(-width // blocks.lanes)
            tile = rows.lengths[-1] or 0
            assert tile * vectors + min(tile, vectors) < blocks.registers
            assert (columns.lengths[0] or 1) * width * (depth or 0) * 4 <= 2**19 or depth == 733
            counts = [-(-(split(steps, k).extent or 0) // chunk(steps, k)) for k in blocks.axes]
            assert 4 <= int(np.prod(counts)) <= 32
            assert all(split(steps, k + 1).extent == chunk(steps, k) for k in blocks.axes)


def avx2() -> Target:
    return replace(
        cpu_target(threads=2),
        cpu="znver3",
        features="+avx,+avx2,+fma",
        vector_bytes=32,
        caches=(2**15, 2**19, 2**25),
    )


def drawn_tiles(rows: int, columns: int) -> set[tuple[int, int]]:
    """Rows and vectors of the tiles that are drawn for 16 registers of 8 floats."""
    task = Task.from_workload("matmul", M=rows, N=columns, K=1024, target=avx2())
    space = SearchSpace(task)
    tiles: set[tuple[int, int]] = set()
    for sketch in blocked(task):
        for steps in space.sample(np.random.default_rng(0), 40, sketch=sketch):
            (blocks,) = blocked_stages(space.context, task.dag.state_of(steps))
            assert (blocks.lanes, blocks.registers, blocks.most_packed) == (8, 16, 2**18)
            across, along = (split(steps, k + 1) for k in blocks.axes)
            (depth,) = split(steps, blocks.reductions[0]).lengths
            panel, width = along.lengths
            assert panel == 1 or (panel or 0) * (width or 0) * (depth or 0) * 4 <= 2**18
            tiles.add((across.lengths[-1] or 0, (width or 0) // 8))
    return tiles


@pytest.mark.usefixtures("pack_all")
def test_sizes_are_those_of_the_targets_registers_and_cache() -> None:
    """Tiles of ten accumulators or more and few loads, three rows at least; Ansor's hardware
    parameters say 64 bytes for every CPU."""
    assert drawn_tiles(600, 1000) == {(5, 2), (6, 2), (4, 3), (3, 4)}


@pytest.mark.usefixtures("pack_all")
def test_fewer_accumulators_where_nothing_is_left_over() -> None:
    """Of 640 rows and 1024 columns tiles of 4x2 and 5x2 vectors leave nothing; of 600 and 1000 they
    leave a rest of columns."""
    assert drawn_tiles(640, 1024) == {(4, 2), (5, 2), (6, 2), (4, 3), (3, 4)}


def test_few_rows_take_more_vectors() -> None:
    """Two rows of three vectors at most would leave the units waiting for each other."""
    task = Task.from_workload("matmul", M=2, N=1000, K=96, target=avx2())
    space = SearchSpace(task)
    vectors: set[int] = set()
    for steps in space.sample(np.random.default_rng(0), 40, sketch=blocked(task)[0]):
        (blocks,) = blocked_stages(space.context, task.dag.state_of(steps))
        assert split(steps, blocks.axes[0] + 1).lengths[-1] == 2 or chunk(steps, blocks.axes[0]) < 2
        vectors.add((split(steps, blocks.axes[1] + 1).lengths[-1] or 0) // 8)
    assert max(vectors) > 4


def test_one_vector_takes_many_rows() -> None:
    """A result no wider than a vector has no tile of few loads: the sums fill the registers."""
    target = replace(cpu_target(threads=2), vector_bytes=32, caches=(2**15, 2**19, 2**25))
    task = Task.from_workload("matmul", M=2048, N=8, K=512, target=target)
    space = SearchSpace(task)
    rows: set[int] = set()
    for steps in space.sample(np.random.default_rng(0), 40, sketch=blocked(task)[0]):
        (blocks,) = blocked_stages(space.context, task.dag.state_of(steps))
        rows.add(split(steps, blocks.axes[0] + 1).lengths[-1] or 0)
    assert min(rows) >= 8 and max(rows) > 12


def split(steps: Steps, k: int) -> SplitStep:
    step = steps[k]
    assert isinstance(step, SplitStep)
    return step


def chunk(steps: Steps, k: int) -> int:
    (length,) = split(steps, k).lengths
    assert length is not None
    return length


def test_mutations_keep_the_blocks_that_inner_extents_follow_from() -> None:
    """Panels and tiles change; none grows beyond its block."""
    task = Task.from_workload("matmul", M=500, N=1000, K=732)
    space = SearchSpace(task)
    rng = np.random.default_rng(0)
    start = space.sample(rng, 8, sketch=blocked(task)[-1])[:8]
    structures = Structures()
    rows = structures.rows(start)
    changed: set[int] = set()
    for _ in range(20):
        for steps, old in zip(
            structures.candidates(moved_factors(structures, rows, rng, 64)), start, strict=True
        ):
            changed |= {k for k, step in enumerate(steps) if step != old[k]}
            (blocks,) = blocked_stages(space.context, task.dag.state_of(steps))
            for k in blocks.axes:
                assert split(steps, k + 1).extent == chunk(steps, k) == chunk(old, k)
                assert size(steps, k + 1) <= max(chunk(steps, k), size(old, k + 1))
    assert len(changed) >= 2
    assert all(isinstance(start[0][k], SplitStep) for k in changed)


def size(steps: Steps, k: int) -> int:
    return prod(n or 1 for n in split(steps, k).lengths)


@pytest.mark.usefixtures("pack_all")
def test_a_packed_operand_stays_where_it_is() -> None:
    """It is neither inlined nor moved: there is one parallel loop, and the copy is inside of it."""
    task = Task.from_workload("matmul", M=60, N=77, K=33, target=cpu_target(threads=2))
    space = SearchSpace(task)
    for steps in space.sample(np.random.default_rng(1), 8, sketch=blocked(task)[-1]):
        state = task.dag.infer_bound_of(steps)
        assert queries.is_cache_read(state, 2) and state.attach_map.target_of(2) == (3, 2)
        func = lower_steps(task.dag, steps, task.target)
        loops = [s for s in stmts(func.body) if isinstance(s, For)]
        assert sum(loop.kind is ForKind.PARALLEL for loop in loops) <= 1


def test_splits_of_a_users_rule_are_left_alone() -> None:
    """They look like blocks, but the stage does not reduce."""
    task = Task.from_workload("add_relu", M=64, N=64)
    context = SearchSpace(task).context
    state = task.dag.init_state
    state, (_, inner) = state.split(2, state.stages[2].iters[0], [16])
    state, _ = state.split(2, inner, [4])
    assert list(nested_splits(state.steps)) == [0]
    assert blocked_stages(context, state) == []
    assert fill_blocks(context, state, np.random.default_rng(0)) is state


@pytest.mark.usefixtures("pack_all")
def test_few_registers_take_the_whole_reduction_where_a_panel_of_it_fits() -> None:
    """4 of 8 draws where 16 x 1024 floats fit half the second cache, 2 of 6 where 8192 do not."""
    whole: list[float] = []
    for length in (1024, 8192):
        task = Task.from_workload("matmul", M=64, N=256, K=length, target=avx2())
        space = SearchSpace(task)
        found: list[bool] = []
        for sketch in blocked(task):
            for steps in space.sample(np.random.default_rng(0), 150, sketch=sketch):
                (blocks,) = blocked_stages(space.context, task.dag.state_of(steps))
                found.append(split(steps, blocks.reductions[0]).lengths[0] == length)
        whole.append(float(np.mean(found)))
    assert 0.4 < whole[0] < 0.6 and 0.25 < whole[1] < 0.4, whole
