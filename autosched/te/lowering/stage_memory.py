"""The memory that a stage fills: its own scope, or one inferred from the real threads around it.

Virtual threads do not count: lowering repeats their statements within one thread. `scans` has the
stages that compute first steps of scans, which lie inside of the scan's environment threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosched.errors import ScheduleError
from autosched.te.bounds.attach_path import Scans, attach_path
from autosched.te.bounds.thread_scope import (
    GLOBAL,
    inferred_storage_rank,
    is_virtual_thread,
    scope_name,
    storage_rank,
)
from autosched.te.relations import AttachType
from autosched.tir.expr import IterVar

if TYPE_CHECKING:
    from autosched.te.schedule.stage import Stage


def filled_rank(stage: Stage, scans: Scans) -> int:
    """The storage rank of the memory that the loops of `stage` fill."""
    if stage.scope:
        return storage_rank(stage.scope)
    scan = scans.get(stage.op)
    if stage.attach_type is AttachType.SCAN_UPDATE:
        scan = stage.attach_stage
    if scan is not None:  # first steps and updates are stored into the scan's tensors
        return filled_rank(scan, scans)
    return inferred_storage_rank(real_threads(stage, scans))


def realized_scope(stage: Stage, scans: Scans) -> str:
    """The scope of the realized tensors of `stage`; empty when ThreadScopePropagate infers it.

    That pass looks at the innermost thread axis only. If it is a block index inside a loop bound to
    threads, the memory is still private to each thread, and the scope must be explicit.
    """
    if stage.scope:
        return stage.scope
    tags = real_threads(stage, scans)
    rank = inferred_storage_rank(tags)
    return scope_name(rank) if rank != inferred_storage_rank(tags[:1]) else ""


def check_global(stage: Stage, scans: Scans) -> None:
    """ScheduleError when `stage` is set to global memory but computed inside of threads.

    All threads around it would store the same elements, and a kernel cannot allocate global memory.
    """
    if not stage.scope or storage_rank(stage.scope) != GLOBAL:
        return
    tags = real_threads(stage, scans)
    if tags:
        around = " and ".join(dict.fromkeys(reversed(tags)))
        raise ScheduleError(
            f"schedule_ops: stage {stage.op.name} is set to {stage.scope} memory and computed "
            f"inside of {around}: all of these threads would store the same elements; give it a "
            'memory that a kernel has, shared or local (set_scope, or in place of "global" in '
            "cache_read and cache_write), or compute it outside of the threads"
        )


def real_threads(stage: Stage, scans: Scans) -> list[str]:
    """The tags of the real threads around `stage`, innermost first."""
    threads: dict[IterVar, IterVar] = {}
    around = scans.get(stage.op) or stage.attach_spec().attach_stage
    while around is not None:
        for iv, attr in around.iter_var_attrs.items():
            if attr.bind_thread is not None:
                threads[iv] = attr.bind_thread
        around = scans.get(around.op) or around.attach_spec().attach_stage
    tags = (threads.get(iv, iv).thread_tag for iv in attach_path(stage, scans))
    return [tag for tag in tags if tag and not is_virtual_thread(tag)]
