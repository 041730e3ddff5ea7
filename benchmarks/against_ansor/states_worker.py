"""Ansor's candidates of an operator, in the form of the golden files (see states.py)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from worker import serve

import built_ins  # isort: skip  (after the worker, which takes the output)
import worker_tasks  # isort: skip
from built_in_types import Types  # isort: skip
from tvm import IRModule, TVMError, auto_scheduler, te, tir  # isort: skip

Lines = list[dict[str, Any]]


def built_in(
    workload: str,
    args: list[int],
    types: list[str],
    target: str,
    hardware: list[int],
    count: int,
    seed: int,
) -> Lines:
    """Lines about a built-in operator."""
    dag = auto_scheduler.ComputeDAG(built_ins.OPERATORS[workload](*args, t=Types(*types)))
    task = worker_tasks.task(target, hardware, compute_dag=dag, workload_key="built_in")
    about = {"workload": workload, "args": args, "target": target, "hardware": hardware}
    return [{**about, **line} for line in _lines(task, count, seed)]


def program(text: str, target: str, hardware: list[int], count: int, seed: int) -> Lines:
    """Lines about the tensors that a program of programs.py makes."""
    task = worker_tasks.task_of_program(text, target, hardware)
    about = {"workload": "program", "target": target, "hardware": hardware}
    return [{**about, **line} for line in _lines(task, count, seed)]


def _lines(task: Any, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """`count` candidates of the first population, as many mutated ones, all sketches."""
    dag = task.compute_dag
    policy = auto_scheduler.SketchPolicy(
        task,
        auto_scheduler.RandomModel(),
        params={"evolutionary_search_population": 256, "evolutionary_search_num_iters": 3},
        seed=seed,
        verbose=0,
    )
    states = list(policy.sample_initial_population())
    random.Random(seed).shuffle(states)
    states = [*states[:count], *policy.evolutionary_search(states, count)]
    features = auto_scheduler.feature.get_per_store_features_from_states(states, task)
    for state, rows in zip(states, features, strict=True):
        if not rows.any() and _reads_past_the_end(dag, state):
            continue
        yield {
            "steps": worker_tasks.steps_of(task, state),
            "bound_state": str(dag.infer_bound_from_state(state)),
            "flop_count": dag.flop_ct,
            "features": [[float(x) for x in row] for row in rows],
        }
    sketches = [str(sketch) for sketch in policy.generate_sketches()]
    yield {"sketch_states": sketches, "dag": str(dag)}


def _reads_past_the_end(dag: Any, state: Any) -> bool:
    """Whether features fail as Ansor reads beyond a curve's points, where their last one is rounded
    up to more operations than there are."""
    schedule, args = dag.apply_steps_from_state(state)
    schedule = schedule.normalize()
    body = te.schedule.ScheduleOps(schedule, te.schedule.InferBound(schedule))
    func = te.schedule.SchedulePostProcToPrimFunc(args, body, None)
    module = tir.transform.Simplify()(IRModule({"main": func}))
    try:
        auto_scheduler.feature.features_from_primfunc(module["main"])
    except TVMError as error:
        return "compute_ops_list" in str(error)
    return False


if __name__ == "__main__":
    serve(built_in=built_in, program=program)
