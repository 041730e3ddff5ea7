"""`autosched tune --dry-run`: sketches and sampled candidates, nothing measured."""

from __future__ import annotations

import numpy as np

from autosched.cli.console import plain
from autosched.driver import lower_steps
from autosched.errors import ScheduleError
from autosched.task import Task
from features.lowering import features_of_steps
from search.rules.protocol import Context
from search.sample import sample_population
from search.sketch import generate_sketches
from search.tuner import TuneOptions

_SHOWN = 3
_SAMPLES = 32


def show_candidates(task: Task, options: TuneOptions) -> None:
    """Generate, lower, verify and featurise candidates; print sketches and a few samples."""
    hardware, is_gpu = task.target.hardware, task.target.is_gpu
    sketches = generate_sketches(task.dag, hardware, is_gpu, options.search, options.sketch_rules)
    plain(f"{task.name} on {task.target}: {len(sketches)} sketches\n")
    for number, sketch in enumerate(sketches):
        plain(f"# sketch {number}\n{sketch.to_str()}")
    context = Context(task.dag, hardware, is_gpu, options.search)
    rng = np.random.default_rng(options.seed)
    population = sample_population(context, sketches, rng, _SAMPLES)
    legal, reasons = [], []
    for steps in population:
        try:
            rows = features_of_steps(task.dag, steps, task.target)
            lower_steps(task.dag, steps, task.target, layout=task.layout)
            legal.append((steps, rows))
        except ScheduleError as error:
            reasons.append(str(error))
    plain(
        f"{len(population)} candidates sampled: {len(legal)} lowered, verified and featurised, "
        f"{len(reasons)} refused"
    )
    for reason in dict.fromkeys(reasons):
        plain(f"    refused, for example: {reason}")
    for number, (steps, rows) in enumerate(legal[:_SHOWN]):
        plain(f"\n# candidate {number}: {len(steps)} steps, features of {len(rows)} stores")
        plain(task.dag.infer_bound_of(steps).to_str())
