"""Find the initial constant of a reduction's outputs, if nothing else needs it in memory.

for i in range(8):                              C.acc[0:8] = 0.0
    C[i] = 0.0                                  for k in range(64):
for k in range(64):                     ->          C.acc[0:8] = C.acc[0:8] + A[k*8 : +8]
    for i in range(8):                          C[0:8] = C.acc[0:8]
        C[i] = C[i] + A[k * 8 + i]
"""

from __future__ import annotations

from autosched.tir.expr import Expr, FloatImm, IntImm, Var
from autosched.tir.lanes import scalar_of
from autosched.tir.linear import linear
from autosched.tir.stmt import BufferStore, For, Stmt
from autosched.tir.walk import substitute
from autosched.transform.vector.lanes import lane_slice
from autosched.transform.vector.reduction_nest import Axis, Nest, is_counted, match_nest


def first_value(start: Stmt, nest: Nest) -> Expr | None:
    """The scalar that `start` stores to each output of the reduction `nest`.

    None if `start` does anything else, or stores other values, elsewhere, or in another order of
    loops.
    """
    found = _constant_store(start)
    if found is None:
        return None
    axes, store = found
    value = scalar_of(store.value)
    if store.buffer is not nest.buffer or value.dtype is not nest.buffer.dtype:
        return None
    mine, theirs = _moving(axes), [a for a in _moving(nest.axes) if not a.reduces]
    if [a.extent for a in mine] != [a.extent for a in theirs]:
        return None
    if store.value.dtype.lanes != nest.value.dtype.lanes:
        return None
    table: dict[Var, Expr] = {a.var: b.var for a, b in zip(mine, theirs, strict=True)}
    first, second = (lane_slice(index, 0, 1) for index in (store.indices[0], nest.index))
    if first is None or second is None:
        return None
    return value if linear(substitute(first, table)) == linear(second) else None


def _moving(axes: tuple[Axis, ...]) -> list[Axis]:
    return [a for a in axes if a.extent > 1]


def _constant_store(start: Stmt) -> tuple[tuple[Axis, ...], BufferStore] | None:
    """The loops around the only store of `start`, of a constant, and that store; else None."""
    store = start
    while isinstance(store, For):
        store = store.body
    if not isinstance(store, BufferStore) or store.predicate is not None:
        return None
    value = scalar_of(store.value)
    if not isinstance(value, FloatImm | IntImm) or len(store.indices) != 1:
        return None
    if not isinstance(start, For):
        return (), store
    nest = match_nest(start) if is_counted(start) else None
    return None if nest is None else (nest.axes, store)
