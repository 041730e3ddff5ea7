"""The limits that control groups (of a container or a job) set for this process.

Linux has two versions of control groups (Documentation/admin-guide/cgroup-v2.rst,
cgroup-v1/memory.rst and scheduler/sched-bwc.rst of its sources). The limit of a group applies to
all groups inside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

GROUPS = Path("/proc/self/cgroup")
MOUNT = Path("/sys/fs/cgroup")


class GroupMemory(NamedTuple):
    """The memory of a control group, in bytes.

    - `limit`: what its processes may have together.
    - `used`: what they have and need. Cached contents of files that nobody uses do not count.
    """

    limit: int
    used: int


def cpu_quota(groups: Path = GROUPS, mount: Path = MOUNT) -> float:
    """The CPU time that this process may use, in processors; infinity without a limit."""
    return min(
        (found for folder in _folders("cpu", groups, mount) for found in _quota_of(folder)),
        default=math.inf,
    )


def group_memory(groups: Path = GROUPS, mount: Path = MOUNT) -> list[GroupMemory]:
    """The memory of each group that contains this process and has a limit."""
    return [found for folder in _folders("memory", groups, mount) for found in _memory_of(folder)]


def _folders(controller: str, groups: Path, mount: Path) -> Iterator[Path]:
    """Folders that may hold the files of this process's groups and of the groups around them."""
    try:
        lines = groups.read_text().splitlines()
    except (OSError, ValueError):  # a name that is not text
        return
    for line in lines:
        controllers, _, path = line.partition(":")[2].partition(":")
        if not controllers:  # version 2 has all controllers in one tree
            roots = mount, mount / "unified"
        elif controller in controllers.split(","):
            roots = mount / controllers, mount / controller
        else:
            continue
        own = Path(path.lstrip("/"))  # a container may see its own group as the root
        yield from dict.fromkeys(root / folder for root in roots for folder in (own, *own.parents))


def _quota_of(folder: Path) -> Iterator[float]:
    try:
        if (file := folder / "cpu.max").exists():
            quota, period = file.read_text().split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text()
            period = (folder / "cpu.cfs_period_us").read_text()
        if int(quota) > 0:  # "max" and -1 are no limit
            yield int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return


def _memory_of(folder: Path) -> Iterator[GroupMemory]:
    for limit, used, unused in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        try:
            most, now = (int((folder / name).read_text()) for name in (limit, used))
        except (OSError, ValueError):  # no such file; "max" where there is no limit
            continue
        yield GroupMemory(most, max(0, now - _counted(folder / "memory.stat", unused)))


def _counted(file: Path, name: str) -> int:
    """The number behind a name in a file of counts; 0 where there is none."""
    try:
        return next(
            int(line.split()[1])
            for line in file.read_text().splitlines()
            if line.split()[:1] == [name]
        )
    except (OSError, ValueError, IndexError, StopIteration):
        return 0
