"""The runs of `autosched lower --profile`, in a separate process, because one may crash or hang."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.process.worker import Handler, Worker
from autosched.runtime.artifact import CpuArtifact
from autosched.runtime.cpu import CpuKernel, aligned_copy, aligned_empty
from autosched.runtime.profile import Profile, ProfiledCode, ProfiledKernel
from autosched.workloads.workload import Array

FACTORY = "autosched.cli.profile_process:make_handler"
SECONDS = 60.0
"""Time limit, beside that for the calls; a profile takes half a second."""


@dataclass(frozen=True, slots=True)
class Profiling:
    """A candidate with timed loops, `timed`, and without, `bare`, and its arguments.

    - `inputs`: in the order of the operator, before any change of layout.
    - `outputs`: their shapes and types.
    """

    timed: ProfiledCode
    bare: CpuArtifact
    inputs: Sequence[Array]
    outputs: Sequence[tuple[tuple[int, ...], np.dtype[Any]]]


def profile_of(request: Profiling, seconds: float) -> tuple[Profile, float]:
    """The profile, and the seconds of a call without timed loops.

    Raises MeasureError if the process dies or takes more than `seconds` and the limit.
    """
    worker = Worker(FACTORY)
    try:
        found: tuple[Profile, float] = worker.call(request, SECONDS + seconds, "run")
        return found
    finally:
        worker.stop()


def make_handler() -> Handler:
    """The handler in the process: from a Profiling to what `profile_of` returns."""

    def handle(request: Profiling) -> tuple[Profile, float]:
        timed, bare = ProfiledKernel.of(request.timed), CpuKernel(request.bare)
        made = [aligned_empty(shape, dtype) for shape, dtype in request.outputs]
        arrays = bare.prepare(*map(aligned_copy, request.inputs), *made)
        profile = timed.profile(*arrays)
        spent = bare.bind(*arrays).time_ns(profile.calls)
        return profile, spent * 1e-9 / profile.calls

    return handle
