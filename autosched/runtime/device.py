"""The interface of a GPU for measuring: memory, modules, launches, events, five helper kernels.

`cuda.py` (PyCUDA) and `fake_device.py` (for tests) implement `Device`. Addresses are numbers. Work
is queued in one stream, in order. A call whose driver reports an error raises DeviceError; errors
of kernels appear at a later call, at `synchronize` at the latest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from autosched.target import arch_of

Handle = Any  # of a module, kernel or event; only its device knows its type


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """The properties of a GPU and its limits per block; sizes in bytes.

    `processors` are its streaming multiprocessors.
    """

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
    kernel_timeout: bool  # a display is attached: kernels that run for seconds are ended
    driver: str  # highest CUDA version that the driver supports
    runtime: str  # the package that calls the driver, and its version

    @property
    def arch(self) -> str:
        """The architecture for which code is made, such as sm_90."""
        return arch_of(self.capability)


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """The resources of a loaded kernel.

    `registers` and `local_bytes` (local memory) are per thread, `shared_bytes` (static shared
    memory) is per block, and `max_threads` is the most threads of a block.
    """

    registers: int
    local_bytes: int
    shared_bytes: int
    max_threads: int


@dataclass(frozen=True, slots=True)
class Difference:
    """The result of a comparison on the device.

    - `bad`: the number of wrong elements.
    - `first`: the index of the first one, -1 without any.
    - `error`: the largest error, relative to what was allowed: at most 1 where nothing is bad.
    """

    bad: int
    first: int
    error: float


class Device(Protocol):
    """One GPU, owned by one process."""

    def facts(self) -> DeviceFacts:
        """The properties of the GPU."""
        ...

    def alloc(self, size: int) -> int:
        """Allocate `size` bytes; the address is a multiple of 256."""
        ...

    def free(self, address: int) -> None:
        """Free memory of `alloc`."""
        ...

    def upload(self, address: int, array: npt.NDArray[Any]) -> None:
        """Copy a C-contiguous array to the device."""
        ...

    def download(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        """Copy `size` bytes to the host, after the work that was queued before."""
        ...

    def fill(self, address: int, size: int, byte: int) -> None:
        """Set `size` bytes to `byte`."""
        ...

    def load(self, cubin: bytes) -> Handle:
        """Load a cubin as a module."""
        ...

    def unload(self, module: Handle) -> None:
        """Unload a module and its kernels."""
        ...

    def kernel(self, module: Handle, name: str, dynamic_shared: int) -> tuple[Handle, KernelFacts]:
        """A kernel of a module, ready to launch with so many bytes of dynamic shared memory."""
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
        """Wait until all queued work is done."""
        ...

    def event(self) -> Handle:
        """A new event."""
        ...

    def record(self, event: Handle) -> None:
        """Queue the recording of `event`."""
        ...

    def elapsed(self, first: Handle, second: Handle) -> float:
        """Seconds between two recorded events, after `synchronize`."""
        ...

    def close_gate(self) -> None:
        """Queue a kernel that blocks the work queued after it."""
        ...

    def open_gate(self) -> bool:
        """Let the gate's kernel end; False when it had given up after half a second."""
        ...

    def flush_l2(self) -> None:
        """Queue a write to more memory than the L2 cache holds."""
        ...

    def add(self, left: int, right: int, total: int, count: int) -> None:
        """Queue total = left + right for `count` float32 numbers."""
        ...

    def compare(
        self,
        got: int,
        want: int,
        count: int,
        dtype: np.dtype[Any],
        allowed: tuple[float, float, float],
    ) -> Difference:
        """Compare `count` elements: for (a, b, c) an error may be (a + c) * |want| + b.

        What c allows is no part of the largest error. Two NaN agree, and so do equal infinities. If
        all are 0, elements must be equal.
        """
        ...

    def checksum(self, address: int, size: int) -> int:
        """A 64-bit checksum of `size` bytes (a multiple of 4), which changes when a word does."""
        ...
