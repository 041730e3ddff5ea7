"""AlternateRows: every other row of an unrolled outer product's sums runs backwards.

before:
    def main(A: Buffer((4,), float32), B: Buffer((4,), float32), C: Buffer((16,), float32)):
        acc = allocate((16,), float32, "local")
        for i in unrolled(4):
            for j in unrolled(4):
                acc[i * 4 + j] = acc[i * 4 + j] + A[i] * B[j]
        for k in range(16):
            C[k] = acc[k]
after:
    def main(A: Buffer((4,), float32), B: Buffer((4,), float32), C: Buffer((16,), float32)):
        acc = allocate((16,), float32, "local")
        for i in unrolled(2):
            acc[i * 2 * 4] = acc[i * 2 * 4] + A[i * 2] * B[0]
            acc[i * 2 * 4 + 1] = acc[i * 2 * 4 + 1] + A[i * 2] * B[1]
            acc[i * 2 * 4 + 2] = acc[i * 2 * 4 + 2] + A[i * 2] * B[2]
            acc[i * 2 * 4 + 3] = acc[i * 2 * 4 + 3] + A[i * 2] * B[3]
            acc[(i * 2 + 1) * 4 + 3] = acc[(i * 2 + 1) * 4 + 3] + A[i * 2 + 1] * B[3]
            acc[(i * 2 + 1) * 4 + 2] = acc[(i * 2 + 1) * 4 + 2] + A[i * 2 + 1] * B[2]
            acc[(i * 2 + 1) * 4 + 1] = acc[(i * 2 + 1) * 4 + 1] + A[i * 2 + 1] * B[1]
            acc[(i * 2 + 1) * 4] = acc[(i * 2 + 1) * 4] + A[i * 2 + 1] * B[0]
        for k in range(16):
            C[k] = acc[k]

A multiply-add of a GPU reads three registers from two banks. It takes another cycle if two of them
are in one bank, unless the instruction before has read one of them as the same operand. Along a
row, consecutive sums share the row's operand. With alternating directions, the last sum of a row
and the first of the next share the column's operand. Every sum keeps the order of its terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from autosched.tir.buffer import Buffer
from autosched.tir.copy_stmt import copy_stmt
from autosched.tir.expr import BufferLoad, Expr, Mul, Var
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import loads_in
from autosched.tir.linear import linear, sum_of
from autosched.tir.loops import count_from_zero
from autosched.tir.op import const
from autosched.tir.stmt import BufferStore, For, ForKind, SeqStmt, Stmt, seq
from autosched.tir.substitute_stmt import substitute_stmt
from autosched.tir.walk import distinct, free_vars, map_children
from autosched.transform.expressions.effects import has_side_effect
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass

MOST = 512
"""Most sums in a nest: twice as many as a thread has registers for."""

LEAST = 4
"""Fewest sums in a row.

Shorter rows are not worth what they cost: NVRTC takes up to four times as long.
"""


@dataclass(frozen=True)
class AlternateRows(FunctionPass):
    """Reverses every other row of two unrolled loops that accumulate products in a thread's memory.

    One factor of each product depends on the row alone and the other on the column alone. Each sum
    is a separate element of memory that no other thread has, and nothing else in the nest reads it,
    so that any order is right. Rows with different operands (of virtual threads) follow one
    another.
    """

    name: ClassVar[str] = "AlternateRows"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        return func.with_body(_alternating(func.body))


def _alternating(s: Stmt) -> Stmt:
    if isinstance(s, BufferStore):
        return s
    if isinstance(s, For):
        nest = _nest(s)
        if nest is not None:
            return seq(*(part for stores in nest.rows() for part in nest.alternating(stores)))
    return map_children(s, _alternating)


class _Nest(NamedTuple):
    """Two unrolled loops, one directly inside the other, and the stores of each iteration."""

    outer: For
    inner: For
    stores: Sequence[BufferStore]

    def rows(self) -> Iterator[list[BufferStore]]:
        """The stores, grouped by their row operands."""
        groups: dict[tuple[BufferLoad, ...], list[BufferStore]] = {}
        column = {self.inner.loop_var}
        for store in self.stores:
            own = [load for load in loads_in(store.value) if not free_vars(load) & column]
            groups.setdefault(tuple(own), []).append(store)
        yield from groups.values()

    def alternating(self, stores: Sequence[BufferStore]) -> Iterator[Stmt]:
        """The rows of `stores`: a loop over pairs of rows, then the last row of an odd number.

        Columns are written out: NVRTC then takes 1.01 times as long, and 1.09 times with loops over
        columns.
        """
        rows, columns = _length(self.outer), _length(self.inner)
        i, j = self.outer.loop_var, self.inner.loop_var
        numbers = [{j: const(column, j.dtype)} for column in range(columns)]
        forth = [substitute_stmt(store, number) for number in numbers for store in stores]
        back = forth[::-1]

        def row(sums: Sequence[Stmt], number: Expr) -> Stmt:
            return seq(*(substitute_stmt(store, {i: number}) for store in sums))

        if rows < 4:
            yield from (row(forth, const(0, i.dtype)), row(back, const(1, i.dtype)))
        else:
            pair = (row(sums, sum_of({i: 2}, k, i.dtype)) for k, sums in enumerate((forth, back)))
            half = const(rows // 2, i.dtype)
            yield copy_stmt(self.outer.with_(extent=half, body=seq(*pair)), {})
        if rows % 2:
            yield row(forth, const(rows - 1, i.dtype))


def _nest(s: For) -> _Nest | None:
    inner = s.body
    if not isinstance(inner, For) or min(_length(s), _length(inner)) < 2:
        return None
    body = inner.body.stmts if isinstance(inner.body, SeqStmt) else (inner.body,)
    stores = [store for store in body if isinstance(store, BufferStore)]
    if len(stores) != len(body) or len(stores) * _length(s) * _length(inner) > MOST:
        return None
    nest = _Nest(s, inner, stores)
    if min(len(row) for row in nest.rows()) * _length(inner) < LEAST:
        return None
    return nest if all(_is_product(nest, store) for store in stores) and _apart(nest) else None


def _length(s: For) -> int:
    """The number of iterations of an unrolled loop that starts at 0; 0 for any other loop."""
    plain = s.kind is ForKind.UNROLLED and not s.annotations
    return count_from_zero(s) if plain else 0


def _is_product(nest: _Nest, store: BufferStore) -> bool:
    """Whether the store adds a product of a row factor and a column factor to its own element."""
    if store.buffer.scope != "local" or has_side_effect(store.value):
        return False
    row, column = nest.outer.loop_var, nest.inner.loop_var
    stored = {other.buffer.data for other in nest.stores}
    for load in loads_in(store.value):
        if load.buffer.data in stored and not _is_own(store, load):
            return False
    return any(
        isinstance(e, Mul) and {row, column} <= free_vars(e) and _separates(e, row, column)
        for e in distinct(store.value)
    )


def _is_own(store: BufferStore, load: BufferLoad) -> bool:
    return load.buffer is store.buffer and load.indices == store.indices


def _separates(e: Mul, row: Var, column: Var) -> bool:
    found = [free_vars(e.a) & {row, column}, free_vars(e.b) & {row, column}]
    return {row} in found and {column} in found


def _apart(nest: _Nest) -> bool:
    """Whether all iterations of all stores write different elements."""
    rows, columns = range(_length(nest.outer)), range(_length(nest.inner))
    place: dict[Var, tuple[Buffer, frozenset[tuple[Expr, int]]]] = {}
    found: set[tuple[Buffer, int]] = set()
    for store in nest.stores:
        if len(store.indices) != 1 or store.indices[0].dtype.lanes != 1:
            return False
        constant, terms = linear(store.indices[0])
        own = [terms.pop(loop.loop_var, 0) for loop in (nest.outer, nest.inner)]
        around = (store.buffer, frozenset(terms.items()))
        if place.setdefault(store.buffer.data, around) != around:  # another view, or other terms
            return False
        if any(free_vars(e) & {nest.outer.loop_var, nest.inner.loop_var} for e in terms):
            return False
        found |= {(store.buffer, constant + own[0] * i + own[1] * j) for i in rows for j in columns}
    return len(found) == len(rows) * len(columns) * len(nest.stores)
