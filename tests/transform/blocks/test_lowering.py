"""Programs of blocks through all passes, one after the other: their texts and what they compute."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.codegen.cuda import emit_cuda
from autosched.codegen.nvrtc import load_nvrtc
from autosched.driver import lower_func, lower_to_kernels
from autosched.errors import ScheduleError
from autosched.target import cuda_target
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.verify import verify
from autosched.transform.framework.pass_text import parse_passes
from autosched.transform.framework.passes import Sequential
from autosched.transform.pipeline import PASSES
from kit.block_programs import outputs
from kit.types import BodyText, SameResult

PASSES_OF_BLOCKS = (
    "LowerInitBlock",
    "PlanAndUpdateBufferAllocationLocation",
    "ConvertBlocksToOpaque",
    "CompactBufferAllocation",
    "LowerMatchBuffer",
    "LowerOpaqueBlock",
    "FlattenBuffer",
)

EXAMPLE = """
def main(A: Buffer((16, 32), float32), C: Buffer((16,), float32)):
    with block("root"):
        reads()
        writes()
        S = alloc((16, 32), float32, scope="shared")
        for bx in thread_binding(4, thread="blockIdx.x"):
            for i in range(4):
                for j in range(32):
                    with block("S"):
                        vi = axis.data_par(0:16, bx * 4 + i)
                        vj = axis.data_par(0:32, j)
                        where(bx * 4 + i < 15)
                        reads(A[vi:vi + 1, vj:vj + 1])
                        writes(S[vi:vi + 1, vj:vj + 1])
                        annotations({"buffer_dim_align": [[0, 0, 32, 8]]})
                        S[vi, vj] = A[vi, vj]
            for i2 in range(4):
                for k in range(32):
                    with block("C"):
                        vi2 = axis.data_par(0:16, bx * 4 + i2)
                        vk = axis.reduce(0:32, k)
                        where(bx * 4 + i2 < 15)
                        reads(S[vi2:vi2 + 1, vk:vk + 1])
                        writes(C[vi2:vi2 + 1])
                        with init():
                            C[vi2] = 0.0
                        C[vi2] = C[vi2] + S[vi2, vk]
"""

STEPS = {
    "LowerInitBlock": """
                        if vk == 0:
                            C[vi2] = 0.0
                        C[vi2] = C[vi2] + S[vi2, vk]""",
    "PlanAndUpdateBufferAllocationLocation": """
        for bx in thread_binding(4, thread="blockIdx.x"):
            with block(""):
                reads(A[bx * 4:bx * 4 + 4, 0:32])
                writes(C[bx * 4:bx * 4 + 4])
                S = alloc((16, 32), float32, scope="shared")
                for i in range(4):""",
    "ConvertBlocksToOpaque": """
                        with block("C"):
                            where(bx * 4 + i2 < 15)
                            reads(S[bx * 4 + i2:bx * 4 + i2 + 1, k:k + 1])
                            writes(C[bx * 4 + i2:bx * 4 + i2 + 1])
                            if k == 0:
                                C[bx * 4 + i2] = 0.0
                            C[bx * 4 + i2] = C[bx * 4 + i2] + S[bx * 4 + i2, k]""",
    "CompactBufferAllocation": """
                            S[bx * 4 + i - bx * 4, j] = A[bx * 4 + i, j]""",
    "LowerMatchBuffer": """
                S = alloc((4, 32), float32, scope="shared", strides=(40, 1))""",
    "LowerOpaqueBlock": """
    launch(bx, 4, tag="blockIdx.x", dom=0:4)
    S = allocate((4, 40), float32, "shared", annotations={"buffer_dim_align": [[-1, 0, 32, 8]]})
    S_1 = declare(S, (4, 32), float32, strides=(40, 1), pointer=pointer(float32, "shared"))
    for i in range(4):
        for j in range(32):
            if bx * 4 + i < 15:
                S_1[bx * 4 + i - bx * 4, j] = A[bx * 4 + i, j]""",
    "FlattenBuffer": """
    A_1 = view(A, (512,), float32)
    launch(bx, 4, tag="blockIdx.x", dom=0:4)
    S = allocate((160,), float32, "shared", annotations={"buffer_dim_align": [[-1, 0, 32, 8]]})
    for i in range(4):
        for j in range(32):
            if bx * 4 + i < 15:
                S[i * 40 + j] = A_1[bx * 128 + i * 32 + j]
    for i2 in range(4):
        for k in range(32):
            if bx * 4 + i2 < 15:
                if k == 0:
                    C[bx * 4 + i2] = 0.0
                C[bx * 4 + i2] = C[bx * 4 + i2] + S[i2 * 40 + k]""",
}


def run(names: str, func: PrimFunc) -> PrimFunc:
    return Sequential(parse_passes(names, PASSES))(func)


def test_the_running_example_step_by_step(body_text: BodyText) -> None:
    """Block C has the predicate of block S too, or it would read the row that S does not fill."""
    assert tuple(STEPS) == PASSES_OF_BLOCKS
    func = parse_func(EXAMPLE)
    wanted = outputs(func)
    for name, part in STEPS.items():
        after = run(name, func)
        text = "\n".join("    " + line for line in body_text(after).splitlines())
        assert part.strip("\n") in text, text
        assert (after is func) == (name == "LowerMatchBuffer")
        if after is not func:
            np.testing.assert_array_equal(outputs(after)[1], wanted[1])
        func = after


def test_functions_of_schedules_pass_through() -> None:
    """Only LowerMatchBuffer looks into them."""
    legacy = parse_func(EXAMPLE)
    legacy = legacy.with_attrs(from_legacy_te_schedule=True)
    for name in PASSES_OF_BLOCKS:
        assert run(name, legacy) is legacy


@pytest.mark.parametrize("name", PASSES_OF_BLOCKS)
def test_a_function_without_blocks_stays(name: str) -> None:
    func = parse_func("""
        def main(A: Buffer((16,), float32), B: Buffer((16,), float32)):
            S = allocate((16,), float32, "global")
            for i in range(16):
                S[i] = A[i]
            for j in range(16):
                B[j] = S[j]
    """)
    assert run(name, func) is func


@pytest.mark.parametrize(
    ("left_out", "message"),
    [
        ("LowerInitBlock", "PlanAndUpdate.*: block 'C' has an initialisation; run LowerInitBlock"),
        ("ConvertBlocksToOpaque", "CompactBufferAllocation: block .* has iteration variables"),
    ],
)
def test_passes_say_which_one_is_missing(left_out: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        run(", ".join(n for n in PASSES_OF_BLOCKS if n != left_out), parse_func(EXAMPLE))


def test_two_loops_over_threads_are_one_kernel_of_cuda() -> None:
    func = parse_func("""
        def main(A: Buffer((64,), float32), B: Buffer((64,), float32)):
            with block("root"):
                reads()
                writes()
                S = alloc((64,), float32, scope="shared")
                for b in thread_binding(4, thread="blockIdx.x"):
                    for t in thread_binding(16, thread="threadIdx.x"):
                        S[b * 16 + t] = A[b * 16 + t]
                    for u in thread_binding(16, thread="threadIdx.x"):
                        B[b * 16 + u] = S[b * 16 + 15 - u]
    """)
    module = lower_to_kernels(lower_func(func, cuda_target()))
    (kernel,) = (f for f in module.functions.values() if f.attrs.get("calling_conv") == 2)
    source = emit_cuda([kernel]).text
    assert source.count("__syncthreads()") == 1 and "float S[16]" in source
    load_nvrtc("sm_80").compile(source, "sm_80")


def test_memory_for_truth_values_of_one_name_twice(same_result: SameResult) -> None:
    """Its second allocation was of other bytes than those that were accessed."""
    parts = "".join(
        f"""\
    with S = allocate((4,), bool, "global"):
        for i in range(4):
            S[i] = A[i] > {limit}
        for i in range(4):
            Y[i] = Y[i] + int32(S[i])
"""
        for limit in (2, 3)
    )
    before = parse_func(f"def main(A: Buffer((4,), int32), Y: Buffer((4,), int32)):\n{parts}")
    after = PASSES["FlattenBuffer"]()(before)
    verify(after)
    same_result(before, after)
