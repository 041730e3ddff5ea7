"""Programs and tasks of the peer, for its workers; imported after `worker`."""

from __future__ import annotations

import json
from typing import Any

from tvm import auto_scheduler, te, tir

TARGETS = {"cpu": "llvm -mcpu=skylake-avx512", "cuda": "cuda -arch=sm_80"}
NAMES = {
    "te": te,
    "const": tir.const,
    "select": tir.Select,
    "all": tir.all,
    "any": tir.any,
    "ne": tir.NE,
    "floordiv": tir.floordiv,
    "floormod": tir.floormod,
}
"""What the text of a program may use."""


def tensors(text: str) -> list[Any]:
    """What the program makes."""
    names: dict[str, Any] = dict(NAMES)
    exec(text, names)
    found: list[Any] = names["tensors"]
    return found


def task(target: str, hardware: list[int], **what: Any) -> Any:
    """The task of `func` and `args`, or of `compute_dag` and `workload_key`."""
    return auto_scheduler.SearchTask(
        target=TARGETS[target],
        hardware_params=auto_scheduler.HardwareParams(*hardware),
        **what,
    )


def task_of_program(text: str, target: str, hardware: list[int]) -> Any:
    """The task of a program."""
    dag = auto_scheduler.ComputeDAG(tensors(text))
    return task(target, hardware, compute_dag=dag, workload_key=f"program_{hash(text)}")


def steps_of(search_task: Any, state: Any) -> list[Any]:
    """The steps of a state as its record has them."""
    result = auto_scheduler.MeasureResult([1.0], 0, "", 1.0, 1)
    given = auto_scheduler.MeasureInput(search_task, state)
    line = auto_scheduler.measure_record.dump_record_to_string(given, result)
    steps: list[Any] = json.loads(line)["i"][1][1]
    return steps
