"""What Ansor refuses of candidates for a GPU, and at which limits (see limits.py)."""

from __future__ import annotations

import random
from typing import Any

from worker import serve

import built_ins  # isort: skip  (after the worker, which takes the output)
import worker_tasks  # isort: skip
import tvm  # isort: skip
from tvm import auto_scheduler, tir  # isort: skip

MOST = 1 << 31
PASSES = (
    tir.transform.InjectPrefetch(),
    tir.transform.StorageFlatten(64, False),
    tir.transform.NarrowDataType(32),
    tir.transform.Simplify(),
    tir.transform.VectorizeLoop(True),
    tir.transform.InjectVirtualThread(),
    tir.transform.StorageRewrite(),
    tir.transform.Simplify(),
)
"""What runs before a GPU's limits are checked for features."""
PARAMETERS = {"evolutionary_search_population": 128, "evolutionary_search_num_iters": 3}


class Case:
    """The candidates of one question, about which others follow."""

    states: list[Any]
    what: dict[str, Any]


def built_in(name: str, args: list[int], hardware: list[int], count: int, seed: int) -> list[Any]:
    """Steps of candidates of an operator."""
    return _drawn({"func": built_ins.OPERATORS[name], "args": args}, hardware, count, seed)


def program(text: str, hardware: list[int], count: int, seed: int) -> list[Any]:
    """Steps of candidates of a program."""
    dag = auto_scheduler.ComputeDAG(worker_tasks.tensors(text))
    return _drawn({"compute_dag": dag, "workload_key": f"p{seed}"}, hardware, count, seed)


def _drawn(what: dict[str, Any], hardware: list[int], count: int, seed: int) -> list[Any]:
    task = worker_tasks.task("cuda", hardware, **what)
    policy = auto_scheduler.SketchPolicy(
        task, auto_scheduler.RandomModel(), params=PARAMETERS, seed=seed, verbose=0
    )
    states = list(policy.sample_initial_population())
    random.Random(seed).shuffle(states)
    Case.states = [*states[:count], *policy.evolutionary_search(states, count)]
    Case.what = what
    return [worker_tasks.steps_of(task, state) for state in Case.states]


def thresholds(keys: list[str]) -> list[dict[str, int | None]]:
    """Of each candidate the least limit of each kind that allows it, None where none does."""
    dag = worker_tasks.task("cuda", [80, 16, 64, MOST - 1, MOST - 1, 1024, 8, 32], **Case.what)
    found: list[dict[str, int | None]] = []
    for state in Case.states:
        schedule, tensors = dag.compute_dag.apply_steps_from_state(state)
        with tvm.target.Target("cuda -arch=sm_80"):
            module = tvm.driver.build_module.schedule_to_module(schedule.normalize(), tensors)
            func = tvm.transform.Sequential(PASSES)(module)["main"]
        found.append({key: _least(func, key) for key in keys})
    return found


def _least(func: Any, key: str) -> int | None:
    low, high = -1, MOST
    while high - low > 1:
        limit = (low + high) // 2
        if tir.analysis.verify_gpu_code(func, {key: limit}):
            high = limit
        else:
            low = limit
    return None if high == MOST else high


def verdicts(limits: list[list[int]]) -> list[list[bool]]:
    """For each set of limits, which candidates have features."""
    found = []
    for hardware in limits:
        task = worker_tasks.task("cuda", hardware, **Case.what)
        rows = auto_scheduler.feature.get_per_store_features_from_states(Case.states, task)
        found.append([bool((abs(each) > 0).any()) for each in rows])
    return found


if __name__ == "__main__":
    serve(built_in=built_in, program=program, thresholds=thresholds, verdicts=verdicts)
