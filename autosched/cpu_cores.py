"""The cores of this machine that this process may use, and its share of their time."""

from __future__ import annotations

import os
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

from autosched.control_groups import cpu_quota


def hardware_threads() -> int:
    """The number of hardware threads that this process may use."""
    return len(_available())


@lru_cache(maxsize=1)
def physical_cores() -> int:
    """The number of physical cores that this process may use; their hardware threads count once."""
    cores = set()
    for cpu in _available():
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        try:
            cores.add(siblings.read_text())
        except OSError:
            cores.add(str(cpu))
    return len(cores)


def usable_cores() -> int:
    """The number of physical cores that this process may keep busy, within a container's quota.

    With more threads than the quota allows, the system stops some of them again and again, while
    others wait for them.
    """
    return max(1, int(min(physical_cores(), _quota())))


def usable_threads() -> int:
    """The same number of hardware threads."""
    return max(1, int(min(hardware_threads(), _quota())))


def _available() -> Collection[int]:
    """The numbers of the hardware threads that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return range(os.cpu_count() or 1)


@lru_cache(maxsize=1)
def _quota() -> float:
    return cpu_quota()
