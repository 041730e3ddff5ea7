"""Check random candidates of every operator in every type, on sizes that tiles do not divide.

    python benchmarks/types_and_sizes.py                       # 500x1000x333 and 17x1x31
    python benchmarks/types_and_sizes.py --operators matmul --candidates 5 --target cuda
    python benchmarks/types_and_sizes.py --gpu                 # on the first GPU of this machine

Each candidate is built, run once as a checked run is, and compared with the reference. With
`--target cuda` there is one candidate of every sketch. It is compiled for sm_80 and sm_90 and run
by the lockstep interpreter: candidates on tensor cores in both sizes (float32 by tf32, too), others
in the small one. `--gpu` compiles the candidates for the GPU of this machine, with all cores, and
runs each of them there. The table says for each operator how many were right, and how many of these
used tensor cores. Wrong ones are printed, and the status is then 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import Any

import numpy as np

from autosched.codegen.nvrtc import load_nvrtc
from autosched.cpu_cores import hardware_threads
from autosched.driver import build_cuda, build_steps, cuda_source, lower_for_features
from autosched.errors import AutoschedError, CompileError, ConfigError, ScheduleError
from autosched.measure.gpu_runner import GpuRunner
from autosched.measure.result import Failure
from autosched.measure.run import make_handler
from autosched.referee.check import Verdict, check_candidate
from autosched.search.options import SearchOptions
from autosched.search.space import SearchSpace
from autosched.search.structure import Steps
from autosched.state.steps import MatrixTilesStep, steps_from_json, steps_to_json
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
    """Large and small arguments of an operator, with odd sizes."""
    if name in PLAIN:
        return PLAIN[name]
    large = {"N": 1, "H": 23, "W": 19, "D": 7, "L": 97, "CI": 13, "CO": 37, "C": 37, "S": 33}
    small = {"N": 1, "H": 5, "W": 7, "D": 3, "L": 17, "CI": 3, "CO": 1, "C": 1, "S": 17}
    window = {"K": 3, "KH": 3, "KW": 2, "stride": 2, "padding": 1}
    keys = [key for key, default in WORKLOADS[name].args.items() if default is None]
    return tuple({key: {**of, **window}[key] for key in keys} for of in (large, small))


def on_tensor_cores(steps: Steps) -> bool:
    """Whether a step of the candidate puts a product on tensor cores."""
    return any(isinstance(step, MatrixTilesStep) for step in steps)


def candidates(task: Task, seed: int, large: bool) -> Iterator[Steps]:
    """A random candidate; for a GPU one of each sketch, for large sizes only those on tensor cores.

    Raises ConfigError if none was drawn.
    """
    rng = np.random.default_rng(seed)
    if not task.target.is_gpu:
        space = SearchSpace(task, SearchOptions(space=("ansor", "autosched")[seed % 2]))
        found = space.sample(rng, 1)
        if not found:
            raise ConfigError("no candidate was drawn")
        yield found[0]
        return

    def legal(steps: Steps) -> bool:
        try:
            lower_for_features(task.dag, steps, task.target, ansor_limits=False)
        except ScheduleError:
            return False
        return True

    space = SearchSpace(task)
    for sketch in space.sketches:
        if large and not on_tensor_cores(sketch.steps):
            continue
        found = space.sample(rng, 1, lambda each: [legal(steps) for steps in each], sketch=sketch)
        if not found:
            raise ConfigError("no candidate was drawn")
        yield found[0]


def problem(task: Task, steps: Steps) -> str | None:
    """Why a candidate is wrong; None if it is right. Raises ConfigError if it cannot be checked."""
    if task.target.is_gpu:
        source = cuda_source(task.dag, steps, task.target).source
        for arch in ("sm_80", "sm_90"):
            load_nvrtc(arch).compile(source, arch)
        report = check_candidate(task, steps, seconds=30)
        if report.verdict is Verdict.UNCHECKED:
            raise ConfigError(report.message)
        return None if report.verdict is Verdict.AGREES else report.message
    runner = make_handler()
    artifact = build_steps(task.dag, steps, task.target).to_bytes()
    try:
        runner(("task", task.to_json()))
        runner(("load", 0, artifact))
        runner(("check", 0))
    except AutoschedError as error:
        return str(error)
    return None


def compiled(task_json: dict[str, Any], steps_json: list[Any]) -> bytes | str:
    """The artifact for the task's GPU, or the reason for none."""
    task, steps = Task.from_json(task_json), steps_from_json(steps_json)
    try:
        return build_cuda(task.dag, steps, task.target, task.function_name).to_bytes()
    except AutoschedError as error:
        return str(error)


def run_on_gpu(
    name: str, target: Target, repeats: int, told: Counter[str], gpu: GpuRunner, pool: Executor
) -> None:
    """Do the same as `run`, on the GPU; `pool` compiles."""
    drawn: list[tuple[Task, Steps]] = []
    for task, _ in tasks(name, target, told):
        for seed in range(repeats):
            try:
                drawn += [(task, steps) for steps in candidates(task, seed, large=False)]
            except (ConfigError, ScheduleError) as error:
                told["refused"] += 1
                print(f"refused: {task.name}: {error}", file=sys.stderr)
    texts = [(task.to_json(), steps_to_json(steps)) for task, steps in drawn]
    artifacts = list(pool.map(compiled, *zip(*texts, strict=True)))
    for (task, steps), artifact in zip(drawn, artifacts, strict=True):
        if isinstance(artifact, str):
            told["refused"] += 1
            print(f"refused: {task.name}: {artifact}", file=sys.stderr)
            continue
        gpu.reference(task)
        found = gpu.check(task, artifact)
        wrong = isinstance(found, Failure)
        told["wrong" if wrong else "right"] += 1
        told["tensor cores"] += not wrong and on_tensor_cores(steps)
        if wrong:
            print(f"wrong: {task.name}: {found}: {steps}", file=sys.stderr)


def tasks(name: str, target: Target, told: Counter[str]) -> Iterator[tuple[Task, bool]]:
    """All types and sizes of an operator, and whether the sizes are large."""
    kinds = [(kind, target) for kind in KINDS]
    if target.is_gpu:
        kinds.append(({"dtype": "float32"}, replace(target, tf32=True)))
    for kind, machine in kinds:
        for number, args in enumerate(sizes(name)):
            try:
                yield (
                    Task.from_workload(name, target=machine, **args, **kind),  # type: ignore[arg-type]  # sizes and types
                    number == 0,
                )
            except ConfigError:
                told["no such types"] += 1


def run(name: str, target: Target, repeats: int, told: Counter[str]) -> None:
    """Try all types and sizes of one operator; add the counts to `told`."""
    for task, large in tasks(name, target, told):
        for seed in range(repeats):
            try:
                for steps in candidates(task, seed, large):
                    wrong = problem(task, steps)
                    told["wrong" if wrong else "right"] += 1
                    told["tensor cores"] += not wrong and on_tensor_cores(steps)
                    if wrong:
                        print(f"wrong: {task.name}, seed {seed}: {wrong}", file=sys.stderr)
            except (ConfigError, ScheduleError, CompileError) as error:
                told["refused"] += 1
                print(f"refused: {task.name}: {error}", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--operators", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--candidates", type=int, default=1)
    parser.add_argument("--target", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--gpu", action="store_true", help="run them on the GPU of this machine")
    options = parser.parse_args()
    target = cuda_target() if options.target == "cuda" else cpu_target()
    gpu = GpuRunner(share=True)
    pool = ProcessPoolExecutor(hardware_threads(), get_context("spawn"))
    if options.gpu:
        target = cuda_target("sm_{}{}".format(*gpu.open()["capability"]))
    total: Counter[str] = Counter()
    columns = {"right": 8, "tensor cores": 14, "refused": 9, "wrong": 7, "no such types": 15}
    heading = "".join(f"{column:>{width}}" for column, width in columns.items())
    print(f"{'operator':32}{heading}{'s':>7}")
    for name in options.operators:
        start, told = time.perf_counter(), Counter[str]()
        if options.gpu:
            run_on_gpu(name, target, options.candidates, told, gpu, pool)
        else:
            run(name, target, options.candidates, told)
        total += told
        counts = "".join(f"{told[column]:{width}}" for column, width in columns.items())
        print(f"{name:32}{counts}{time.perf_counter() - start:7.0f}", flush=True)
    gpu.close()
    pool.shutdown()
    print(f"{'all':32}" + "".join(f"{total[column]:{width}}" for column, width in columns.items()))
    return 1 if total["wrong"] or not total["right"] else 0


if __name__ == "__main__":
    sys.exit(main())
