"""`autosched tune --dry-run`: show sketches and sampled candidates without measuring."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autosched.candidate import lower_candidate
from autosched.cli.console import plain, print_json, warning
from autosched.cli.dry_run_cuda import Compiling, compiled, summary
from autosched.errors import ScheduleError
from autosched.features.lowering import features_of_steps
from autosched.search.space import SearchSpace
from autosched.search.tuner import TuneOptions
from autosched.state.state import State
from autosched.state.steps import Step, steps_to_json
from autosched.task import Task
from autosched.words import count

_SHOWN = 3
_SAMPLES = 32


@dataclass(frozen=True, slots=True)
class DryRun:
    """The sampled candidates of one task.

    `legal` holds the steps of legal candidates with their numbers of stores that have features.
    `refused` holds the reasons of the others. `compiling` is the result of compiling the legal ones
    for a GPU, None for a CPU.
    """

    task: Task
    sketches: Sequence[State]
    legal: list[tuple[tuple[Step, ...], int]]
    refused: list[str]
    compiling: Compiling | None = None

    @property
    def sampled(self) -> int:
        """The number of candidates drawn, legal or not."""
        return len(self.legal) + len(self.refused)

    @property
    def usable(self) -> bool:
        """Whether at least one candidate could be measured."""
        run = self.compiling
        if run is None or run.missing:
            return bool(self.legal)
        return any(run.kernels)

    def reasons(self) -> list[tuple[int, str]]:
        """(count, example) for each reason of refusal, the most frequent first."""
        return _grouped(self.refused)

    def to_json(self) -> dict[str, Any]:
        """The object that --json prints for the task."""
        cuda = {} if self.compiling is None else {"cuda": self.compiling.to_json()}
        return {
            "task": self.task.to_json(),
            "sketches": [sketch.to_str() for sketch in self.sketches],  # tile sizes are open
            "sampled": self.sampled,
            "legal": [steps_to_json(steps) for steps, _ in self.legal],
            "refused": [{"count": n, "example": reason} for n, reason in self.reasons()],
            **cuda,
        }


def _grouped(reasons: Sequence[str]) -> list[tuple[int, str]]:
    """(count, example) of each group of reasons alike up to numbers, the most frequent first."""
    groups: dict[str, list[str]] = {}
    for reason in reasons:
        groups.setdefault(re.sub(r"\d+", "N", reason), []).append(reason)
    return sorted([(len(alike), alike[0]) for alike in groups.values()], key=lambda e: -e[0])


def show_all(
    tasks: Sequence[tuple[Task, TuneOptions]],
    *,
    as_json: bool,
    samples: int | None,
    build_timeout: float,
) -> bool:
    """Print sketches and some candidates of every task; False if one has no usable candidate.

    `samples` candidates are drawn for each task (default 32). For a GPU they are also compiled,
    with a limit of `build_timeout` seconds each.
    """
    found = []
    for number, (task, options) in enumerate(tasks):
        run = sampled(task, options, samples or _SAMPLES)
        if task.target.is_gpu:
            legal = [steps for steps, _ in run.legal]
            run = replace(run, compiling=compiled(task, legal, build_timeout))
        found.append(run)
        if not as_json:
            if number:
                plain("")
            _show(found[-1])
    if as_json:
        print_json({"tasks": [run.to_json() for run in found]})
    return all(run.usable for run in found)


def sampled(task: Task, options: TuneOptions, samples: int) -> DryRun:
    """Generate, lower, verify and featurise at most `samples` candidates."""
    space = SearchSpace(task, options.search, options.sketch_rules, warning)
    rng = np.random.default_rng(options.seed)
    run = DryRun(task, space.sketches, [], [])
    for steps in space.sample(rng, samples)[:samples]:
        try:
            ansor = options.search.space == "ansor"
            rows = features_of_steps(task.dag, steps, task.target, options.features, ansor)
            lower_candidate(task, steps)
        except ScheduleError as error:
            run.refused.append(str(error))
        else:
            run.legal.append((steps, len(rows)))
    if not run.sampled:  # all were discarded, as may happen with a user's sketch rules
        run.refused.extend(space.discarded(rng, samples))
    return run


def _show(run: DryRun) -> None:
    task = run.task
    plain(f"{task.name} on {task.target}: {count(len(run.sketches), 'sketch')}\n")
    for number, sketch in enumerate(run.sketches):
        plain(f"# sketch {number}\n{sketch.to_str()}")
    plain(
        f"{count(run.sampled, 'candidate')} sampled: {len(run.legal)} lowered, verified and "
        f"featurised, {len(run.refused)} refused"
    )
    for number, reason in run.reasons():
        plain(f"    {number} refused, for example: {reason}")
    if run.compiling is not None:
        first, *rest = summary(run.compiling)
        plain(first)
        for number, reason in _grouped(run.compiling.failed):
            plain(f"    {number} failed, for example: {reason}")
        for line in rest:
            plain(line)
        plain("nothing was measured")
    for number, (steps, rows) in enumerate(run.legal[:_SHOWN]):
        sizes = f"{count(len(steps), 'step')}, features of {count(rows, 'store')}"
        plain(f"\n# candidate {number}: {sizes}")
        if run.compiling is not None and not run.compiling.missing:
            for use in run.compiling.kernels[number] or ():
                plain(f"# {use}")
        plain(task.dag.infer_bound_of(steps).to_str())
