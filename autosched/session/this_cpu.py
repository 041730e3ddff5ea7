"""Tasks that were recorded elsewhere, on this machine."""

from __future__ import annotations

from dataclasses import replace

from autosched.errors import ConfigError
from autosched.target import Target, cpu_target
from autosched.task import Task


def is_this_cpu(target: Target) -> bool:
    """Whether code for `target` is code for this machine's CPU: its model and features."""
    here = cpu_target()
    return (target.triple, target.cpu, target.features) == (here.triple, here.cpu, here.features)


def for_this_cpu(task: Task) -> Task:
    """`task` with this machine's code generation settings, where it was recorded on another.

    The hardware parameters stay: the candidate was made for them. Raises ConfigError for a task
    that is not for a CPU.
    """
    if task.target.is_gpu:
        raise ConfigError(f"{task.name} was recorded for CUDA; only CPU candidates can be run here")
    if is_this_cpu(task.target):
        return task
    return replace(task, target=replace(cpu_target(), hardware=task.target.hardware))
