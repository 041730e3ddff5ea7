"""LowerVtcmAlloc: allocate tightly coupled memory at run time.

before:
    def main(A: Buffer((4,), float32)):
        V = allocate((2, 4), float32, "global.vtcm")
        W = allocate((8,), float32, "global")
        V[1, 2] = A[2]
        W[0] = V[1, 2]
        A[0] = W[0]
after:
    def main(A: Buffer((4,), float32)):
        V: pointer(float32, "global.vtcm") = nd_mem_alloc_with_scope("global.vtcm", int64(2),
                tvm_stack_make_shape(2, 4, dtype=handle))
        V = view(V, (2, 4), float32)
        W = allocate((8,), float32, "global")
        V[1, 2] = A[2]
        W[0] = V[1, 2]
        A[0] = W[0]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autosched.tir.dtype import handle, int64
from autosched.tir.expr import Call, StringImm
from autosched.tir.function import PrimFunc
from autosched.tir.op import const
from autosched.tir.stmt import Allocate, LetStmt, Stmt
from autosched.tir.walk import map_children
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.host.verify_vtcm_limit import SCOPE


@dataclass(frozen=True)
class LowerVtcmAlloc(FunctionPass):
    """Turn allocations in `global.vtcm`, and in scopes whose name contains this, into calls.

    LowerTVMBuiltin lowers these calls to functions of the device. Other memory stays.
    """

    name: ClassVar[str] = "LowerVtcmAlloc"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        return func.with_body(_lowered(func.body))


def _lowered(s: Stmt) -> Stmt:
    s = map_children(s, _lowered)
    if not isinstance(s, Allocate) or SCOPE not in s.buffer_var.scope:
        return s
    shape = Call(handle, "tvm_stack_make_shape", s.extents)
    args = (StringImm(s.buffer_var.scope), const(len(s.extents), int64), shape)
    return LetStmt(s.buffer_var, Call(handle, "nd_mem_alloc_with_scope", args), s.body)
