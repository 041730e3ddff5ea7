"""VerifyGPUCode: check flat code against the limits of a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import prod
from typing import ClassVar, NoReturn

from autosched.errors import ConfigError, ScheduleError
from autosched.tir.constants import is_one
from autosched.tir.dtype import DType
from autosched.tir.expr import BufferLoad, Cast, Expr, IntImm, IterVar, Ramp
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import Allocate, AttrStmt, BufferStore, For, Stmt
from autosched.tir.walk import child_stmts, direct_exprs
from autosched.transform.device.shared_to_dynamic import dynamic_shared_bytes
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass


@dataclass(frozen=True)
class VerifyGPUCode(FunctionPass):
    """Raise ScheduleError if a kernel exceeds a limit; the function is returned unchanged.

    A kernel is an outermost thread attribute. Limits are in bytes, threads or counts; None means no
    limit. `max_merged_shared_memory_per_block` is the limit of shared memory after merging as by
    SharedToDynamic and MergeSharedMemoryAllocations, which is tried where buffers side by side are
    too large. With it, local and shared memory without a constant size is also refused, because
    code generation cannot allocate it.
    The message names the limit, the value found and the value allowed:

    before:
        def main(A: Buffer((2048,), float32)):
            launch(threadIdx.x, 2048)
            A[threadIdx.x] = 0.0
    refused VerifyGPUCode{max_threads_per_block=1024}:
        VerifyGPUCode: kernel 1 of main: 2048 threads per block, at most 1024 are allowed
    unchanged VerifyGPUCode{max_threads_per_block=2048}:

    Two buffers of 256 bytes, one after the other:

    before:
        def main(A: Buffer((64,), float32), B: Buffer((64,), float32)):
            launch(threadIdx.x, 64)
            S = allocate((64,), float32, "shared")
            T = allocate((64,), float32, "shared")
            S[threadIdx.x] = A[threadIdx.x]
            A[threadIdx.x] = S[63 - threadIdx.x]
            T[threadIdx.x] = B[threadIdx.x]
            B[threadIdx.x] = T[63 - threadIdx.x]
    refused VerifyGPUCode{max_shared_memory_per_block=256}:
        VerifyGPUCode: kernel 1 of main: 512 bytes of shared memory per block, at most 256 are
        allowed
    unchanged VerifyGPUCode{max_merged_shared_memory_per_block=256}:
    refused VerifyGPUCode{max_merged_shared_memory_per_block=255}:
        VerifyGPUCode: kernel 1 of main: 256 bytes of shared memory per block, even merged, at most
        255 are allowed
    """

    name: ClassVar[str] = "VerifyGPUCode"
    max_local_memory_per_block: int | None = None
    max_shared_memory_per_block: int | None = None
    max_threads_per_block: int | None = None
    max_thread_x: int | None = None
    max_thread_y: int | None = None
    max_thread_z: int | None = None
    max_vthread: int | None = None
    max_vector_bytes: int | None = None
    max_kernels: int | None = None
    max_merged_shared_memory_per_block: int | None = None

    @staticmethod
    def of(limits: Mapping[str, int]) -> VerifyGPUCode:
        """The check for a mapping from limits to values; ConfigError for an unknown limit."""
        known = [f.name for f in fields(VerifyGPUCode)]
        for key in limits:
            if key not in known:
                raise ConfigError(
                    f"VerifyGPUCode: unknown limit {key!r}; known limits: {', '.join(known)}"
                )
        return VerifyGPUCode(**limits)

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        _Verifier(self, func.name).stmt(func.body)
        return func


class _Verifier:
    def __init__(self, limits: VerifyGPUCode, function: str) -> None:
        self._limits = limits
        self._function = function
        self._kernels = 0
        self._nesting = 0
        self._threads: dict[str, int] = {}
        self._memory = {"local": 0, "shared": 0}
        self._vectors_seen: set[Expr] = set()

    def stmt(self, s: Stmt) -> None:
        match s:
            case AttrStmt(key="thread_extent" | "virtual_thread"):
                self._attribute(s)
                return
            case Allocate():
                self._allocation(s)
            case For() if s.loop_var.name == "vthread.s" and isinstance(s.extent, IntImm):
                self._at_most(s.extent.value, self._limits.max_vthread, "virtual threads")
            case BufferStore() if s.value.dtype.lanes > 1:
                self._vector(s.value.dtype, f"store to {s.buffer.name}")
                self._indices(s.indices, s.buffer.name)
        if self._limits.max_vector_bytes is not None:
            for e in direct_exprs(s):
                self._expr(e)
        for child in child_stmts(s):
            self.stmt(child)

    def _attribute(self, s: AttrStmt) -> None:
        if self._nesting == 0:
            self._kernels += 1
            self._threads = {}
            self._memory = {"local": 0, "shared": 0}
        assert isinstance(s.node, IterVar)
        if not isinstance(s.value, IntImm):
            self._fail(f"the extent of {s.node.var.name} must be a constant, found {s.value!r}")
        self._thread(s.node.thread_tag or s.node.var.name, s.value.value)
        self._nesting += 1
        self.stmt(s.body)
        self._nesting -= 1
        if self._nesting == 0:
            self._leave_kernel(s)

    def _thread(self, tag: str, extent: int) -> None:
        if not (tag.startswith("threadIdx.") or tag == "vthread"):
            return
        first = self._threads.setdefault(tag, extent)
        if tag == "vthread":
            self._at_most(extent, self._limits.max_vthread, "virtual threads")
            return
        if first != extent:
            self._fail(f"{tag} has extents {first} and {extent}, all of them must be equal")
        self._at_most(extent, getattr(self._limits, f"max_thread_{tag[-1]}"), f"threads in {tag}")

    def _leave_kernel(self, kernel: Stmt) -> None:
        limits = self._limits
        threads = prod(self._threads.values())
        self._at_most(threads, limits.max_threads_per_block, "threads per block")
        local, shared = self._memory["local"], self._memory["shared"]
        self._at_most(local, limits.max_local_memory_per_block, "bytes of local memory per block")
        what = "bytes of shared memory per block"
        self._at_most(shared, limits.max_shared_memory_per_block, what)
        allowed = limits.max_merged_shared_memory_per_block
        if allowed is not None and shared > allowed:
            self._at_most(dynamic_shared_bytes(kernel), allowed, f"{what}, even merged")
        self._at_most(self._kernels, limits.max_kernels, "kernels")

    def _allocation(self, s: Allocate) -> None:
        rank = s.buffer_var.scope.partition(".")[0]
        if rank in self._memory:
            size = s.constant_bytes
            if size is not None:
                self._memory[rank] += size
            elif self._limits.max_merged_shared_memory_per_block is not None:
                self._fail(
                    f"the size of {s.buffer_var.name} must be a constant, found "
                    f"{' x '.join(map(str, s.extents))} elements"
                )
        self._vector(s.dtype, f"allocation of {s.buffer_var.name}")

    def _expr(self, e: Expr) -> None:
        if e in self._vectors_seen:
            return
        self._vectors_seen.add(e)
        if isinstance(e, Cast):
            self._vector(e.dtype, f"cast to {e.dtype}")
        elif isinstance(e, BufferLoad):
            self._vector(e.dtype, f"load of {e.buffer.name}")
            self._indices(e.indices, e.buffer.name)
        for child in e.children():
            self._expr(child)

    def _vector(self, dtype: DType, what: str) -> None:
        if dtype.lanes > 1:
            found = dtype.value_bytes
            self._at_most(found, self._limits.max_vector_bytes, f"bytes in the vector {what}")

    def _indices(self, indices: tuple[Expr, ...], buffer: str) -> None:
        for e in indices:
            if isinstance(e, Ramp) and not is_one(e.stride):
                found = e.lanes * e.dtype.bytes
                what = f"bytes in the strided index of {buffer}"
                self._at_most(found, self._limits.max_vector_bytes, what)

    def _at_most(self, found: int, allowed: int | None, what: str) -> None:
        if allowed is not None and found > allowed:
            self._fail(f"{found} {what}, at most {allowed} are allowed")

    def _fail(self, problem: str) -> NoReturn:
        where = f"kernel {self._kernels} of {self._function}"
        raise ScheduleError(f"VerifyGPUCode: {where}: {problem}")
