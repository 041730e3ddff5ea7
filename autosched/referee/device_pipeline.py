"""The kernels that CUDA code is generated from, still within the function that launches them.

What the device pipeline does to host and launches has no part in what a kernel computes; together
with its host a kernel that reads what another wrote can be watched.
"""

from __future__ import annotations

from autosched.tir.function import PrimFunc
from autosched.transform.framework.passes import Pass, Sequential
from autosched.transform.pipeline import DEVICE_PIPELINE, GPU_PIPELINE

_OF_LAUNCHES = ("AnnotateDeviceRegions", "SplitHostDevice", "LowerDeviceKernelLaunch")

DEVICE_PASSES: tuple[Pass, ...] = (
    *GPU_PIPELINE,
    *(p for p in DEVICE_PIPELINE if p.name not in _OF_LAUNCHES),
)


def device_function(source: PrimFunc) -> PrimFunc:
    """`source`, as ScheduleOps makes it, with flat loops, barriers, shuffles and narrow vectors."""
    return Sequential(DEVICE_PASSES, "device_function")(source)
