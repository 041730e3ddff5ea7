"""The sketches of a task in each space."""

from __future__ import annotations

from typing import Literal

from autosched.search.options import SearchOptions
from autosched.search.rules.protocol import Context
from autosched.search.space import SearchSpace
from autosched.state.state import State
from autosched.task import Task

Space = Literal["ansor", "autosched"]
SPACES: tuple[Space, Space] = ("ansor", "autosched")


def sketches_of(task: Task, space: Space, gpu: bool = False) -> tuple[State, ...]:
    """All that the rules of the space make of the task."""
    options = SearchOptions(space=space)
    return SearchSpace.of(Context(task.dag, task.target.hardware, gpu, options)).sketches
