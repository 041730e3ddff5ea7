"""Ansor's candidates of an operator, in the form of the golden files (see states.py)."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from worker import serve

import built_ins  # isort: skip  (after the worker, which takes the output)
from tvm import auto_scheduler, te, tir  # isort: skip

TARGETS = {"cpu": "llvm -mcpu=skylake-avx512", "cuda": "cuda -arch=sm_80"}


def built_in(
    workload: str, args: list[int], target: str, hardware: list[int], count: int, seed: int
) -> list[dict[str, Any]]:
    """Lines about a built-in operator."""
    task = auto_scheduler.SearchTask(
        func=built_ins.OPERATORS[workload],
        args=args,
        target=TARGETS[target],
        hardware_params=auto_scheduler.HardwareParams(*hardware),
    )
    about = {"workload": workload, "args": args, "target": target, "hardware": hardware}
    return [{**about, **line} for line in _lines(task, count, seed)]


def program(
    text: str, target: str, hardware: list[int], count: int, seed: int
) -> list[dict[str, Any]]:
    """Lines about the tensors that a program of programs.py makes."""
    names = {
        "te": te,
        "const": tir.const,
        "select": tir.Select,
        "all": tir.all,
        "floordiv": tir.floordiv,
        "floormod": tir.floormod,
    }
    exec(text, names)
    task = auto_scheduler.SearchTask(
        compute_dag=auto_scheduler.ComputeDAG(names["tensors"]),
        workload_key=f"program_{hash(text)}",
        target=TARGETS[target],
        hardware_params=auto_scheduler.HardwareParams(*hardware),
    )
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
    result = auto_scheduler.MeasureResult([1.0], 0, "", 1.0, 1)
    for state, rows in zip(states, features, strict=True):
        line = auto_scheduler.measure_record.dump_record_to_string(
            auto_scheduler.MeasureInput(task, state), result
        )
        yield {
            "steps": json.loads(line)["i"][1][1],
            "bound_state": str(dag.infer_bound_from_state(state)),
            "flop_count": dag.flop_ct,
            "features": [[float(x) for x in row] for row in rows],
        }
    sketches = [str(sketch) for sketch in policy.generate_sketches()]
    yield {"sketch_states": sketches, "dag": str(dag)}


if __name__ == "__main__":
    serve(built_in=built_in, program=program)
