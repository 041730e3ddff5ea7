"""Whether a vector access goes to an address that is a multiple of its size.

A GPU refuses other addresses (CUDA error 716, misaligned address). Passes, code generation and
checks share this one function.
"""

from __future__ import annotations

from autosched.arith import Analyzer
from autosched.tir.buffer import Buffer
from autosched.tir.expr import Call, Expr, IntImm, Ramp
from autosched.tir.op import add, const, floordiv, floormod
from autosched.tir.walk import rewrite_expr

WIDEST = 16
"""The size in bytes of the widest access, and the alignment of parameters and shared memory."""


def is_aligned(buffer: Buffer, index: Expr, analyzer: Analyzer | None = None) -> bool:
    """True if the elements `index` (a ramp) of `buffer` are one aligned access of a GPU.

    The access must have 2, 4, 8 or 16 bytes and consecutive elements, and start at a multiple of
    its size for every value of the variables. `analyzer` may know more about the variables.
    """
    if not isinstance(index, Ramp) or not isinstance(index.stride, IntImm):
        return False
    size = index.lanes * buffer.dtype.bytes
    if index.stride.value != 1 or buffer.dtype.lanes != 1 or size > WIDEST or size & (size - 1):
        return False
    if buffer.data_alignment < size or buffer.strides:
        return False
    base = index.base if buffer.elem_offset is None else add(index.base, buffer.elem_offset)
    known = (analyzer or Analyzer()).modular_set(rewrite_expr(base, as_division))
    return known.coeff % index.lanes == 0 and known.base % index.lanes == 0


def as_division(e: Expr) -> Expr | None:
    """Rewrite a shift or mask as a division or remainder, for which the analyzer knows residues.

    None for any other expression, and if the type cannot represent the divisor.
    """
    match e:
        case Call(op="shift_right", args=(value, IntImm(value=count))):
            known = 0 <= count < e.dtype.bits - 1
            return floordiv(value, const(1 << count, e.dtype)) if known else None
        case Call(op="bitwise_and", args=(value, IntImm(value=mask))) if not mask & (mask + 1):
            known = 0 < mask < e.dtype.max_value
            return floormod(value, const(mask + 1, e.dtype)) if known else None
    return None
