"""BF16ComputeLegalize: compute in float32 and use bfloat16 only for storage.

before:
    def main(A: Buffer((8,), bfloat16), B: Buffer((8,), bfloat16), C: Buffer((8,), bfloat16)):
        for i in range(8):
            C[i] = A[i] + B[i]
after:
    def main(A: Buffer((8,), bfloat16), B: Buffer((8,), bfloat16), C: Buffer((8,), bfloat16)):
        for i in range(8):
            C[i] = let bits = reinterpret(reinterpret(shift_left(uint32(reinterpret(A[i],
                    dtype=uint16)), uint32(16)), dtype=float32) +
                    reinterpret(shift_left(uint32(reinterpret(B[i], dtype=uint16)), uint32(16)),
                    dtype=float32), dtype=uint32) in reinterpret(uint16(Select(bitwise_and(bits,
                    uint32(2147483647)) > uint32(2139095040),
                    bitwise_or(bitwise_and(shift_right(bits, uint32(16)), uint32(32768)),
                    uint32(32704)), shift_right(bits + (bitwise_and(shift_right(bits, uint32(16)),
                    uint32(1)) + uint32(32767)), uint32(16)))), dtype=bfloat16)
after BF16ComputeLegalize{explicit=False}:
    def main(A: Buffer((8,), bfloat16), B: Buffer((8,), bfloat16), C: Buffer((8,), bfloat16)):
        for i in range(8):
            C[i] = bfloat16(float32(A[i]) + float32(B[i]))

TVM's output is shorter, but wrong for NaN:

before:
    def main(A: Buffer((8,), float32), B: Buffer((8,), bfloat16)):
        for i in range(8):
            B[i] = bfloat16(A[i])
after BF16ComputeLegalize{nan_safe=False}:
    def main(A: Buffer((8,), float32), B: Buffer((8,), bfloat16)):
        for i in range(8):
            B[i] = reinterpret(uint16(shift_right(reinterpret(A[i], dtype=uint32) +
                    (bitwise_and(shift_right(reinterpret(A[i], dtype=uint32), uint32(16)),
                    uint32(1)) + uint32(32767)), uint32(16))), dtype=bfloat16)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autosched.tir.dtype import DType, float32
from autosched.tir.function import PrimFunc
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.low_precision.compute_legalize import (
    Conversions,
    Legalizer,
    mentions,
    promotable,
)


def is_bfloat16(dtype: DType) -> bool:
    """True for bfloat16 and vectors of it."""
    return dtype.code == "bfloat"


@dataclass(frozen=True)
class BF16ComputeLegalize(FunctionPass):
    """Compute bfloat16 operators, calls, comparisons, constants and variables in float32.

    Internal buffers of constant size become float32 unless their address is passed on; with
    `scopes`, only those in such storage, and computed values on which a comparison or a rounding to
    a whole number depends. Parameters keep their type. Copies are not converted, and a cast to
    bfloat16 in the program rounds once. With `explicit`, conversions are operations on bits;
    without it, they stay casts, for which code generators emit equal conversions.
    `nan_safe=False` gives TVM's output, which is wrong for NaN (`tir/float_bits.py`).
    """

    name: ClassVar[str] = "BF16ComputeLegalize"
    explicit: bool = True
    nan_safe: bool = True
    scopes: tuple[str, ...] = ()

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if not mentions(func, is_bfloat16):
            return func
        convert = Conversions(float32, self.explicit, self.nan_safe)
        promoted = promotable(func, is_bfloat16, self.scopes)
        return func.with_body(Legalizer(is_bfloat16, convert, promoted).stmt(func.body))
