"""The kernels as CUDA code is generated from them, still inside the function that launches them.

The passes that concern the host and launches do not change what a kernel computes. Together with
its host, a kernel that reads what another one wrote can be watched.
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
    """Lower `source` from ScheduleOps to flat loops, barriers, shuffles and narrow vectors."""
    return Sequential(DEVICE_PASSES, "device_function")(source)
