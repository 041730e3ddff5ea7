"""What the calls of kernels get."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosched.errors import ScheduleError
from autosched.tir.expr import Call, Expr, IntImm
from autosched.tir.function import IRModule
from autosched.tir.parser import parse_func
from autosched.tir.walk import all_exprs
from autosched.transform.device.annotate_device_regions import AnnotateDeviceRegions
from autosched.transform.device.lower_device_kernel_launch import LowerDeviceKernelLaunch
from autosched.transform.device.split_host_device import SplitHostDevice
from autosched.transform.framework.passes import Sequential

SPLIT = Sequential((AnnotateDeviceRegions(), SplitHostDevice()))


def split(body: str) -> IRModule:
    text = "def main(A: Buffer((64,), float32)):\n" + body
    return SPLIT(IRModule({"main": parse_func(text)}))


def call_args(module: IRModule) -> tuple[Expr, ...]:
    (call,) = [e for e in all_exprs(module["main"].body) if isinstance(e, Call)]
    return call.args


def test_extents_in_order_of_appearance_and_each_axis_once() -> None:
    module = split("""\
    launch(threadIdx.y, 2)
    launch(blockIdx.x, 3)
    with launch(threadIdx.x, 8):
        A[threadIdx.x] = 0.0
    launch(threadIdx.x_1, 8, tag="threadIdx.x")
    A[threadIdx.x_1 + 8] = 0.0
""")
    after = LowerDeviceKernelLaunch()(module)
    kernel = after["main_kernel"]
    assert kernel.attrs["tir.kernel_launch_params"] == ["threadIdx.y", "blockIdx.x", "threadIdx.x"]
    assert kernel.attrs["calling_conv"] == 2
    assert [e.value for e in call_args(after)[2:] if isinstance(e, IntImm)] == [2, 3, 8]


def test_static_shared_memory_is_no_argument() -> None:
    module = split("""\
    launch(threadIdx.x, 8)
    S = allocate((8,), float32, "shared")
    S[threadIdx.x] = A[threadIdx.x]
""")
    after = LowerDeviceKernelLaunch()(module)
    assert after["main_kernel"].attrs["tir.kernel_launch_params"] == ["threadIdx.x"]


def test_bytes_of_vectors_and_small_types() -> None:
    module = split("""\
    launch(threadIdx.x, 8)
    S = allocate((6,), float16x4, "shared.dyn")
    A[threadIdx.x] = 0.0
""")
    after = LowerDeviceKernelLaunch()(module)
    assert [e.value for e in call_args(after)[2:] if isinstance(e, IntImm)] == [8, 48]


def test_two_dynamic_allocations() -> None:
    module = split("""\
    launch(threadIdx.x, 8)
    S = allocate((8,), float32, "shared.dyn")
    R = allocate((8,), float32, "shared.dyn")
    A[threadIdx.x] = 0.0
""")
    with pytest.raises(ScheduleError, match=r"main_kernel: only one allocation .* found S, R"):
        LowerDeviceKernelLaunch()(module)


def test_a_call_with_too_few_arguments() -> None:
    module = split("    launch(threadIdx.x, 8)\n    A[threadIdx.x] = 0.0\n")
    kernel = replace(module["main_kernel"], params=())
    broken = IRModule({**module.functions, "main_kernel": kernel})
    with pytest.raises(ScheduleError, match="is called with 1 arguments, it takes 0"):
        LowerDeviceKernelLaunch()(broken)


def test_calls_of_other_functions_stay() -> None:
    text = 'def main(A: Buffer((1,), float32)):\n    call_packed("other", A[0], dtype=int32)'
    module = IRModule({"main": parse_func(text)})
    assert LowerDeviceKernelLaunch()(module) is module
