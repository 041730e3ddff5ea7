"""Compare how well feature sets rank candidates, on unseen workloads and after few measurements.

    python benchmarks/feature_sets.py collect records/ --candidates 400
    python benchmarks/feature_sets.py compare records/*.jsonl

`collect` measures random candidates of each workload. `compare` trains the cost model of `tune` on
the same records in each feature set, in two ways. Trained on all workloads but one, the model ranks
the candidates of that one. Trained on 64 candidates of a workload, it ranks the other candidates of
the workload. It prints the share of pairs in the right order (rank), how many of the 8 and of the
32 fastest candidates are among as many predicted fastest, and how fast the best of the 8 predicted
fastest is (best8, 1: the fastest of all). Before that it prints the time for the rows of a
candidate in each set.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autosched.driver import lower_for_features
from autosched.errors import ScheduleError
from autosched.features.ansor.rows import FeatureRows
from autosched.features.sets import FEATURE_SETS
from autosched.measure.measurer import Measurer
from autosched.measure.record_log import RecordLog
from autosched.measure.records import read_log
from autosched.measure.run_options import RunOptions
from autosched.search.cost_model import XGBoostModel
from autosched.search.ranking_quality import prediction_quality
from autosched.search.tuner import TuneOptions, Tuner
from autosched.task import Task

WORKLOADS: dict[str, dict[str, Any]] = {
    "matmul": {"M": 512, "N": 512, "K": 512},
    "batch_matmul": {"B": 12, "M": 128, "N": 128, "K": 64},
    "dense_bias_relu": {"M": 64, "N": 1000, "K": 512},
    "conv2d_nhwc": {
        "N": 1, "H": 56, "W": 56, "CI": 64, "CO": 64,
        "KH": 3, "KW": 3, "stride": 1, "padding": 1,
    },
    "conv2d_nchw_bn_relu": {
        "N": 1, "H": 28, "W": 28, "CI": 64, "CO": 128, "K": 3, "stride": 1, "padding": 1,
    },
    "depthwise_conv2d_nhwc": {
        "N": 1, "H": 56, "W": 56, "C": 64, "K": 3, "stride": 1, "padding": 1,
    },
    "conv1d_nlc": {
        "N": 1, "L": 256, "CI": 64, "CO": 128, "K": 3, "stride": 2, "padding": 1,
    },
    "softmax": {"M": 512, "N": 512},
}  # fmt: skip
TOPS = (8, 32)
COLUMNS = ("rank", *(f"top-{k}" for k in TOPS), "best8")


@dataclass(frozen=True)
class Workload:
    """The measured candidates of one record file: rows by feature set, and seconds.

    `extraction` has, for each feature set, the seconds for extracting the rows of each candidate.
    """

    name: str
    rows: dict[str, list[FeatureRows]]
    seconds: np.ndarray
    extraction: dict[str, list[float]]

    @property
    def throughputs(self) -> np.ndarray:
        found: np.ndarray = self.seconds.min() / self.seconds
        return found


def collect(folder: Path, candidates: int, seed: int) -> None:
    """Measure random candidates of every workload, with a record file for each workload."""
    folder.mkdir(parents=True, exist_ok=True)
    options = TuneOptions(trials=candidates, seed=seed, cost_model="random")
    with Measurer.create(options=RunOptions(10.0, 50.0, 3)) as measurer:
        for name, args in WORKLOADS.items():
            task = Task.from_workload(name, **args)
            Tuner(task, options, measurer, RecordLog(folder / f"{name}.jsonl")).run()
            print(f"{task.name}: done", flush=True)


def load(path: Path) -> Workload:
    """The valid records of one workload, each lowered for every feature set.

    The sets take turns at being extracted first, because the second one finds some of its
    intermediate results already cached at the nodes of the program.
    """
    records = [record for record in read_log(path).records if record.result.valid]
    task = Task.from_json(records[0].task)
    names = list(FEATURE_SETS)
    rows: dict[str, list[FeatureRows]] = {name: [] for name in names}
    extraction: dict[str, list[float]] = {name: [] for name in names}
    seconds = []
    for k, record in enumerate(records):
        try:
            funcs = {
                name: lower_for_features(task.dag, record.steps, task.target, found.as_ansor)
                for name, found in FEATURE_SETS.items()
            }
        except ScheduleError:
            continue
        seconds.append(record.result.cost)
        for name in names if k % 2 else reversed(names):
            start = time.perf_counter()
            found = FEATURE_SETS[name].extract(funcs[name], task.target)
            extraction[name].append(time.perf_counter() - start)
            rows[name].append(found)
    return Workload(path.stem, rows, np.array(seconds), extraction)


def quality(scores: np.ndarray, seconds: np.ndarray) -> list[float]:
    """The values of COLUMNS for one ranking of candidates by `scores`."""
    found = [prediction_quality(scores.tolist(), seconds.tolist(), k) for k in TOPS]
    assert found[0] is not None, "all candidates took equally long"
    best = seconds.min() / seconds[np.argsort(-scores, kind="stable")[:8]].min()
    recalls = [quality.top8_recall for quality in found if quality is not None]
    return [found[0].rank_accuracy, *recalls, float(best)]


def predict(
    rows: Sequence[FeatureRows], throughputs: np.ndarray, tested: Sequence[FeatureRows], seed: int
) -> np.ndarray:
    """Scores of the tested candidates by a model that is trained on the other ones."""
    model = XGBoostModel(seed)
    model.fit(rows, throughputs.tolist())
    return model.predict(tested)


def unseen(workloads: Sequence[Workload], features: str, seeds: int) -> Iterator[list[float]]:
    """For each workload, the quality of a model that is trained on all others."""
    rows = [r for w in workloads for r in w.rows[features]]
    throughputs = np.concatenate([w.throughputs for w in workloads])
    groups = np.repeat(np.arange(len(workloads)), [len(w.seconds) for w in workloads])
    for group, workload in enumerate(workloads):
        train, test = np.flatnonzero(groups != group), np.flatnonzero(groups == group)
        trained = [rows[k] for k in train]
        tested = [rows[k] for k in test]
        found = [
            quality(predict(trained, throughputs[train], tested, seed), workload.seconds)
            for seed in range(seeds)
        ]
        yield np.mean(found, axis=0).tolist()


def few(workload: Workload, features: str, count: int, seeds: int) -> list[float]:
    """The quality of models that are trained on `count` candidates of the workload itself."""
    rows, found = workload.rows[features], []
    rng = np.random.default_rng(count)
    for seed in range(seeds):
        train, test = np.split(rng.permutation(len(rows)), [count])
        best = workload.seconds[train].min() / workload.seconds[train]
        scores = predict([rows[k] for k in train], best, [rows[k] for k in test], seed)
        found.append(quality(scores, workload.seconds[test]))
    return [float(mean) for mean in np.mean(found, axis=0)]


def compare(paths: Sequence[Path], seeds: int, counts: Sequence[int]) -> None:
    """Print the tables."""
    workloads = [load(path) for path in paths]
    print(f"{len(workloads)} workloads, {sum(len(w.seconds) for w in workloads)} candidates")
    extraction_table(workloads)
    table("trained on all other workloads", workloads, lambda name: unseen(workloads, name, seeds))
    for count in counts:
        table(
            f"trained on {count} candidates of the workload",
            workloads,
            lambda name, count=count: (few(w, name, count, 2 * seeds) for w in workloads),
        )


def extraction_table(workloads: Sequence[Workload]) -> None:
    """A Markdown table: median milliseconds for the rows of a candidate, without lowering."""
    print("\nmilliseconds for the rows of a candidate, median\n")
    print(f"| workload | {' | '.join(FEATURE_SETS)} |")
    print("|---" * (1 + len(FEATURE_SETS)) + "|")
    for workload in workloads:
        print(f"| {workload.name} | {_medians([workload])} |")
    print(f"| all | {_medians(workloads)} |", flush=True)


def _medians(workloads: Sequence[Workload]) -> str:
    times = ([t for w in workloads for t in w.extraction[name]] for name in FEATURE_SETS)
    return " | ".join(f"{1000 * np.median(values):.2f}" for values in times)


def table(title: str, workloads: Sequence[Workload], measured: Any) -> None:
    """A Markdown table: a line for each workload, the values of COLUMNS for each feature set."""
    values = {name: list(measured(name)) for name in FEATURE_SETS}
    print(f"\n{title}\n")
    columns = ", ".join(COLUMNS)
    print(f"| workload | {' | '.join(f'{name}: {columns}' for name in values)} |")
    print("|---" * (1 + len(values)) + "|")
    lines = [(w.name, [v[k] for v in values.values()]) for k, w in enumerate(workloads)]
    lines.append(("mean", [np.mean(v, axis=0).tolist() for v in values.values()]))
    for name, cells in lines:
        texts = ("  ".join(f"{value:.3f}" for value in cell) for cell in cells)
        print(f"| {name} | {' | '.join(texts)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("collect", help="measure random candidates")
    first.add_argument("folder", type=Path)
    first.add_argument("--candidates", type=int, default=400)
    first.add_argument("--seed", type=int, default=0)
    second = commands.add_parser("compare", help="compare the feature sets on records")
    second.add_argument("records", type=Path, nargs="+")
    second.add_argument("--seeds", type=int, default=3)
    second.add_argument("--train", type=int, nargs="+", default=[64])
    options = parser.parse_args()
    if options.command == "collect":
        collect(options.folder, options.candidates, options.seed)
    else:
        compare(options.records, options.seeds, options.train)


if __name__ == "__main__":
    main()
