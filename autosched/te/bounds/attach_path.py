"""The loops that a stage is computed inside of."""

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
"""The stage of the scan whose first steps an operation computes."""


def scans_of_inits(stages: Iterable[Stage]) -> Scans:
    """The scan of each operation that computes first steps of one among `stages`."""
    found: dict[Operation, Stage] = {}
    for stage in stages:
        if isinstance(stage.op, ScanOp):
            found.update((tensor.op, stage) for tensor in stage.op.init)
    return found


def attach_path(stage: Stage, scans: Scans | None = None) -> list[IterVar]:
    """The loops around `stage`, innermost first; empty at root.

    The first steps of a scan, which `scans` has, are computed where the scan is, inside of its
    environment threads, wherever their own stage is attached.

    Raises ScheduleError when the loop the stage is attached to does not exist any more.
    """
    path: list[IterVar] = []
    while True:
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
        if axis not in around.leaf_iter_vars:
            raise ScheduleError(
                f"infer_bound: stage {stage.op.name} is attached at {axis.var.name} of "
                f"{around.op.name}, which is not a loop of that stage; its loops are "
                + ", ".join(iv.var.name for iv in around.leaf_iter_vars)
            )
        position = around.leaf_iter_vars.index(axis)
        path += reversed(around.leaf_iter_vars[: position + 1])
        path += reversed(around.env_thread_axes)
        stage = around
