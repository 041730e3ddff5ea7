"""The computations that a user names for the workload keys in Ansor's logs.

A key such as `["matmul", 512, 512, 512]` names a built-in operator. Keys such as
`["d7b6...", [1, 56, 56, 64]]` (a hash and the shapes of the arguments) and `["my_op", 512]` do not
tell what is computed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autosched.errors import ConfigError, ScheduleError
from autosched.state.apply import apply_step
from autosched.state.steps import SplitStep, Step
from autosched.target import Target
from autosched.task import Task
from autosched.words import shortened
from autosched.workloads.workload import shape_of


@dataclass(frozen=True, slots=True)
class Computation:
    """The `workload` and `inputs` of a task entry; `source` names their origin in messages."""

    source: str
    workload: Mapping[str, Any]
    inputs: Mapping[str, Any]

    @classmethod
    def of(cls, source: str, task: Task) -> Computation:
        """The computation of a task."""
        entry = task.to_json()
        return cls(source, entry["workload"], entry.get("inputs", {}))


class WorkloadKeys:
    """Which computation each unknown key stands for.

    - `named`: computations by key, where a key is the whole text or its first element, such as the
      hash.
    - `other`: the computation of the first unknown key that is looked up, and of no other key.

    One object serves all files of a command.
    """

    def __init__(
        self,
        named: Mapping[str, Computation] | None = None,
        other: Computation | None = None,
    ) -> None:
        self._named = dict(named or {})
        self._other = other
        self._bound = ""
        self._used: set[str] = set()
        self._tasks: dict[tuple[str, Target], Task] = {}

    def given(self, text: str) -> Computation | None:
        """The computation that was named for exactly this key, known or not; else None."""
        if self._other is not None and text == self._bound:
            return self._other
        for key in (text, str(elements(text)[0])):
            if key in self._named:
                self._used.add(self._named[key].source)
                return self._named[key]
        return None

    def unknown(self, text: str, problem: str) -> Computation:
        """The computation of a key that does not name one.

        Raises ConfigError, which begins with `problem`, when there is none for it.
        """
        if self._other is None:
            raise ConfigError(
                f"{problem}; give its computation with --workload CONFIG on the command line, in "
                "Python with workloads= of tune and load_best"
            )
        if self._bound in ("", text):
            self._bound = text
            self._used.add(self._other.source)
            return self._other
        raise ConfigError(
            f"{problem}; {self._other.source} is used for {shortened(self._bound, 60)}, give the "
            "computation of another key with --workload KEY=CONFIG"
        )

    def task(self, computation: Computation, target: Target) -> Task:
        """The task of a computation on a target, made only once, since it may run a user's file."""
        key = (computation.source, target)
        if key not in self._tasks:
            task = Task.from_json_workload(computation.workload, target)
            inputs = computation.inputs
            self._tasks[key] = task.with_inputs(inputs) if inputs else task
        return self._tasks[key]

    @property
    def unused(self) -> Sequence[str]:
        """The sources of the computations that no key used."""
        known = [*self._named.values(), *([self._other] if self._other else [])]
        return [c.source for c in known if c.source not in self._used]


def elements(text: str) -> list[Any]:
    """The elements of a key; a key that is no JSON list is a name without arguments."""
    try:
        found = json.loads(text)
    except ValueError:
        return [text]
    return found if isinstance(found, list) and found else [text]


def require_shapes(computation: Computation, task: Task, text: str) -> None:
    """Raise ConfigError when the key `text` has other shapes of arguments than the task.

    A hash is followed by a list for each argument, or in older logs by all sizes in a row. A name
    such as `my_op` is followed by its own arguments, of which only `["TENSOR", shape, type]` have a
    shape.
    """
    first, *rest = elements(text)
    shapes = [list(shape_of(tensor)) for tensor in task.tensors]
    if rest and all(_is_tensor(e) for e in rest):
        found = [list(e[1]) for e in rest]
        expected = shapes[: len(rest)]
    elif rest and all(isinstance(e, list) and all(type(n) is int for n in e) for e in rest):
        found, expected = rest, shapes
    elif rest and is_hash(first) and all(type(n) is int for n in rest):
        found, expected = [rest], [[n for shape in shapes for n in shape]]
    else:
        return
    if found != expected:
        raise ConfigError(
            f"{computation.source} does not fit: expected {_shown(expected)}, the shapes of "
            f"{task.name}, found {_shown(found)} in the workload key"
        )


def require_steps(computation: Computation, task: Task, steps: Sequence[Step]) -> None:
    """Raise ConfigError when the steps of a candidate cannot belong to the task.

    That is, they do not apply, or a split was written for a loop of another extent.
    """
    try:
        require_splits(computation.source, task, steps)
    except ScheduleError as error:
        raise ConfigError(
            f"{computation.source} does not fit: its steps do not apply to {task.name}: {error}"
        ) from error


def require_splits(source: str, task: Task, steps: Sequence[Step]) -> None:
    """Raise ConfigError when a split was written for a loop of another extent than the task's.

    The message begins with `source`. Raises ScheduleError where the steps do not apply.
    """
    state = task.dag.init_state
    for number, step in enumerate(steps):
        if isinstance(step, SplitStep) and 0 <= step.stage_id < len(state.stages):
            iters = state.stages[step.stage_id].iters
            here = iters[step.iter_id].extent if step.iter_id < len(iters) else None
            if None not in (here, step.extent) and here != step.extent:
                name = state.stages[step.stage_id].name
                raise ConfigError(
                    f"{source} does not fit: step {number} splits a loop of "
                    f"{step.extent} iterations, but loop {iters[step.iter_id].name} of {name} in "
                    f"{task.name} has {here}"
                )
        state = apply_step(state, step)


def is_hash(name: Any) -> bool:
    """Whether a name is an md5 in hexadecimal, which Ansor computes from the computation's text."""
    return isinstance(name, str) and len(name) == 32 and not set(name) - set("0123456789abcdef")


def _is_tensor(element: Any) -> bool:
    return isinstance(element, list) and len(element) == 3 and element[0] == "TENSOR"


def _shown(shapes: Sequence[Sequence[int]]) -> str:
    return ", ".join(str(list(shape)) for shape in shapes)
