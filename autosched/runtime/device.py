"""A GPU as measuring sees it: memory, modules, launches, events, and five helper kernels.

`Device` is implemented by `cuda.py` (PyCUDA) and by `fake_device.py` (for tests). Addresses are
numbers. Work is queued in one stream, in order. A call whose driver reports an error raises
DeviceError; errors of kernels appear at a later call, at `synchronize` at the latest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Handle = Any  # of a module, kernel or event: known to its device alone


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What a GPU is and how much a block may use of it; sizes in bytes."""

    name: str
    uuid: str
    capability: tuple[int, int]
    processors: int
    memory: int
    max_threads_per_block: int
    max_shared_per_block: int  # with opt-in
    shared_per_processor: int
    reserved_shared_per_block: int
    registers_per_processor: int
    max_threads_per_processor: int
    max_blocks_per_processor: int
    l2_bytes: int
    kernel_timeout: bool  # of a display: kernels that run for seconds are ended
    driver: str  # highest CUDA version that the driver knows
    runtime: str  # what talks to the driver, and its version

    @property
    def arch(self) -> str:
        """The architecture that code is made for: sm_90."""
        return f"sm_{self.capability[0]}{self.capability[1]}"


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """What a loaded kernel uses: registers and bytes of local memory a thread, shared a block."""

    registers: int
    local_bytes: int
    shared_bytes: int
    max_threads: int


@dataclass(frozen=True, slots=True)
class Difference:
    """A comparison on the device: bad elements, the first of them, and the largest error.

    `error` is relative to what was allowed: at most 1 where nothing is bad.
    """

    bad: int
    first: int
    error: float


class Device(Protocol):
    """One GPU, owned by one process."""

    def facts(self) -> DeviceFacts:
        """What the GPU is."""
        ...

    def alloc(self, size: int) -> int:
        """The address of `size` bytes, a multiple of 256."""
        ...

    def free(self, address: int) -> None:
        """Give back what `alloc` gave."""
        ...

    def upload(self, address: int, array: npt.NDArray[Any]) -> None:
        """Copy a C-contiguous array to the device."""
        ...

    def download(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        """A copy of `size` bytes, after what was queued before."""
        ...

    def fill(self, address: int, size: int, byte: int) -> None:
        """Set `size` bytes."""
        ...

    def load(self, cubin: bytes) -> Handle:
        """A module."""
        ...

    def unload(self, module: Handle) -> None:
        """Let go of a module and its kernels."""
        ...

    def kernel(self, module: Handle, name: str, dynamic_shared: int) -> tuple[Handle, KernelFacts]:
        """A kernel of a module, ready to be launched with this many bytes of dynamic memory."""
        ...

    def launch(
        self,
        kernel: Handle,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        dynamic_shared: int,
        pointers: Sequence[int],
    ) -> None:
        """Queue a launch whose arguments are addresses."""
        ...

    def synchronize(self) -> None:
        """Wait until all that was queued is done."""
        ...

    def event(self) -> Handle:
        """A new event."""
        ...

    def record(self, event: Handle) -> None:
        """Queue the moment that `event` stands for."""
        ...

    def elapsed(self, first: Handle, second: Handle) -> float:
        """Seconds between two recorded events, after `synchronize`."""
        ...

    def close_gate(self) -> None:
        """Queue a kernel that keeps what is queued after it from running."""
        ...

    def open_gate(self) -> bool:
        """Let the gate's kernel end; False when it gave up before, after half a second."""
        ...

    def flush_l2(self) -> None:
        """Queue the overwriting of more memory than the L2 cache holds."""
        ...

    def add(self, left: int, right: int, total: int, count: int) -> None:
        """Queue total = left + right, `count` numbers in float32."""
        ...

    def compare(
        self,
        got: int,
        want: int,
        count: int,
        dtype: np.dtype[Any],
        relative: float,
        absolute: float,
    ) -> Difference:
        """Compare `count` elements: an error may be `relative` * |want| + `absolute`.

        Both NaN agree, and so do equal infinities. With both 0 the elements must be equal.
        """
        ...

    def checksum(self, address: int, size: int) -> int:
        """A 64-bit number of `size` bytes (a multiple of 4) that changes when a word does."""
        ...
