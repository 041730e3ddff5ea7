"""A simulated GPU for tests: host memory, a clock that launches advance, and faults.

It encodes our assumptions about a GPU and its driver; when hardware shows otherwise, change it here
first. A kernel does what its cubin's `Behaviour` says: it takes a time, writes what the test put
into `answers`, and may fail in one of many ways.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from autosched.runtime.device import Device, DeviceFacts, Difference, Handle, KernelFacts
from autosched.runtime.device_errors import device_error
from autosched.runtime.infinities import finite_values

FACTS = DeviceFacts(
    name="fake GPU",
    uuid="GPU-fake",
    capability=(9, 0),
    processors=132,
    memory=1 << 30,
    max_threads_per_block=1024,
    max_shared_per_block=227 << 10,
    shared_per_processor=228 << 10,
    reserved_shared_per_block=1 << 10,
    registers_per_processor=65536,
    max_threads_per_processor=2048,
    max_blocks_per_processor=32,
    l2_bytes=50 << 20,
    kernel_timeout=False,
    driver="13.0",
    runtime="fake",
)
QUEUE = 1000  # launches behind a closed gate; with more, a real driver blocks the caller
_LAUNCH_SECONDS = 5e-6  # host time of a launch, hidden behind a gate
_USES = KernelFacts(registers=32, local_bytes=0, shared_bytes=0, max_threads=1024)


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a kernel does, and what goes wrong.

    - `seconds`: the simulated time of a launch.
    - `load`, `launch`, `run`: the driver's error codes when it is loaded, launched and waited for.
    - `run_at`: the number of the launch, from 1, that has the fault of `run`, `hang` or `slow`.
    - `hang`: waiting for that launch never ends.
    - `slow`: real seconds that waiting for that launch takes.
    - `wrong`: "value" (one element is wrong), "nothing" (no output is written), "later" (as
      "value", but not in the first launch), "guard" (also writes behind the buffer), "input"
      (changes an input).
    """

    seconds: float = 1e-5
    load: int = 0
    launch: int = 0
    run: int = 0
    run_at: int = 1
    hang: bool = False
    slow: float = 0.0
    wrong: str = ""
    facts: KernelFacts = _USES


class _Kernel(NamedTuple):
    name: str
    behaviour: Behaviour
    launches: list[int]  # so far; shared by the kernels of a module


class _Event:
    def __init__(self) -> None:
        self.at: float | None = None


class FakeDevice(Device):
    """A simulated GPU; see the module.

    - `behave`: returns the behaviour of a cubin.
    - `answers`: the bytes that a launch writes, by address.
    - `calls`: the names of the methods called, in order.
    """

    def __init__(self, behave: Callable[[bytes], Behaviour], facts: DeviceFacts = FACTS) -> None:
        self.answers: dict[int, bytes] = {}
        self.calls: list[str] = []
        self._behave = behave
        self._facts = facts
        self._memory: dict[int, npt.NDArray[np.uint8]] = {}
        self._next = 1 << 20
        self._clock = 0.0
        self._gate: int | None = None  # number of launches behind the closed gate
        self._pending: tuple[int, str] | None = None
        self._dead: int | None = None
        self._hang = False
        self._slow = 0.0

    def facts(self) -> DeviceFacts:
        """See `Device.facts`; the facts given."""
        return self._facts

    def alloc(self, size: int) -> int:
        """See `Device.alloc`; out of memory beyond the memory of the facts."""
        self._called("alloc")
        used = sum(array.size for array in self._memory.values())
        if used + size > self._facts.memory:
            raise device_error(2, "alloc", "load")
        address = self._next
        self._next += (-(-size // 256) + 1) * 256
        self._memory[address] = np.zeros(size, np.uint8)
        return address

    def free(self, address: int) -> None:
        """See `Device.free`; fails for an address that was not allocated."""
        self._called("free")
        if self._memory.pop(address, None) is None:
            raise device_error(1, "free", "run")

    def upload(self, address: int, array: npt.NDArray[Any]) -> None:
        """See `Device.upload`; copies immediately."""
        self._called("upload")
        self._bytes(address, array.nbytes)[:] = np.frombuffer(array.tobytes(), np.uint8)

    def download(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        """See `Device.download`; waits first."""
        self._called("download")
        self._wait()
        return self._bytes(address, size).copy()

    def fill(self, address: int, size: int, byte: int) -> None:
        """See `Device.fill`; writes immediately."""
        self._called("fill")
        self._bytes(address, size)[:] = byte

    def load(self, cubin: bytes) -> Handle:
        """See `Device.load`; the cubin's behaviour and a counter of launches."""
        self._called("load")
        behaviour = self._behave(cubin)
        if behaviour.load:
            raise self._failure(behaviour.load, "module", "load")
        return behaviour, [0]

    def unload(self, module: Handle) -> None:
        """See `Device.unload`; does nothing."""
        self._called("unload")

    def kernel(self, module: Handle, name: str, dynamic_shared: int) -> tuple[Handle, KernelFacts]:
        """See `Device.kernel`; any name is found."""
        self._called("kernel")
        behaviour, launches = module
        return _Kernel(name, behaviour, launches), behaviour.facts

    def launch(
        self,
        kernel: Handle,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        dynamic_shared: int,
        pointers: Sequence[int],
    ) -> None:
        """See `Device.launch`; writes immediately, but its errors appear when waiting."""
        self._called("launch")
        behaviour = kernel.behaviour
        if behaviour.launch:
            raise self._failure(behaviour.launch, kernel.name, "run")
        if self._gate is not None:
            self._gate += 1
            if self._gate > QUEUE:
                raise AssertionError("the launch queue is full behind a closed gate: a deadlock")
        else:
            self._clock += _LAUNCH_SECONDS
        self._clock += behaviour.seconds
        kernel.launches[0] += 1
        if kernel.launches[0] == behaviour.run_at:
            self._hang |= behaviour.hang
            self._slow += behaviour.slow
            if behaviour.run:
                self._pending = behaviour.run, kernel.name
                return
        self._write(behaviour, kernel.launches[0], pointers)

    def synchronize(self) -> None:
        """See `Device.synchronize`; raises the errors of launches."""
        self._called("synchronize")
        self._wait()

    def event(self) -> Handle:
        """See `Device.event`."""
        return _Event()

    def record(self, event: Handle) -> None:
        """See `Device.record`; records the simulated clock."""
        self._called("record")
        event.at = self._clock

    def elapsed(self, first: Handle, second: Handle) -> float:
        """See `Device.elapsed`; fails for events that were not recorded."""
        self._called("elapsed")
        if first.at is None or second.at is None:
            raise device_error(1, "elapsed", "check")
        return float(second.at - first.at)

    def close_gate(self) -> None:
        """See `Device.close_gate`; from now on launches take no host time."""
        self._called("close_gate")
        self._gate = 0

    def open_gate(self) -> bool:
        """See `Device.open_gate`; never gives up."""
        self._called("open_gate")
        self._gate = None
        return True

    def flush_l2(self) -> None:
        """See `Device.flush_l2`; takes as long as 100 MB at 2 TB/s."""
        self._called("flush_l2")
        self._clock += 5e-5

    def add(self, left: int, right: int, total: int, count: int) -> None:
        """See `Device.add`; adds immediately."""
        self._called("add")
        one, other = (self._bytes(at, 4 * count).view(np.float32) for at in (left, right))
        self._bytes(total, 4 * count)[:] = (one + other).view(np.uint8)

    def compare(
        self,
        got: int,
        want: int,
        count: int,
        dtype: np.dtype[Any],
        allowed: tuple[float, float, float],
    ) -> Difference:
        """See `Device.compare`; uses NumPy."""
        self._called("compare")
        self._wait()
        size = count * dtype.itemsize
        return difference(
            self._bytes(got, size).view(dtype),
            self._bytes(want, size).view(dtype),
            allowed,
        )

    def checksum(self, address: int, size: int) -> int:
        """See `Device.checksum`; a CRC."""
        self._called("checksum")
        self._wait()
        return zlib.crc32(self._bytes(address, size).tobytes())

    def _called(self, name: str) -> None:
        """Note a call; after a fault that killed the context, every call raises the same fault."""
        self.calls.append(name)
        if self._dead is not None:
            raise device_error(self._dead, name, "run")

    def _failure(self, code: int, where: str, stage: str) -> Exception:
        error = device_error(code, where, stage)
        if error.worker_ends:
            self._dead = code
        return error

    def _wait(self) -> None:
        while self._hang:
            time.sleep(1.0)
        if self._slow:
            time.sleep(self._slow)
            self._slow = 0.0
        if self._pending is not None:
            code, name = self._pending
            self._pending = None
            raise self._failure(code, name, "run")

    def _bytes(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        for base, array in self._memory.items():
            if base <= address and address + size <= base + array.size:
                return array[address - base : address - base + size]
        raise device_error(700, f"{size} bytes at {address:#x}", "run")

    def _write(self, behaviour: Behaviour, launch: int, pointers: Sequence[int]) -> None:
        for address in pointers:
            answer = self.answers.get(address)
            if answer is None:
                if behaviour.wrong == "input":
                    self._bytes(address, 1)[:] ^= 1
                continue
            if behaviour.wrong == "nothing":
                continue
            target = self._bytes(address, len(answer))
            target[:] = np.frombuffer(answer, np.uint8)
            if behaviour.wrong == "value" or (behaviour.wrong == "later" and launch > 1):
                target[-4:] ^= 0x7F
            if behaviour.wrong == "guard":
                self._bytes(address + len(answer), 4)[:] = 0


def difference(
    got: npt.NDArray[Any], want: npt.NDArray[Any], allowed: tuple[float, float, float]
) -> Difference:
    """The result of `Device.compare`, computed by NumPy."""
    relative, absolute, rounding = allowed
    exact, value = finite_values(want), finite_values(got)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        same = (got == want) | (np.isnan(exact) & np.isnan(value))
        error = np.abs(value - exact) - rounding * np.abs(exact)
        share = error / (relative * np.abs(exact) + absolute)
        bad = np.flatnonzero(~(same | ((share <= 1) & (relative + absolute > 0))))
        share = np.where(same, 0.0, np.where(np.isnan(share), np.inf, share))
    first = int(bad[0]) if bad.size else -1
    return Difference(int(bad.size), first, float(share.max(initial=0.0)))
