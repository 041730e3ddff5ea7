"""Every operator in every type on sizes that do not divide: random candidates are right.

    python benchmarks/types_and_sizes.py                       # 500x1000x333 and 17x1x31
    python benchmarks/types_and_sizes.py --operators matmul --candidates 5 --target cuda

Each candidate is built, run once as a checked run is and compared with the reference. With
`--target cuda` it is run by the lockstep interpreter instead, and only the small sizes are. The
table says for each operator how many were right; those that were not are printed, and the status
is 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

import numpy as np

from autosched.driver import build_steps
from autosched.errors import AutoschedError, CompileError, ConfigError, ScheduleError
from autosched.measure.run import make_handler
from autosched.referee.check import Verdict, check_candidate
from autosched.search.options import SearchOptions
from autosched.search.space import SearchSpace
from autosched.target import Target, cpu_target, cuda_target
from autosched.task import Task
from autosched.workloads import WORKLOADS

PLAIN: dict[str, tuple[dict[str, int], dict[str, int]]] = {
    "matmul": ({"M": 500, "N": 1000, "K": 333}, {"M": 17, "N": 1, "K": 31}),
    "dense_bias_relu": ({"M": 500, "N": 1000, "K": 333}, {"M": 17, "N": 1, "K": 31}),
    "dense_requantised": ({"M": 500, "N": 1000, "K": 333}, {"M": 17, "N": 1, "K": 31}),
    "batch_matmul": ({"B": 3, "M": 50, "N": 100, "K": 333}, {"B": 2, "M": 17, "N": 1, "K": 31}),
    "norm_bmn": ({"B": 3, "M": 50, "N": 333}, {"B": 1, "M": 17, "N": 31}),
    "softmax": ({"M": 500, "N": 333}, {"M": 17, "N": 31}),
    "layer_norm": ({"M": 500, "N": 333}, {"M": 17, "N": 31}),
    "add_relu": ({"M": 500, "N": 333}, {"M": 17, "N": 1}),
    "transpose_batch_matmul_softmax": (
        {"B": 1, "S": 50, "H": 3, "D": 33},
        {"B": 1, "S": 17, "H": 1, "D": 31},
    ),
}
KINDS: list[dict[str, str]] = [
    *({"in_dtype": t} for t in ("int8", "uint8", "int16", "float16", "bfloat16")),
    *({"in_dtype": t} for t in ("float8_e4m3fn", "float8_e5m2", "int64", "float64")),
    {"in_dtype": "uint8", "weight_dtype": "int8"},
    {"in_dtype": "int8", "out_dtype": "int8"},
    {"dtype": "bfloat16", "acc_dtype": "float32"},
    {"dtype": "float8_e4m3fn", "acc_dtype": "float32"},
    {"dtype": "float16", "acc_dtype": "float32"},
    *({"dtype": t} for t in ("float32", "float16", "bfloat16", "int32", "int64", "float64")),
]


def sizes(name: str) -> tuple[dict[str, int], ...]:
    """Large and small arguments of an operator, odd ones."""
    if name in PLAIN:
        return PLAIN[name]
    large = {"N": 1, "H": 23, "W": 19, "D": 7, "L": 97, "CI": 13, "CO": 37, "C": 37, "S": 33}
    small = {"N": 1, "H": 5, "W": 7, "D": 3, "L": 17, "CI": 3, "CO": 1, "C": 1, "S": 17}
    window = {"K": 3, "KH": 3, "KW": 2, "stride": 2, "padding": 1}
    keys = [key for key, default in WORKLOADS[name].args.items() if default is None]
    return tuple({key: {**of, **window}[key] for key in keys} for of in (large, small))


def problem(task: Task, seed: int) -> str | None:
    """Why a random candidate is wrong; None when it is right.

    Raises ConfigError where the space has none.
    """
    space = SearchSpace(task, SearchOptions(space=("ansor", "autosched")[seed % 2]))
    found = space.sample(np.random.default_rng(seed), 1)
    if not found:
        raise ConfigError("no candidate was drawn")
    if task.target.is_gpu:
        report = check_candidate(task, found[0])
        if report.verdict is Verdict.UNCHECKED:
            raise ConfigError(report.message)
        return None if report.verdict is Verdict.AGREES else report.message
    runner = make_handler()
    artifact = build_steps(task.dag, found[0], task.target).to_bytes()
    try:
        runner(("task", task.to_json()))
        runner(("load", 0, artifact))
        runner(("check", 0))
    except AutoschedError as error:
        return str(error)
    return None


def run(name: str, target: Target, candidates: int, told: Counter[str]) -> None:
    """All types and sizes of one operator; counts go to `told`."""
    for kind in KINDS:
        for args in sizes(name)[1 if target.is_gpu else 0 :]:
            try:
                task = Task.from_workload(name, target=target, **args, **kind)  # type: ignore[arg-type]  # sizes and types
            except ConfigError:
                told["no such types"] += 1
                continue
            for seed in range(candidates):
                try:
                    wrong = problem(task, seed)
                except (ConfigError, ScheduleError, CompileError) as error:
                    told["refused"] += 1
                    print(f"refused: {task.name}: {error}", file=sys.stderr)
                    continue
                told["wrong" if wrong else "right"] += 1
                if wrong:
                    print(f"wrong: {task.name}, seed {seed}: {wrong}", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--operators", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--candidates", type=int, default=1)
    parser.add_argument("--target", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    target = cuda_target() if options.target == "cuda" else cpu_target()
    total: Counter[str] = Counter()
    print(f"{'operator':32}{'right':>8}{'refused':>9}{'wrong':>7}{'no such types':>15}{'s':>7}")
    for name in options.operators:
        start, told = time.perf_counter(), Counter[str]()
        run(name, target, options.candidates, told)
        total += told
        counts = f"{told['right']:8}{told['refused']:9}{told['wrong']:7}{told['no such types']:15}"
        print(f"{name:32}{counts}{time.perf_counter() - start:7.0f}", flush=True)
    print(f"{'all':32}{total['right']:8}{total['refused']:9}{total['wrong']:7}")
    return 1 if total["wrong"] or not total["right"] else 0


if __name__ == "__main__":
    sys.exit(main())
