"""LowerDeviceStorageAccessInfo: resolve memory in registered scopes to its address.

With `register_memory("global.example", MemoryInfo(32, 8192, head_address=...))`:

before:
    def main(A: Buffer((4,), float32)):
        buf = allocate((16,), float32, "global.example")
        buf[3] = A[0]
        call_extern("f", tvm_access_ptr(0.0, A, 2, 2, 1, dtype=handle), dtype=int32)
        A[1] = buf[3]
after:
    def main(A: Buffer((4,), float32)):
        A_1 = view(A, (1,), float32)
        buf: pointer(float32, "global.example") = call_extern("example_memory")
        buf = view(buf, (16,), float32)
        buf[3] = A[0]
        call_extern("f", address_of(A_1[2], dtype=handle), dtype=int32)
        A[1] = buf[3]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autosched.errors import CompileError
from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import Call, Expr, IntImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.op import cast, const, truncdiv
from autosched.tir.stmt import Allocate, DeclBuffer, LetStmt, Stmt
from autosched.tir.undefined import undefined
from autosched.tir.walk import map_children, rewrite_expr
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.host.memory_info import MemoryInfo, is_special, memory_info


@dataclass(frozen=True)
class LowerDeviceStorageAccessInfo(FunctionPass):
    """Replace allocations in tagged scopes by the address of that memory; lower access pointers.

    The registration of the scope (`register_memory`) gives the address. Memory without an address
    is not allocated by the host, and pointers into it are not possible: an access pointer of
    another type than a handle becomes the index alone, in units of the memory. Access pointers into
    other memory become addresses of elements.

    Raises CompileError for a scope that is not registered, for more than its memory holds, for
    memory allocated twice, for a pointer into memory without an address, and for an index that is
    no whole number of units.
    """

    name: ClassVar[str] = "LowerDeviceStorageAccessInfo"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        lower = _Lower(func.name)
        after = func.with_body(lower.stmt(func.body))
        if lower.hidden and not lower.hidden.isdisjoint(undefined(after.body)):
            names = sorted(v.name for v in lower.hidden & undefined(after.body))
            raise lower.refused(f"{', '.join(names)} is not addressable: its memory has no address")
        return after


class _Lower:
    def __init__(self, name: str) -> None:
        self._name = name
        self._known: dict[Var, MemoryInfo] = {}
        self.hidden: set[Var] = set()

    def refused(self, why: str) -> CompileError:
        return CompileError(f"LowerDeviceStorageAccessInfo: {self._name}: {why}")

    def stmt(self, s: Stmt) -> Stmt:
        match s:
            case Allocate() if is_special(s.buffer_var.scope):
                return self._allocate(s)
            case DeclBuffer() if s.buffer.data in self.hidden:
                return self.stmt(s.body)
        return map_children(s, self.stmt, lambda e: rewrite_expr(e, self._access))

    def _allocate(self, s: Allocate) -> Stmt:
        data = s.buffer_var
        info = memory_info(data.scope)
        if info is None:
            raise self.refused(
                f"Cannot find memory info of {data.scope}, the scope of {data.name}; register it "
                "with register_memory"
            )
        if data in self._known:
            raise self.refused(f"{data.name} is allocated twice")
        bits = s.dtype.bits * s.dtype.lanes
        for extent in s.extents:
            bits *= extent.value if isinstance(extent, IntImm) else 0  # unknown: not counted
        if bits > info.max_num_bits:
            raise self.refused(
                f"{data.name} needs {bits} bits of {data.scope}, which has {info.max_num_bits}"
            )
        self._known[data] = info
        if info.head_address is not None:
            return LetStmt(data, info.head_address(), self.stmt(s.body))
        self.hidden.add(data)
        return self.stmt(s.body)

    def _access(self, e: Expr) -> Expr | None:
        if not isinstance(e, Call) or e.op != "tvm_access_ptr":
            return None
        annotation, data, offset = e.args[:3]
        if not isinstance(data, Var):
            return None
        info = self._known.get(data)
        if e.dtype.is_handle:
            if info is not None and info.head_address is None:
                raise self.refused(f"{data.name} is not addressable: its memory has no address")
            view = decl_buffer((1,), annotation.dtype, data.name, data=data)
            return Call(e.dtype, "address_of", (view[offset],))
        if info is None:
            raise self.refused(f"an index into {data.name}, whose scope has no units: {e!r}")
        units, rest = divmod(info.unit_bits, annotation.dtype.bits * annotation.dtype.lanes)
        if rest or not units:
            raise self.refused(
                f"{data.name}: a unit of {info.unit_bits} bits is no whole number of "
                f"{annotation.dtype}"
            )
        return truncdiv(cast(e.dtype, offset), const(units, e.dtype))
