"""InterleaveFunctions: several vectors of an exponential are computed at the same time.

before:
    def main(X: Buffer((72,), float32), Y: Buffer((72,), float32)):
        for i in range(9):
            Y[i * 8:i * 8 + 8] = exp(X[i * 8:i * 8 + 8])
after:
    def main(X: Buffer((72,), float32), Y: Buffer((72,), float32)):
        for i in range(2):
            Y[i * 4 * 8:i * 4 * 8 + 32] = exp(X[i * 4 * 8:i * 4 * 8 + 32])
        Y[64:72] = exp(X[64:72])

The steps of a polynomial wait for each other, and a core looks ahead over a limited number of
waiting instructions. LLVM computes a vector that takes several registers step by step, each step
for all registers, so that independent instructions stand next to each other and few of them wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autosched.tir.constants import is_zero
from autosched.tir.dtype import float32
from autosched.tir.expr import (
    BinaryExpr,
    Broadcast,
    BufferLoad,
    Call,
    Expr,
    IntImm,
    Ramp,
    Var,
)
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import loads_in
from autosched.tir.linear import linear
from autosched.tir.op import const, mul
from autosched.tir.stmt import BufferStore, For, ForKind, Stmt, seq
from autosched.tir.substitute_stmt import substitute_stmt
from autosched.tir.walk import distinct, free_vars, map_children
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass

_LOGARITHMS = frozenset({"log", "log2", "log10", "log1p"})
FUNCTIONS = _LOGARITHMS | {"exp", "exp2", "exp10", "tanh", "sigmoid", "erf", "sin", "cos"}
"""The functions that codegen/llvm_math.py computes by polynomials of float32.

For functions that it computes in float64, each vector is two registers, which is enough.
"""

REGISTERS = 4
"""The number of vectors that are computed at the same time."""

WIDE_BYTES = 64
"""A width at which vectors, on a core with 32 registers, take few enough instructions each."""


@dataclass(frozen=True)
class InterleaveFunctions(FunctionPass):
    """Merges iterations of loops over one store whose value has a polynomial in it.

    The stored vector is one register of `vector_bytes`. Everything that an iteration loads and
    stores lies next to the accesses of the iteration before, or stays the same. Loops that read
    what another iteration writes stay as they are. So do functions whose arguments may overlap, and
    all functions for registers of WIDE_BYTES or more.
    """

    vector_bytes: int = 32
    name: ClassVar[str] = "InterleaveFunctions"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if self.vector_bytes >= WIDE_BYTES or not func.noalias:
            return func
        return func.with_body(_stmt(func.body, self.vector_bytes))


def _stmt(s: Stmt, vector_bytes: int) -> Stmt:
    if isinstance(s, BufferStore):
        return s
    new = _joined(s, vector_bytes) if isinstance(s, For) else None
    return map_children(s, lambda inner: _stmt(inner, vector_bytes)) if new is None else new


def _joined(loop: For, vector_bytes: int) -> Stmt | None:
    """The loop with `REGISTERS` iterations merged into one; None if that is impossible."""
    store, extent = loop.body, loop.extent
    plain = loop.kind is ForKind.SERIAL and is_zero(loop.min) and not loop.annotations
    if not plain or not isinstance(store, BufferStore) or not isinstance(extent, IntImm):
        return None
    dtype = store.value.dtype
    if extent.value < 2 or dtype.value_bytes != vector_bytes:
        return None
    if not _has_polynomials(store.value):
        return None
    if not _is_apart(store):
        return None
    together = min(REGISTERS, extent.value)
    wide = _Wide(loop.loop_var, dtype.lanes, together).store(store)
    if wide is None:
        return None
    whole, rest = divmod(extent.value, together)
    parts: list[Stmt] = []
    if whole > 1:
        outer = mul(loop.loop_var, const(together, loop.loop_var.dtype))
        body = substitute_stmt(wide, {loop.loop_var: outer})
        parts = [loop.with_(extent=const(whole, extent.dtype), body=body)]
    else:
        parts = [substitute_stmt(wide, {loop.loop_var: const(0, loop.loop_var.dtype)})]
    if rest:
        last = _Wide(loop.loop_var, dtype.lanes, rest).store(store)
        assert last is not None, "it does not depend on the number of iterations"
        start = const(whole * together, loop.loop_var.dtype)
        parts.append(substitute_stmt(last, {loop.loop_var: start}))
    return seq(*parts)


def _has_polynomials(value: Expr) -> bool:
    return any(
        isinstance(e, Call) and e.op in FUNCTIONS and e.dtype.element is float32
        for e in distinct(value)
    )


def _is_apart(store: BufferStore) -> bool:
    """Whether the store reads no elements of the memory it stores to but the stored ones."""
    reads = (e for e in loads_in(store.value) if e.buffer.data is store.buffer.data)
    return all(e.indices == store.indices and e.buffer.is_laid_out_as(store.buffer) for e in reads)


class _RefusedError(Exception):
    """No wider form of an expression is known."""


class _Wide:
    """Rewrites `count` iterations of the loop over `var` into vectors of `count * lanes` lanes."""

    def __init__(self, var: Var, lanes: int, count: int) -> None:
        self._var, self._lanes, self._count = var, lanes, count

    def store(self, s: BufferStore) -> BufferStore | None:
        """The stores of all iterations as one; None if it has no such form."""
        if s.predicate is not None or len(s.indices) != 1:
            return None
        try:
            return BufferStore(s.buffer, self._expr(s.value), (self._index(s.indices[0]),))
        except _RefusedError:
            return None

    def _expr(self, e: Expr) -> Expr:
        match e:
            case Broadcast(value, _) if self._var not in free_vars(value):
                return Broadcast(value, self._lanes * self._count)
            case BufferLoad(buffer, (index,), None):
                return BufferLoad(buffer, (self._index(index),))
            case BinaryExpr() if e.keeps_type:
                return e.with_children((self._expr(e.a), self._expr(e.b)))
            case Call(op, args) if op in FUNCTIONS:
                dtype = e.dtype.with_lanes(self._lanes * self._count)
                return Call(dtype, op, tuple(map(self._expr, args)))
        raise _RefusedError

    def _index(self, index: Expr) -> Expr:
        """The index of all iterations; raises _RefusedError unless it is contiguous."""
        match index:
            case Ramp(base, IntImm(1) as one, lanes) if lanes == self._lanes:
                _, terms = linear(base)
                if terms.pop(self._var, 0) == lanes and not any(
                    self._var in free_vars(e) for e in terms
                ):
                    return Ramp(base, one, lanes * self._count)
        raise _RefusedError
