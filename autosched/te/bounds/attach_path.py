"""The loops around a stage, found by following where it and its parents are attached."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from autosched.errors import ScheduleError
from autosched.te.operations.operation import Operation, ScanOp
from autosched.te.relations import AttachType
from autosched.tir.expr import IterVar

if TYPE_CHECKING:
    from autosched.te.schedule.stage import Stage

Scans = Mapping[Operation, "Stage"]
"""Maps an operation that computes the first steps of a scan to the stage of that scan."""


def scans_of_inits(stages: Iterable[Stage]) -> Scans:
    """Map each operation that computes first steps of a scan to the scan's stage in `stages`."""
    found: dict[Operation, Stage] = {}
    for stage in stages:
        if isinstance(stage.op, ScanOp):
            found.update((tensor.op, stage) for tensor in stage.op.init)
    return found


def attach_path(stage: Stage, scans: Scans | None = None) -> list[IterVar]:
    """The loops around `stage`, innermost first; empty at root.

    A stage whose operation is in `scans` computes the first steps of a scan. It is computed where
    the scan is, inside the scan's environment threads, wherever it is attached.

    Raises ScheduleError when the stage, or one around it, is attached at a loop that no longer
    exists, or inside itself.
    """
    path: list[IterVar] = []
    first = stage
    seen: set[Stage] = set()
    while True:
        if stage in seen:
            raise ScheduleError(
                f"infer_bound: stage {first.op.name} is inside of {stage.op.name}, which is "
                f"inside of itself (first steps are computed where their scan is); attach "
                f"{stage.op.name} to another stage"
            )
        seen.add(stage)
        scan = None if scans is None else scans.get(stage.op)
        if scan is not None:
            path += reversed(scan.env_thread_axes)
            stage = scan
            continue
        spec = stage.attach_spec()
        if spec.attach_type not in (AttachType.SCOPE, AttachType.SCAN_UPDATE):
            return path
        axis, around = spec.attach_ivar, spec.attach_stage
        assert axis is not None and around is not None
        position = around.leaf_place(axis)
        if position is None:
            raise ScheduleError(
                f"infer_bound: stage {stage.op.name} is attached at {axis.var.name} of "
                f"{around.op.name}, which is not a loop of that stage; its loops are "
                + ", ".join(iv.var.name for iv in around.leaf_iter_vars)
            )
        path += reversed(around.leaf_iter_vars[: position + 1])
        path += reversed(around.env_thread_axes)
        stage = around
