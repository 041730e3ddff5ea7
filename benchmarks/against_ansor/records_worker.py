"""Records of Ansor: its lines of candidates, and what it reads in lines (see records.py)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from worker import serve

import built_ins  # isort: skip  (after the worker, which takes the output)
import worker_tasks  # isort: skip
import tvm  # isort: skip
from tvm import auto_scheduler  # isort: skip
from tvm.auto_scheduler import measure, measure_record  # isort: skip

Lines = list[dict[str, Any]]
PARAMETERS = {"evolutionary_search_population": 128, "evolutionary_search_num_iters": 2}


def _task(what: dict[str, Any], about: dict[str, Any]) -> Any:
    """The task; `target`, `host`, `hardware` and `layout` are those of `about`."""
    target = tvm.target.Target(about["target"], host=about["host"] or None)
    return auto_scheduler.SearchTask(
        target=target,
        hardware_params=auto_scheduler.HardwareParams(*about["hardware"]),
        layout_rewrite_option=about["layout"],
        **what,
    )


def built_in(name: str, args: list[int], about: dict[str, Any], count: int, seed: int) -> Lines:
    """Lines of an operator whose key is its name and arguments."""
    task = _task({"func": built_ins.OPERATORS[name], "args": args}, about)
    return list(_lines(task, count, seed))


def hashed(name: str, args: list[int], about: dict[str, Any], count: int, seed: int) -> Lines:
    """Lines of the operator as one without a name: its key is a hash and shapes."""
    return _of_tensors(built_ins.OPERATORS[name](*args), about, count, seed)


def program(text: str, about: dict[str, Any], count: int, seed: int) -> Lines:
    """Lines of a program, likewise."""
    return _of_tensors(worker_tasks.tensors(text), about, count, seed)


def _of_tensors(tensors: Any, about: dict[str, Any], count: int, seed: int) -> Lines:
    key = auto_scheduler.ComputeDAG(tensors).workload_key()
    auto_scheduler.workload_registry.register_workload_tensors(key, tensors)
    return list(_lines(_task({"workload_key": key}, about), count, seed))


def _lines(task: Any, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Lines of candidates with results of any kind, and the states they stand for."""
    rng = random.Random(seed)
    for state in _states(task, count, seed):
        given = measure.MeasureInput(task, state)
        line = measure_record.dump_record_to_string(given, _result(rng)).strip()
        bound = task.compute_dag.infer_bound_from_state(state)
        yield {"line": line, "key": task.workload_key, "state": str(bound)}


def _states(task: Any, count: int, seed: int) -> list[Any]:
    """`count` candidates of the first population, as many mutated ones."""
    policy = auto_scheduler.SketchPolicy(
        task, auto_scheduler.RandomModel(), params=PARAMETERS, seed=seed, verbose=0
    )
    states = list(policy.sample_initial_population())
    random.Random(seed).shuffle(states)
    return [*states[:count], *policy.evolutionary_search(states, count)]


def _result(rng: random.Random) -> Any:
    error = rng.choice((0, 0, 0, *range(1, 9)))
    costs = [1e10]
    if error == 0:
        costs = [rng.lognormvariate(-8, 4) for _ in range(rng.randint(1, 4))]
    spent = rng.choice((0.0, 1.0, rng.random() * 100, 15.0))
    return measure.MeasureResult(costs, error, "a message", spent, rng.randint(0, 2**31))


def read(line: str) -> dict[str, Any]:
    """What the line says: key, target, limits, layout, result, state; and the line again."""
    given, result = measure_record.load_record_from_string(line)
    whole = measure.recover_measure_input(given, rebuild_state=True)
    task = whole.task
    return {
        "key": task.workload_key,
        "target": str(task.target),
        "layout": int(task.layout_rewrite_option),
        "costs": [float(cost.value) for cost in result.costs],
        "error": int(result.error_no),
        "spent": float(result.all_cost),
        "time": float(result.timestamp),
        "state": str(task.compute_dag.infer_bound_from_state(whole.state)),
        "again": measure_record.dump_record_to_string(given, result).strip(),
    }


def rewritten(text: str, about: dict[str, Any], count: int, seed: int) -> Lines:
    """Candidates of a program, and the keys of its DAGs with the layouts that they ask for."""
    dag = auto_scheduler.ComputeDAG(worker_tasks.tensors(text))
    task = _task({"compute_dag": dag, "workload_key": dag.workload_key()}, about)
    return [
        {
            "steps": worker_tasks.steps_of(task, state),
            "key": dag.rewrite_layout_from_state(state).workload_key(),
        }
        for state in _states(task, count, seed)
    ]


if __name__ == "__main__":
    serve(built_in=built_in, hashed=hashed, program=program, read=read, rewritten=rewritten)
