"""Expansion of a Prefetch of a region into loops of prefetch calls."""

from __future__ import annotations

from collections.abc import Callable

from autosched.tir.buffer import Buffer
from autosched.tir.dtype import handle, int32
from autosched.tir.expr import BufferLoad, Call, Expr, IntImm, Range, Var
from autosched.tir.op import add, floordiv, mul
from autosched.tir.stmt import Evaluate, For, ForKind, Stmt

_READ, _KEEP_IN_ALL_LEVELS, _DATA_CACHE = 0, 3, 1


def flat_prefetch(
    buffer: Buffer,
    offset: Callable[[tuple[Expr, ...]], Expr],
    bounds: tuple[Range, ...],
    cache_line: int,
) -> Stmt:
    """One prefetch call per cache line (`cache_line` bytes) of the region `bounds` of `buffer`.

    The innermost dimensions that fit into one line together need one call. The next dimension is
    stepped through by lines, the outer ones by elements. `offset` maps multi-dimensional indices to
    the flat index.
    """
    per_line = max(1, cache_line // buffer.dtype.bytes)
    block = 1
    dim = len(bounds) - 1
    while dim >= 0:
        extent = bounds[dim].extent
        if not isinstance(extent, IntImm) or block * extent.value > per_line:
            break
        block *= extent.value
        dim -= 1
    indices = [r.min for r in bounds]
    loops: list[tuple[Var, Expr]] = []
    for k in range(dim + 1):
        var = Var(f"prefetch.{buffer.name}.{k}", bounds[k].min.dtype)
        step = max(1, per_line // block) if k == dim else 1
        loops.append((var, floordiv(add(bounds[k].extent, step - 1), step)))
        indices[k] = add(bounds[k].min, mul(var, step))
    address = Call(handle, "address_of", (BufferLoad(buffer, (offset(tuple(indices)),)),))
    options = tuple(map(IntImm, (_READ, _KEEP_IN_ALL_LEVELS, _DATA_CACHE)))
    stmt: Stmt = Evaluate(Call(int32, "prefetch", (address, *options)))
    for var, count in reversed(loops):
        stmt = For(var, IntImm(0, var.dtype), count, ForKind.SERIAL, stmt)
    return stmt
