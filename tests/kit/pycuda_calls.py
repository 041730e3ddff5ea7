"""Calls of the adapter on PyCUDA, one by one, with the stand-in driver whose path is in argv."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable

import numpy as np

from autosched.errors import DeviceError
from autosched.measure.gpu_run import GpuSession
from autosched.runtime.cuda import CudaDevice, device_uuids


def calls() -> None:
    device = CudaDevice()
    facts = device.facts()
    assert (facts.name, facts.capability, facts.driver) == ("stand-in", (9, 0), "13.0")
    assert device_uuids() == [facts.uuid]
    numbers = np.arange(64, dtype=np.float32)
    address, other = device.alloc(256), device.alloc(256)
    device.upload(address, numbers)
    assert (device.download(address, 256).view(np.float32) == numbers).all()
    device.fill(address, 128, 0x5A)
    assert (device.download(address, 256)[126:130] == [0x5A, 0x5A, 0, 0]).all()
    session = GpuSession(lambda: device)
    session.handle(("probe",))
    assert session.handle(("flush",)) == (2 << 20, 2e-3)
    module = device.load(b"an image")
    kernel, used = device.kernel(module, "twice", 64 << 10)
    assert (used.max_threads, used.shared_bytes, used.local_bytes, used.registers) == (
        *(100, 101, 103, 104),  # the attribute numbers plus 100
    )
    first, last = device.event(), device.event()
    device.close_gate()
    device.record(first)
    device.launch(kernel, (3, 2, 1), (64, 2, 1), 64 << 10, [address, other])
    device.record(last)
    assert device.open_gate()
    device.flush_l2()
    device.synchronize()
    assert device.elapsed(first, last) == 2e-3
    assert device.compare(address, other, 64, numbers.dtype, (1e-3, 1e-5, 0.0)).bad == 0
    assert device.checksum(address, 256) == 0
    assert code(lambda: device.alloc(2 << 30)) == 2
    device.launch(device.kernel(module, "faulty", 0)[0], (1, 1, 1), (1, 1, 1), 0, ())
    assert code(device.synchronize) == 700
    device.unload(module)
    device.free(other)


def code(call: Callable[[], object]) -> int:
    """The code of the DeviceError that the call raises; 0 without one."""
    try:
        call()
    except DeviceError as error:
        return error.code
    return 0


if __name__ == "__main__":
    ctypes.CDLL(sys.argv[1])  # it has the soname of the driver, and is found in its place
    calls()
    print("done", flush=True)
    os._exit(0)  # PyCUDA aborts a process that ends with a context
