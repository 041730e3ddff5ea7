"""A program of blocks on which every block pass has work to do, and the results of programs."""

from __future__ import annotations

import numpy as np

from autosched.tir import interp
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from kit.tir import value_of
from kit.types import Array

_ROWS = """
def main(A: Buffer((16, 32), float32), C: Buffer((16,), float32)):
    with block("root"):
        reads()
        writes()
        S = alloc((16, 32), float32, scope="SCOPE")
        for b in LOOP:
            for i in range(2):
                for j in range(4):
                    with block("S"):
                        vi = axis.data_par(0:8, b * 2 + i)
                        vj = axis.data_par(0:4, j)
                        reads(A[vi * 2:vi * 2 + 2, vj * 8:vj * 8 + 8])
                        writes(S[vi * 2:vi * 2 + 2, vj * 8:vj * 8 + 8])
                        annotations({"buffer_dim_align": [[0, 0, 32, 8]]})
                        M = match[at: int32](A[vi * 2:vi * 2 + 2, vj * 8:vj * 8 + 8], (2, 8), \
float32, strides=(32, 1), elem_offset=at)
                        for x in range(2):
                            for y in range(8):
                                S[vi * 2 + x, vj * 8 + y] = M[x, y] * float32(at + 1)
            for i2 in range(4):
                for k in range(32):
                    with block("C"):
                        vi2 = axis.data_par(0:16, b * 4 + i2)
                        vk = axis.reduce(0:32, k)
                        where(b * 4 + i2 < 15)
                        reads(S[vi2:vi2 + 1, vk:vk + 1])
                        writes(C[vi2:vi2 + 1])
                        with init():
                            C[vi2] = 0.0
                        C[vi2] = C[vi2] + S[vi2, vk]
"""


def sums_of_rows(gpu: bool) -> PrimFunc:
    """Copies rows tile by tile into a padded buffer and sums all rows but the last one."""
    loop = 'thread_binding(4, thread="blockIdx.x")' if gpu else "range(4)"
    return parse_func(_ROWS.replace("SCOPE", "shared" if gpu else "global").replace("LOOP", loop))


def outputs(func: PrimFunc) -> list[Array]:
    """The arrays of a function after it has run on the same small numbers as every time."""
    rng = np.random.default_rng(0)
    shapes = [[value_of(extent) for extent in b.shape] for b in func.buffers]
    arrays = [rng.integers(-4, 5, shape).astype(np.float32) for shape in shapes]
    interp.run(func, arrays)
    return arrays
