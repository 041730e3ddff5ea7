"""Records of small matrix products, for tests of exports."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autosched.measure.records import Record
from autosched.measure.result import MeasureResult
from autosched.state.steps import Step, steps_from_json
from autosched.target import Target, cuda_target
from autosched.task import Task


def matmul(m: int, n: int = 32, k: int = 16, *, threads: int = 1, **target: Any) -> Task:
    """The task of a matrix product; `target` replaces fields of this machine's target."""
    task = Task.from_workload("matmul", M=m, N=n, K=k)
    found: Target = replace(task.target, threads=threads, **target)
    return replace(task, target=found)


def tiled(m: int) -> tuple[Step, ...]:
    """Steps that tile rows by 8 and run the tiles in parallel."""
    return steps_from_json([["SP", 2, 0, m, [8], 1], ["SP", 2, 2, 32, [16], 1], ["AN", 2, 0, 3]])


def record(task: Task, steps: tuple[Step, ...] = (), *, checked: bool = True) -> Record:
    return Record(task.to_json(), steps, MeasureResult((1e-5,), None, checked=checked))


def cuda_record() -> Record:
    """A record that uses one thread for each element of a 16x16 product."""
    steps = [["FU", 2, [0, 1]], ["SP", 2, 0, 256, [64], 1], ["AN", 2, 0, 5], ["AN", 2, 1, 6]]
    task = Task.from_workload("matmul", M=16, N=16, K=16, target=cuda_target("sm_90"))
    return record(task, steps_from_json(steps))
