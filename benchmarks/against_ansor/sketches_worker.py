"""Ansor's sketches, DAGs and samples of a program (see sketches.py)."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from worker import serve

from tvm import auto_scheduler, te, tir  # isort: skip  (after the worker)

TARGETS = {"cpu": "llvm -mcpu=skylake-avx512", "cuda": "cuda -arch=sm_80"}


def _tensors(text: str) -> list[Any]:
    names = {
        "te": te,
        "const": tir.const,
        "select": tir.Select,
        "all": tir.all,
        "floordiv": tir.floordiv,
        "floormod": tir.floormod,
    }
    exec(text, names)
    tensors: list[Any] = names["tensors"]
    return tensors


def _policy(
    text: str, target: str, hardware: list[int], parameters: dict[str, Any], seed: int
) -> tuple[Any, Any]:
    task = auto_scheduler.SearchTask(
        compute_dag=auto_scheduler.ComputeDAG(_tensors(text)),
        workload_key=f"program_{hash(text)}",
        target=TARGETS[target],
        hardware_params=auto_scheduler.HardwareParams(*hardware),
    )
    policy = auto_scheduler.SketchPolicy(
        task, auto_scheduler.RandomModel(), params=parameters, seed=seed, verbose=0
    )
    return task, policy


def graph(text: str) -> dict[str, Any]:
    """The DAG of a program."""
    dag = auto_scheduler.ComputeDAG(_tensors(text))
    return {
        "dag": str(dag),
        "flops": dag.flop_ct,
        "hash_key": dag.workload_key(),
        "initial": str(dag.get_init_state()),
    }


def sketches(
    text: str, target: str, hardware: list[int], parameters: dict[str, Any]
) -> dict[str, list[Any]]:
    """All sketches of a program, and their steps."""
    _, policy = _policy(text, target, hardware, parameters, 1)
    return {"sketches": [str(sketch) for sketch in policy.generate_sketches()]}


def samples(
    text: str,
    target: str,
    hardware: list[int],
    parameters: dict[str, Any],
    count: int,
    seed: int,
    evolved: bool,
) -> list[str]:
    """The steps, as JSON, of at least `count` samples of a first population, or of a search."""
    task, policy = _policy(
        text, target, hardware, {**parameters, "sample_init_min_population": count}, seed
    )
    states = list(policy.sample_initial_population())
    if evolved:
        states = list(policy.evolutionary_search(states, count))
    result = auto_scheduler.MeasureResult([1.0], 0, "", 1.0, 1)
    found: Counter[str] = Counter()
    for state in states:
        line = auto_scheduler.measure_record.dump_record_to_string(
            auto_scheduler.MeasureInput(task, state), result
        )
        found[json.dumps(json.loads(line)["i"][1][1])] += 1
    return list(found.elements())


if __name__ == "__main__":
    serve(graph=graph, sketches=sketches, samples=samples)
