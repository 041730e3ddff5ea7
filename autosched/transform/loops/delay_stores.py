"""DelayStores: the stores of a few iterations wait until all of the iterations have loaded.

before:
    def main(A: Buffer((128,), float32), Y: Buffer((128,), float32)):
        for j in range(8):
            Y[j * 16:j * 16 + 16] = A[j * 16:j * 16 + 16] + broadcast(1.0, 16)
after:
    def main(A: Buffer((128,), float32), Y: Buffer((128,), float32)):
        Y.v0: float32x16 = A[0:16] + broadcast(1.0, 16)
        Y.v1: float32x16 = A[16:32] + broadcast(1.0, 16)
        Y.v2: float32x16 = A[32:48] + broadcast(1.0, 16)
        Y.v3: float32x16 = A[48:64] + broadcast(1.0, 16)
        Y.v4: float32x16 = A[64:80] + broadcast(1.0, 16)
        Y.v5: float32x16 = A[80:96] + broadcast(1.0, 16)
        Y.v6: float32x16 = A[96:112] + broadcast(1.0, 16)
        Y.v7: float32x16 = A[112:128] + broadcast(1.0, 16)
        Y[0:16] = Y.v0
        Y[16:32] = Y.v1
        Y[32:48] = Y.v2
        Y[48:64] = Y.v3
        Y[64:80] = Y.v4
        Y[80:96] = Y.v5
        Y[96:112] = Y.v6
        Y[112:128] = Y.v7

A core compares the lower 12 bits of a load's address with those of the stores before it, and waits
for a store that may be to the same address. Of two arrays of whole pages, one allocated behind the
other, the second often begins 64 or 128 bytes behind the end of the first. Each load would then
meet the store of the previous vector. Of several loads in a row only the first ones do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

from autosched.nest.core import core_of
from autosched.tir.constants import is_zero
from autosched.tir.expr import Expr, IntImm, Ramp, Var
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import direct_loads
from autosched.tir.linear import linear
from autosched.tir.op import const, mul
from autosched.tir.stmt import BufferStore, For, ForKind, LetStmt, Prefetch, SeqStmt, Stmt, seq
from autosched.tir.substitute_stmt import substitute_stmt
from autosched.tir.walk import free_vars, map_children
from autosched.transform.expressions.effects import has_side_effect
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass


@dataclass(frozen=True)
class DelayStores(FunctionPass):
    """Delays stores of vectors until the loads of the other stores in a group are done.

    The values wait in up to a quarter of a core's `registers` of `vector_bytes` (0 for the usual
    number at that width). The stores are adjacent, or in iterations of an innermost loop at indices
    that are linear in its variable. None of them reads the memory that they store to. Functions
    whose arguments may overlap stay as they are.
    """

    vector_bytes: int = 64
    registers: int = 0
    name: ClassVar[str] = "DelayStores"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if not func.noalias:
            return func
        core = core_of(self.vector_bytes, self.registers)
        return func.with_body(_Delays(self.vector_bytes, core.registers // 4).stmt(func.body))


@dataclass(frozen=True)
class _Delays:
    """The limit: values wait in at most `registers` registers of `vector_bytes` bytes."""

    vector_bytes: int
    registers: int

    def stmt(self, s: Stmt) -> Stmt:
        if isinstance(s, BufferStore):
            return s
        if isinstance(s, For) and (together := self._together(s)) > 1:
            return _in_groups(s, together)
        s = map_children(s, self.stmt)
        if not isinstance(s, SeqStmt):
            return s
        parts = list(self._runs(s.stmts))
        return s if len(parts) == len(s.stmts) else seq(*parts)

    def _together(self, s: For) -> int:
        """The number of iterations to merge into one; 1 for a loop that the pass leaves alone."""
        if s.kind is not ForKind.SERIAL or s.annotations or not is_zero(s.min):
            return 1
        stores = _stores(s.body)
        if not isinstance(s.extent, IntImm) or not stores or not _can_wait(stores):
            return 1
        most = self.registers // sum(map(self._width, stores))
        if most < 2 or s.extent.value < 2 or not _moves_evenly(stores, s.loop_var):
            return 1
        groups = -(-s.extent.value // most)
        return -(-s.extent.value // groups)

    def _width(self, store: BufferStore) -> int:
        """The number of registers that the stored value takes."""
        dtype = store.value.dtype
        return -(-dtype.value_bytes // self.vector_bytes)

    def _runs(self, parts: Sequence[Stmt]) -> Iterator[Stmt]:
        """The statements, with adjacent stores delayed."""
        run: list[BufferStore] = []
        for part in parts:
            if isinstance(part, BufferStore) and _can_wait([*run, part]):
                if sum(map(self._width, [*run, part])) <= self.registers:
                    run.append(part)
                    continue
            yield from _delayed(run)
            run = []
            if isinstance(part, BufferStore) and _can_wait([part]):
                run = [part]
            else:
                yield part
        yield from _delayed(run)


def _stores(s: Stmt) -> list[BufferStore]:
    """The stores in a loop's body; none if it has anything but stores and prefetches."""
    parts = s.stmts if isinstance(s, SeqStmt) else (s,)
    if not all(isinstance(part, BufferStore | Prefetch) for part in parts):
        return []
    return [part for part in parts if isinstance(part, BufferStore)]


def _can_wait(stores: Sequence[BufferStore]) -> bool:
    """Whether each stores a vector to non-local memory that none of them reads.

    Each value must be computed from non-local memory, without side effects.
    """
    stored = {store.buffer.data for store in stores}
    for store in stores:
        if store.value.dtype.lanes == 1 or store.buffer.scope == "local":
            return False
        loads = list(direct_loads(store))
        if has_side_effect(store.value) or any(load.buffer.data in stored for load in loads):
            return False
        if all(load.buffer.scope == "local" for load in loads):
            return False
    return True


def _moves_evenly(stores: Sequence[BufferStore], var: Var) -> bool:
    """Whether all indices are linear in the loop variable, so that copies compute no more."""
    places = [*(s.indices for s in stores), *(e.indices for s in stores for e in direct_loads(s))]
    for index in chain.from_iterable(places):
        _, terms = linear(index.base if isinstance(index, Ramp) else index)
        if any(e is not var and var in free_vars(e) for e in terms):
            return False
    return True


def _in_groups(s: For, together: int) -> Stmt:
    """The loop with `together` iterations merged into one, and the remaining ones behind it."""
    assert isinstance(s.extent, IntImm)
    var, (whole, rest) = s.loop_var, divmod(s.extent.value, together)
    kept = const(0, var.dtype) if whole == 1 else mul(var, const(together, var.dtype))
    body = seq(*_iterations(s, kept, together))
    if whole > 1:
        extent = const(whole, s.extent.dtype)
        body = s.with_(extent=extent, body=body, annotations={"unroll_count": 1})
    return seq(body, *_iterations(s, const(whole * together, var.dtype), rest))


def _iterations(s: For, first: Expr, count: int) -> Iterator[Stmt]:
    """`count` iterations of the loop from `first` on: all prefetches, all loads, all stores."""
    parts = s.body.stmts if isinstance(s.body, SeqStmt) else (s.body,)
    numbers = [first + const(k, first.dtype) if k else first for k in range(count)]
    made = [substitute_stmt(part, {s.loop_var: number}) for number in numbers for part in parts]
    yield from (part for part in made if not isinstance(part, BufferStore))
    yield from _delayed([part for part in made if isinstance(part, BufferStore)])


def _delayed(stores: Sequence[BufferStore]) -> Iterator[Stmt]:
    """The stores, behind all of their loads."""
    if len(stores) < 2:
        yield from stores
        return
    values = [Var(f"{s.buffer.name}.v{k}", s.value.dtype) for k, s in enumerate(stores)]
    body = seq(*(s.with_(value=value) for s, value in zip(stores, values, strict=True)))
    for store, value in zip(reversed(stores), reversed(values), strict=True):
        body = LetStmt(value, store.value, body)
    yield body
