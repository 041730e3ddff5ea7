"""Check whether a task's arrays fit this machine's memory."""

from __future__ import annotations

import math
import resource

from autosched.control_groups import group_memory
from autosched.errors import ConfigError
from autosched.layout import LayoutOption
from autosched.measure.environment import fingerprint
from autosched.measure.flush import flush_text
from autosched.task import Task
from autosched.workloads.workload import shape_of


def require_memory(task: Task, more: int) -> None:
    """Raise ConfigError when a task's arguments and reference do not fit this machine's memory.

    The reference is computed with 8-byte numbers from 8-byte copies of the inputs. Intermediate
    results count once, as a kernel stores them. `more` is the size in bytes of the buffer that
    empties the caches.
    """
    shapes = [(math.prod(shape_of(t)), t.dtype.numpy.itemsize) for t in task.tensors]
    needed = sum(elements * (size + 8) for elements, size in shapes)
    inner = {t for op in task.dag.ops for t in op.outputs}.difference(task.tensors)
    needed += sum(math.prod(shape_of(t)) * t.dtype.numpy.itemsize for t in inner)
    if task.layout == LayoutOption.FOR_PRE_TRANSFORMED:  # a transformed copy, an aligned copy
        free = [math.prod(shape_of(t)) * t.dtype.numpy.itemsize for t in task.layout_free]
        needed += 2 * sum(free)
    available = _memory()
    if more and needed + more > available:
        raise ConfigError(
            f"measure.cache_flush: {flush_text(more)} and the {needed / 1e9:.3g} GB of "
            f"{task.name} together exceed the {available / 1e9:.3g} GB of memory"
        )
    if needed > available:
        raise ConfigError(
            f"{task.name} needs {needed / 1e9:.3g} GB for its arrays and their reference, "
            f"but only {available / 1e9:.3g} GB are available; give smaller sizes"
        )


def _memory() -> int:
    """Bytes of memory of this machine, within the limits of a container and `ulimit -v`."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    found: int = fingerprint()["memory_bytes"]
    found = min([found, *(group.limit for group in group_memory())])
    return found if limit == resource.RLIM_INFINITY else min(found, limit)
