"""LowerInitBlock: move the initialisation of a block to the front of its body.

before:
    def main(A: Buffer((4, 8), float32), C: Buffer((4,), float32)):
        for i in range(4):
            for k in range(8):
                with block("C"):
                    vi = axis.data_par(0:4, i)
                    vk = axis.reduce(0:8, k)
                    reads(A[vi:vi + 1, vk:vk + 1])
                    writes(C[vi:vi + 1])
                    with init():
                        C[vi] = 0.0
                    C[vi] = C[vi] + A[vi, vk]
after:
    def main(A: Buffer((4, 8), float32), C: Buffer((4,), float32)):
        for i in range(4):
            for k in range(8):
                with block("C"):
                    vi = axis.data_par(0:4, i)
                    vk = axis.reduce(0:8, k)
                    reads(A[vi:vi + 1, vk:vk + 1])
                    writes(C[vi:vi + 1])
                    if vk == 0:
                        C[vi] = 0.0
                    C[vi] = C[vi] + A[vi, vk]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autosched.tir.expr import IterKind
from autosched.tir.function import PrimFunc
from autosched.tir.op import all_, eq
from autosched.tir.stmt import Block, IfThenElse, Stmt, seq
from autosched.tir.walk import map_children
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass


@dataclass(frozen=True)
class LowerInitBlock(FunctionPass):
    """Run the initialisation where all reduction variables of the block are at their minimum.

    A block without reduction variables is initialised each time. Functions from TE schedules,
    which have no blocks, stay as they are.
    """

    name: ClassVar[str] = "LowerInitBlock"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if func.attrs.get("from_legacy_te_schedule"):
            return func
        return func.with_body(_lower(func.body))


def _lower(s: Stmt) -> Stmt:
    if not isinstance(s, Block):
        return map_children(s, _lower)
    body = _lower(s.body)
    if s.init is None:
        return s.with_(body=body)
    starts = [
        eq(iv.var, iv.dom.min)
        for iv in s.iter_vars
        if iv.kind == IterKind.REDUCE and iv.dom is not None
    ]
    init = IfThenElse(all_(*starts), s.init) if starts else s.init
    return s.with_(init=None, body=seq(init, body))
