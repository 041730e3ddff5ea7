"""The runner's side: loads artifacts, runs, times and checks them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.errors import MeasureError
from autosched.runtime.artifact import CpuArtifact
from autosched.runtime.cpu import CpuKernel, aligned_empty, load
from autosched.task import Task
from measure.check import compare
from measure.worker import Handler

Array = npt.NDArray[Any]


@dataclass(slots=True)
class _Loaded:
    kernel: CpuKernel
    nanoseconds: Callable[[int], int]

    def seconds(self, calls: int = 1) -> float:
        """Of `calls` calls."""
        return self.nanoseconds(calls) * 1e-9


class _Runner:
    """Holds one task's arrays and the kernels of the batch under way."""

    def __init__(self) -> None:
        self._task: Task | None = None
        self._arrays: list[Array] = []
        self._expected: list[Array] | None = None
        self._kernels: dict[int, _Loaded] = {}

    def handle(self, request: tuple[Any, ...]) -> Any:
        match request:
            case ("task", task_json):
                self._set_task(task_json)
            case ("load", index, artifact):
                return self._load(index, artifact)
            case ("time", index, seconds, blocks):
                return self._time(index, seconds, blocks)
            case ("check", index):
                self._check(index)
            case ("numpy", index, seconds, rounds):
                return self._compare_with_numpy(index, seconds, rounds)
            case ("drop",):
                self._kernels.clear()
        return None

    def _set_task(self, task_json: dict[str, Any]) -> None:
        self._kernels.clear()
        if self._task is not None and self._task.key == task_json["key"]:
            return
        self._task = Task.from_json(task_json)
        inputs = self._task.inputs(seed=0)
        tensors = self._task.tensors[-self._task.num_outputs :]
        outputs = [np.zeros(_shape(t), t.dtype.numpy) for t in tensors]
        self._arrays = [_aligned(a) for a in (*inputs, *outputs)]
        self._expected = None

    def _load(self, index: int, artifact: bytes) -> float:
        """Load and run once; returns the seconds of that first call."""
        kernel = load(CpuArtifact.from_bytes(artifact))
        self._kernels[index] = _Loaded(kernel, kernel.timer(*self._arrays))
        return self._kernels[index].seconds()

    def _time(self, index: int, seconds: float, blocks: int) -> list[float]:
        """`blocks` repeats (seconds per call) within about `seconds`, after a warm-up.

        A call that alone takes longer is a repeat of its own: what it has to warm up is little.
        """
        loaded = self._kernels[index]
        once = loaded.seconds(1)  # warms caches and worker threads
        if once >= seconds:
            return [once]
        calls = max(1, min(10_000_000, int(seconds / blocks / max(once, 1e-8))))
        return [loaded.seconds(calls) / calls for _ in range(blocks)]

    def _compare_with_numpy(self, index: int, seconds: float, rounds: int) -> tuple[float, float]:
        """Median seconds per call of `numpy.matmul` and of the kernel, measured in turns."""
        a, b = self._arrays[:2]
        out = np.empty_like(self._arrays[-1])
        calls = max(1, int(seconds / max(self._kernels[index].seconds(), 1e-7)))
        theirs, ours = [], []
        for _ in range(rounds):
            np.matmul(a, b, out=out)
            start = time.perf_counter()
            for _ in range(calls):
                np.matmul(a, b, out=out)
            theirs.append((time.perf_counter() - start) / calls)
            ours += self._time(index, seconds, 1)
        return float(np.median(theirs)), float(np.median(ours))

    def _check(self, index: int) -> None:
        assert self._task is not None
        outputs = self._arrays[-self._task.num_outputs :]
        inputs = self._arrays[: -self._task.num_outputs]
        if self._expected is None:
            self._expected = self._task.reference(inputs)
        for out in outputs:
            out.fill(np.nan if out.dtype.kind == "f" else 1)
        self._kernels[index].kernel(*self._arrays)
        names = [t.name for t in self._task.tensors[-self._task.num_outputs :]]
        for name, got, want in zip(names, outputs, self._expected, strict=True):
            problem = compare(name, got, want)
            if problem:
                raise MeasureError(problem, stage="check", kind="wrong_answer")


def make_handler() -> Handler:
    """The entry point of the runner process."""
    return _Runner().handle


def _shape(tensor: Any) -> tuple[int, ...]:
    return tuple(extent.value for extent in tensor.shape)


def _aligned(array: Array) -> Array:
    """A copy of `array` that starts at a cache line."""
    result = aligned_empty(array.shape, array.dtype)
    result[...] = array
    return result
