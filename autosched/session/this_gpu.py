"""The GPU that is here, for records of one."""

from __future__ import annotations

from collections.abc import Mapping

from autosched.measure.records import Record
from autosched.runtime.cuda_driver import gpu_name


def gpu_of(record: Record) -> str | None:
    """The name of the GPU that is here, of a record for one."""
    target = record.task.get("target")
    is_gpu = isinstance(target, Mapping) and target.get("kind") == "cuda"
    return gpu_name() if is_gpu else None
