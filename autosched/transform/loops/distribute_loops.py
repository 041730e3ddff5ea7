"""One loop over a reduction's start and its steps becomes one loop for each.

    for w in range(14):                        for w in range(14):
        Y[w] = 0                        ->         Y[w] = 0
        for k in range(9):                     for w in range(14):
            Y[w] = Y[w] + A[w + k]                 for k in range(9):
                                                       Y[w] = Y[w] + A[w + k]

Afterwards the loop belongs to the nest of the reduction, which can accumulate several of its
outputs at once. It is done for outputs that stay in the nearest cache meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autosched.tir.expr import Expr, IntImm, Ramp, Var
from autosched.tir.linear import linear
from autosched.tir.stmt import BufferStore, For, SeqStmt, Stmt, seq
from autosched.tir.walk import free_vars
from autosched.transform.vector.reduction_nest import is_counted, output_reads

MAX_ELEMENTS = 4096
"""Outputs between the two loops: 16 KiB of float32, half of a usual first-level cache."""


@dataclass(frozen=True, slots=True)
class _Footprint:
    """What one iteration of a loop writes: `data[constant + terms + step * var + each of axes]`."""

    data: Var
    constant: int
    terms: frozenset[tuple[Expr, int]]
    step: int
    axes: tuple[tuple[int, int], ...]


def distribute(loop: For) -> Stmt:
    """`loop` and the loops just inside it, distributed where that is legal and worth it."""
    body = loop.body
    if isinstance(body, For) and is_counted(body):
        body = distribute(body)
    if isinstance(body, SeqStmt) and _is_legal(loop, body.stmts):
        return seq(*(_around(loop, part) for part in body.stmts))
    return loop if body is loop.body else _around(loop, body)


def _around(loop: For, body: Stmt) -> For:
    return For(loop.loop_var, loop.min, loop.extent, loop.kind, body)


def _is_legal(loop: For, parts: Sequence[Stmt]) -> bool:
    """True when no iteration touches what another one writes."""
    first = _footprint(parts[0], loop.loop_var)
    if first is None or any(_footprint(p, loop.loop_var) != first for p in parts[1:]):
        return False
    assert isinstance(loop.extent, IntImm)
    axes = sorted((*first.axes, (first.step, loop.extent.value)))
    reach = 1
    for stride, extent in axes:
        if stride < reach:
            return False
        reach += stride * (extent - 1)
    return math.prod(extent for _, extent in axes) <= MAX_ELEMENTS


def _footprint(part: Stmt, var: Var) -> _Footprint | None:
    loops: dict[Var, int] = {}
    while isinstance(part, For) and is_counted(part):
        assert isinstance(part.extent, IntImm)
        loops[part.loop_var] = part.extent.value
        part = part.body
    if not isinstance(part, BufferStore) or part.predicate is not None or len(part.indices) != 1:
        return None
    if part.buffer.dtype.lanes > 1 or output_reads(part) is None:
        return None
    (index,) = part.indices
    base, lanes = index, index.dtype.lanes
    if lanes > 1:
        if not (isinstance(index, Ramp) and index.stride is IntImm(1, index.stride.dtype)):
            return None
        base = index.base
    constant, terms = linear(base)
    inner = {v: terms.pop(v, 0) for v in loops}
    step = terms.pop(var, 0)
    changing = {var, *loops}
    if step <= 0 or any(not changing.isdisjoint(free_vars(t)) for t in terms):
        return None
    axes = [(c, loops[v]) for v, c in inner.items() if c and loops[v] > 1]
    if any(c < 0 for c, _ in axes):
        return None
    axes += [(1, lanes)] if lanes > 1 else []
    return _Footprint(
        part.buffer.data, constant, frozenset(terms.items()), step, _merged(sorted(axes))
    )


def _merged(axes: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Axes that continue each other as one."""
    result: list[tuple[int, int]] = []
    for stride, extent in axes:
        if result and stride == result[-1][0] * result[-1][1]:
            result[-1] = (result[-1][0], result[-1][1] * extent)
        else:
            result.append((stride, extent))
    return tuple(result)
