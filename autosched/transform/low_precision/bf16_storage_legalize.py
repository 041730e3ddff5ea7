"""BF16StorageLegalize: store bfloat16 as the unsigned integer of its bits.

before:
    def main(A: pointer(bfloat16), D: pointer(bfloat16)):
        attrs(target={"kind": "cuda", "arch": "sm_75"})
        A_1 = view(A, (100,), bfloat16)
        D_1 = view(D, (100,), bfloat16)
        C = allocate((100,), bfloat16, "shared")
        for i in range(100):
            C[i] = A_1[i]
            D_1[i] = reinterpret(bitwise_and(reinterpret(C[i], dtype=uint16), uint16(32767)),
                    dtype=bfloat16)
after:
    def main(A: pointer(uint16), D: pointer(uint16)):
        attrs(target={"kind": "cuda", "arch": "sm_75"})
        A_1 = view(A, (100,), uint16)
        D_1 = view(D, (100,), uint16)
        C = allocate((100,), uint16, "shared")
        for i in range(100):
            C[i] = A_1[i]
            D_1[i] = bitwise_and(C[i], uint16(32767))

GPUs of compute capability 8.0 and later have bfloat16:

before:
    def main(A: Buffer((100,), bfloat16), D: Buffer((100,), bfloat16)):
        attrs(target={"kind": "cuda", "arch": "sm_86"})
        for i in range(100):
            D[i] = A[i]
unchanged:
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autosched.tir.function import PrimFunc
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.low_precision.bf16_compute_legalize import (
    BF16ComputeLegalize,
    is_bfloat16,
)
from autosched.transform.low_precision.native import BFLOAT16, is_native
from autosched.transform.low_precision.storage_legalize import store_as_bits


@dataclass(frozen=True)
class BF16StorageLegalize(FunctionPass):
    """Turn bfloat16 pointers, allocations, buffers, variables and constants into uint16.

    Names and storage scopes stay. `reinterpret` between the type and its bits is removed; remaining
    casts become operations on bits. With `keep_parameters` parameters keep their type. With
    `respect_native` a function for a GPU that has bfloat16 stays as it is. Raises CompileError for
    buffers among the parameters, and for arithmetic in bfloat16, which BF16ComputeLegalize removes.
    """

    name: ClassVar[str] = "BF16StorageLegalize"
    keep_parameters: bool = False
    respect_native: bool = True

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if self.respect_native and is_native(func, BFLOAT16):
            return func
        compute = BF16ComputeLegalize.name
        return store_as_bits(self.name, compute, func, is_bfloat16, self.keep_parameters)
