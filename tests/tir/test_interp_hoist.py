"""Indices that come apart into a part of the threads and a shared one mean what they meant."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.tir import interp
from autosched.tir.interp_memory import AccessError
from autosched.tir.interp_watch import Watch
from autosched.tir.parser import parse_func

HEAD = """\
def main(A: Buffer((512,), float32), B: Buffer((64,), float32), n: int32):
    V = view(A, (512,), float32)
    launch(blockIdx.x, 2)
    launch(threadIdx.x, 32)
    S = allocate((64,), float32, "shared")
    L = allocate((4,), float32, "local")
    for k in range(4):
        L[k] = 1.0
    for k in range(2):
        S[threadIdx.x * 2 + k] = A[threadIdx.x * 2 + k]
    tvm_storage_sync("shared")
    for k in range(3):
"""

INDICES = {
    "A[threadIdx.x * 8 + k * 3 + blockIdx.x + 5]": lambda t, b, k, n: t * 8 + k * 3 + b + 5,
    "A[(threadIdx.x + k) * 4 - k * n]": lambda t, b, k, n: (t + k) * 4 - k * n,
    "A[bitwise_and(threadIdx.x, 7) * 16 + shift_right(threadIdx.x, 3) + n]": (
        lambda t, b, k, n: (t & 7) * 16 + (t >> 3) + n
    ),
    "A[truncdiv(threadIdx.x, 3) * 7 + truncmod(threadIdx.x, 3) * 2 + k]": (
        lambda t, b, k, n: t // 3 * 7 + t % 3 * 2 + k
    ),
    "A[truncmod(threadIdx.x + k, 5) + threadIdx.x]": lambda t, b, k, n: (t + k) % 5 + t,
    "V[threadIdx.x * 8 + k * 100]": lambda t, b, k, n: t * 8 + k * 100,
    "S[threadIdx.x + k * 2 + blockIdx.x]": lambda t, b, k, n: t + k * 2 + b,
    "S[63 - threadIdx.x - k]": lambda t, b, k, n: 63 - t - k,
    "L[(threadIdx.x + k) % 4] * A[threadIdx.x]": lambda t, b, k, n: t,
}


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("text", sorted(INDICES))
def test_loads_are_those_of_their_indices(text: str, watched: bool) -> None:
    func = parse_func(HEAD + f"        B[blockIdx.x * 32 + threadIdx.x] = {text}\n")
    a, b = np.arange(512, dtype=np.float32), np.zeros(64, np.float32)
    interp.run(func, [a, b, 2], watch=Watch() if watched else None)
    wanted = [INDICES[text](t, blk, 2, 2) for blk in range(2) for t in range(32)]
    assert b.tolist() == wanted


@pytest.mark.parametrize("name", ["A", "V"])
@pytest.mark.parametrize("index", ["threadIdx.x * 17", "threadIdx.x + k * 250", "threadIdx.x - k"])
def test_bounds_are_still_checked(name: str, index: str) -> None:
    func = parse_func(HEAD + f"        B[blockIdx.x * 32 + threadIdx.x] = {name}[{index}]\n")
    with pytest.raises(AccessError, match=r"out of bounds: A, (flat )?index"):
        interp.run(func, [np.zeros(512, np.float32), np.zeros(64, np.float32), 2])


def test_a_guarded_access_reads_nothing_outside() -> None:
    guarded = "if threadIdx.x + k * 240 < 512:\n"
    store = "    B[blockIdx.x * 32 + threadIdx.x] = A[threadIdx.x + k * 240]\n"
    func = parse_func(HEAD + f"        {guarded}        {store}")
    a, b = np.arange(512, dtype=np.float32), np.zeros(64, np.float32)
    interp.run(func, [a, b, 2])
    assert b[:32].tolist() == [t + 480 for t in range(32)]


VECTORS = {
    "V[ramp(threadIdx.x * 8 + k * 2, 3, 4)]": lambda t, lane: t * 8 + 4 + lane * 3,
    "V[broadcast(threadIdx.x + k, 4) + ramp(0, 1, 4) % broadcast(2, 4) * broadcast(9, 4)]": (
        lambda t, lane: t + 2 + lane % 2 * 9
    ),
    "S[ramp(k * 4, 2, 4)]": lambda t, lane: 8 + lane * 2,
    "S[ramp(63 - threadIdx.x, -1, 4)]": lambda t, lane: 63 - t - lane,
    "V[ramp(k, 1, 4)] * broadcast(V[threadIdx.x], 4)": lambda t, lane: (2 + lane) * t,
}


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("text", sorted(VECTORS))
def test_vectors_come_apart_too(text: str, watched: bool) -> None:
    store = f"        L[ramp(0, 1, 4)] = {text}\n        for j in range(4):\n"
    each = "            B[blockIdx.x * 32 + threadIdx.x // 4 * 4 + j] = "
    whose = "if_then_else(threadIdx.x % 4 == 0, L[j], 0.0)\n"
    head, tail = (HEAD + store + each + whose).rsplit("            B[", 1)
    func = parse_func(head + "            if threadIdx.x % 4 == 0:\n                B[" + tail)
    a, b = np.arange(512, dtype=np.float32), np.zeros(64, np.float32)
    watch = Watch(is_vector=lambda buffer, index: False) if watched else None
    interp.run(func, [a, b, 2], watch=watch)
    wanted = [VECTORS[text](t // 4 * 4, t % 4) for _ in range(2) for t in range(32)]
    assert b.tolist() == wanted


@pytest.mark.parametrize("base", ["1", "k", "k - 1"])
def test_a_vector_beyond_local_memory_is_refused(base: str) -> None:
    func = parse_func(HEAD + f"        L[ramp({base}, 1, 4)] = broadcast(0.0, 4)\n")
    with pytest.raises(AccessError, match="out of bounds: L, flat index"):
        interp.run(func, [np.zeros(512, np.float32), np.zeros(64, np.float32), 2])


def test_vectors_that_are_loaded_stay_where_they_are() -> None:
    """They are the same for all threads, but neither for all lanes nor for all iterations."""
    index = "min(max(I[0:4], broadcast(0, 4)), broadcast(7, 4)) * broadcast(8, 4)"
    index += " + broadcast(threadIdx.x, 4)"
    func = parse_func(
        f"""\
def main(A: Buffer((64,), float32), I: Buffer((8,), int32), B: Buffer((64,), float32)):
    launch(threadIdx.x, 8)
    for k in range(2):
        B[ramp(threadIdx.x * 8 + k * 4, 1, 4)] = A[{index}]
        I[threadIdx.x] = 7 - k
"""
    )
    a, b = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    i = np.array([3, 1, 4, 0, 5, 2, 6, 7], np.int32)
    interp.run(func, [a, i.copy(), b])
    rows = np.array([3, 1, 4, 0, 7, 7, 7, 7])
    np.testing.assert_array_equal(b.reshape(8, 8), rows * 8 + np.arange(8)[:, None])
