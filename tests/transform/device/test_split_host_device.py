"""Which parameters a kernel gets, in which order, under which name."""

from __future__ import annotations

import numpy as np

from autosched.tir.function import IRModule, PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.verify import verify
from autosched.transform.device.annotate_device_regions import AnnotateDeviceRegions
from autosched.transform.device.split_host_device import SplitHostDevice
from autosched.transform.framework.passes import Sequential
from kit.modules import run_module


def split(text: str) -> IRModule:
    func = parse_func(text)
    module = IRModule({func.name: func})
    after = Sequential((AnnotateDeviceRegions(), SplitHostDevice()))(module)
    for function in after.functions.values():
        verify(function)
    return after


def parameters(func: PrimFunc) -> list[str]:
    return [func.buffer_map[p].name if p in func.buffer_map else p.name for p in func.params]


TWO = """\
def main(A: Buffer((64,), float32), B: Buffer((8, 8), float32), z: float32, n: int32):
    B_1 = view(B, (64,), float32)
    W = allocate((64,), float32, "global")
    with launch(threadIdx.x, 64):
        if threadIdx.x < n:
            W[threadIdx.x] = A[threadIdx.x] + z
        else:
            W[threadIdx.x] = 0.0
    launch(threadIdx.x_1, 64, tag="threadIdx.x")
    B_1[threadIdx.x_1] = W[threadIdx.x_1] * 2.0
"""


def test_a_kernel_gets_what_it_uses_memory_first() -> None:
    module = split(TWO)
    assert list(module.functions) == ["main", "main_kernel", "main_kernel_1"]
    names = {name: parameters(f) for name, f in module.functions.items()}
    assert names["main_kernel"] == ["A", "W", "n", "z"]
    assert names["main_kernel_1"] == ["B", "W"]
    assert 'call_packed("main_kernel", A, W, n, z' in repr(module["main"])


def test_views_are_declared_in_the_kernel_that_uses_them() -> None:
    module = split(TWO)
    assert "B_1 = declare(B, (64,), float32)" in repr(module["main_kernel_1"])
    assert "declare" not in repr(module["main_kernel"])


def test_host_and_kernels_compute_what_the_function_did() -> None:
    a, b = np.arange(64, dtype=np.float32), np.zeros((8, 8), np.float32)
    run_module(split(TWO), [a, b, 0.5, 40])
    expected = np.where(np.arange(64) < 40, (a + 0.5) * 2, 0).reshape(8, 8)
    np.testing.assert_array_equal(b, expected)


def test_an_extent_that_is_a_parameter_becomes_one_of_the_kernel() -> None:
    module = split("""\
def main(A: Buffer((64,), float32), n: int32):
    launch(threadIdx.x, n)
    A[threadIdx.x] = 0.0
""")
    assert parameters(module["main_kernel"]) == ["A", "n"]


def test_memory_that_a_kernel_allocates_is_its_own() -> None:
    module = split("""\
def main(A: Buffer((32,), float32)):
    launch(threadIdx.x, 32)
    S = allocate((32,), float32, "shared")
    S_1 = view(S, (16,), float32)
    S_1[threadIdx.x // 2] = A[threadIdx.x]
""")
    kernel = module["main_kernel"]
    assert parameters(kernel) == ["A"]
    assert repr(kernel).count("view(S") == 1


def test_a_name_that_is_taken_gets_a_number() -> None:
    func = parse_func(TWO)
    other = parse_func("def other(A: Buffer((1,), float32)):\n    A[0] = 0.0")
    module = AnnotateDeviceRegions()(IRModule({"main": func, "main_kernel": other}))
    after = SplitHostDevice()(module)
    assert list(after.functions) == ["main", "main_kernel", "main_kernel_1", "main_kernel_2"]
    assert after["main_kernel"] is other


def test_without_a_region_the_module_stays() -> None:
    func = parse_func("def main(A: Buffer((1,), float32)):\n    A[0] = 0.0")
    module = IRModule({"main": func})
    assert SplitHostDevice()(module) is module


def test_noalias_is_handed_on() -> None:
    func = parse_func(TWO).with_attrs(**{"tir.noalias": False})
    module = Sequential((AnnotateDeviceRegions(), SplitHostDevice()))(IRModule({"main": func}))
    assert module["main_kernel"].attrs["tir.noalias"] is False
