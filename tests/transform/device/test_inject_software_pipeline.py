"""Pipelined loops compute the same, with one barrier, and the lockstep run sees a missing wait."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.errors import ScheduleError
from autosched.referee.static_checks import prove
from autosched.tir import interp
from autosched.tir.function import PrimFunc
from autosched.tir.interp_memory import InterpreterError
from autosched.tir.interp_watch import Watch
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text
from autosched.transform.device.inject_ptx_async_copy import InjectPTXAsyncCopy
from autosched.transform.device.inject_software_pipeline import InjectSoftwarePipeline
from autosched.transform.device.thread_sync import ThreadSync
from autosched.transform.expressions.simplify import Simplify
from autosched.transform.framework.passes import Sequential

TEXT = """\
def main(A: Buffer((1024,), float32), B: Buffer((1024,), float32), C: Buffer((1024,), float32)):
    launch(threadIdx.x, 64)
    pragma(None, "software_pipeline", {stages})
    for k in range({n}):
        S = allocate((64,), float32, "shared")
        S[threadIdx.x] = A[k * 64 + threadIdx.x]
        T = allocate((64,), float32, "shared")
        T[threadIdx.x] = if_then_else(k < 5, B[k * 64 + threadIdx.x], 0.0)
        C[k * 64 + threadIdx.x] = S[63 - threadIdx.x] + T[(threadIdx.x + 32) % 64]
"""
PASSES = Sequential(
    (InjectSoftwarePipeline(), Simplify(), ThreadSync("shared"), InjectPTXAsyncCopy(True)), "all"
)


def run(func: PrimFunc, n: int) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 9, 1024).astype(np.float32) for _ in "ab")
    c = np.zeros(1024, np.float32)
    interp.run(func, [a, b, c], watch=Watch(outputs={"C"}))
    left, right = a.reshape(16, 64)[:n, ::-1], np.roll(b.reshape(16, 64)[:n], -32, 1)
    want = left + right * (np.arange(n) < 5)[:, None]
    np.testing.assert_array_equal(c.reshape(16, 64)[:n], want)


@pytest.mark.parametrize(("stages", "n"), [(2, 8), (3, 7), (4, 16), (4, 2), (3, 1), (1, 3)])
def test_the_same_with_one_barrier(stages: int, n: int) -> None:
    func = PASSES(parse_func(TEXT.format(stages=stages, n=n)))
    run(func, n)
    text = to_text(func)
    assert "pragma" not in text
    used = min(stages, n)
    if used > 1:
        assert text.count("tvm_storage_sync") == 1
        assert f"ptx_wait_group({used - 2})" in text and text.count("ptx_cp_async") == 4
        assert f"S = allocate(({64 * used},)" in text
    assert not [p for p in prove(func) if p.trouble and "barrier" in p.question]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ptx_wait_group(1)", "ptx_wait_group(2)"),
        ('        tvm_storage_sync("shared")\n', ""),
        ("(k + 2) % 3", "(k + 1) % 3"),
        ("S[k % 3 * 64", "S[k % 2 * 64"),
    ],
    ids=["one group fewer", "no barrier", "the next slot", "two slots of three"],
)
def test_faults_are_found(old: str, new: str) -> None:
    text = to_text(PASSES(parse_func(TEXT.format(stages=3, n=8))))
    assert old in text
    with pytest.raises((InterpreterError, AssertionError)):
        run(parse_func(text.replace(old, new)), 8)


REFUSED = {
    "no stages": ('pipeline", 2', 'pipeline", 0', "at least 1, found 0"),
    "a parallel loop": ("range(8)", "parallel(8)", "is parallel, only a serial one"),
    "a loop that starts later": ("range(8)", "range(1, 8)", "must run from 0"),
    "nothing shared": ('"shared"', '"local"', "must fill tiles"),
    "a fill that reads a tile": ("B[k * 64 + threadIdx.x]", "S[threadIdx.x]", "before all are"),
    "a fill with what the loop stores": (
        "= A[k",
        "= C[k",
        "must not fill tiles with what it stores",
    ),
    "a fill that keeps what is used": (
        "        T[threadIdx.x] = if_then_else(k < 5, B[k * 64 + threadIdx.x], 0.0)\n",
        """\
        for i in range(2):
            B[threadIdx.x] = A[k + i]
            T[threadIdx.x] = B[threadIdx.x]
        C[0] = B[0]
""",
        "must not use what it stores besides",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    old, new, message = REFUSED[case]
    text = TEXT.format(stages=2, n=8)
    assert old in text
    with pytest.raises(ScheduleError, match=message):
        InjectSoftwarePipeline()(parse_func(text.replace(old, new)))


SUMS_IN_THE_LOOP = """\
def main(A: Buffer((32768,), float16), D: Buffer((32768,), float32)):
    launch(threadIdx.x, 128)
    C = allocate((1024,), float32, "wmma.accumulator")
    T = allocate((4096,), float16, "shared")
    for i in range(32):
        T[i * 128 + threadIdx.x] = A[i * 128 + threadIdx.x]
    pragma(None, "software_pipeline", 3)
    for k in range(8):
        S = allocate((4096,), float16, "shared")
        for i in range(32):
            S[i * 128 + threadIdx.x] = A[k * 4096 + i * 128 + threadIdx.x]
        ptx_mma_fill(32, C, 0, dtype=float32)
        ptx_wgmma(64, "fp16", "fp16", "mk", "nk", C, 0, S, threadIdx.x // 32 * 1024, T, 0, 0, 0, 0,
                dtype=float32)
        for j in range(8):
            ptx_mma_store(D, k * 4096 + threadIdx.x // 32 * 1024 + j * 8, 64, C, j * 4,
                    dtype=float32)
"""


def test_products_whose_sums_the_loop_uses_are_waited_for() -> None:
    func = PASSES(parse_func(SUMS_IN_THE_LOOP))
    a = np.random.default_rng(0).integers(-3, 4, 32768).astype(np.float16)
    d = np.zeros(32768, np.float32)
    interp.run(func, [a, d], watch=Watch(outputs={"D"}))
    tiles = a.reshape(8, 64, 64).astype(np.float32)
    np.testing.assert_array_equal(d.reshape(8, 64, 64), tiles @ tiles[0].T)
