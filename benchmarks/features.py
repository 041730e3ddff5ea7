"""Candidates a second on one core: features of many at once against one by one.

    python benchmarks/features.py [--workloads matmul ...] [--targets cpu cuda] [--candidates 8192]

Random candidates of each workload are worked out twice, as two populations: the first meets empty
tables, the second what the first left behind. A sample is then worked out one by one and compared
bit for bit. Times are processor time, the smaller of `--repeats` runs for one by one.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from autosched.errors import ScheduleError
from autosched.features.ansor.rows import FeatureRows
from autosched.features.batched.batch import BatchedFeatures
from autosched.features.lowering import features_of_steps
from autosched.features.sets import ANSOR
from autosched.search.space import SearchSpace
from autosched.state.steps import Step
from autosched.target import Target, cpu_target, cuda_target
from autosched.task import Task

Steps = tuple[Step, ...]
_IMAGE = {"N": 1, "H": 56, "W": 56, "CI": 64, "CO": 64, "stride": 1, "padding": 1}
WORKLOADS: dict[str, dict[str, Any]] = {
    "matmul": {"M": 512, "N": 512, "K": 512},
    "conv2d_nchw_bn_relu": {**_IMAGE, "K": 3},
    "transpose_batch_matmul_softmax": {"B": 1, "S": 128, "H": 12, "D": 64},
    "conv2d_nhwc": {**_IMAGE, "KH": 3, "KW": 3},
    "conv2d_transpose_nhwc": {
        "N": 1,
        "H": 8,
        "W": 8,
        "CI": 64,
        "CO": 64,
        "K": 4,
        "stride": 2,
        "padding": 1,
    },
    "batch_matmul": {"B": 12, "M": 128, "N": 128, "K": 64},
    "softmax": {"M": 128, "N": 512},
    "layer_norm": {"M": 64, "N": 768},
    "norm_bmn": {"B": 4, "M": 64, "N": 128},
}
DEFAULT = ("matmul", "conv2d_nchw_bn_relu", "transpose_batch_matmul_softmax")


def one_by_one(task: Task, candidates: list[Steps]) -> list[FeatureRows | None]:
    """The rows by lowering each candidate; None for an illegal one."""
    found: list[FeatureRows | None] = []
    for steps in candidates:
        try:
            found.append(features_of_steps(task.dag, steps, task.target, ANSOR))
        except ScheduleError:
            found.append(None)
    return found


def differ(a: FeatureRows | None, b: FeatureRows | None) -> bool:
    """Whether the rows are not the same bits."""
    if a is None or b is None:
        return a is not b
    return a.shape != b.shape or a.tobytes() != b.tobytes()


def compare(name: str, target: Target, count: int, sample: int, repeats: int, seed: int) -> int:
    """Print one line; returns how many rows of the sample differ."""
    task = Task.from_workload(name, target=target, **WORKLOADS[name])
    space = SearchSpace(task)
    populations = [space.sample(np.random.default_rng(seed + k), count) for k in range(2)]
    batched = BatchedFeatures(task.dag, task.target)
    rates = []
    for population in populations:
        start = time.process_time()
        rows = batched(population)
        rates.append(len(population) / (time.process_time() - start))
    chosen = np.linspace(0, len(rows) - 1, min(sample, len(rows))).astype(int)
    some = [populations[-1][k] for k in chosen]
    best = 0.0
    for _ in range(repeats):
        start = time.process_time()
        expected = one_by_one(task, some)
        best = max(best, len(some) / (time.process_time() - start))
    wrong = sum(differ(rows[k], want) for k, want in zip(chosen, expected, strict=True))
    share = batched.share
    print(
        f"{name} {target.kind}: one by one {best:.0f}/s, at once {rates[0]:.0f}/s then "
        f"{rates[1]:.0f}/s ({rates[0] / best:.0f}x, {rates[1] / best:.0f}x); "
        f"{share.structures} structures, {share.programs} programs, "
        f"{share.one_by_one / share.candidates:.1%} one by one; "
        f"{wrong} of {len(some)} differ",
        flush=True,
    )
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", nargs="+", default=DEFAULT, choices=WORKLOADS)
    parser.add_argument("--targets", nargs="+", default=["cpu"], choices=("cpu", "cuda"))
    parser.add_argument("--candidates", type=int, default=8192)
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    wrong = 0
    for kind in options.targets:
        target = cuda_target() if kind == "cuda" else cpu_target(threads=2)
        for name in options.workloads:
            wrong += compare(
                *(name, target, options.candidates),
                *(options.sample, options.repeats, options.seed),
            )
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
