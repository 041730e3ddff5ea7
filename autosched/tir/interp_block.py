"""Blocks as Python source: their variables, match buffers and initialisation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosched.tir import op
from autosched.tir.expr import Expr, IntImm, IterKind
from autosched.tir.interp_access import ZERO, compact_strides
from autosched.tir.interp_value import Place
from autosched.tir.stmt import Block, BlockRealize, IfThenElse

if TYPE_CHECKING:
    from autosched.tir.interp_stmt import StmtCompiler


def block_realize(c: StmtCompiler, stmt: BlockRealize) -> None:
    """A block at some values of its variables, under its predicate."""
    inner = stmt.block
    for iv, bound in zip(inner.iter_vars, stmt.iter_values, strict=True):
        c.names[iv.var] = c.assign(c.expr(bound))
    if isinstance(stmt.predicate, IntImm) and stmt.predicate.value:
        c.stmt(inner)
    else:
        c.stmt(IfThenElse(stmt.predicate, inner))


def block(c: StmtCompiler, stmt: Block) -> None:
    """A block's buffers, its initialisation in the first step of its reduction, its body."""
    for buffer in stmt.alloc_buffers:
        c.realize(buffer, [(IntImm(0), extent) for extent in buffer.shape])
    for match in stmt.match_buffers:
        source = c.place(match.source.buffer)
        shape = tuple(c.expr(s) for s in match.buffer.shape)
        shifts = tuple(c.assign(c.expr(r.min)) for r in match.source.region)
        c.places[match.buffer] = Place(
            match.buffer.name,
            source.memory,
            source.dtype,
            (ZERO,) * len(shape),
            shape,
            compact_strides(shape),
            complete=True,
            base=source,
            shifts=shifts,
        )
    if stmt.init is not None:
        c.stmt(IfThenElse(_first_step(stmt), stmt.init))
    c.stmt(stmt.body)


def _first_step(stmt: Block) -> Expr:
    """Whether all reduction variables of a block are at the start of their domains."""
    return op.all_(
        *(
            op.eq(iv.var, iv.dom.min)
            for iv in stmt.iter_vars
            if iv.kind == IterKind.REDUCE and iv.dom is not None
        )
    )
