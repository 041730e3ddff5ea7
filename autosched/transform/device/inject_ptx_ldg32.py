"""InjectPTXLDG32: guarded loads of 4 bytes into local memory become one guarded instruction.

before:
    def main(G: Buffer((32,), float32), B: Buffer((64,), float32)):
        launch(threadIdx.x, 64)
        L = allocate((1,), float32, "local")
        L[0] = if_then_else(threadIdx.x % 2 == 0, G[threadIdx.x // 2], 0.0)
        B[threadIdx.x] = L[0]
after:
    def main(G: Buffer((32,), float32), B: Buffer((64,), float32)):
        launch(threadIdx.x, 64)
        predicate = allocate((1,), bool, "local")
        addr = allocate((2,), int32, "local")
        L = allocate((1,), float32, "local")
        addr[0] = threadIdx.x // 2
        addr[1] = 0
        predicate[0] = threadIdx.x % 2 == 0
        L[addr[1]] = 0.0
        ptx_ldg32(L, predicate[0], G[addr[0]], addr[1], dtype=float32)
        B[threadIdx.x] = L[0]

The load may be the other arm:

before:
    def main(G: Buffer((64,), int32), B: Buffer((64,), int32), n: int32):
        launch(threadIdx.x, 64)
        L = allocate((1,), int32, "local")
        L[0] = if_then_else(threadIdx.x < n, -1, G[threadIdx.x])
        B[threadIdx.x] = L[0]
after:
    def main(G: Buffer((64,), int32), B: Buffer((64,), int32), n: int32):
        launch(threadIdx.x, 64)
        predicate = allocate((1,), bool, "local")
        addr = allocate((2,), int32, "local")
        L = allocate((1,), int32, "local")
        addr[0] = threadIdx.x
        addr[1] = 0
        predicate[0] = not threadIdx.x < n
        L[addr[1]] = -1
        ptx_ldg32(L, predicate[0], G[addr[0]], addr[1], dtype=int32)
        B[threadIdx.x] = L[0]

Loads of memory that the kernel also writes stay, because the instruction may read old values:

before:
    def main(G: Buffer((64,), float32)):
        launch(threadIdx.x, 32)
        L = allocate((1,), float32, "local")
        L[0] = if_then_else(threadIdx.x < 7, G[threadIdx.x], 0.0)
        G[threadIdx.x + 32] = L[0]
unchanged:
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autosched.errors import ScheduleError
from autosched.tir.buffer import Buffer
from autosched.tir.division import divides_by_variable
from autosched.tir.dtype import bool_, int32
from autosched.tir.expr import (
    BufferLoad,
    Call,
    Expr,
    FloatImm,
    IntImm,
    Var,
    pointer,
)
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import pointers_in, stored_in
from autosched.tir.op import add, const, not_
from autosched.tir.stmt import TRUE, Allocate, AttrStmt, BufferStore, Evaluate, Stmt, seq
from autosched.tir.walk import distinct, map_children, stmts
from autosched.transform.device.thread_sync import kernels
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass


@dataclass(frozen=True)
class InjectPTXLDG32(FunctionPass):
    """Turn stores `L[j] = if_then_else(p, G[k], constant)` into ptx_ldg32.

    L must be local, G global and not written in the kernel, the element a scalar of 4 bytes, and k
    safe to compute where p does not hold. With `enable` off, or with `by_config` and without
    `tir.ptx_ldg32` in the context, nothing changes. Raises ScheduleError for a function whose
    target is not cuda.
    """

    name: ClassVar[str] = "InjectPTXLDG32"
    enable: bool = True
    by_config: bool = False

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if not self.enable or (self.by_config and not ctx.setting("tir.ptx_ldg32")):
            return func
        new = {kernel: _with_loads(kernel) for kernel in kernels(func.body)}
        if all(after is before for before, after in new.items()):
            return func
        target = str(func.attrs.get("target", "cuda"))
        if not target.startswith("cuda"):
            raise ScheduleError(
                f"InjectPTXLDG32: {func.name}: the instruction is there on cuda targets only, "
                f"found {target}"
            )

        def go(s: Stmt) -> Stmt:
            return new[s] if isinstance(s, AttrStmt) and s in new else map_children(s, go)

        return func.with_body(go(func.body))


def _with_loads(kernel: AttrStmt) -> Stmt:
    """`kernel` with the instruction where it is possible; `kernel` itself if it is nowhere."""
    written = _written(kernel)
    addresses = Buffer(pointer("addr", int32, "local"), int32, (const(2),), name="addr")
    guard = Buffer(pointer("predicate", bool_, "local"), bool_, (const(1),), name="predicate")

    def go(s: Stmt) -> Stmt:
        if isinstance(s, BufferStore):
            found = _guarded(s, written)
            return s if found is None else _load(s, *found, addresses, guard)
        return map_children(s, go)

    def below_threads(s: Stmt) -> Stmt:
        if isinstance(s, AttrStmt) and s.key == "thread_extent":
            return s.with_(body=below_threads(s.body))
        inside = Allocate(addresses.data, int32, addresses.shape, TRUE, go(s))
        return Allocate(guard.data, bool_, guard.shape, TRUE, inside)

    loads = (_guarded(s, written) for s in stmts(kernel) if isinstance(s, BufferStore))
    return kernel if all(found is None for found in loads) else below_threads(kernel)


def _written(kernel: Stmt) -> set[Var]:
    """The pointers that a kernel stores through or passes to a call."""
    calls = [s.value for s in stmts(kernel) if isinstance(s, Evaluate)]
    return stored_in(kernel).union(*map(pointers_in, calls))


def _guarded(s: BufferStore, written: set[Var]) -> tuple[Expr, BufferLoad, Expr] | None:
    """(condition, load, value otherwise) of a store that the instruction can do, else None."""
    if s.buffer.scope != "local" or s.predicate is not None or len(s.indices) != 1:
        return None
    if s.buffer.strides:
        return None
    match s.value:
        case Call(op="if_then_else", args=(on, BufferLoad() as load, FloatImm() | IntImm() as no)):
            condition, other = on, no
        case Call(op="if_then_else", args=(on, FloatImm() | IntImm() as yes, BufferLoad() as load)):
            condition, other = not_(on), yes
        case _:
            return None
    source, dtype = load.buffer, s.buffer.dtype
    if source.scope not in ("", "global") or source.data in written or load.predicate is not None:
        return None
    if source.dtype is not dtype or dtype.lanes > 1 or dtype.bytes != 4 or len(load.indices) != 1:
        return None
    if any(e.dtype is not int32 for e in (*s.indices, *load.indices)):
        return None
    if not _is_computable_anywhere(load.indices[0]):
        return None
    return condition, load, other


def _is_computable_anywhere(index: Expr) -> bool:
    """True if `index` may be computed where the condition does not hold."""
    return not any(
        isinstance(e, BufferLoad | Call) or divides_by_variable(e) for e in distinct(index)
    )


def _load(
    s: BufferStore,
    condition: Expr,
    load: BufferLoad,
    other: Expr,
    addresses: Buffer,
    guard: Buffer,
) -> Stmt:
    source = BufferLoad(addresses, (const(0),))
    place: Expr = BufferLoad(addresses, (const(1),))
    store = BufferStore(s.buffer, other, (place,))
    if s.buffer.elem_offset is not None:
        place = add(place, s.buffer.elem_offset)
    on = BufferLoad(guard, (const(0),))
    loaded = BufferLoad(load.buffer, (source,))
    arguments = (s.buffer.data, on, loaded, place)
    return seq(
        BufferStore(addresses, load.indices[0], (const(0),)),
        BufferStore(addresses, s.indices[0], (const(1),)),
        BufferStore(guard, condition, (const(0),)),
        store,
        Evaluate(Call(s.buffer.dtype, "ptx_ldg32", arguments)),
    )
