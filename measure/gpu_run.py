"""The GPU worker's side: load artifacts on a device, run, time and compare them.

It answers most requests of `run.py` and some of its own. The parent keeps all deadlines, because a
call of the driver may block while it holds Python's lock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from autosched.errors import MeasureError
from autosched.measure.check import Allowed, Seen, Tolerance, wrong_answer
from autosched.measure.run import expected_of
from autosched.measure.tolerance import tolerances
from autosched.process.worker import Handler
from autosched.runtime.cuda import CudaDevice, device_uuids
from autosched.runtime.cuda_artifact import CudaArtifact
from autosched.runtime.device import Device
from autosched.runtime.launch_plan import LoadedPlan
from autosched.runtime.slab import GUARD, POISON, Slab
from autosched.task import Task
from autosched.workloads.workload import shape_of

Array = npt.NDArray[Any]

MOST_LAUNCHES = 512  # queued behind a closed gate: a launch queue holds about 1000
_BUSY_SECONDS = 0.2  # time after which clocks have left idle
_WARM_SECONDS = 5e-3
_PROBED = 256  # numbers that the probe adds


class _Expected(NamedTuple):
    """The reference of one output, and how much the output may differ from it."""

    values: Array
    allowed: Allowed

    @classmethod
    def of(cls, values: Array, tolerance: Tolerance) -> _Expected:
        return cls(values, Allowed.of(values, tolerance))


class GpuSession:
    """One device, one task's arrays on it, and the kernels of the batch under way.

    `open_device` is called at the first request, so that its errors become replies. `list_devices`
    returns the UUIDs of all GPUs. Where the request for a task says `cold`, the L2 cache is
    overwritten before each timed call.
    """

    def __init__(
        self,
        open_device: Callable[[], Device],
        list_devices: Callable[[], list[str]] = list,
    ) -> None:
        self._open = open_device
        self._list = list_devices
        self._device: Device | None = None
        self._task: Task | None = None
        self._cold = False
        self._busy = False
        self._inputs: list[Array] = []
        self._slab: Slab | None = None
        self._wanted: Slab | None = None
        self._expected: list[_Expected] = []
        self._names: list[str] = []
        self._sums: list[int] = []
        self._plans: dict[int, LoadedPlan] = {}
        self._once: dict[int, float] = {}

    def handle(self, request: tuple[Any, ...]) -> Any:
        """The reply to a request. Raises MeasureError."""
        match request:
            case ("facts",):
                return asdict(self.device.facts())
            case ("devices",):
                return self._list()
            case ("probe",):
                self._probe()
            case ("flush",):
                return self._flush()
            case ("task", task_json, cold):
                self._set_task(task_json, cold)
            case ("reference",):
                assert self._task is not None
                return self._reference()
            case ("expected", arrays):
                self._set_expected(arrays)
            case ("load", index, artifact):
                self._load(index, CudaArtifact.from_bytes(artifact))
                return True
            case ("uses", index):
                return self._plans[index].resources
            case ("first", index):
                return self._first(index)
            case ("outputs",):
                return self._read_outputs()
            case ("check", index):
                return self._check(index).to_json()
            case ("warm", index):
                self._warm(index)
            case ("time", index, seconds, _):
                return [self._time(index, seconds)]
            case ("again", index):
                self._poison(index, GUARD)
                self._plans[index].call()
                self.device.synchronize()
                self._check(index)
            case ("drop",):
                self._drop()
        return None

    @property
    def device(self) -> Device:
        """The device, opened on first use."""
        if self._device is None:
            self._device = self._open()
        return self._device

    def _probe(self) -> None:
        """Raise MeasureError (lost) unless a kernel adds numbers correctly."""
        device = self.device
        left = np.arange(_PROBED, dtype=np.float32)
        right = left[::-1] * 0.5
        addresses = [device.alloc(left.nbytes) for _ in range(3)]
        device.upload(addresses[0], left)
        device.upload(addresses[1], np.ascontiguousarray(right))
        device.add(addresses[0], addresses[1], addresses[2], _PROBED)
        found = device.download(addresses[2], left.nbytes).view(np.float32)
        for address in addresses:
            device.free(address)
        bad = np.flatnonzero(found != left + right)
        if bad.size:
            raise MeasureError(
                f"the GPU adds {bad.size} of {_PROBED} numbers wrongly", stage="run", kind="lost"
            )

    def _flush(self) -> tuple[int, float]:
        """How many bytes an overwrite of the L2 cache writes, and how many seconds it takes."""
        device = self.device
        first, last = device.event(), device.event()
        device.flush_l2()  # the first use of memory takes longer
        device.record(first)
        device.flush_l2()
        device.record(last)
        device.synchronize()
        return 2 * device.facts().l2_bytes, max(device.elapsed(first, last), 1e-9)

    def _set_task(self, task_json: dict[str, Any], cold: bool) -> None:
        self._drop()
        self._cold = cold
        if self._task is not None and self._task.key == task_json["key"]:
            return
        for slab in (self._slab, self._wanted):
            if slab is not None:
                slab.free()
        self._task = self._slab = self._wanted = None
        task = Task.from_json(task_json, trust=True)
        self._inputs = [np.ascontiguousarray(a) for a in task.inputs(seed=0)]
        sizes = [math.prod(shape_of(t)) * t.dtype.numpy.itemsize for t in task.tensors]
        # Tensors may share a name; parameters are told apart by their place.
        self._names = [f"{t.name} ({place})" for place, t in enumerate(task.tensors)]
        self._slab = Slab(self.device, dict(zip(self._names, sizes, strict=True)))
        inputs = self._names[: -task.num_outputs]
        for name, array in zip(inputs, self._inputs, strict=True):
            self.device.upload(self._slab.address[name], array)
        self._task = task
        self._sums = self._checksums()

    def _reference(self) -> list[Array]:
        """The reference outputs, computed by NumPy and converted to the outputs' types."""
        assert self._task is not None
        found = expected_of(self._task, self._inputs)
        tensors = self._task.tensors[-self._task.num_outputs :]
        return [
            np.ascontiguousarray(array, tensor.dtype.numpy).reshape(shape_of(tensor))
            for array, tensor in zip(found, tensors, strict=True)
        ]

    def _set_expected(self, arrays: Sequence[Array]) -> None:
        assert self._task is not None
        names = self._outputs
        if self._wanted is not None:
            self._wanted.free()
        sizes = {name: array.nbytes for name, array in zip(names, arrays, strict=True)}
        self._wanted = Slab(self.device, sizes)
        values = [np.ascontiguousarray(array) for array in arrays]
        allowed = tolerances(self._task, self._inputs, values)
        self._expected = list(map(_Expected.of, values, allowed))
        for name, array in zip(names, values, strict=True):
            self.device.upload(self._wanted.address[name], array)

    @property
    def _outputs(self) -> list[str]:
        assert self._task is not None
        return self._names[-self._task.num_outputs :]

    def _checksums(self) -> list[int]:
        """The checksums of the inputs.

        Their sizes are rounded up to 4 bytes; a guard band follows each input.
        """
        assert self._slab is not None
        return [
            self.device.checksum(self._slab.address[name], -(-array.nbytes // 4) * 4)
            for name, array in zip(self._names, self._inputs)  # outputs follow
        ]

    def _load(self, index: int, artifact: CudaArtifact) -> None:
        assert self._slab is not None
        addresses = {
            spec.name: self._slab.address[name]
            for spec, name in zip(artifact.params, self._names, strict=True)
        }
        if index in self._plans:
            self._plans.pop(index).unload()
        self._plans[index] = LoadedPlan(self.device, self.device.facts(), artifact, addresses)

    def _drop(self) -> None:
        for plan in self._plans.values():
            plan.unload()
        self._plans.clear()
        self._once.clear()

    def _poison(self, index: int, byte: int) -> None:
        """Fill outputs and workspaces with a byte that no kernel computes."""
        assert self._slab is not None
        self._slab.poison(self._outputs, byte)
        plan = self._plans[index]
        if plan.workspaces is not None:
            plan.workspaces.poison(plan.names, byte)

    def _first(self, index: int) -> float:
        """Seconds of one call that starts from poisoned outputs."""
        self._poison(index, POISON)
        first, last = self.device.event(), self.device.event()
        self.device.record(first)
        self._plans[index].call()
        self.device.record(last)
        self.device.synchronize()
        self._once[index] = max(self.device.elapsed(first, last), 1e-9)
        return self._once[index]

    def _check(self, index: int) -> Seen:
        """Compare the outputs with the reference. Raises MeasureError (wrong_answer)."""
        assert self._slab is not None and self._wanted is not None and self._task is not None
        for slab in (self._slab, self._plans[index].workspaces):
            beside = slab and slab.beside()
            if beside:
                raise _wrong(f"wrote beside its arrays: {beside}")
        if self._checksums() != self._sums:
            names = self._inputs_that_changed()
            raise _wrong(f"changed its inputs: {', '.join(names)}")
        seen: list[Seen] = []
        for name, expected in zip(self._outputs, self._expected, strict=True):
            want, allowed = expected.values, expected.allowed
            got, wanted = self._slab.address[name], self._wanted.address[name]
            found = self.device.compare(
                got,
                wanted,
                want.size,
                want.dtype,
                (allowed.relative, allowed.absolute, allowed.rounding),
            )
            if found.bad:
                where = tuple(int(i) for i in np.unravel_index(found.first, want.shape))
                size = want.dtype.itemsize
                value = self.device.download(got + found.first * size, size).view(want.dtype)[0]
                tensor = name.partition(" (")[0]
                raise _wrong(wrong_answer(tensor, found.bad, want, where, value))
            relative = allowed.relative
            seen.append(Seen(allowed.telling, found.error * relative, relative))
        return Seen.worst(seen)

    def _read_outputs(self) -> list[Array]:
        """The outputs as the last kernel left them."""
        assert self._slab is not None and self._task is not None
        tensors = self._task.tensors[-self._task.num_outputs :]
        found = []
        for name, tensor in zip(self._outputs, tensors, strict=True):
            shape, dtype = shape_of(tensor), tensor.dtype.numpy
            data = self.device.download(self._slab.address[name], math.prod(shape) * dtype.itemsize)
            found.append(data.view(dtype).reshape(shape))
        return found

    def _inputs_that_changed(self) -> list[str]:
        """The names of the inputs that a kernel changed; their values are uploaded again."""
        assert self._slab is not None
        sums = zip(self._names, self._inputs, self._checksums(), self._sums)  # outputs follow
        changed = [(name, array) for name, array, now, before in sums if now != before]
        for name, array in changed:
            self.device.upload(self._slab.address[name], array)
        return [name.partition(" (")[0] for name, _ in changed]

    def _warm(self, index: int) -> None:
        """Keep the GPU busy for 5 ms; the first time for 200 ms, so that its clocks leave idle."""
        self._time(index, _WARM_SECONDS if self._busy else _BUSY_SECONDS)
        self._busy = True

    def _time(self, index: int, seconds: float) -> float:
        """Seconds per call, averaged over as many calls as take about `seconds`."""
        plan = self._plans[index]
        if index not in self._once:
            self._first(index)
        each = plan.launches + (3 if self._cold else 0)  # overwriting the cache, and two events
        calls = max(1, min(MOST_LAUNCHES // each, int(seconds / self._once[index])))
        gated = calls * each <= MOST_LAUNCHES
        took, held = self._timed(plan, calls, gated)
        if not held:  # the host was kept from launching, so the time contains its delays
            took, _ = self._timed(plan, calls, gated)
        return took

    def _timed(self, plan: LoadedPlan, calls: int, gated: bool) -> tuple[float, bool]:
        """Seconds per call, and whether the gate stayed closed until all launches were queued."""
        device = self.device
        pairs = [(device.event(), device.event()) for _ in range(calls if self._cold else 1)]
        if gated:
            device.close_gate()
        for first, last in pairs:
            if self._cold:
                device.flush_l2()
            device.record(first)
            for _ in range(1 if self._cold else calls):
                plan.call()
            device.record(last)
        held = device.open_gate() if gated else True
        device.synchronize()
        total = sum(device.elapsed(first, last) for first, last in pairs)
        return max(total / calls, 1e-9), held


def _wrong(text: str) -> MeasureError:
    return MeasureError(text, stage="check", kind="wrong_answer")


def make_handler() -> Handler:
    """The entry point of a GPU's worker process."""
    return GpuSession(CudaDevice, device_uuids).handle
