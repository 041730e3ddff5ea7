"""The relu of seed documents 000 and 001: blocks, a tensor intrinsic, views, flat code, results.

The documents print what CompactBufferAllocation and LowerMatchBuffer make of int8[256, 256, 64, 64]
on 128 x 128 blocks of 8 x 32 threads. Their intrinsic gets the pointer of the shared copy as it is
and no offset into it: all threads of a block would write to its first elements. The texts below are
theirs (constants fold here: `2097152` for `1048576 * 2`); what runs hands over where to write.
"""

from __future__ import annotations

import ctypes
import re
import textwrap
from typing import Any

import numpy as np
import pytest

from autosched.driver import build_func, lower_func
from autosched.runtime.cpu import load, register_extern
from autosched.target import cpu_target
from autosched.tir import interp
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text
from autosched.tir.verify import verify
from autosched.transform.blocks.tensorize import TensorIntrin, tensorize
from autosched.transform.framework.pass_text import parse_passes
from autosched.transform.framework.passes import Sequential
from autosched.transform.pipeline import FROM_BLOCKS, GPU_PIPELINE, PASSES
from kit.types import Array

STAGE = """\
                        for N_ in range(2):
                            for C_ in range(2):
                                for H_ in range(8):
                                    for W_ in range(2):
                                        with block("NAME"):
                                            v0 = axis.data_par(0:N, bx * 2 + N_)
                                            v1 = axis.data_par(0:C, by * 2 + C_)
                                            v2 = axis.data_par(0:H, tx * 8 + H_)
                                            v3 = axis.data_par(0:W, ty * 2 + W_)
                                            reads(SOURCE[BOX])
                                            writes(TARGET[BOX])
                                            TARGET[v0, v1, v2, v3] = VALUE
"""


def stage(name: str, loops: str, source: str, target: str, value: str) -> str:
    """The loops of a thread over its part, which write `value` of the source to the target."""
    words = dict(zip(("N_", "C_", "H_", "W_"), loops.split(), strict=True))
    words |= {"NAME": name, "SOURCE": source, "TARGET": target}
    words["VALUE"] = value.format(f"{source}[v0, v1, v2, v3]")
    text = STAGE
    for word, meant in words.items():
        text = text.replace(word, meant)
    return text


RELU = (
    """
def main(relu_a: Buffer((N, C, H, W), int8), compute: Buffer((N, C, H, W), int8)):
    with block("root"):
        reads()
        writes()
        relu_a_shared = alloc((N, C, H, W), int8, scope="SCOPE")
        compute_shared = alloc((N, C, H, W), int8, scope="SCOPE")
        for bx in LOOP(N // 2, thread="blockIdx.x"):
            for by in LOOP(C // 2, thread="blockIdx.y"):
                for tx in LOOP(H // 8, thread="threadIdx.x"):
                    for ty in LOOP(W // 2, thread="threadIdx.y"):
"""
    + stage("relu_a_shared", "n c h w", "relu_a", "relu_a_shared", "{}")
    + stage("compute", "n_1 c_1 h_1 w_1", "relu_a_shared", "compute_shared", "max({}, int8(0))")
    + stage("compute_shared", "ax0 ax1 ax2 ax3", "compute_shared", "compute", "{}")
)

DESCRIPTION = """
def slice(source: Buffer((2, 2, 8, 2), int8), target: Buffer((2, 2, 8, 2), int8)):
    with block("root"):
        reads(source[0:2, 0:2, 0:8, 0:2])
        writes(target[0:2, 0:2, 0:8, 0:2])
        for n in range(2):
            for c in range(2):
                for h in range(8):
                    for w in range(2):
                        with block("slice"):
                            v0 = axis.data_par(0:2, n)
                            v1 = axis.data_par(0:2, c)
                            v2 = axis.data_par(0:8, h)
                            v3 = axis.data_par(0:2, w)
                            reads(source[BOX])
                            writes(target[BOX])
                            target[v0, v1, v2, v3] = source[v0, v1, v2, v3]
"""

IMPLEMENTATION = """
def oraa[elem_offset: int32, global_buff_s0: int32, global_buff_s1: int32, global_buff_s2: int32, \
global_buff_s3: int32, to: int32, s0: int32, s1: int32, s2: int32, s3: int32](\
global_buff: Buffer((2, 2, 8, 2), int8, strides=(global_buff_s0, global_buff_s1, global_buff_s2, \
global_buff_s3), elem_offset=elem_offset), shared_buff: Buffer((2, 2, 8, 2), int8, scope="SCOPE", \
strides=(s0, s1, s2, s3), elem_offset=to)):
    with block("root"):
        reads(global_buff[0:2, 0:2, 0:8, 0:2])
        writes(shared_buff[0:2, 0:2, 0:8, 0:2])
        CALL
"""

OF_SEED = """call_extern("oraa_slice_tensor", 2, 2, 8, 2, shared_buff, \
tvm_access_ptr(int8(0), global_buff, elem_offset, global_buff_s0 * 2, 1, dtype=handle), \
elem_offset, global_buff_s0, global_buff_s1, global_buff_s2, "int8")"""

RUNS = """call_extern("test_relu.slice", \
tvm_access_ptr(int8(0), shared_buff, to, s0 * 2, 2, dtype=handle), s0, s1, s2, \
tvm_access_ptr(int8(0), global_buff, elem_offset, global_buff_s0 * 2, 1, dtype=handle), \
global_buff_s0, global_buff_s1, global_buff_s2, dtype=int32)"""

LOOPS = """for n in range(2):
            for c in range(2):
                for h in range(8):
                    shared_buff[n, c, h, 0:2] = global_buff[n, c, h, 0:2]"""

BLOCK = """\
with block("relu_a_shared_o"):
    reads(relu_a[bx * 2:bx * 2 + 2, by * 2:by * 2 + 2, tx * 8:tx * 8 + 8, ty * 2:ty * 2 + 2])
    writes(relu_a_shared[bx * 2 - bx * 2:bx * 2 - bx * 2 + 2, \
by * 2 - by * 2:by * 2 - by * 2 + 2, tx * 8:tx * 8 + 8, ty * 2:ty * 2 + 2])
"""

MATCHES = """\
    global_buff = match[elem_offset: int32, global_buff_s0: int32, global_buff_s1: int32, \
global_buff_s2: int32, global_buff_s3: int32](relu_a[bx * 2:bx * 2 + 2, by * 2:by * 2 + 2, \
tx * 8:tx * 8 + 8, ty * 2:ty * 2 + 2], (2, 2, 8, 2), int8, strides=(global_buff_s0, \
global_buff_s1, global_buff_s2, global_buff_s3), elem_offset=elem_offset)
    shared_buff = match[to: int32, s0: int32, s1: int32, s2: int32, s3: int32](\
relu_a_shared[bx * 2 - bx * 2:bx * 2 - bx * 2 + 2, by * 2 - by * 2:by * 2 - by * 2 + 2, \
tx * 8:tx * 8 + 8, ty * 2:ty * 2 + 2], (2, 2, 8, 2), int8, scope="shared", \
strides=(s0, s1, s2, s3), elem_offset=to)
"""

OFFSET = "bx * 2097152 + by * 8192 + tx * 512 + ty * 2"

BOUND = f"""\
    call_extern("oraa_slice_tensor", 2, 2, 8, 2, relu_a_shared, \
tvm_access_ptr(int8(0), relu_a, {OFFSET}, 2097152, 1, dtype=handle), {OFFSET}, 1048576, 4096, 64, \
"int8")"""

COMPUTE = """\
compute_shared[bx * 2 + n_1 - bx * 2, by * 2 + c_1 - by * 2, tx * 8 + h_1, ty * 2 + w_1] = \
max(relu_a_shared[bx * 2 + n_1 - bx * 2, by * 2 + c_1 - by * 2, tx * 8 + h_1, ty * 2 + w_1], \
int8(0))"""


def relu(shape: tuple[int, int, int, int], call: str, gpu: bool = True) -> PrimFunc:
    """The function with its copy into shared memory made by an intrinsic."""
    box = "v0:v0 + 1, v1:v1 + 1, v2:v2 + 1, v3:v3 + 1"
    text, scope = RELU, "shared" if gpu else "global"
    for name, extent in zip("NCHW", shape, strict=True):
        for factor in (2, 8):
            text = text.replace(f"({name} // {factor}", f"({extent // factor}")
        text = text.replace(f"0:{name},", f"0:{extent},")
    if not gpu:
        text = re.sub(r', thread="[\w.]+"', "", text)
    text = text.replace("(N, C, H, W)", str(shape)).replace("BOX", box).replace("SCOPE", scope)
    text = text.replace("LOOP", "thread_binding" if gpu else "range")
    intrin = TensorIntrin(
        parse_func(DESCRIPTION.replace("BOX", box)),
        parse_func(IMPLEMENTATION.replace("SCOPE", scope).replace("CALL", call)),
    )
    func = tensorize(parse_func(text), "relu_a_shared", intrin)
    verify(func)
    return func


def test_the_texts_of_the_documents() -> None:
    func = relu((256, 256, 64, 64), OF_SEED)
    names = ", ".join(p.name for p in FROM_BLOCKS[:4])
    compact = Sequential(parse_passes(names, PASSES))(func)
    text = textwrap.dedent(to_text(compact))
    assert 'relu_a_shared = alloc((2, 2, 64, 64), int8, scope="shared")' in text
    assert 'compute_shared = alloc((2, 2, 64, 64), int8, scope="shared")' in text
    assert indented(BLOCK + MATCHES + "    " + OF_SEED) in text
    assert COMPUTE in text
    lowered = to_text(PASSES["LowerMatchBuffer"]()(compact))
    assert indented(BLOCK + BOUND) in lowered
    assert "match(" not in lowered and "match[" not in lowered


def test_a_store_through_the_shared_view() -> None:
    func = relu((256, 256, 64, 64), "shared_buff[1, 0, 2, 1] = int8(to)")
    text = to_text(Sequential(FROM_BLOCKS[:5])(func))
    at = "bx * 2 - bx * 2 + 1, by * 2 - by * 2, tx * 8 + 2, ty * 2 + 1"
    assert f"relu_a_shared[{at}] = int8(tx * 512 + ty * 2)" in text


def indented(text: str) -> str:
    """`text` as deep as the blocks of the kernel stand."""
    return textwrap.indent(text, " " * 28)


def copy_slice(
    target: Array, s0: int, s1: int, s2: int, source: Array, g0: int, g1: int, g2: int
) -> None:
    for n, c, h, w in np.ndindex(2, 2, 8, 2):
        target[n * s0 + c * s1 + h * s2 + w] = source[n * g0 + c * g1 + h * g2 + w]


@pytest.mark.parametrize("call", [RUNS, LOOPS], ids=["call", "loops"])
def test_it_runs_on_threads(call: str) -> None:
    interp.register_extern("test_relu.slice", copy_slice)
    func = relu((4, 4, 16, 8), call)
    a = np.random.default_rng(0).integers(-128, 128, (4, 4, 16, 8)).astype("int8")
    stages = [func, Sequential(FROM_BLOCKS)(func), Sequential(GPU_PIPELINE)(func)]
    for stage in stages:
        out = np.zeros_like(a)
        interp.run(stage, [a, out])
        np.testing.assert_array_equal(out, np.maximum(a, 0))
    text = to_text(stages[1])
    assert "relu_a_shared = allocate((512,)" in text
    if call is RUNS:
        assert "relu_a_shared, tx * 64 + ty * 2, 512, 2" in text
        assert "relu_a, bx * 1024 + by * 256 + tx * 64 + ty * 2, 1024, 1" in text


@pytest.mark.parametrize("call", [RUNS, LOOPS], ids=["call", "loops"])
def test_it_runs_on_a_cpu(call: str) -> None:
    int32, place = ctypes.c_int32, ctypes.POINTER(ctypes.c_int8)
    kind = ctypes.CFUNCTYPE(int32, place, int32, int32, int32, place, int32, int32, int32)

    def copy(target: Any, *rest: Any) -> int:
        copy_slice(target, *rest)
        return 0

    register_extern("test_relu.slice", kind(copy))
    flat = lower_func(relu((4, 4, 16, 8), call, gpu=False), cpu_target())
    a = np.random.default_rng(0).integers(-128, 128, (4, 4, 16, 8)).astype("int8")
    out = np.zeros_like(a)
    load(build_func(flat, cpu_target()))(a, out)
    np.testing.assert_array_equal(out, np.maximum(a, 0))
