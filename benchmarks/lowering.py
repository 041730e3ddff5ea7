"""Time from steps to optimised TIR, per pass (issue: matmul at most 15 ms, fused conv2d 40 ms).

    python benchmarks/lowering.py [--repeats 5]

The candidates are the CPU candidates of the golden file, taken in turns. Times are medians in
milliseconds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path

from autosched import workloads
from autosched.driver import lower
from autosched.errors import ScheduleError
from autosched.state.dag import ComputeDAG
from autosched.state.steps import Step, steps_from_json
from autosched.target import Target, cpu_target
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.instruments import PassTiming

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from kit.golden_lines import golden_candidates

SHOWN = ("matmul", "conv2d_nhwc", "conv2d_nchw_bn_relu")


def time_one(dag: ComputeDAG, steps: tuple[Step, ...], target: Target) -> dict[str, float]:
    """The seconds of each stage of lowering one candidate."""
    start = time.perf_counter()
    schedule, tensors = dag.apply_steps(steps)
    spent = defaultdict(float, {"apply_steps": time.perf_counter() - start})
    timing = PassTiming()
    with PassContext(instruments=[timing]):
        lower(schedule, tensors, target)
        for name, seconds in timing.times():
            spent[name] += seconds
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    lines = list(golden_candidates("ansor_v06.jsonl.gz", target="cpu"))
    target = cpu_target()
    dags: dict[str, ComputeDAG] = {}
    totals: dict[str, list[float]] = defaultdict(list)
    stages: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for _ in range(options.repeats):
        for line in lines:
            name = line["workload"]
            key = name + json.dumps(line["args"])
            if key not in dags:
                dags[key] = ComputeDAG(workloads.get(name).tensors(**line["args"]))
            try:
                spent = time_one(dags[key], steps_from_json(line["steps"]), target)
            except ScheduleError:
                continue
            totals[name].append(sum(spent.values()))
            for stage, seconds in spent.items():
                stages[name][stage].append(seconds)
    for name in SHOWN:
        print(f"{name}: median {statistics.median(totals[name]) * 1e3:.2f} ms")
        for stage, times in stages[name].items():
            print(f"    {statistics.median(times) * 1e3:8.3f} ms  {stage}")


if __name__ == "__main__":
    main()
