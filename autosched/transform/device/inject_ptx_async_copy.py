"""InjectPTXAsyncCopy: turn copies marked as asynchronous into the instruction cp.async.

before:
    def main(A: Buffer((128,), float32), B: Buffer((128,), float32)):
        launch(threadIdx.x, 32)
        S = allocate((128,), float32, "shared")
        with attr(S, "async_scope", 1):
            S[threadIdx.x * 4:threadIdx.x * 4 + 4] = A[threadIdx.x * 4:threadIdx.x * 4 + 4]
        ptx_commit_group(dtype=int32)
        ptx_wait_group(0)
        tvm_storage_sync("shared")
        B[threadIdx.x] = S[127 - threadIdx.x]
after:
    def main(A: Buffer((128,), float32), B: Buffer((128,), float32)):
        launch(threadIdx.x, 32)
        S = allocate((128,), float32, "shared")
        ptx_cp_async(S, threadIdx.x * 4, A, threadIdx.x * 4, 16, dtype=float32)
        ptx_commit_group(dtype=int32)
        ptx_wait_group(0)
        tvm_storage_sync("shared")
        B[threadIdx.x] = S[127 - threadIdx.x]

A store that does not copy 4, 8 or 16 bytes from global memory stays synchronous:

before:
    def main(A: Buffer((32,), float16), B: Buffer((32,), float16)):
        launch(threadIdx.x, 32)
        S = allocate((32,), float16, "shared")
        with attr(S, "async_scope", 1):
            S[threadIdx.x] = A[threadIdx.x]
        tvm_storage_sync("shared")
        B[threadIdx.x] = S[31 - threadIdx.x]
after:
    def main(A: Buffer((32,), float16), B: Buffer((32,), float16)):
        launch(threadIdx.x, 32)
        S = allocate((32,), float16, "shared")
        S[threadIdx.x] = A[threadIdx.x]
        tvm_storage_sync("shared")
        B[threadIdx.x] = S[31 - threadIdx.x]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autosched.errors import ScheduleError
from autosched.tir.constants import is_zero
from autosched.tir.dtype import DType
from autosched.tir.expr import Add, Broadcast, BufferLoad, Call, Expr, FloatImm, IntImm, Ramp
from autosched.tir.function import PrimFunc
from autosched.tir.op import add, const, if_then_else, mul
from autosched.tir.stmt import AttrStmt, BufferStore, Evaluate, Stmt
from autosched.tir.walk import loads, map_children
from autosched.transform.device.alignment import is_aligned
from autosched.transform.device.inject_software_pipeline import COPIES
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass

_SIZES = (4, 8, 16)
_SHARED = ("shared", "shared.dyn")


@dataclass(frozen=True)
class InjectPTXAsyncCopy(FunctionPass):
    """Turn the stores inside attributes `async_scope` into ptx_cp_async, and remove the attributes.

    A store is converted if it copies 4, 8 or 16 consecutive, aligned bytes from global to shared
    memory, or zeros if a condition does not hold. Indices are read from memory only where it holds.
    Other stores stay. Commits and waits are not changed. The same happens inside the attributes of
    InjectSoftwarePipeline; with `by_config`, and without `tir.use_async_copy` in the context, only
    there. Raises ScheduleError for an async_scope inside another one.
    """

    name: ClassVar[str] = "InjectPTXAsyncCopy"
    by_config: bool = False

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        every = not self.by_config or ctx.setting("tir.use_async_copy")
        keys = ("async_scope", COPIES) if every else (COPIES,)

        def go(s: Stmt, inside: bool) -> Stmt:
            if isinstance(s, AttrStmt) and s.key in keys:
                if inside:
                    raise ScheduleError(
                        f"InjectPTXAsyncCopy: {func.name}: an async_scope inside another one; "
                        "copies belong to one"
                    )
                return go(s.body, True)
            if inside and isinstance(s, BufferStore):
                return _copy(s) or s
            return map_children(s, lambda part: go(part, inside))

        return func.with_body(go(func.body, False))


def _copy(s: BufferStore) -> Stmt | None:
    """The asynchronous copy equivalent to `s`; None if there is none."""
    if s.buffer.scope not in _SHARED or s.predicate is not None:
        return None
    load, condition = _source(s.value)
    if load is None or load.buffer.scope not in ("", "global") or load.predicate is not None:
        return None
    dtype = s.buffer.dtype
    if load.buffer.dtype is not dtype or dtype.lanes > 1:
        return None
    if len(s.indices) != 1 or len(load.indices) != 1:
        return None
    if s.buffer.strides or load.buffer.strides:
        return None
    to, at = _first(s.indices[0]), _first(load.indices[0])
    lanes = s.value.dtype.lanes
    if to is None or at is None or lanes * dtype.bytes not in _SIZES:
        return None
    for buffer, first in ((s.buffer, to), (load.buffer, at)):
        if lanes > 1 and not is_aligned(buffer, Ramp(first, const(1), lanes)):
            return None  # the instruction requires addresses that are multiples of its size
    to = to if s.buffer.elem_offset is None else add(to, s.buffer.elem_offset)
    at = at if load.buffer.elem_offset is None else add(at, load.buffer.elem_offset)
    if load.buffer.data.element not in (None, dtype):
        return None  # offsets count elements of the memory, not of a view
    memory = s.buffer.data
    if memory.element is not None and memory.element is not dtype:
        if memory.element is not DType("uint8"):
            return None
        to = mul(to, dtype.bytes)  # offsets into byte memory are in bytes
    if condition is not None and next(loads(at), None) is not None:
        at = if_then_else(condition, at, const(0, at.dtype))  # what chooses the element is guarded
    arguments: tuple[Expr, ...] = (memory, to, load.buffer.data, at, const(lanes * dtype.bytes))
    if condition is not None:
        arguments = (*arguments, condition)
    return Evaluate(Call(dtype, "ptx_cp_async", arguments))


def _source(value: Expr) -> tuple[BufferLoad | None, Expr | None]:
    """The load that is copied and its condition; zeros are copied if that does not hold.

    (None, None) for a value that is no such copy.
    """
    match value:
        case BufferLoad():
            return value, None
        case Call(op="if_then_else", args=(condition, BufferLoad() as load, other)):
            if condition.dtype.lanes == 1 and _is_zero(other):
                return load, condition
    return None, None


def _is_zero(e: Expr) -> bool:
    """True for a zero whose bytes are all zero, which excludes -0.0."""
    if isinstance(e, Broadcast):
        return _is_zero(e.value)
    if isinstance(e, FloatImm):
        return repr(float(e.value)) == "0.0"
    return is_zero(e)


def _first(index: Expr) -> Expr | None:
    """The first of consecutive elements at `index`; None if they are not consecutive."""
    if index.dtype.lanes == 1:
        return index
    match index:
        case Ramp(stride=IntImm(value=1)):
            return index.base
        case Add(Ramp(stride=IntImm(value=1)) as ramp, Broadcast() as all_lanes):
            return add(ramp.base, all_lanes.value)
        case Add(Broadcast() as all_lanes, Ramp(stride=IntImm(value=1)) as ramp):
            return add(ramp.base, all_lanes.value)
    return None
