"""FP8StorageLegalize: store 8-bit floats as the bytes of their bits.

before:
    def main(A: pointer(float8_e5m2), D: pointer(float8_e5m2)):
        attrs(target={"kind": "cuda", "arch": "sm_80"})
        A_1 = view(A, (100,), float8_e5m2)
        D_1 = view(D, (100,), float8_e5m2)
        C = allocate((100,), float8_e5m2, "shared")
        for i in range(100):
            C[i] = A_1[i]
            D_1[i] = reinterpret(bitwise_and(reinterpret(C[i], dtype=uint8), uint8(127)),
                    dtype=float8_e5m2)
after:
    def main(A: pointer(uint8), D: pointer(uint8)):
        attrs(target={"kind": "cuda", "arch": "sm_80"})
        A_1 = view(A, (100,), uint8)
        D_1 = view(D, (100,), uint8)
        C = allocate((100,), uint8, "shared")
        for i in range(100):
            C[i] = A_1[i]
            D_1[i] = bitwise_and(C[i], uint8(127))

Callers see the type of parameter buffers: MakePackedAPI removes these, or they keep their type:

before:
    def main(A: Buffer((100,), float8_e5m2), D: Buffer((100,), float8_e5m2)):
        attrs(target="cpu")
        C = allocate((100,), float8_e5m2, "global")
        for i in range(100):
            C[i] = A[i]
            D[i] = C[i]
after FP8StorageLegalize{keep_parameters=True}:
    def main(A: Buffer((100,), float8_e5m2), D: Buffer((100,), float8_e5m2)):
        attrs(target="cpu")
        C = allocate((100,), uint8, "global")
        for i in range(100):
            C[i] = reinterpret(A[i], dtype=uint8)
            D[i] = reinterpret(C[i], dtype=float8_e5m2)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autosched.tir.function import PrimFunc
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.low_precision.fp8_compute_legalize import FP8ComputeLegalize, is_float8
from autosched.transform.low_precision.native import FLOAT8, is_native, require_target
from autosched.transform.low_precision.storage_legalize import store_as_bits


@dataclass(frozen=True)
class FP8StorageLegalize(FunctionPass):
    """Turn pointers, allocations, buffers, variables and constants of 8-bit floats into uint8.

    Names and storage scopes stay. `reinterpret` between a type and its bits is removed; remaining
    casts become operations on bits. With `keep_parameters` parameters keep their type. A function
    for a GPU with 8-bit floats stays as it is. `kind` is the target of functions without a target.
    Raises ConfigError for a function without either; CompileError for buffers among the parameters,
    and for arithmetic in such a type, which FP8ComputeLegalize removes.
    """

    name: ClassVar[str] = "FP8StorageLegalize"
    keep_parameters: bool = False
    kind: str = ""

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        require_target(self.name, func, self.kind)
        if is_native(func, FLOAT8, self.kind):
            return func
        compute = FP8ComputeLegalize.name
        return store_as_bits(self.name, compute, func, is_float8, self.keep_parameters)
