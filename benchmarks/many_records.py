"""The overhead of a trial beside measurement, and how it grows with the records of the task.

    python benchmarks/many_records.py --records 0 20000 --trials 64
    python benchmarks/many_records.py --records 0 --target cuda

Nothing is measured: times are made up from a candidate's numbers, so that the search has something
to find and a run is over in seconds. The records are relatives of samples of the task, written to a
file and read again. Each number of records runs in a process of its own, because its memory is
measured. `start` is the time for reading the file and learning from it. `outside` is the remaining
time of a trial, and `late` the same for the last quarter of the trials, which should not be longer.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autosched.features.sets import TUNING
from autosched.measure.record_log import RecordLog
from autosched.measure.records import Record, read_log
from autosched.measure.result import MeasureResult
from autosched.process.garbage import rarely_collect
from autosched.search.cost_model import XGBoostModel
from autosched.search.evolution import mutated
from autosched.search.learner import Learner
from autosched.search.population import Structures
from autosched.search.pretrained import start_pretrained
from autosched.search.space import SearchSpace
from autosched.search.tuner import TuneOptions, Tuner
from autosched.state.steps import SplitStep, Step
from autosched.task import Task

WORKLOADS: dict[str, tuple[str, dict[str, Any]]] = {
    "matmul": ("matmul", {"M": 512, "N": 512, "K": 512}),
    "conv2d_bn_relu": (
        "conv2d_nchw_bn_relu",
        {"N": 1, "H": 56, "W": 56, "CI": 64, "CO": 64, "K": 3, "stride": 1, "padding": 1},
    ),
}
_SAMPLES = 256  # the records are relatives of these


def seconds_of(steps: Sequence[Step]) -> float:
    """A made-up time: squared distances from middle tile sizes, and an effect of the candidate."""
    found = 0.0
    for step in steps:
        if isinstance(step, SplitStep):
            found += sum((math.log2(length or 1) - 2) ** 2 for length in step.lengths)
    digest = hashlib.sha256(repr(steps).encode()).digest()
    return 1e-3 * (1 + 0.05 * found + 0.1 * digest[0] / 255)


class Simulated:
    """Stands in for a measurer whose times are those of `seconds_of`."""

    on_known: Callable[[int, MeasureResult], None] | None = None

    def start(self, task: Task) -> None:
        """Do nothing: no process is needed."""

    def begin(self, task: Task, batch: Sequence[tuple[Step, ...]] = ()) -> None:
        """Do nothing: nothing is built."""

    def reference(self, task: Task) -> None:
        """Do nothing: no reference is needed."""

    def measure(
        self,
        task: Task,
        batch: Sequence[tuple[Step, ...]],
        best: float,
        progress: Callable[[str, int, int], None],
    ) -> list[MeasureResult]:
        """The made-up time of each candidate."""
        return [MeasureResult((seconds_of(steps),)) for steps in batch]


def write_records(task: Task, count: int, path: Path) -> None:
    """Write `count` records of different candidates with made-up times."""
    space = SearchSpace(task)
    rng = np.random.default_rng(1)
    structures = Structures()
    rows = structures.rows(space.sample(rng, min(count, _SAMPLES)))
    found = dict.fromkeys(structures.candidates(rows))
    while len(found) < count:
        rows = mutated(
            space.context, structures, rows.take(rng.integers(len(rows), size=2048)), rng
        )
        found |= dict.fromkeys(structures.candidates(rows))
    task_json = task.to_json()
    records = [
        Record(task_json, steps, MeasureResult((seconds_of(steps),)), {"state": f"{number:016x}"})
        for number, steps in enumerate(list(found)[:count])
    ]
    RecordLog(path).append(records)


def task_of(name: str, target: str) -> Task:
    workload, args = WORKLOADS[name]
    return Task.from_workload(workload, target=target, **args)


def one(name: str, target: str, path: Path, trials: int) -> dict[str, float]:
    """The milliseconds of a run that continues from `path`, and the megabytes of its process."""
    task = task_of(name, target)
    model = XGBoostModel(0)
    start_pretrained(model, task.target.kind, TUNING)
    began = time.perf_counter()
    earlier = read_log(path).records
    read = time.perf_counter() - began
    ends: list[float] = []
    tuner = Tuner(
        task,
        TuneOptions(trials=trials),
        Simulated(),
        RecordLog(path),
        earlier,
        lambda progress, records: ends.extend([time.perf_counter()] * len(records)),
        learner=Learner(model),
    )
    tuner.run()
    seconds = tuner.progress.seconds
    quarter = max(1, len(ends) // 4)
    late = (ends[-1] - ends[-1 - quarter]) / quarter
    return {
        "start": 1e3 * (ends[0] - began),
        "read": 1e3 * read,
        "outside": 1e3 * (ends[-1] - ends[0]) / max(1, len(ends) - quarter),
        "late": 1e3 * late,
        "search": 1e3 * seconds["search"],
        "learn": 1e3 * seconds["learn"],
        "MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, nargs="+", default=[0, 2000, 20000])
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--target", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        rarely_collect()  # as `autosched tune` does
        print(json.dumps(one(options.workloads[0], options.target, options.one, options.trials)))
        return
    heads = ("start", "read", "outside", "late", "search", "learn", "MiB")
    print("milliseconds".ljust(26), *(head.rjust(9) for head in heads))
    with tempfile.TemporaryDirectory() as folder:
        for name in options.workloads:
            for count in options.records:
                path = Path(folder) / f"{name}.{count}.jsonl"
                write_records(task_of(name, options.target), count, path)
                command = [sys.executable, __file__, "--workloads", name, "--one", str(path)]
                command += ["--target", options.target, "--trials", str(options.trials)]
                found = json.loads(subprocess.run(command, check=True, stdout=-1).stdout)
                values = (f"{found[head]:9.1f}" for head in heads)
                print(f"{name:16}  {count:8}", *values, flush=True)


if __name__ == "__main__":
    main()
