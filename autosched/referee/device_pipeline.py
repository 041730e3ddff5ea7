"""The function that CUDA code is generated from, before host and device are split."""

from __future__ import annotations

from autosched.tir.function import PrimFunc
from autosched.transform.device.lower_thread_allreduce import LowerThreadAllreduce
from autosched.transform.device.split_wide_vectors import SplitWideVectors
from autosched.transform.device.thread_sync import ThreadSync
from autosched.transform.framework.passes import Pass, Sequential
from autosched.transform.pipeline import GPU_PIPELINE

DEVICE_PASSES: tuple[Pass, ...] = (
    *GPU_PIPELINE,
    ThreadSync("shared"),
    ThreadSync("shared.dyn"),
    ThreadSync("warp"),
    LowerThreadAllreduce(),
    SplitWideVectors(),
)


def device_function(source: PrimFunc) -> PrimFunc:
    """`source`, as ScheduleOps makes it, with flat loops, barriers, shuffles and narrow vectors."""
    return Sequential(DEVICE_PASSES, "device_function")(source)
