"""How soon a search comes near the best known kernel: its regret after 16, 32, 64 and 128 trials.

    python benchmarks/search_quality.py run FOLDER --seeds 0 1 2 3 4 5 --models models/
    python benchmarks/search_quality.py run KNOWN --kinds random --trials 250 --seeds 100 101 102
    python benchmarks/search_quality.py curve FOLDER [OTHER FOLDERS] --known KNOWN

`run` searches on the real machine, guided by the model and at random, and keeps the records of each
run in FOLDER; complete runs are not repeated. The model starts without knowledge, or, with
`--models`, from what benchmarks/pretrain.py learned from other operators. `--name` marks the runs
of one version of the program, so that they can be compared with those of another.

`curve` times the four fastest candidates of every run after so many trials again, in turns,
together with the fastest of all records of the workload, including those of `--known`, so that a
drift of the machine favours none. Half of the turns choose the best of each run's four and the best
of all. The other half gives the regret: how much slower a run's best is than the best of all.
Printed are medians over the seeds, and ranges.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean, mean, median
from typing import Any

from shapes import conv2d, image

from autosched.features.sets import feature_set
from autosched.measure.measurer import Measurer
from autosched.measure.record_log import RecordLog
from autosched.measure.records import Record, read_log
from autosched.measure.result import MeasureResult
from autosched.search.cost_model import XGBoostModel, make_cost_model
from autosched.search.learner import Learner
from autosched.search.progress import TuneResult
from autosched.search.tuner import TuneOptions, Tuner
from autosched.state.steps import Step
from autosched.task import Task

POINTS = (16, 32, 64, 128)
_FINALISTS = 4  # finalists of a run, which are timed again, as `tune` does before it names the best
_FASTEST = 16  # the fastest of all records, timed again to find the best known
_TURNS, _VISITS, _VISIT_SECONDS = 8, 12, 5e-3
Steps = tuple[Step, ...]


WORKLOADS: dict[str, tuple[str, dict[str, Any]]] = {
    "matmul": ("matmul", {"M": 1024, "N": 1024, "K": 1024}),
    "conv2d_nhwc": ("conv2d_nhwc", conv2d(14, 256, 256)),
    "depthwise": ("depthwise_conv2d_nhwc", image(56, 3, C=64)),
    "conv2d_bn_relu": ("conv2d_nchw_bn_relu", image(56, 3, CI=64, CO=64)),
    "conv2d_nhwc_56": ("conv2d_nhwc", conv2d(56, 64, 64)),
    "conv2d_bn_relu_28": ("conv2d_nchw_bn_relu", image(28, 3, CI=64, CO=128)),
    "batch_matmul": ("batch_matmul", {"B": 12, "M": 128, "N": 128, "K": 64}),
    "matmul_512": ("matmul", {"M": 512, "N": 512, "K": 512}),
}
"""Where a random search already comes near the best (docs/searching.md), a search gains little."""


@dataclass(frozen=True, slots=True)
class Run:
    """One search of a workload: its candidates in the order in which it measured them."""

    name: str
    workload: str
    seed: int
    records: tuple[Record, ...]

    @classmethod
    def read(cls, path: Path) -> Run:
        """The run that `run` kept at `path`."""
        name, workload, seed = path.stem.rsplit(".", 2)
        return cls(name, workload, int(seed), tuple(read_log(path).records))

    def finalists(self, trials: int) -> list[Steps]:
        """The fastest of the first `trials` candidates; none if there are fewer candidates."""
        if len(self.records) < trials:
            return []
        valid = [record for record in self.records[:trials] if record.result.valid]
        ordered = sorted(valid, key=lambda record: record.result.cost)
        return [record.steps for record in ordered[:_FINALISTS]]


def search(
    task: Task, measurer: Measurer, options: TuneOptions, log: RecordLog, start: Path | None
) -> TuneResult:
    """Run one search; its model starts from the file `start`, or without knowledge."""
    learner = Learner(make_cost_model(options.cost_model, options.seed))
    if start is not None and isinstance(learner.model, XGBoostModel):
        chosen = feature_set(options.features)
        learner.model.load(start, len(chosen.columns), chosen.schema)
    return Tuner(task, options, measurer, log, learner=learner).run()


def run(folder: Path, options: argparse.Namespace) -> None:
    """Run every search that is not complete yet, seed by seed; print a line for each."""
    folder.mkdir(parents=True, exist_ok=True)
    print("search                workload           seed  best [us]  rank accuracy  outside/trial")
    with Measurer.create() as measurer:
        for seed in options.seeds:
            for name in options.workloads:
                for kind in options.kinds:
                    _run(folder, measurer, name, kind, seed, options)


def _run(
    folder: Path,
    measurer: Measurer,
    name: str,
    kind: str,
    seed: int,
    options: argparse.Namespace,
) -> None:
    label = kind if kind == "random" else options.name
    path = folder / f"{label}.{name}.{seed}.jsonl"
    if path.exists() and len(read_log(path).records) >= options.trials:
        return
    path.unlink(missing_ok=True)  # incomplete searches must not be compared
    workload, args = WORKLOADS[name]
    task = Task.from_workload(workload, **args)
    tuning = TuneOptions(trials=options.trials, seed=seed, cost_model=kind)
    start = None if options.models is None else options.models / f"{workload}.json.gz"
    found = search(task, measurer, tuning, RecordLog(path), start)
    if found.interrupted:
        raise KeyboardInterrupt
    progress = found.progress
    accuracy = mean([q.rank_accuracy for q in progress.quality] or [float("nan")])
    best = float("inf") if found.best is None else found.best.result.cost
    outside = progress.outside_measuring / max(1, progress.done)
    print(
        f"{label:20}  {name:17}  {seed:4}  {1e6 * best:9.1f}  {accuracy:13.2f}  "
        f"{1e3 * outside:10.1f} ms",
        flush=True,
    )


def runs_in(folders: Sequence[Path], workloads: Sequence[str]) -> list[Run]:
    """The runs of some workloads that `run` kept in the folders."""
    paths = [path for folder in folders for path in sorted(folder.glob("*.*.*.jsonl"))]
    return [Run.read(path) for path in paths if path.name.split(".")[-3] in workloads]


def curve(options: argparse.Namespace) -> None:
    """Print the regrets, workload by workload; `--out` gets the numbers as JSON."""
    heads = " ".join(f"after {trials}".rjust(22) for trials in POINTS)
    print(f"{'workload':17}  {'search':20}  {heads}")
    rows: list[dict[str, Any]] = []
    with Measurer.create(check="none") as measurer:
        for workload in options.workloads:
            mine = runs_in(options.folders, [workload])
            if mine:
                rows += regrets(measurer, mine, runs_in(options.known, [workload]))
    if options.out is not None:
        options.out.write_text(json.dumps(rows, indent=1) + "\n")
    _summary(rows)


def regrets(measurer: Measurer, runs: Sequence[Run], known: Sequence[Run]) -> list[dict[str, Any]]:
    """Print and return a row for each search of one workload; a regret of 0.02 means 2% slower.

    The best candidate is taken from the runs and from those `known`, which get no row.
    """
    workload, args = WORKLOADS[runs[0].workload]
    task = Task.from_workload(workload, **args)
    first, seconds = together(measurer, task, list(_candidates(runs, known)))
    least = seconds[min(first, key=first.__getitem__)]
    rows = []
    for name in dict.fromkeys(run.name for run in runs):
        row: dict[str, Any] = {"workload": runs[0].workload, "search": name, "best": least}
        text = []
        for trials in POINTS:
            finalists = [run.finalists(trials) for run in runs if run.name == name]
            found = [min(steps, key=first.__getitem__) for steps in finalists if steps]
            values = [seconds[steps] / least - 1 for steps in found]
            row[f"after_{trials}"] = values
            text.append(f"{'-':>22}" if not values else _range(values))
        print(f"{row['workload']:17}  {name:20}  {' '.join(text)}", flush=True)
        rows.append(row)
    return rows


def _range(values: Sequence[float]) -> str:
    low, high = 100 * min(values), 100 * max(values)
    return f"{100 * median(values):6.1f}% ({low:.1f} to {high:.1f})".rjust(22)


def _candidates(runs: Sequence[Run], known: Sequence[Run]) -> Iterator[Steps]:
    """Every candidate that is to be timed again."""
    valid = [record for run in (*runs, *known) for record in run.records if record.result.valid]
    for record in sorted(valid, key=lambda record: record.result.cost)[:_FASTEST]:
        yield record.steps
    for run in runs:
        for trials in POINTS:
            yield from run.finalists(trials)


def together(
    measurer: Measurer, task: Task, candidates: Sequence[Steps]
) -> tuple[dict[Steps, float], dict[Steps, float]]:
    """Seconds per call of each candidate: medians over half of the turns, and over the other half.

    The fastest in one half may owe that to chance; its time in the other half does not.
    """
    different = list(dict.fromkeys(candidates))
    built = measurer.build(task, different)
    artifacts = [artifact for artifact in built if artifact is not None]
    rounds = [measurer.together(task, artifacts, _VISITS, _VISIT_SECONDS) for _ in range(_TURNS)]
    there = [c for c, artifact in zip(different, built, strict=True) if artifact is not None]

    def medians(half: Sequence[list[MeasureResult]]) -> dict[Steps, float]:
        costs = [median(r.cost for r in results) for results in zip(*half, strict=True)]
        return dict(zip(there, costs, strict=True))

    return medians(rounds[::2]), medians(rounds[1::2])


def _summary(rows: Sequence[dict[str, Any]]) -> None:
    """Print, for each search and point, workloads within 2% and the mean time over the best's."""
    for name in dict.fromkeys(row["search"] for row in rows):
        for trials in POINTS:
            mine = [row[f"after_{trials}"] for row in rows if row["search"] == name]
            medians = [median(values) for values in mine if values]
            if medians:
                near = sum(value <= 0.02 for value in medians)
                slower = geometric_mean([1 + value for value in medians])
                print(
                    f"{name}, {trials} trials: {near} of {len(medians)} workloads within 2% of "
                    f"the best known, {slower:.3f} of its time on average"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run", help="search, and keep the records")
    runs.add_argument("folder", type=Path)
    runs.add_argument("--seeds", type=int, nargs="+", default=list(range(6)))
    runs.add_argument("--trials", type=int, default=POINTS[-1])
    runs.add_argument(
        "--kinds", nargs="+", choices=("xgboost", "random"), default=["xgboost", "random"]
    )
    runs.add_argument("--name", default="guided", help="what the guided runs are called")
    runs.add_argument("--models", type=Path, help="folder of models, OP.json.gz, to start from")
    curves = commands.add_parser("curve", help="time what the runs found, print regrets")
    curves.add_argument("folders", type=Path, nargs="+")
    curves.add_argument("--known", type=Path, nargs="+", default=[], help="other runs' folders")
    curves.add_argument("--out", type=Path, help="write the regrets of all runs here, as JSON")
    for command in (runs, curves):
        command.add_argument(
            "--workloads", nargs="+", choices=sorted(WORKLOADS), default=list(WORKLOADS)
        )
    options = parser.parse_args()
    if options.command == "run":
        run(options.folder, options)
    else:
        curve(options)


if __name__ == "__main__":
    main()
