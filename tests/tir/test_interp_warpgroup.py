"""Which warps multiply together, in the lockstep run."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.tir import interp
from autosched.tir.interp_memory import WarpError
from autosched.tir.parser import parse_func

TEXT = """\
def main(A: Buffer((4096,), float16), D: Buffer((16384,), float32)):
    launch(blockIdx.x, 2)
    launch(threadIdx.x, {threads})
    C = allocate((1024,), float32, "wmma.accumulator")
    S = allocate((8192,), float16, "shared")
    for i in range(32):
        S[i * 128 + threadIdx.x % 128] = A[i * 128 + threadIdx.x % 128]
    tvm_storage_sync("shared")
    ptx_mma_fill(32, C, 0, dtype=float32)
    if {condition}:
        ptx_wgmma(64, "fp16", "fp16", "mk", "nk", C, 0, S, {place}, S, 0, 0, 0, 0, dtype=float32)
    for j in range(8):
        ptx_mma_store(D, (blockIdx.x * 2 + threadIdx.x // 128) * 4096
                + threadIdx.x % 128 // 32 * 1024 + j * 8, 64, C, j * 4, dtype=float32)
"""
ROWS = "threadIdx.x % 128 // 32 * 1024"


def products(
    threads: int = 256, condition: str = "blockIdx.x < 4", place: str = ROWS
) -> list[bool]:
    """Which warpgroups computed the product; the others have zeros."""
    func = parse_func(TEXT.format(threads=threads, condition=condition, place=place))
    a = np.random.default_rng(0).integers(-3, 4, 4096).astype(np.float16)
    d = np.full(16384, -1, np.float32)
    interp.run(func, [a, d])
    tile = a.reshape(64, 64).astype(np.float32)
    found = d.reshape(4, 64, 64)[[k for k in range(4) if k % 2 < threads // 128]]
    assert all((own == 0).all() or (own == tile @ tile.T).all() for own in found)
    return [bool(own.any()) for own in found]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("blockIdx.x < 4", [True] * 4),
        ("blockIdx.x < 1", [True, True, False, False]),
        ("threadIdx.x < 128", [True, False, True, False]),
    ],
)
def test_warpgroups_may_skip_a_product(condition: str, expected: list[bool]) -> None:
    assert products(condition=condition) == expected


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"condition": "threadIdx.x < 96"}, "not all of them run"),
        ({"condition": "threadIdx.x % 2 < 1"}, "not all of them run"),
        ({"threads": 96}, "not all of them run"),
        ({"place": "threadIdx.x // 64 * 1024"}, "they must agree"),
        ({"place": f"{ROWS} + 64"}, "begins at a multiple of 1024 bytes"),
    ],
)
def test_what_four_warps_cannot_do(more: dict[str, object], message: str) -> None:
    with pytest.raises(WarpError, match=message):
        products(**more)  # type: ignore[arg-type]  # each a keyword of its type
