"""The GPU that is here, for records of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from autosched.measure.records import Record
from autosched.runtime.cuda_driver import gpu_name
from autosched.session.this_cpu import measured_here
from autosched.task import Task


def gpu_of(record: Record) -> str | None:
    """The name of the GPU that is here, of a record for one."""
    return gpu_name() if _is_for_gpu(record) else None


def for_this_gpu(task: Task, facts: Mapping[str, Any]) -> Task:
    """`task` for the architecture of the GPU of `facts`, where it was recorded for another.

    The hardware parameters stay: the candidate was made for them.
    """
    major, minor = facts["capability"]
    arch = f"sm_{major}{minor}"
    if task.target.arch == arch:
        return task
    return replace(task, target=replace(task.target, arch=arch))


def is_of_this_machine(record: Record, environments: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a record's times are this machine's; those of a GPU are not where there is none.

    `environments` are those of its file.
    """
    gpu = gpu_of(record)
    if gpu is None and _is_for_gpu(record):
        return False
    return measured_here(record, environments, gpu)


def _is_for_gpu(record: Record) -> bool:
    target = record.task.get("target")
    return isinstance(target, Mapping) and target.get("kind") == "cuda"
