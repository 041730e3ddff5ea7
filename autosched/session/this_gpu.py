"""The GPU of this machine, for records of GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from autosched.measure.records import Record, target_of
from autosched.runtime.cuda_driver import gpu_name
from autosched.session.this_cpu import measured_here
from autosched.target import arch_of
from autosched.task import Task


def gpu_of(record: Record) -> str | None:
    """The name of this machine's GPU if the record is for one; None otherwise, or without a GPU."""
    return gpu_name() if _is_for_gpu(record) else None


def for_this_gpu(task: Task, facts: Mapping[str, Any]) -> Task:
    """`task` for the architecture of the GPU of `facts`, if it was recorded for another.

    The hardware parameters stay: the candidate was made for them.
    """
    arch = arch_of(facts["capability"])
    if task.target.arch == arch:
        return task
    return replace(task, target=replace(task.target, arch=arch))


def is_of_this_machine(record: Record, environments: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a record's times are this machine's; those of a GPU are not if there is no GPU here.

    `environments` are those of the record's file.
    """
    gpu = gpu_of(record)
    if gpu is None and _is_for_gpu(record):
        return False
    return measured_here(record, environments, gpu)


def _is_for_gpu(record: Record) -> bool:
    return target_of(record.task).get("kind") == "cuda"
