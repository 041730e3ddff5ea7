"""Matrix products of one warp, hand-written in TIR after cuda.md, with explicit lane layouts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from autosched.tir.dtype import DType
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from kit.types import Array

G, T = "threadIdx.x // 4", "threadIdx.x % 4"


class Kernel(NamedTuple):
    """C (m, n) = A (m, k) B (k, n) of one warp, with the types of A, B and the result."""

    text: str
    m: int
    n: int
    k: int
    left: str
    right: str
    result: str

    @property
    def func(self) -> PrimFunc:
        return parse_func(self.text)

    def arguments(self, seed: int = 0) -> tuple[list[Array], Array]:
        """Arrays of small integers for A and B, zeros for C, and the expected product."""
        rng = np.random.default_rng(seed)
        left, right, result = (DType(t).numpy for t in (self.left, self.right, self.result))
        # As unsigned bytes, negative numbers have the sign bit set, so that signed reading would
        # differ.
        a = rng.integers(-8, 9, (self.m, self.k)).astype(left)
        b = rng.integers(-8, 9, (self.k, self.n)).astype(right)
        want: Array = (a.astype(np.int64) @ b.astype(np.int64)).astype(result).reshape(-1)
        empty: Any = np.zeros(self.m * self.n, result)
        return [a.reshape(-1), b.reshape(-1), empty], want


def _mma(
    shape: tuple[int, int, int], types: str, left: str, right: str, result: str, *maps: str
) -> Kernel:
    """A product whose lanes copy each of their values by the formulas of the PTX tables."""
    m, n, k = shape
    (a_count, a_row, a_column), (b_count, b_row, b_column) = (x.split("; ") for x in maps)
    zero = "0" if result == "int32" else "0.0"
    buffers = (("A", m * k, left), ("B", k * n, right), ("C", m * n, result))
    head = ", ".join(f"{name}: Buffer(({size},), {kind})" for name, size, kind in buffers)
    text = f"""\
def main({head}):
    launch(threadIdx.x, 32)
    a = allocate(({a_count},), {left}, "local")
    b = allocate(({b_count},), {right}, "local")
    c = allocate((4,), {result}, "local")
    for i in unrolled({a_count}):
        a[i] = A[({G} + {a_row}) * {k} + {a_column}]
    for i in unrolled({b_count}):
        b[i] = B[({b_row}) * {n} + {b_column}]
    for i in unrolled(4):
        c[i] = {zero}
    ptx_mma("m{m}n{n}k{k}", "row", "col", {types}, a, 0, b, 0, c, 0, 0, dtype={result})
    for i in unrolled(4):
        C[({G} + i // 2 * 8) * {n} + {T} * 2 + i % 2] = c[i]
"""
    return Kernel(text, m, n, k, left, right, result)


def _sixteen(short: str, name: str) -> Kernel:
    types = f'"{short}", "{short}", "fp32"'
    a = f"8; i // 2 % 2 * 8; {T} * 2 + i % 2 + i // 4 * 8"
    b = f"4; {T} * 2 + i % 2 + i // 2 * 8; {G}"
    return _mma((16, 8, 16), types, name, name, "float32", a, b)


def _bytes(left: str, right: str) -> Kernel:
    a = f"16; i // 4 % 2 * 8; {T} * 4 + i % 4 + i // 8 * 16"
    b = f"8; {T} * 4 + i % 4 + i // 4 * 16; {G}"
    types = f'"{left}", "{right}", "int32"'
    return _mma((16, 8, 32), types, left, right, "int32", a, b)


MMA: dict[str, Kernel] = {
    "float16": _sixteen("fp16", "float16"),
    "bfloat16": _sixteen("bf16", "bfloat16"),
    "tf32": _mma(
        (16, 8, 8),
        '"tf32", "tf32", "fp32"',
        "float32",
        "float32",
        "float32",
        f"4; i % 2 * 8; {T} + i // 2 * 4",
        f"2; {T} + i * 4; {G}",
    ),
    "int8": _bytes("int8", "int8"),
    "uint8 and int8": _bytes("uint8", "int8"),
    "int8 and uint8": _bytes("int8", "uint8"),
    "uint8": _bytes("uint8", "uint8"),
}


def ldmatrix(a_loads: int = 4, b_loads: int = 2) -> Kernel:
    """The product of 16-bit floats with operands loaded from shared memory by ldmatrix.

    `a_loads` and `b_loads` are the matrices of one load: A as it lies in memory, B by columns.
    """
    lane = "threadIdx.x"
    a_place = f"({lane} % 16) * 16 + {lane} // 16 * 8"
    if a_loads == 2:
        a_place = f"({lane} % 16) * 16 + j * 8"
    b_place = f"({lane} % 16) * 8" if b_loads == 2 else f"(j * 8 + {lane} % 8) * 8"
    b_loaded = f'1, {b_loads}, ".b16", b, j * {2 * b_loads}'
    text = f"""\
def main(A: Buffer((256,), float16), B: Buffer((128,), float16), C: Buffer((128,), float32)):
    launch(threadIdx.x, 32)
    S = allocate((256,), float16, "shared")
    R = allocate((128,), float16, "shared")
    a = allocate((8,), float16, "local")
    b = allocate((4,), float16, "local")
    c = allocate((4,), float32, "local")
    S[{lane} * 8:{lane} * 8 + 8] = A[{lane} * 8:{lane} * 8 + 8]
    R[{lane} * 4:{lane} * 4 + 4] = B[{lane} * 4:{lane} * 4 + 4]
    tvm_storage_sync("shared")
    for j in unrolled({4 // a_loads}):
        ptx_ldmatrix(0, {a_loads}, ".b16", a, j * {2 * a_loads}, S, {a_place}, dtype=float16)
    for j in unrolled({2 // b_loads}):
        ptx_ldmatrix({b_loaded}, address_of(R[0]), {b_place}, dtype=float16)
    for i in unrolled(4):
        c[i] = 0.0
    ptx_mma("m16n8k16", "row", "col", "fp16", "fp16", "fp32", a, 0, b, 0, c, 0, 0, dtype=float32)
    for i in unrolled(4):
        C[({G} + i // 2 * 8) * 8 + {T} * 2 + i % 2] = c[i]
"""
    return Kernel(text, 16, 8, 16, "float16", "float16", "float32")


def fragments(a: str = "row_major", b: str = "row_major", c: str = "row_major") -> Kernel:
    """A product of 16 x 32 x 16 by two fragments of each operand, with these array layouts."""
    a_at, a_step = ("k * 16", 32) if a == "row_major" else ("k * 256", 16)
    b_at, b_step = ("k * 256", 16) if b == "row_major" else ("k * 16", 32)
    text = f"""\
def main(A: Buffer((512,), bfloat16), B: Buffer((512,), bfloat16), C: Buffer((256,), float32)):
    launch(threadIdx.x, 32)
    a = allocate((512,), bfloat16, "wmma.matrix_a")
    b = allocate((512,), bfloat16, "wmma.matrix_b")
    c = allocate((256,), float32, "wmma.accumulator")
    tvm_fill_fragment(c, 16, 16, 16, 0, 0.0, dtype=handle)
    for k in unrolled(2):
        tvm_load_matrix_sync(a, 16, 16, 16, k, address_of(A[{a_at}]), {a_step}, "{a}", dtype=handle)
        tvm_load_matrix_sync(b, 16, 16, 16, k, address_of(B[{b_at}]), {b_step}, "{b}", dtype=handle)
        tvm_mma_sync(c, 0, a, k, b, k, c, 0, dtype=handle)
    tvm_store_matrix_sync(c, 16, 16, 16, 0, address_of(C[0]), 16, "{c}", dtype=handle)
"""
    return Kernel(text, 16, 16, 32, "bfloat16", "bfloat16", "float32")
