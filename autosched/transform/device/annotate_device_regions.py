"""AnnotateDeviceRegions: mark the code that runs on the GPU, one region per launch.

before:
    def main(A: Buffer((64,), float32), B: Buffer((64,), float32)):
        with launch(threadIdx.x, 64):
            A[threadIdx.x] = 0.0
        launch(blockIdx.x, 2)
        launch(threadIdx.x_1, 32, tag="threadIdx.x")
        B[blockIdx.x * 32 + threadIdx.x_1] = A[blockIdx.x * 32 + threadIdx.x_1]
after:
    def main(A: Buffer((64,), float32), B: Buffer((64,), float32)):
        with attr("cuda", "target", 0):
            launch(threadIdx.x, 64)
            A[threadIdx.x] = 0.0
        attr("cuda", "target", 0)
        launch(blockIdx.x, 2)
        launch(threadIdx.x_1, 32, tag="threadIdx.x")
        B[blockIdx.x * 32 + threadIdx.x_1] = A[blockIdx.x * 32 + threadIdx.x_1]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autosched.tir.function import PrimFunc
from autosched.tir.op import const
from autosched.tir.stmt import AttrStmt, Stmt
from autosched.tir.walk import map_children
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass


@dataclass(frozen=True)
class AnnotateDeviceRegions(FunctionPass):
    """Wrap each outermost thread axis in an attribute `target` with the kind of device.

    Regions that already have such an attribute stay as they are, with everything inside them.
    """

    name: ClassVar[str] = "AnnotateDeviceRegions"
    kind: str = "cuda"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        def go(s: Stmt) -> Stmt:
            if isinstance(s, AttrStmt):
                if s.key == "target":
                    return s
                if s.key == "thread_extent":
                    return AttrStmt(self.kind, "target", const(0), s)
            return map_children(s, go)

        return func.with_body(go(func.body))
