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


def test_two_lengths_of_one_axis() -> None:
    """The kernel was launched with the first one: half of the second loop did not run."""
    module = split("""\
    launch(blockIdx.x, 2)
    with launch(threadIdx.x, 4):
        A[threadIdx.x] = 0.0
    launch(threadIdx.x_1, 8, tag="threadIdx.x")
    A[threadIdx.x_1 + 8] = 0.0
""")
    with pytest.raises(ScheduleError, match=r"threadIdx\.x has the lengths 4 and 8"):
        LowerDeviceKernelLaunch()(module)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["for k in range(4):", "    launch(threadIdx.x, k + 1)"], r"threadIdx\.x is k \+ 1, .* k"),
        (["launch(threadIdx.x, int32(A[0]))"], r"threadIdx\.x is int32\(A\[0\]\), .* memory"),
        (
            [
                "launch(threadIdx.x, 8)",
                "n: int32 = int32(A[0])",
                'S = allocate((n,), float32, "shared.dyn")',
            ],
            r"dyn_shared_memory is 4 \* n, which depends on n of the kernel",
        ),
    ],
)
def test_what_the_host_cannot_know(lines: list[str], message: str) -> None:
    """The call had variables that nothing binds, or read memory of the device."""
    indent = "    " if lines[0].startswith("for") else ""
    lines = ["launch(blockIdx.x, 2)", *lines, indent + "A[threadIdx.x] = 0.0"]
    module = split("".join(f"    {line}\n" for line in lines))
    with pytest.raises(ScheduleError, match=message):
        LowerDeviceKernelLaunch()(module)
