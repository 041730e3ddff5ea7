"""SerializeLoops: parallel loops run on one thread.

before:
    def main(A: Buffer((8, 8), float32)):
        for i in parallel(8):
            for j in vectorized(8):
                A[i, j] = 0.0
after:
    def main(A: Buffer((8, 8), float32)):
        for i in range(8):
            for j in vectorized(8):
                A[i, j] = 0.0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autosched.tir.function import PrimFunc
from autosched.tir.stmt import For, ForKind, Stmt
from autosched.tir.walk import map_children
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass


@dataclass(frozen=True)
class SerializeLoops(FunctionPass):
    """Makes parallel loops serial, for inspection; other loops and the results stay the same."""

    name: ClassVar[str] = "SerializeLoops"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        return func.with_body(_serial(func.body))


def _serial(s: Stmt) -> Stmt:
    new = map_children(s, _serial)
    if isinstance(new, For) and new.kind is ForKind.PARALLEL:
        return new.with_(kind=ForKind.SERIAL)
    return new
