"""Kernels for CUDA called on arrays of many kinds, with a driver that is none."""

from __future__ import annotations

import ctypes
import gc
import json
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from autosched.runtime.cuda_api import CudaError, current
from autosched.runtime.cuda_arrays import DeviceArray, _exported, _Managed, _pointer_of, view_on_gpu
from autosched.runtime.cuda_loader import GpuKernel, Parameter, Program, Step, handle_of
from kit.cuda_driver import OTHER, PRIMARY, FakeDriver

Array = np.ndarray[Any, Any]
SHAPE = (4, 6)
F32 = np.dtype(np.float32)


def twice(a: Array, w: Array) -> None:
    w[:24] = 2 * a[:24]


def add(w: Array, b: Array, c: Array) -> None:
    c[:24] = w[:24] + b[:24]


def program(**fields: Any) -> Program:
    """C = 2 * A + B in two launches with a workspace between."""
    parameters = tuple(Parameter(n, "float32", F32, SHAPE, n == "C") for n in "ABC")
    steps = (
        Step("twice", (1, 1, 1), (32, 1, 1), 0, ("A", "W")),
        Step("add", (2, 1, 1), (64, 1, 1), 1 << 16, ("W", "B", "C")),
    )
    cubins = {arch: json.dumps(arch).encode() for arch in ("sm_80", "sm_86", "sm_90")}
    made = {"name": "muladd", "parameters": parameters, "cubins": cubins}
    return Program(**{**made, "workspaces": {"W": 96}, "steps": steps, **fields})


@pytest.fixture
def driver() -> FakeDriver:
    return FakeDriver({"twice": twice, "add": add})


class Interface:
    """As CuPy, Numba and PyCUDA: `__cuda_array_interface__` alone."""

    def __init__(
        self, driver: FakeDriver, array: Array, context: int = PRIMARY, **fields: Any
    ) -> None:
        with current(driver, context):
            self.address = driver.alloc(array.nbytes + 64)
        driver.device.upload(self.address, array)
        data = self.address + fields.pop("offset", 0), fields.pop("read_only", False)
        self.__cuda_array_interface__ = {
            "shape": array.shape, "typestr": array.dtype.str, "data": data, "version": 3, **fields
        }  # fmt: skip


class Tensor(DeviceArray):
    """As PyTorch's bfloat16: DLPack alone."""

    asked: list[Any]

    def __init__(self, driver: FakeDriver, array: Array, context: int = PRIMARY) -> None:
        super().__init__(driver, context, context % 1000, array.shape, array.dtype)
        driver.device.upload(self.address, array)
        self.asked = []

    def __dlpack__(self, *, stream: int | None = None, **options: Any) -> Any:
        self.asked.append(stream)
        return super().__dlpack__(stream=stream)

    __cuda_array_interface__ = None  # type: ignore[assignment]  # as if there were none


def arrays() -> tuple[Array, Array, Array]:
    a = np.arange(24, dtype=np.float32).reshape(SHAPE)
    return a, a[::-1].copy(), 2 * a + a[::-1]


def test_numpy_arrays_go_there_and_back(driver: FakeDriver) -> None:
    a, b, want = arrays()
    kernel = GpuKernel(program(), driver)
    c = np.zeros(SHAPE, np.float32)
    for given in ((c,), ()):
        c[:] = 0
        assert kernel(a, b, *given, **({} if given else {"out": c})) is None
        np.testing.assert_array_equal(c, want)
    np.testing.assert_array_equal(kernel(a, b), want)
    wrapped = SimpleNamespace(__array_interface__=a.__array_interface__, keep=a)
    np.testing.assert_array_equal(kernel(wrapped, b), want)
    assert driver.stack == []
    assert len(driver.memory) == 1  # the workspace stays
    assert driver.log[-1] == ("synchronize", 1)
    assert [entry for entry in driver.log if entry[0] == "load"] == [("load", "sm_90")]


@pytest.mark.parametrize("kind", [Interface, Tensor])
@pytest.mark.parametrize("context", [PRIMARY, OTHER])
def test_arrays_on_a_gpu_stay_there(driver: FakeDriver, kind: Any, context: int) -> None:
    a, b, want = arrays()
    kernel = GpuKernel(program(), driver)
    given = kind(driver, a, context), kind(driver, b, context)
    result = kernel(*given, stream=77)
    assert isinstance(result, DeviceArray)
    assert repr(result) == "<DeviceArray float32[4, 6] on GPU 0>"
    np.testing.assert_array_equal(result.numpy(), want)
    out = kind(driver, np.zeros(SHAPE, np.float32), context)
    assert kernel(*given, out, stream=77) is None
    found = driver.device.download(out.address, 96).view(np.float32).reshape(SHAPE)
    np.testing.assert_array_equal(found, want)
    again = kernel(given[0], result)  # what it returns is an argument as good as others
    np.testing.assert_array_equal(again.numpy(), 2 * a + want)
    assert driver.stack == []
    if kind is Tensor:
        assert given[1].asked == [77, 77]
    assert {entry[2] for entry in driver.log if entry[0] == "launch"} == {77, 1}


def test_work_waits_for_the_streams_that_arrays_name(driver: FakeDriver) -> None:
    a, b, _ = arrays()
    kernel = GpuKernel(program(), driver)
    given = Interface(driver, a, stream=5), Interface(driver, b, stream=9)
    kernel(*given, stream=9)
    assert [entry for entry in driver.log if entry[0] == "wait"] == [("wait", 9, 5)]
    driver.log.clear()
    result = kernel(Interface(driver, a, stream=None), given[1])
    assert [entry for entry in driver.log if entry[0] == "wait"] == [("wait", 1, 9)]
    assert result.__cuda_array_interface__["stream"] == 1


def test_streams_share_no_workspace_and_contexts_no_module(driver: FakeDriver) -> None:
    a, b, _ = arrays()
    kernel = GpuKernel(program(), driver)
    for context, stream in ((PRIMARY, 5), (PRIMARY, 6), (OTHER, 5), (PRIMARY, 5)):
        kernel(Interface(driver, a, context), Interface(driver, b, context), stream=stream)
    assert sum(entry[0] == "load" for entry in driver.log) == 2
    assert (
        sum(size == 96 and context in (PRIMARY, OTHER) for size, context in driver.memory.values())
        == 3
    )


def test_a_kernel_that_goes_takes_its_memory_and_modules(driver: FakeDriver) -> None:
    a, b, _ = arrays()
    kernel = GpuKernel(program(), driver)
    kernel(a, b)
    given = Interface(driver, a, OTHER), Interface(driver, b, OTHER)
    kernel(*given, stream=5)
    del kernel
    gc.collect()
    assert sum(entry[0] == "unload" for entry in driver.log) == 2
    assert sorted(driver.memory) == sorted(array.address for array in given)


Make = Callable[[FakeDriver, Array], Any]
REFUSED: dict[str, Make] = {
    r"must have dtype float32, found float64": lambda d, x: Interface(d, x.astype(np.float64)),
    r"must have dtype float32, found int32": lambda d, x: Tensor(d, x.astype(np.int32)),
    r"must have shape \(4, 6\), found \(6, 4\)": lambda d, x: Interface(d, x.reshape(6, 4)),
    r"found strides \(4, 16\)": lambda d, x: Interface(d, x, strides=(4, 16)),
    r"must start at a multiple of 16 bytes, found address 0x": lambda d, x: Interface(
        d, x, offset=4
    ),
    r"has a mask": lambda d, x: Interface(d, x, mask=object()),
    r"stream 0 in its interface": lambda d, x: Interface(d, x, stream=0),
    r"must be where \w is \(GPU 0\), found GPU 1; copy": lambda d, x: Interface(d, x, PRIMARY + 1),
    r"must be where \w is .* found GPU 0 in another context": lambda d, x: Tensor(d, x, OTHER),
    r"is not memory of a GPU: address 0x10": lambda d, x: Interface(d, x, data=(16, False)),
    r"is a ndarray in host memory, but \w is on a GPU": lambda d, x: x,
}  # fmt: skip


@pytest.mark.parametrize("says", REFUSED)
@pytest.mark.parametrize("position", [1, 2])
def test_arguments_that_do_not_fit(driver: FakeDriver, says: str, position: int) -> None:
    given: list[Any] = [Interface(driver, x) for x in arrays()]
    given[position] = REFUSED[says](driver, arrays()[position])
    with pytest.raises(ValueError, match=rf"^muladd: argument {position + 1} .*{says}"):
        GpuKernel(program(), driver)(*given)
    assert not any(entry[0] == "launch" for entry in driver.log)
    assert driver.stack == []


def test_outputs_that_do_not_fit(driver: FakeDriver) -> None:
    a, b, c = (Interface(driver, x) for x in arrays())
    kernel = GpuKernel(program(), driver)
    with pytest.raises(ValueError, match=r"argument 3 \(C\) is written .* but is read-only"):
        kernel(a, b, Interface(driver, arrays()[2], read_only=True))
    with pytest.raises(
        ValueError, match=r"\(C\) is written .* shares memory with argument 1 \(A\)"
    ):
        kernel(a, b, a)
    host = np.zeros((5, 6), np.float32)
    with pytest.raises(
        ValueError, match=r"\(C\) is written .* shares memory with argument 2 \(B\)"
    ):
        kernel(arrays()[0], host[:4], host[1:])
    with pytest.raises(ValueError, match=r"argument 2 \(B\) must have dtype float32, found int64"):
        kernel(arrays()[0], np.zeros(SHAPE, np.int64))
    with pytest.raises(ValueError, match="found list"):
        kernel(arrays()[0], [[0.0]])
    with pytest.raises(ValueError, match=r"argument 2 \(B\) is a masked array"):
        kernel(arrays()[0], np.ma.array(arrays()[1], mask=True))
    kernel(a, a, c)  # inputs may be one array


class NeedsGradient:
    """As a tensor of PyTorch that requires a gradient."""

    @property
    def __cuda_array_interface__(self) -> Any:
        raise RuntimeError("requires grad")


def test_what_an_array_says_of_itself_is_told(driver: FakeDriver) -> None:
    a = Interface(driver, arrays()[0])
    with pytest.raises(
        ValueError, match=r"\(B\) \(NeedsGradient\) cannot be viewed: requires grad"
    ):
        GpuKernel(program(), driver)(a, NeedsGradient())


def test_bfloat16_by_dlpack_or_as_two_bytes(driver: FakeDriver) -> None:
    raw = np.zeros(SHAPE, "V2")
    plain = Interface(driver, raw)
    assert view_on_gpu(plain, "bfloat16", 1).dtype == "bfloat16"
    assert view_on_gpu(plain, "float16", 1).dtype != "float16"
    import ml_dtypes

    tensor = Tensor(driver, np.zeros(SHAPE, ml_dtypes.bfloat16))
    tensor.__dict__["__cuda_array_interface__"] = plain.__cuda_array_interface__
    assert view_on_gpu(tensor, "bfloat16", 7).address == tensor.address
    assert tensor.asked == [7]


def test_code_is_chosen_for_the_gpu() -> None:
    a, b, want = arrays()
    chosen = {(8, 0): "sm_80", (8, 9): "sm_86", (9, 0): "sm_90", (12, 0): "compute_90"}
    ptx = "sm_90", json.dumps("compute_90").encode()
    for capability, image in chosen.items():
        driver = FakeDriver({"twice": twice, "add": add}, capability)
        np.testing.assert_array_equal(GpuKernel(program(ptx=ptx), driver)(a, b), want)
        assert ("load", image) in driver.log
    for capability in ((7, 5), (12, 0)):
        driver = FakeDriver({}, capability)
        wanted = f"sm_{capability[0]}{capability[1]}"
        with pytest.raises(
            ValueError, match=rf"no code for this GPU \({wanted}\): there is sm_80, sm_86"
        ):
            GpuKernel(program(ptx=ptx if capability == (7, 5) else None), driver)(a, b)
        assert driver.stack == [] and not driver.memory


def test_a_failed_launch_leaves_nothing_behind(driver: FakeDriver) -> None:
    a, b, want = arrays()
    kernel = GpuKernel(program(), driver)
    driver.fails = "add"
    with pytest.raises(CudaError, match="out of resources"):
        kernel(a, b)
    assert driver.stack == [] and len(driver.memory) == 1
    driver.fails = ""
    np.testing.assert_array_equal(kernel(a, b), want)


def test_memory_goes_with_the_array_and_its_views(driver: FakeDriver) -> None:
    array = DeviceArray(driver, PRIMARY, 0, SHAPE, np.float32)
    capsule = array.__dlpack__()
    managed = _Managed.from_address(_pointer_of(capsule, b"dltensor"))
    address = array.address
    assert (managed.tensor.data, list(managed.tensor.shape[:2])) == (address, [4, 6])
    del array
    gc.collect()
    assert address in driver.memory
    del capsule  # that nobody took
    gc.collect()
    assert not driver.memory
    array = DeviceArray(driver, PRIMARY, 0, SHAPE, np.float32)
    capsule = array.__dlpack__(stream=-1)
    managed = _Managed.from_address(_pointer_of(capsule, b"dltensor"))
    rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
    used = b"used_dltensor"
    rename(("PyCapsule_SetName", ctypes.pythonapi))(capsule, used)  # as who takes it does
    del array, capsule
    gc.collect()
    assert len(driver.memory) == 1
    managed.deleter(ctypes.byref(managed))
    gc.collect()
    assert not driver.memory and not _exported


def test_who_takes_a_result_may_name_its_stream(driver: FakeDriver) -> None:
    array = DeviceArray(driver, PRIMARY, 0, SHAPE, np.float32)
    array.stream = 5
    for stream, waits in ((None, [("wait", 1, 5)]), (-1, []), (5, []), (2, [("wait", 2, 5)])):
        driver.log.clear()
        array.__dlpack__(stream=stream, max_version=(1, 0))
        assert driver.log == waits
    with pytest.raises(ValueError, match="ambiguous"):
        array.__dlpack__(stream=0)


def test_handles_of_streams() -> None:
    torch, cupy = SimpleNamespace(cuda_stream=40), SimpleNamespace(ptr=41)
    numba = SimpleNamespace(handle=ctypes.c_void_p(42))
    default = SimpleNamespace(handle=ctypes.c_void_p(0))
    shared = SimpleNamespace(__cuda_stream__=lambda: (0, 43))
    given = [None, 0, 1, 2, 39, torch, cupy, numba, default, shared]
    assert [handle_of(stream) for stream in given] == [1, 1, 1, 2, 39, 40, 41, 42, 1, 43]
    for wrong in ("x", -1, True, object()):
        with pytest.raises(ValueError, match="expected a handle or a stream of PyTorch"):
            handle_of(wrong)


def test_several_threads_share_a_kernel(driver: FakeDriver) -> None:
    kernel = GpuKernel(program(), driver)
    a, b, want = arrays()
    wrong = []
    # The fake driver keeps one stack for all threads, as the lock allows for NumPy arrays.

    def work() -> None:
        for _ in range(10):
            if not (kernel(a, b) == want).all():
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
