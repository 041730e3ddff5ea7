"""Distribute a loop over a reduction's initialisation and its steps into one loop for each.

    for w in range(14):                        for w in range(14):
        Y[w] = 0                        ->         Y[w] = 0
        for k in range(9):                     for w in range(14):
            Y[w] = Y[w] + A[w + k]                 for k in range(9):
                                                       Y[w] = Y[w] + A[w + k]

Afterwards the loop belongs to the nest of the reduction, which can accumulate several of its
outputs at once. A loop is distributed if its outputs stay in the nearest cache meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence

from autosched.nest.distribution import Footprint, footprint, is_distributable
from autosched.tir.constants import is_one
from autosched.tir.expr import Expr, IntImm, Ramp, Var
from autosched.tir.linear import combine, linear
from autosched.tir.loops import trip_count
from autosched.tir.stmt import BufferStore, For, SeqStmt, Stmt, seq
from autosched.tir.walk import free_vars
from autosched.transform.vector.reduction_nest import is_counted, output_reads


def distribute(loop: For) -> Stmt:
    """`loop` and the loops just inside it, distributed where that is legal and worth it."""
    body = loop.body
    if isinstance(body, For) and is_counted(body):
        body = distribute(body)
    if isinstance(body, SeqStmt) and _is_legal(loop, body.stmts):
        return seq(*(loop.with_(body=part) for part in body.stmts))
    return loop.with_(body=body)


def _is_legal(loop: For, parts: Sequence[Stmt]) -> bool:
    """Whether no iteration touches what another one writes."""
    return is_distributable([_footprint(p, loop.loop_var) for p in parts], trip_count(loop))


def _footprint(part: Stmt, var: Var) -> Footprint | None:
    loops: dict[Var, int] = {}
    while isinstance(part, For) and is_counted(part):
        loops[part.loop_var] = trip_count(part)
        part = part.body
    if not isinstance(part, BufferStore) or part.predicate is not None:
        return None
    if part.buffer.dtype.lanes > 1 or part.buffer.strides or output_reads(part) is None:
        return None
    *outer, last = part.indices
    base, lanes = last, last.dtype.lanes
    if lanes > 1:
        if not (isinstance(last, Ramp) and is_one(last.stride)):
            return None
        base = last.base
    address = _address([*outer, base], part.buffer.shape)
    if address is None:
        return None
    constant, terms = address
    inner = {v: terms.pop(v, 0) for v in loops}
    step = terms.pop(var, 0)
    changing = {var, *loops}
    if any(not changing.isdisjoint(free_vars(t)) for t in terms):
        return None
    buffer = part.buffer
    place = buffer.data, buffer.dtype, buffer.elem_offset, constant, frozenset(terms.items())
    axes = [(stride, loops[v]) for v, stride in inner.items()]
    return footprint(place, step, [*axes, (1, lanes)])


def _address(indices: Sequence[Expr], shape: Sequence[Expr]) -> tuple[int, dict[Expr, int]] | None:
    """The position of an element, as `linear` gives it; None if an extent in it is unknown.

    There may be several indices, because features are extracted before buffers are flat.
    """
    address: tuple[int, dict[Expr, int]] = 0, {}
    scale = 1
    for index, extent in zip(reversed(indices), [*reversed(shape[1:]), None], strict=True):
        address = combine(address, linear(index), scale)
        if isinstance(extent, IntImm):
            scale *= extent.value
        elif extent is not None:
            return None
    return address
