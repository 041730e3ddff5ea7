"""How near a search comes to the best if a model stands for the machine; it takes minutes.

    tar xf benchmarks/data/search_quality.tar.xz
    python benchmarks/search_simulated.py search_quality/ [--workloads matmul ...] [--seeds 6]

For each workload a cost model is trained on all measurements in the folder. The search measures the
model's prediction for a candidate, with 2% of noise. Printed is how much slower the best of 16, 32
and 64 trials is than the fastest candidate that the model knows (below 0: faster), for searches
that start from the shipped model and for searches without knowledge. The numbers are means over the
seeds; the seconds of a search are printed, too. To compare two versions of the program, run it in
both; chance moves a mean by half a percent.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, median

import numpy as np
from many_records import Simulated
from search_quality import WORKLOADS

from autosched.features.sets import TUNING
from autosched.measure.records import read_log
from autosched.measure.result import MeasureResult
from autosched.process.garbage import rarely_collect
from autosched.search.cost_model import XGBoostModel
from autosched.search.featurize import task_featurizer
from autosched.search.learner import Learner
from autosched.search.pretrained import start_pretrained
from autosched.search.tuner import TuneOptions, Tuner
from autosched.state.steps import Step
from autosched.task import Task

POINTS = (16, 32, 64)
_NOISE = 0.02
_AT_ONCE = 512
Steps = tuple[Step, ...]
Seconds = Callable[[Sequence[Steps]], np.ndarray]


class Machine(Simulated):
    """Stands in for a measurer: it returns a model's predictions, with noise."""

    def __init__(self, seconds: Seconds, seed: int) -> None:
        self._seconds, self._rng = seconds, np.random.default_rng(seed)

    def measure(
        self,
        task: Task,
        batch: Sequence[Steps],
        best: float,
        progress: Callable[[str, int, int], None],
    ) -> list[MeasureResult]:
        """One time for each candidate."""
        noise = np.exp(self._rng.normal(0, _NOISE, len(batch)))
        return [MeasureResult((float(t),)) for t in self._seconds(batch) * noise]


def model_of(task: Task, folder: Path, name: str) -> tuple[Seconds, float]:
    """A function that predicts seconds from the records of a workload, and its least value."""
    featurize = task_featurizer(task, None, TUNING, False)
    records = [r for path in folder.glob(f"*.{name}.jsonl") for r in read_log(path).records]
    records = [record for record in records if record.result.valid]
    if not records:
        raise SystemExit(f"{folder}: no records of {name} (*.{name}.jsonl)")
    fastest = min(record.result.cost for record in records)
    model = XGBoostModel(123, rounds=250, columns=0.4)

    def seconds(candidates: Sequence[Steps]) -> np.ndarray:
        parts = [candidates[k : k + _AT_ONCE] for k in range(0, len(candidates), _AT_ONCE)]
        rows = [row for part in parts for row in featurize(part)]
        legal = [row for row in rows if row is not None]
        assert len(legal) == len(rows)  # a search proposes only legal candidates
        found: np.ndarray = fastest / model.predict(legal)
        return found

    rows = []
    for k in range(0, len(records), _AT_ONCE):
        part = records[k : k + _AT_ONCE]
        pairs = zip(featurize([record.steps for record in part]), part, strict=True)
        rows += [(row, record) for row, record in pairs if row is not None]
    model.fit([row for row, _ in rows], [fastest / record.result.cost for _, record in rows])
    return seconds, float(seconds([record.steps for _, record in rows]).min())


def run(task: Task, seconds: Seconds, seed: int, *, knows: bool) -> tuple[list[float], float]:
    """The least seconds after each number of trials in `POINTS`, and the seconds of searching."""
    model = XGBoostModel(seed)
    if knows:
        start_pretrained(model, task.target.kind, TUNING)
    options = TuneOptions(trials=POINTS[-1], seed=seed)
    tuner = Tuner(task, options, Machine(seconds, seed), learner=Learner(model))
    tuner.run()
    times = seconds([record.steps for record in tuner.records])
    return [float(times[:n].min()) for n in POINTS], tuner.progress.seconds["search"]


def main() -> None:
    """Print a line for each workload and start, and the means."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS), choices=list(WORKLOADS))
    parser.add_argument("--seeds", type=int, default=6)
    options = parser.parse_args()
    rarely_collect()
    print(f"{'workload':17}  start    " + "  ".join(f"after {n:2}" for n in POINTS) + "  search")
    every: dict[bool, list[list[float]]] = {True: [], False: []}
    for name in options.workloads:
        workload, args = WORKLOADS[name]
        task = Task.from_workload(workload, **args)
        seconds, least = model_of(task, options.folder, name)
        for knows, lines in every.items():
            runs = [run(task, seconds, seed, knows=knows) for seed in range(options.seeds)]
            by_point = zip(*[times for times, _ in runs], strict=True)
            regrets = [100 * (mean(own) / least - 1) for own in by_point]
            lines.append([*regrets, median([spent for _, spent in runs])])
            print(_line(name, knows, lines[-1]), flush=True)
    for knows, lines in every.items():
        print(_line("mean", knows, [mean(own) for own in zip(*lines, strict=True)]))


def _line(name: str, knows: bool, numbers: Sequence[float]) -> str:
    regrets = "  ".join(f"{regret:7.2f}%" for regret in numbers[:-1])
    return f"{name:17}  {'model' if knows else 'nothing':7}  {regrets}  {numbers[-1]:5.2f} s"


if __name__ == "__main__":
    main()
