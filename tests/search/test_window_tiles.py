"""Tiles of windows that ask for their border themselves."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest

from autosched.driver import build_steps
from autosched.measure.check import compare
from autosched.runtime.cpu import load
from autosched.search.space import SearchSpace
from autosched.search.window_tiles import fill_windows
from autosched.state.state import State
from autosched.state.steps import SplitStep
from autosched.target import cpu_target
from autosched.task import Task

SIZES: list[tuple[str, dict[str, Any]]] = [
    (
        "depthwise_conv2d_nhwc",
        {"N": 1, "H": 12, "W": 9, "C": 21, "K": 3, "stride": 1, "padding": 1},
    ),
    (
        "depthwise_conv2d_nhwc",
        {"N": 2, "H": 11, "W": 8, "C": 5, "K": 5, "stride": 2, "padding": 2},
    ),
]


def space_of(op: str, args: dict[str, Any]) -> tuple[Task, SearchSpace, State]:
    """A task with its space, and the sketch whose border is inlined."""
    task = Task.from_workload(op, **args, target=cpu_target(threads=2))
    space = SearchSpace(task)
    (sketch,) = (s for s in space.sketches if s.stages[1].is_inlined)
    return task, space, sketch


def splits(state: State) -> list[SplitStep]:
    return [step for step in state.steps if isinstance(step, SplitStep)]


@pytest.mark.parametrize(("op", "args"), SIZES)
def test_any_tiles_compute_the_reference(op: str, args: dict[str, Any]) -> None:
    task, space, sketch = space_of(op, args)
    inputs = task.inputs(seed=1)
    (want,) = task.reference(inputs)
    for steps in space.sample(np.random.default_rng(3), 4, sketch=sketch):
        got = np.full_like(want, 77)
        load(build_steps(task.dag, steps, task.target))(*inputs, got)
        assert compare("Y", got, want) is None, steps


def test_half_of_the_tiles_are_drawn_for_registers() -> None:
    _, space, sketch = space_of(*SIZES[0])
    tiles = []
    for seed in range(60):
        state = fill_windows(space.context, sketch, np.random.default_rng(seed))
        assert state is not None
        if state is not sketch:
            n, h, w, c, rh, rw = splits(state)
            assert n.lengths == (1, 1, 1) and c.lengths == (1, 1, 21)
            assert rh.lengths == rw.lengths == (3,)
            tiles.append((h.lengths[1], w.lengths[1]))
            for split in (h, w):
                outside, side, inside = (n or 0 for n in split.lengths)
                assert split.extent is not None and split.extent % (outside * side) == 0
                assert inside == 1
    assert 20 <= len(tiles) <= 40
    assert {(2, 1), (2, 3), (3, 1)} <= set(tiles) <= {(a, b) for a in range(1, 5) for b in (1, 3)}


def test_tiles_fit_the_registers() -> None:
    """Of 16 registers, eight hold outputs."""
    sizes: dict[str, Any] = {"N": 1, "H": 8, "W": 8, "C": 8, "K": 3, "stride": 1, "padding": 1}
    target = replace(
        cpu_target(threads=2), cpu="znver3", features="+avx,+avx2,+fma", vector_bytes=32
    )
    task = Task.from_workload("depthwise_conv2d_nhwc", **sizes, target=target)
    space = SearchSpace(task)
    (sketch,) = (s for s in space.sketches if s.stages[1].is_inlined)
    tiles = set()
    for seed in range(100):
        state = fill_windows(space.context, sketch, np.random.default_rng(seed))
        assert state is not None
        if state is not sketch:
            tiles.add(prod(split.lengths[1] or 0 for split in splits(state)[:3]))
    assert max(tiles) == 8


def test_other_sketches_and_known_sizes_are_left_alone() -> None:
    task, space, sketch = space_of(*SIZES[0])
    (padded, *_) = (s for s in space.sketches if not s.stages[1].is_inlined)
    rng = np.random.default_rng(0)
    assert fill_windows(space.context, padded, rng) is padded
    (steps, *_) = space.sample(rng, 1, sketch=sketch)
    known = task.dag.state_of(steps)
    assert fill_windows(space.context, known, rng) is known
