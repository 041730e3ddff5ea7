"""The sketches of a task in each space, and a check that their samples compute the right result."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np

from autosched.driver import build_steps
from autosched.measure.check import compare
from autosched.runtime.cpu import load
from autosched.search.options import SearchOptions
from autosched.search.rules.protocol import Context
from autosched.search.space import SearchSpace
from autosched.state.state import State
from autosched.task import Task

Space = Literal["ansor", "autosched"]
SPACES: tuple[Space, Space] = ("ansor", "autosched")


def sketches_of(task: Task, space: Space, gpu: bool = False) -> tuple[State, ...]:
    """All sketches that the rules of the space make for the task."""
    options = SearchOptions(space=space)
    return SearchSpace.of(Context(task.dag, task.target.hardware, gpu, options)).sketches


def assert_right(task: Task, sketches: Iterable[State], each: int, seed: int = 0) -> None:
    """Assert that `each` samples of every sketch of the space `autosched` are right."""
    inputs = task.inputs(seed=1)
    (want,) = task.reference(inputs)
    space = SearchSpace(task)
    for sketch in sketches:
        found = space.sample(np.random.default_rng(seed), each, sketch=sketch)
        assert found, sketch
        for steps in found[:each]:
            got = np.empty_like(want)
            load(build_steps(task.dag, steps, task.target))(*inputs, got)
            assert compare("the result", got, want) is None, steps
