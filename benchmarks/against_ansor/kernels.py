"""Kernels of both sides that are called in turns, for tuned.py and compiled.py."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
from peer import Peer

sys.path.insert(0, str(Path(__file__).parent.parent))
from suite_operators import SUITE, Operator

from autosched import workloads
from autosched.runtime.cpu import BoundKernel, CpuKernel, aligned_copy
from autosched.runtime.cuda_loader import GpuKernel
from autosched.target import Target
from autosched.task import Task

_PAUSE_SECONDS = 15e-3
_BATCH_SECONDS = 3e-3
_BATCHES = 7


class Timed:
    """A kernel that is called again and again.

    `batches` takes a number of calls and returns the seconds of one in each of some batches.
    """

    def __init__(self, batches: Callable[[int], list[float]]) -> None:
        self.batches = batches
        self.calls = max(1, int(_BATCH_SECONDS / median(batches(1))))

    def __call__(self) -> float:
        """Seconds of a call, after a pause in which the threads of others fall asleep."""
        time.sleep(_PAUSE_SECONDS)
        return median(self.batches(self.calls))


def of_peer(peer: Peer) -> Timed:
    """The kernel that kernels_worker.py keeps."""
    return Timed(lambda calls: list(peer.ask("timed", calls, _BATCHES)))


def of_ours(kernel: CpuKernel | GpuKernel, task: Task) -> Timed:
    """One of our kernels on the task's inputs, whose result is compared with NumPy's."""
    assert isinstance(kernel, CpuKernel)
    inputs = [aligned_copy(array) for array in task.inputs()]
    expected = task.reference(inputs)
    outputs = [aligned_copy(np.zeros_like(array)) for array in expected]
    bound = kernel.bind(*kernel.prepare(*inputs), *outputs)
    bound.run()
    for found, right in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=2e-3, atol=2e-3)
    return of_calls(bound)


def of_calls(bound: BoundKernel) -> Timed:
    """One of our kernels on arguments."""

    def batches(calls: int) -> list[float]:
        bound.run()
        return [bound.time_ns(calls) * 1e-9 / calls for _ in range(_BATCHES)]

    return Timed(batches)


def operators(words: list[str]) -> list[Operator]:
    """Those of the suite that built_ins.py has, and whose names contain one of the words."""
    written = [operator for operator in SUITE if not operator.shapes]
    return [o for o in written if not words or any(word in o.name for word in words)]


def question(operator: Operator, target: Target) -> tuple[str, list[int], list[int]]:
    """Its name, arguments and limits as kernels_worker.py takes them."""
    workload = workloads.get(operator.workload)
    given = workload.resolve(operator.args)
    return operator.workload, [int(given[name]) for name in workload.args], hardware(target)


def hardware(target: Target) -> list[int]:
    """The limits of a CPU as Ansor's records have them."""
    return [target.hardware.num_cores, target.vector_bytes, 64, 0, 0, 0, 0, 0]
