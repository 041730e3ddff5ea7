"""The runner's side: load artifacts, run, time and check them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.errors import AutoschedError, MeasureError
from autosched.layout import LayoutChange
from autosched.measure.check import Allowed, Seen
from autosched.measure.disturbance import Moment
from autosched.measure.flush import Flush
from autosched.measure.guard import Guarded, poison
from autosched.measure.peak import peak_flops
from autosched.measure.tolerance import tolerances
from autosched.process.worker import Handler, StrayProcessError, has_children
from autosched.runtime.artifact import CpuArtifact
from autosched.runtime.cpu import CpuKernel, aligned_copy, load
from autosched.runtime.native import kernel_imports
from autosched.runtime.parallel import ensure_pool
from autosched.task import Task
from autosched.words import told
from autosched.workloads.workload import shape_of

Array = npt.NDArray[Any]

STORED_BYTES = 1 << 30  # of transformed inputs (and, apart from them, references) that are kept
_MOST_ALONE = 1000  # calls of a visit in which caches are emptied before each
_MOST_AGAIN = 4  # disturbed visits of a batch that are repeated
_LONG = 0.1  # seconds; a longer visit is not repeated, as the request has a time limit


class _Runner:
    """Holds the arrays of one task and the kernels of the batch under way."""

    def __init__(self) -> None:
        self._task: Task | None = None
        self._arrays: list[Array] = []
        self._guarded: list[Guarded] = []
        self._expected: dict[str, list[Array]] = {}
        self._allowed: dict[str, list[Allowed]] = {}
        self._kernels: dict[int, CpuKernel] = {}
        self._stored: dict[LayoutChange, Array] = {}
        self._flush: Flush | None = None
        self._disturbed: dict[int, int] = {}  # disturbed visits by kernel
        self._again = 0

    def handle(self, request: tuple[Any, ...]) -> Any:
        """The reply to a request. Raises StrayProcessError when a kernel left a process behind."""
        before = has_children()  # a Python reference may keep processes of its own
        reply = self._reply(request)
        if request[0] in ("first", "time") and not before and has_children():
            raise StrayProcessError("run")
        return reply

    def _reply(self, request: tuple[Any, ...]) -> Any:
        match request:
            case ("task", task_json):
                self._set_task(task_json)
            case ("flush", size):
                assert self._task is not None
                self._flush = Flush(size, self._task.target.threads)
            case ("load", index, artifact):
                self._kernels[index] = load(CpuArtifact.from_bytes(artifact))
                self._arguments(index)  # transforms inputs now, outside the time limit of a call
                return True
            case ("first", index):
                return self._timer(index)(1)
            case ("time", index, seconds, blocks):
                return self._visit(index, seconds, blocks)
            case ("disturbed",):
                return self._disturbed
            case ("reference",):
                self._reference()
                self._tolerances()
            case ("check", index):
                return self._check(index).to_json()
            case ("numpy", index, plain, seconds, rounds, limit):
                return self._compare(index, plain, seconds, rounds, limit)
            case ("peak", dtype):
                return self._task and peak_flops(self._task.target, dtype)
            case ("drop",):
                self._drop()
        return None

    def _set_task(self, task_json: dict[str, Any]) -> None:
        self._drop()
        if self._task is not None and self._task.key == task_json["key"]:
            return
        self._task = Task.from_json(task_json, trust=True)
        inputs = self._task.inputs(seed=0)
        tensors = self._task.tensors[-self._task.num_outputs :]
        outputs = [np.zeros(shape_of(t), t.dtype.numpy) for t in tensors]
        self._guarded = [Guarded(a) for a in (*inputs, *outputs)]
        self._arrays = [guarded.array for guarded in self._guarded]
        # Takes 40 ms, which the first kernel then saves.
        kernel_imports()
        ensure_pool(self._task.target.threads)

    def _drop(self) -> None:
        self._kernels.clear()
        self._stored.clear()
        self._disturbed.clear()
        self._again = 0

    def _arguments(self, index: int) -> list[Array]:
        """The task's arrays in the storage order that the kernel expects."""
        params = self._kernels[index].artifact.params
        return [
            array if spec.layout is None else self._in_order(spec.layout, array)
            for spec, array in zip(params, self._arrays, strict=True)
        ]

    def _in_order(self, layout: LayoutChange, array: Array) -> Array:
        """A copy of an array in another storage order, kept for later visits if there is room."""
        found = self._stored.pop(layout, None)
        if found is None:
            found = aligned_copy(layout.transform(array))
        self._stored[layout] = found  # least recently used first
        while sum(a.nbytes for a in self._stored.values()) > STORED_BYTES and len(self._stored) > 1:
            self._stored.pop(next(iter(self._stored)))
        return found

    def _timer(self, index: int) -> Callable[[int], float]:
        """A function from a number of calls to the seconds that they take."""
        nanoseconds = self._kernels[index].timer(*self._arguments(index))
        return self._cold(lambda calls: nanoseconds(calls) * 1e-9)

    def _cold(self, seconds_of: Callable[[int], float]) -> Callable[[int], float]:
        """`seconds_of`, with empty caches before each call where the runner was asked for them."""
        flush = self._flush
        if flush is None:
            return seconds_of

        def cold(calls: int) -> float:
            total = 0.0
            for _ in range(calls):
                flush()
                total += seconds_of(1)
            return total

        return cold

    def _alone(self, seconds_of: Callable[[int], float], seconds: float) -> list[float]:
        """Time calls with empty caches, each a repeat, for `seconds` (emptying included)."""
        end = time.perf_counter() + seconds
        found = [seconds_of(1)]
        while time.perf_counter() < end and len(found) < _MOST_ALONE:
            found.append(seconds_of(1))
        return found

    def _visit(self, index: int, seconds: float, blocks: int) -> list[float]:
        """Time a kernel by `_time`. A disturbed visit is repeated, or counted as disturbed."""
        while True:
            before = Moment.now()
            found = self._time(index, seconds, blocks)
            now = Moment.now()
            if not now.disturbed_since(before):
                return found
            if self._again >= _MOST_AGAIN or now.seconds - before.seconds > _LONG:
                self._disturbed[index] = self._disturbed.get(index, 0) + 1
                return found
            self._again += 1

    def _time(self, index: int, seconds: float, blocks: int) -> list[float]:
        """Up to `blocks` repeats (seconds per call) in about `seconds`, after a warm-up call.

        A call that alone takes longer than `seconds` is the only repeat; the warm-up matters little
        for it.
        """
        seconds_of = self._timer(index)
        if self._flush is not None:
            return self._alone(seconds_of, seconds)
        once = seconds_of(1)  # warms caches and worker threads
        if once >= seconds:
            return [once]
        fit = (seconds - once) / max(once, 1e-8)
        blocks = max(1, min(blocks, int(fit)))
        calls = max(1, min(10_000_000, int(fit / blocks)))
        return [seconds_of(calls) / calls for _ in range(blocks)]

    def _compare(
        self, index: int, plain: int | None, seconds: float, rounds: int, limit: float
    ) -> tuple[list[float], list[float]]:
        """Seconds per call of NumPy (or of the kernel `plain`) and of the kernel, in turns.

        Each turn takes about `seconds`, unless one call takes longer. There are `rounds` rounds, or
        fewer if `limit` seconds are over before, but at least one.
        """
        end = time.perf_counter() + limit
        other_seconds = self._numpy_timer() if plain is None else self._timer(plain)
        theirs: list[float] = []
        ours: list[float] = []
        while len(theirs) < rounds and (not theirs or time.perf_counter() < end):
            if self._flush is not None:
                theirs.append(other_seconds(1))
                ours += self._alone(self._timer(index), 0.0)
                continue
            once = other_seconds(1)
            calls = int(seconds / max(once, 1e-7))
            theirs.append(other_seconds(calls) / calls if calls > 1 else once)
            ours += self._time(index, seconds, 1)
        return theirs, ours

    def _numpy_timer(self) -> Callable[[int], float]:
        """A function from a number of calls of the task's NumPy version to their seconds."""
        assert self._task is not None
        version = self._task.workload.numpy_version()
        assert version is not None, "a task without one is compared with plain loops"
        inputs = self._arrays[: -self._task.num_outputs]

        def seconds(calls: int) -> float:
            start = time.perf_counter()
            for _ in range(calls):
                version.call(inputs)
            return time.perf_counter() - start

        return self._cold(seconds)

    def _reference(self) -> list[Array]:
        """The outputs that NumPy computes; those of other tasks are kept if there is room."""
        assert self._task is not None
        key = self._task.key
        found = self._expected.pop(key, None)
        if found is None:
            found = expected_of(self._task, self._arrays[: -self._task.num_outputs])
        self._expected[key] = found  # least recently used first
        sizes = {k: sum(a.nbytes for a in arrays) for k, arrays in self._expected.items()}
        while sum(sizes.values()) > STORED_BYTES and len(sizes) > 1:
            oldest = next(iter(sizes))
            del sizes[oldest], self._expected[oldest]
        return found

    def _tolerances(self) -> list[Allowed]:
        """How much the outputs of the task may err, worked out once per task."""
        assert self._task is not None
        key = self._task.key
        if key not in self._allowed:
            inputs, want = self._arrays[: -self._task.num_outputs], self._reference()
            self._allowed[key] = list(map(Allowed.of, want, tolerances(self._task, inputs, want)))
        return self._allowed[key]

    def _check(self, index: int) -> Seen:
        """Run and compare once. Raises MeasureError (wrong_answer) when an output is wrong."""
        assert self._task is not None
        outputs = self._arrays[-self._task.num_outputs :]
        expected = self._reference()
        for out, want in zip(outputs, expected, strict=True):
            poison(out, want)
        for guarded in self._guarded:  # an earlier kernel may have written there
            guarded.restore()
        self._kernels[index](*self._arguments(index))
        for tensor, guarded in zip(self._task.tensors, self._guarded, strict=True):
            damage = guarded.damage(tensor.name)
            if damage:
                raise MeasureError(damage, stage="check", kind="wrong_answer")
        names = [t.name for t in self._task.tensors[-self._task.num_outputs :]]
        found: list[Seen] = []
        for name, got, want, allowed in zip(
            names, outputs, expected, self._tolerances(), strict=True
        ):
            seen = allowed.seen(name, got, want)
            if isinstance(seen, str):
                raise MeasureError(seen, stage="check", kind="wrong_answer")
            found.append(seen)
        return Seen.worst(found)


def expected_of(task: Task, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of the task's reference, from copies of `inputs`, which a reference may change.

    Raises MeasureError (stage check, kind error) when the reference fails or returns what does not
    fit the task.
    """
    try:
        return task.reference([array.copy() for array in inputs])
    except AutoschedError as error:
        raise MeasureError(str(error), stage="check") from error
    except MemoryError:
        raise
    except (Exception, SystemExit) as error:
        raise MeasureError(told(error), stage="check") from error


def make_handler() -> Handler:
    """The entry point of the runner process."""
    return _Runner().handle
