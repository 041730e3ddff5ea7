"""The calls of the driver's library, against a library that notes them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched.errors import DeviceError
from autosched.runtime.cuda_api import CudaError, Driver, LibCuda, current
from autosched.runtime.cuda_kernel import OurDriver

# Arguments of the driver's functions, as cuda.h declares them: o for one that is written.
ARGUMENTS = {
    "cuInit": "i",
    "cuDeviceGet": "oi",
    "cuDevicePrimaryCtxRetain": "oi",
    "cuCtxPushCurrent_v2": "p",
    "cuCtxPopCurrent_v2": "o",
    "cuPointerGetAttribute": "oil",
    "cuDeviceGetAttribute": "oii",
    "cuMemAlloc_v2": "ol",
    "cuMemFree_v2": "l",
    "cuMemcpyHtoDAsync_v2": "lplp",
    "cuMemcpyDtoHAsync_v2": "pllp",
    "cuModuleLoadData": "os",
    "cuModuleUnload": "p",
    "cuModuleGetFunction": "ops",
    "cuFuncSetAttribute": "pii",
    "cuLaunchKernel": "piiiiiiipan",
    "cuEventCreate": "oi",
    "cuEventRecord": "pp",
    "cuStreamWaitEvent": "ppi",
    "cuEventDestroy_v2": "p",
    "cuStreamSynchronize": "p",
    "cuGetErrorString": "io",
}
KINDS: dict[str, tuple[type, ...]] = {
    "i": (int, ctypes.c_int, ctypes.c_uint),
    "l": (ctypes.c_uint64, ctypes.c_size_t),
    "p": (ctypes.c_void_p,),
    "s": (bytes, ctypes.Array),
    "a": (ctypes.Array,),
    "n": (type(None),),
    "o": (type(ctypes.byref(ctypes.c_int())),),
}


class Library:
    """Every function succeeds, but for what `fails` says; what is written are numbers from 11."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.fails: dict[str, list[int]] = {}
        self.next = 11

    def __getattr__(self, name: str) -> Callable[..., int]:
        letters = ARGUMENTS[name]  # a KeyError for a name that is none

        def call(*arguments: Any) -> int:
            assert len(arguments) == len(letters), name
            for letter, argument in zip(letters, arguments, strict=True):
                assert isinstance(argument, KINDS[letter]), (name, letter, argument)
            self.calls.append(name)
            if name == "cuGetErrorString":
                arguments[1]._obj.value = b"something happened"
                return 0
            codes = self.fails.get(name)
            code = codes.pop(0) if codes else 0
            if letters[0] == "o" and not code:
                arguments[0]._obj.value = self.next
                self.next += 1
            return code

        return call


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    found = Library()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: found)
    return found


def test_every_call_is_as_the_header_declares_it(library: Library) -> None:
    driver: Driver = LibCuda()
    context = driver.primary(0)
    assert driver.primary(0) == context
    array = np.zeros(4, np.float32)
    with current(driver, context):
        assert driver.place(4096) == (14, 13)
        assert driver.capability(0) == (15, 16)
        address = driver.alloc(16)
        driver.upload(address, array, 1)
        function = driver.function(driver.load(b"cubin"), "kernel", 65536)
        driver.launch(function, (1, 2, 3), (4, 5, 6), 65536, 1, [address, address])
        driver.wait(1, 2)
        driver.download(array, address, 1)
        driver.synchronize(1)
        driver.free(address)
        driver.unload(18)
    assert set(library.calls) == set(ARGUMENTS) - {"cuGetErrorString"}
    assert library.calls.count("cuDevicePrimaryCtxRetain") == 1
    assert library.calls.count("cuCtxPushCurrent_v2") == library.calls.count("cuCtxPopCurrent_v2")


def test_small_shared_memory_needs_no_permission(library: Library) -> None:
    LibCuda().function(1, "kernel", 49152)
    assert "cuFuncSetAttribute" not in library.calls


def test_where_memory_is(library: Library) -> None:
    driver = LibCuda()
    library.fails["cuPointerGetAttribute"] = [1]
    assert driver.place(64) is None
    library.fails["cuPointerGetAttribute"] = [0, 1]  # of a pool: it has a device and no context
    assert driver.place(64) == (0, 11)
    library.fails["cuPointerGetAttribute"] = [201]  # this thread has no context: one is lent
    library.calls.clear()
    assert driver.place(64) == (15, 14)
    assert library.calls[-1] == "cuCtxPopCurrent_v2"


def test_failures_have_the_driver_s_words(library: Library) -> None:
    library.fails = {"cuMemAlloc_v2": [2, 2], "cuStreamWaitEvent": [700]}
    with pytest.raises(
        CudaError, match=r"cuMemAlloc_v2 failed: something happened \(2\)"
    ) as caught:
        LibCuda().alloc(8)
    assert caught.value.code == 2
    with pytest.raises(DeviceError, match="out of memory in cuMemAlloc_v2") as ours:
        OurDriver().alloc(8)
    assert ours.value.kind == "memory"
    with pytest.raises(CudaError):
        LibCuda().wait(1, 2)
    assert library.calls[-2:] == ["cuGetErrorString", "cuEventDestroy_v2"]
