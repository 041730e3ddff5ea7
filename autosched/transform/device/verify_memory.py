"""VerifyMemory: on a GPU the host must not access parameters, and kernels share only global memory.

A loop inside a kernel cannot run on the threads of a CPU.

No thread axis is bound around this copy:

before:
    def main(A: Buffer((128,), float32), B: Buffer((128,), float32)):
        for i in range(128):
            B[i] = A[i]
refused VerifyMemory{kind="cuda"}:
    VerifyMemory: main: buffer B is accessed by the host, outside of all thread axes; bind the loops
    of its stage to blockIdx and threadIdx

The shared memory of a kernel does not live until the next one:

before:
    def main(A: Buffer((32,), float32), B: Buffer((32,), float32)):
        S = allocate((32,), float32, "shared")
        with launch(threadIdx.x, 32):
            S[threadIdx.x] = A[threadIdx.x]
        launch(threadIdx.y, 32)
        B[threadIdx.y] = S[threadIdx.y]
refused VerifyMemory{kind="cuda"}:
    VerifyMemory: main: S is in shared memory, outside of all thread axes; compute its stage at a
    loop inside those of its consumer, or store it in global memory

before:
    def main(A: Buffer((32,), float32), B: Buffer((32,), float32)):
        launch(blockIdx.x, 4)
        for i in parallel(8):
            B[blockIdx.x * 8 + i] = A[blockIdx.x * 8 + i]
refused VerifyMemory{kind="cuda"}:
    VerifyMemory: main: the loop i is inside a kernel, where none can be parallel; bind it to
    threadIdx, or leave it serial
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autosched.errors import ScheduleError
from autosched.tir.expr import BufferLoad, Var
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import Allocate, AttrStmt, BufferStore, For, ForKind, Stmt
from autosched.tir.walk import child_stmts, direct_exprs, loads, stmts
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass


@dataclass(frozen=True)
class VerifyMemory(FunctionPass):
    """Check memory and loops of a GPU function.

    Raises ScheduleError if host code accesses a parameter's buffer, if host code allocates memory
    that is not global, and if a loop inside a kernel is parallel. `kind` is the kind of the target
    ("cuda", "cpu"); by default that of the function's target attribute. Functions for the CPU, or
    without a target, are not checked.
    """

    kind: str = ""
    name: ClassVar[str] = "VerifyMemory"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        kind = self.kind or getattr(func.attrs.get("target"), "kind", "cpu")
        if kind in ("cpu", "llvm", "c"):
            return func
        _check(func.body, {buffer.data for buffer in func.buffers}, func.name)
        return func


def _check(s: Stmt, pointers: set[Var], where: str) -> None:
    if isinstance(s, AttrStmt) and s.key in ("thread_extent", "virtual_thread"):
        _check_kernel(s, where)
        return
    if isinstance(s, For) and s.thread_binding is not None:
        _check_kernel(s, where)
        return
    if isinstance(s, Allocate) and s.buffer_var.scope not in ("", "global"):
        raise ScheduleError(
            f"VerifyMemory: {where}: {s.buffer_var.name} is in {s.buffer_var.scope} memory, "
            "outside of all thread axes; compute its stage at a loop inside those of its consumer, "
            "or store it in global memory"
        )
    touched = [s.buffer] if isinstance(s, BufferStore) else []
    for e in direct_exprs(s):
        touched += [load.buffer for load in loads(e) if isinstance(load, BufferLoad)]
    for buffer in touched:
        if buffer.data in pointers:
            raise ScheduleError(
                f"VerifyMemory: {where}: buffer {buffer.name} is accessed by the host, outside of "
                "all thread axes; bind the loops of its stage to blockIdx and threadIdx"
            )
    for child in child_stmts(s):
        _check(child, pointers, where)


def _check_kernel(kernel: Stmt, where: str) -> None:
    for s in stmts(kernel):
        if isinstance(s, For) and s.kind is ForKind.PARALLEL:
            raise ScheduleError(
                f"VerifyMemory: {where}: the loop {s.loop_var.name} is inside a kernel, where none "
                "can be parallel; bind it to threadIdx, or leave it serial"
            )
