"""The tasks of a model: what of it can be tuned, how often each occurs, and what is left out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from autosched import arguments
from autosched.errors import ConfigError
from autosched.layout import LayoutOption
from autosched.target import Target, make_target
from autosched.task import Task
from autosched.torch.computation import NoRuleError
from autosched.torch.matches import LeftOut, Match, matches_of
from autosched.torch.model_graph import Constants, exported
from autosched.torch.tables import inputs_text, left_out_lines, table
from autosched.words import count
from autosched.workloads.winograd import TILES


@dataclass(frozen=True, slots=True)
class ModelTask:
    """A task of a model, and the places where it is computed, each named after its module."""

    kind: str
    task: Task
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModelTasks:
    """What can be tuned of a model, in order of first use, and what PyTorch goes on computing."""

    found: tuple[ModelTask, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def tasks(self) -> list[Task]:
        """For `autosched.tune`."""
        return [each.task for each in self.found]

    @property
    def weights(self) -> list[float]:
        """How often the model computes each task: `weights` of `autosched.tune`."""
        return [float(len(each.places)) for each in self.found]

    def __str__(self) -> str:
        rows = [
            (f"{len(each.places)}x", each.kind, inputs_text(each.task), ", ".join(each.places))
            for each in self.found
        ]
        head = f"{count(len(self.found), 'task')}, {count(len(self.left_out), 'operation')}"
        return "\n".join([f"{head} left to PyTorch", *table(rows), *left_out_lines(self.left_out)])


def tasks_of(
    model: Any,
    *example_inputs: Any,
    target: str | Target = "cpu",
    layout_rewrite: str = "pre-transformed",
    winograd: int = 0,
    **named_inputs: Any,
) -> ModelTasks:
    """The operations of a model that can be tuned, for inputs of the shapes of these.

        tasks = autosched.torch.tasks_of(model, x)
        print(tasks)
        autosched.tune(tasks.tasks, weights=tasks.weights, records="model.jsonl")

    A task is a matrix product, a convolution, an attention, a pooling, a softmax or a normalisation
    of rows with the element-wise operations that follow it, batch normalisation and sums with other
    tensors among them, or a chain of element-wise operations. Equal ones are one task.

    Args:
        model: a torch.nn.Module in inference (`model.eval()`) that `torch.export` can trace.
        example_inputs: its arguments. Tasks are for their shapes and memory formats.
        named_inputs: those of its arguments that are given by name. One that is called as a
            parameter of this function is given by position.
        target: a CPU target.
        layout_rewrite: what kernels may do with constant weights, as for `Task.from_workload`.
        winograd: 2, 4 or 6 adds tasks for convolutions of 3x3 windows with stride 1 by Winograd's
            algorithm, in tiles of so many results a side: `with_kernels` takes what is faster.
            docs/torch.md says what that costs in exactness and memory.

    Raises ConfigError for another target, layout rewrite or tile, and for a model that cannot be
    traced.
    """
    found = make_target(target) if isinstance(target, str) else target
    if not isinstance(found, Target) or found.is_gpu:
        raise ConfigError(f"target: expected a CPU, found {found}; kernels in a model are for CPUs")
    LayoutOption.parse(layout_rewrite)
    if type(winograd) is not int or winograd not in (0, *TILES):
        raise ConfigError(
            "winograd: expected 2, 4 or 6, how many results a tile has along a side, or 0 for no "
            f"such tasks, {arguments.found(winograd)}"
        )
    module = exported(model, example_inputs, named_inputs)
    tiles = (winograd,) if winograd else ()
    matches, left_out = matches_of(module, Constants(module), found, layout_rewrite, tiles)
    groups: dict[str, list[Match]] = {}
    for way in (way for match in matches for way in _ways(match)):
        groups.setdefault(way.task.key, []).append(way)
    tasks = (
        ModelTask(group[0].computation.kind, group[0].task, tuple(m.place for m in group))
        for group in groups.values()
    )
    return ModelTasks(tuple(tasks), tuple(left_out))


def _ways(match: Match) -> Iterator[Match]:
    """The match, and the others of its ways that tensors can hold."""
    yield match
    for other in match.others:
        with suppress(NoRuleError):
            yield match.by(other)
