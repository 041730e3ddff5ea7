"""Ansor's sketches and DAGs of a program (see sketches.py)."""

from __future__ import annotations

from typing import Any

from worker import serve

from tvm import auto_scheduler  # isort: skip  (after the worker)
import worker_tasks  # isort: skip


def graph(text: str) -> dict[str, Any]:
    """The DAG of a program."""
    dag = auto_scheduler.ComputeDAG(worker_tasks.tensors(text))
    return {
        "dag": str(dag),
        "flops": dag.flop_ct,
        "hash_key": dag.workload_key(),
        "initial": str(dag.get_init_state()),
    }


def sketches(
    text: str, target: str, hardware: list[int], parameters: dict[str, Any]
) -> dict[str, list[str]]:
    """All sketches of a program."""
    task = worker_tasks.task_of_program(text, target, hardware)
    policy = auto_scheduler.SketchPolicy(
        task, auto_scheduler.RandomModel(), params=parameters, seed=1, verbose=0
    )
    return {"sketches": [str(sketch) for sketch in policy.generate_sketches()]}


if __name__ == "__main__":
    serve(graph=graph, sketches=sketches)
