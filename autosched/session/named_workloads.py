"""Convert the argument `workloads`, which says what Ansor's workload keys compute."""

from __future__ import annotations

from typing import Any

from autosched import arguments
from autosched.measure.workload_keys import Computation, WorkloadKeys
from autosched.task import Task


def workload_keys(workloads: Any) -> WorkloadKeys | None:
    """The computations of unknown workload keys: a task for the only one, or one for each key.

    A key is the whole text or its first element. The tasks' targets do not matter. Raises
    ConfigError for anything else.
    """
    if workloads is None or isinstance(workloads, WorkloadKeys):
        return workloads
    if isinstance(workloads, Task):
        return WorkloadKeys(other=Computation.of(workloads.name, workloads))
    named = arguments.mapping("workloads", workloads, "a Task, or one for each key")
    for key, task in named.items():
        arguments.instance(f"workloads: {key}", task, Task)
    return WorkloadKeys({key: Computation.of(task.name, task) for key, task in named.items()})
