"""Which shared memory is asked for at the launch, and where it is refused."""

from __future__ import annotations

import textwrap

import pytest

from autosched.errors import ScheduleError
from autosched.tir.function import IRModule, PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.stmt import Allocate
from autosched.tir.walk import stmts
from autosched.transform.device.merge_shared_memory_allocations import MergeSharedMemoryAllocations
from autosched.transform.device.shared_to_dynamic import SharedToDynamic, static_shared_bytes
from autosched.transform.device.thread_sync import ThreadSync, kernels
from autosched.transform.framework.passes import Sequential
from autosched.transform.pipeline import DEVICE_PIPELINE
from kit.types import SameResult

HEAD = (
    "def main(A: Buffer((64,), float32), B: Buffer((64,), float32)):\n    launch(threadIdx.x, 32)\n"
)
BODY = """\
S = allocate((8192,), float32, "shared")
T = allocate((8192,), float32, "shared")
S[threadIdx.x] = A[threadIdx.x]
B[threadIdx.x] = S[31 - threadIdx.x]
T[threadIdx.x] = A[threadIdx.x] + 1.0
B[threadIdx.x] = B[threadIdx.x] + T[31 - threadIdx.x]
"""


def function(body: str = BODY) -> PrimFunc:
    return parse_func(HEAD + textwrap.indent(body, "    "))


def scopes(func: PrimFunc) -> list[str]:
    return [s.buffer_var.scope for s in stmts(func.body) if isinstance(s, Allocate)]


def test_more_than_a_kernel_may_declare(same_result: SameResult) -> None:
    before = function()
    (kernel,) = kernels(before.body)
    assert static_shared_bytes(kernel) == 65536
    after = SharedToDynamic()(before)
    assert scopes(after) == ["shared.dyn", "shared.dyn"]
    passes = Sequential((ThreadSync("shared.dyn"), MergeSharedMemoryAllocations()))
    same_result(ThreadSync("shared")(before), passes(after))


def test_exactly_as_much_stays() -> None:
    func = function(BODY.replace("8192", "6144"))
    assert SharedToDynamic()(func) is func


def test_the_limit_is_of_the_merged_size() -> None:
    """S and T are not in use at once: 32768 bytes suffice, and not one less."""
    assert scopes(SharedToDynamic(limit=32768)(function())) == ["shared.dyn", "shared.dyn"]
    with pytest.raises(ScheduleError, match=r"kernel 1 of main: 32768 bytes .* at most 32767 are"):
        SharedToDynamic(limit=32767)(function())


def test_what_else_is_in_a_kernel_stays() -> None:
    body = 'L = allocate((4,), float32, "local")\nL[0] = 1.0\n' + BODY
    assert scopes(SharedToDynamic()(function(body))) == ["local", "shared.dyn", "shared.dyn"]


def test_a_kernel_is_launched_with_the_merged_bytes() -> None:
    """From two allocations to one argument of the call."""
    func = Sequential((SharedToDynamic(), ThreadSync("shared.dyn")))(function())
    module = Sequential(DEVICE_PIPELINE)(IRModule({"main": func}))
    assert 'call_packed("main_kernel", A, B, 32, 32768' in repr(module)
