"""Kernels that Ansor finds and TVM builds, and their times; runs in the peer's interpreter alone.

The number of threads is its argument. One kernel is kept at a time: what `tune` found, or `build`
made of a candidate that `sampled` drew.
"""

from __future__ import annotations

import os
import random
import sys
import time
from typing import Any

from worker import serve

os.environ["TVM_NUM_THREADS"] = sys.argv[1]  # read when TVM starts its threads
os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)  # its builders import built_ins

import numpy as np

import built_ins  # isort: skip  (after the worker, which takes the output)
import worker_tasks  # isort: skip
import tvm  # isort: skip
from tvm import auto_scheduler  # isort: skip

_kept: dict[str, Any] = {}


def tune(
    name: str, args: list[int], hardware: list[int], trials: int, seed: int, log: str
) -> list[float]:
    """Seconds of a run as its tutorials write it, and the trials that failed; records in `log`."""
    task = worker_tasks.task("cpu", hardware, func=built_ins.OPERATORS[name], args=args)
    options = auto_scheduler.TuningOptions(
        num_measure_trials=trials,
        measure_callbacks=[auto_scheduler.RecordToFile(log)],
        verbose=0,
    )
    policy = auto_scheduler.SketchPolicy(
        task, program_cost_model=auto_scheduler.XGBModel(seed=seed), seed=seed, verbose=0
    )
    start = time.perf_counter()
    task.tune(options, search_policy=policy)
    seconds = time.perf_counter() - start
    results = [result for _, result in auto_scheduler.RecordReader(log)]
    _keep(task, *task.apply_best(log))
    return [seconds, sum(result.error_no != 0 for result in results)]


def sampled(name: str, args: list[int], hardware: list[int], count: int, seed: int) -> list[Any]:
    """The steps of candidates of a first population."""
    task = worker_tasks.task("cpu", hardware, func=built_ins.OPERATORS[name], args=args)
    return _sampled(task, count, seed)


def sampled_of_program(text: str, hardware: list[int], count: int, seed: int) -> list[Any]:
    """The same of the tensors that a program of programs.py makes."""
    return _sampled(worker_tasks.task_of_program(text, "cpu", hardware), count, seed)


def _sampled(task: Any, count: int, seed: int) -> list[Any]:
    policy = auto_scheduler.SketchPolicy(
        task,
        auto_scheduler.RandomModel(),
        params={"evolutionary_search_population": 256},
        seed=seed,
        verbose=0,
    )
    states = list(policy.sample_initial_population())
    random.Random(seed).shuffle(states)
    _kept["task"], _kept["states"] = task, states[:count]
    return [worker_tasks.steps_of(task, state) for state in states[:count]]


def build(number: int) -> None:
    """Compile one of them."""
    task = _kept["task"]
    _keep(task, *task.compute_dag.apply_steps_from_state(_kept["states"][number]))


def timed(calls: int, batches: int) -> list[float]:
    """Seconds of a call of the kernel: the means of so many calls, after one."""
    built, arrays = _kept["kernel"], _kept["arrays"]
    timer = built.time_evaluator(built.entry_name, tvm.cpu(), number=calls, repeat=batches)
    return [float(seconds) for seconds in timer(*arrays).results]


def _keep(task: Any, schedule: Any, tensors: list[Any]) -> None:
    numbers = np.random.default_rng(0)
    shapes = [[int(size) for size in tensor.shape] for tensor in tensors]
    _kept["kernel"] = tvm.build(schedule, tensors, task.target)
    _kept["arrays"] = [tvm.nd.array(numbers.uniform(0.5, 1, s).astype("float32")) for s in shapes]


if __name__ == "__main__":
    serve(
        tune=tune,
        sampled=sampled,
        sampled_of_program=sampled_of_program,
        build=build,
        timed=timed,
    )
