"""FP8ComputeLegalize: compute in float16 or float32 and use 8-bit floats only for storage.

before:
    def main(A: Buffer((100,), float8_e5m2), B: Buffer((100,), float8_e5m2),
            D: Buffer((100,), float8_e5m2)):
        attrs(target={"kind": "cuda", "arch": "sm_80"})
        C = allocate((100,), float8_e5m2, "global")
        for i in range(100):
            C[i] = A[i] + B[i]
            D[i] = exp(C[i])
after FP8ComputeLegalize{nan_safe=False}:
    def main(A: Buffer((100,), float8_e5m2), B: Buffer((100,), float8_e5m2), D: Buffer((100,),
            float8_e5m2)):
        attrs(target={"kind": "cuda", "arch": "sm_80"})
        C = allocate((100,), float16, "global")
        for i in range(100):
            C[i] = reinterpret(shift_left(uint16(reinterpret(A[i], dtype=uint8)), uint16(8)),
                    dtype=float16) + reinterpret(shift_left(uint16(reinterpret(B[i], dtype=uint8)),
                    uint16(8)), dtype=float16)
            D[i] = reinterpret(uint8(shift_right(reinterpret(exp(C[i]), dtype=uint16) +
                    (bitwise_and(shift_right(reinterpret(exp(C[i]), dtype=uint16), uint16(8)),
                    uint16(1)) + uint16(127)), uint16(8))), dtype=float8_e5m2)

The short form is wrong for NaN and computes exp twice; the default form is right:

before:
    def main(A: Buffer((100,), float8_e5m2), D: Buffer((100,), float8_e5m2)):
        attrs(target="cpu")
        for i in range(100):
            D[i] = exp(A[i])
after:
    def main(A: Buffer((100,), float8_e5m2), D: Buffer((100,), float8_e5m2)):
        attrs(target="cpu")
        for i in range(100):
            D[i] = let bits = reinterpret(exp(reinterpret(shift_left(uint16(reinterpret(A[i],
                    dtype=uint8)), uint16(8)), dtype=float16)),
                    dtype=uint16) in reinterpret(uint8(Select(bitwise_and(bits, uint16(32767)) >
                    uint16(31744), bitwise_or(bitwise_and(shift_right(bits, uint16(8)),
                    uint16(128)), uint16(126)), shift_right(bits + (bitwise_and(shift_right(bits,
                    uint16(8)), uint16(1)) + uint16(127)), uint16(8)))), dtype=float8_e5m2)
after FP8ComputeLegalize{promote="float32", explicit=False}:
    def main(A: Buffer((100,), float8_e5m2), D: Buffer((100,), float8_e5m2)):
        attrs(target="cpu")
        for i in range(100):
            D[i] = float8_e5m2(exp(float32(A[i])))

For GPUs of compute capability 8.9 and later, which have 8-bit floats, casts stay casts; the code
generator writes the conversions (codegen/cuda_float8.py):

before:
    def main(A: Buffer((100,), float8_e5m2), D: Buffer((100,), float8_e5m2)):
        attrs(target={"kind": "cuda", "arch": "sm_89"})
        for i in range(100):
            D[i] = exp(A[i])
unchanged:
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autosched.errors import ConfigError
from autosched.tir.dtype import DType
from autosched.tir.function import PrimFunc
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.low_precision.compute_legalize import (
    Conversions,
    Legalizer,
    mentions,
    promotable,
)
from autosched.transform.low_precision.native import FLOAT8, is_native, require_target


def is_float8(dtype: DType) -> bool:
    """True for float8_e4m3fn, float8_e5m2 and vectors of them."""
    return dtype.is_float8


@dataclass(frozen=True)
class FP8ComputeLegalize(FunctionPass):
    """Compute 8-bit floats in `promote` (float16 or float32).

    Internal buffers of constant size become `promote` unless their address is passed on; with
    `scopes`, only those in such storage, and computed values on which a comparison or a rounding to
    a whole number depends. Parameters keep their type. Copies are not converted. A cast to an 8-bit
    float in the program rounds once: a float32 is rounded from its own bits, not through float16.
    With `explicit`, conversions are operations on bits, else casts; `saturate` and `nan_safe` are
    those of `tir/float_bits.py`. A function for a GPU with conversion instructions stays as it is.
    `kind` is the target of functions without a target. Raises ConfigError for a function without
    either, and for another type to promote to.
    """

    name: ClassVar[str] = "FP8ComputeLegalize"
    promote: str = "float16"
    explicit: bool = True
    nan_safe: bool = True
    saturate: bool = False
    scopes: tuple[str, ...] = ()
    kind: str = ""

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        require_target(self.name, func, self.kind)
        if self.promote not in ("float16", "float32"):
            raise ConfigError(
                f"{self.name}: promote is {self.promote!r}, expected float16 or float32"
            )
        if is_native(func, FLOAT8, self.kind) or not mentions(func, is_float8):
            return func
        wide = DType(self.promote)
        convert = Conversions(wide, self.explicit, self.nan_safe, self.saturate)
        promoted = promotable(func, is_float8, self.scopes)
        return func.with_body(Legalizer(is_float8, convert, promoted).stmt(func.body))
