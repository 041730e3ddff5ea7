"""Whether the learned model beats chance: the best of each search after the same trials.

    python benchmarks/search_quality.py --trials 64 --seeds 0 1 2

For each workload and seed both searches run in turns on the real machine. At the end the best
candidates of both are measured again together, round-robin, so that a drift of the machine
between the runs favours neither. A ratio above 1 is a win for the model.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from math import exp, log
from typing import Any

from autosched.task import Task
from measure.measurer import Measurer
from measure.records import Record
from search.tuner import TuneOptions, Tuner, TuneResult

WORKLOADS: dict[str, dict[str, Any]] = {
    "matmul": {"M": 512, "N": 512, "K": 512},
    "conv2d_nhwc": {
        **dict.fromkeys(("N", "stride", "padding"), 1),
        **dict.fromkeys(("H", "W"), 56),
        **dict.fromkeys(("CI", "CO"), 64),
        **dict.fromkeys(("KH", "KW"), 3),
    },
    "dense_bias_relu": {"M": 64, "N": 1000, "K": 512},
    "batch_matmul": {"B": 12, "M": 128, "N": 128, "K": 64},
    "softmax": {"M": 512, "N": 1024},
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Seconds per call of each search's best, measured together."""

    guided: float
    random: float
    accuracy: float

    @property
    def ratio(self) -> float:
        return self.random / self.guided


def search(task: Task, measurer: Measurer, model: str, trials: int, seed: int) -> TuneResult:
    """One search from scratch."""
    options = TuneOptions(trials=trials, seed=seed, cost_model=model)
    result = Tuner(task, options, measurer).run()
    if result.interrupted:  # half a search must not be compared
        raise KeyboardInterrupt
    return result


def compare(name: str, trials: int, seed: int) -> Comparison:
    """Both searches, then their best three each once more, in one batch."""
    task = Task.from_workload(name, **WORKLOADS[name])
    with Measurer.create() as measurer:
        random = search(task, measurer, "random", trials, seed)
        guided = search(task, measurer, "xgboost", trials, seed)
        ours, theirs = _fastest(guided.records), _fastest(random.records)
        results = measurer.measure(task, [r.steps for r in (*ours, *theirs)])
    costs = [result.cost for result in results]
    quality = [q.rank_accuracy for q in guided.progress.quality]
    accuracy = sum(quality) / len(quality) if quality else float("nan")
    return Comparison(min(costs[: len(ours)]), min(costs[len(ours) :]), accuracy)


def _fastest(records: list[Record], count: int = 3) -> list[Record]:
    valid = [record for record in records if record.result.valid]
    return sorted(valid, key=lambda record: record.result.cost)[:count]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--workloads", nargs="+", choices=sorted(WORKLOADS), default=list(WORKLOADS)[:3]
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--trials", type=int, default=64)
    options = parser.parse_args()
    print("workload          seed  guided [us]  random [us]  random/guided  rank accuracy")
    ratios: list[float] = []
    for name in options.workloads:
        for seed in options.seeds:
            found = compare(name, options.trials, seed)
            ratios.append(found.ratio)
            print(
                f"{name:16}  {seed:4}  {found.guided * 1e6:11.1f}  {found.random * 1e6:11.1f}  "
                f"{found.ratio:13.2f}  {found.accuracy:13.2f}",
                flush=True,
            )
    mean = exp(sum(map(log, ratios)) / len(ratios))
    wins = sum(ratio > 1 for ratio in ratios)
    print(f"the model won {wins} of {len(ratios)}; geometric mean of random/guided: {mean:.2f}")


if __name__ == "__main__":
    main()
