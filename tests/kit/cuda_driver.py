"""A driver for tests of kernel calls: contexts and streams over the memory of a FakeDevice."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autosched.runtime.cuda_api import CudaError, Driver
from autosched.runtime.fake_device import Behaviour, FakeDevice

Array = np.ndarray[Any, Any]
PRIMARY, OTHER = 1000, 2000  # contexts of device 0; those of device 1 are one higher


class FakeDriver(Driver):
    """A driver whose kernels are Python functions, given by name, which run at once.

    A kernel gets the arrays at its pointers. `stack` has the current contexts and `log` the queued
    operations. An image is JSON, which is logged, or a cubin. Memory belongs to the context in
    which it was allocated.
    """

    def __init__(
        self, kernels: dict[str, Callable[..., None]], capability: tuple[int, int] = (9, 0)
    ) -> None:
        self.device = FakeDevice(lambda cubin: Behaviour())
        self.kernels = kernels
        self.stack: list[int] = []
        self.log: list[tuple[Any, ...]] = []
        self.memory: dict[int, tuple[int, int]] = {}  # (size, context) by address
        self._capability = capability
        self._names: list[str] = []
        self.fails = ""

    def primary(self, device: int) -> int:
        return PRIMARY + device

    def push(self, context: int) -> None:
        self.stack.append(context)

    def pop(self) -> None:
        self.stack.pop()

    def place(self, address: int) -> tuple[int, int] | None:
        for base, (size, context) in self.memory.items():
            if base <= address < base + size:
                pooled = context >= 3000  # memory of a pool, which has no context
                return (0 if pooled else context), context % 1000
        return None

    def capability(self, device: int) -> tuple[int, int]:
        return self._capability

    def alloc(self, size: int) -> int:
        address = self.device.alloc(size)
        self.memory[address] = size, self._here()
        return address

    def free(self, address: int) -> None:
        assert self._here() == self.memory.pop(address)[1]
        self.device.free(address)

    def upload(self, address: int, array: Array, stream: int) -> None:
        self._queue("upload", stream)
        self.device.upload(address, array)

    def download(self, array: Array, address: int, stream: int) -> None:
        self._queue("download", stream)
        array.reshape(-1).view(np.uint8)[:] = self.device.download(address, array.nbytes)

    def load(self, image: bytes) -> int:
        self._queue("load", "a cubin" if image.startswith(b"\x7fELF") else json.loads(image))
        return self._here()

    def unload(self, module: int) -> None:
        assert module == self._here()
        self._queue("unload", module)

    def function(self, module: int, name: str, dynamic_shared: int) -> int:
        assert module == self._here()
        self._names.append(name)
        return len(self._names) - 1

    def launch(
        self,
        function: int,
        grid: Sequence[int],
        block: Sequence[int],
        dynamic_shared: int,
        stream: int,
        pointers: Sequence[int],
    ) -> None:
        name = self._names[function]
        self._queue("launch", name, stream)
        if name == self.fails:
            raise CudaError("cuLaunchKernel failed: out of resources (701)", 701)
        arrays = [self._array(pointer) for pointer in pointers]
        self.kernels[name](*arrays)
        for pointer, array in zip(pointers, arrays, strict=True):
            self.device.upload(pointer, array)

    def wait(self, stream: int, other: int) -> None:
        self._queue("wait", stream, other)

    def synchronize(self, stream: int) -> None:
        self._queue("synchronize", stream)

    def _queue(self, *what: Any) -> None:
        assert self._here()
        self.log.append(what)

    def _here(self) -> int:
        return self.stack[-1]

    def _array(self, address: int) -> Array:
        """All floats from `address` to the end of its allocation."""
        base = max(b for b in self.memory if b <= address)
        size = self.memory[base][0] - (address - base)
        return self.device.download(address, size).view(np.float32).copy()
