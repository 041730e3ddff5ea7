"""Compiles blocks to Python source: their variables, match buffers and initialisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autosched.tir import op
from autosched.tir.buffer import Buffer
from autosched.tir.expr import Expr, IntImm, IterKind, Var
from autosched.tir.interp_access import ZERO, flat_index
from autosched.tir.interp_memory import InterpreterError
from autosched.tir.interp_value import Place, Value
from autosched.tir.stmt import Block, BlockRealize, IfThenElse, MatchBufferRegion

if TYPE_CHECKING:
    from autosched.tir.interp_stmt import StmtCompiler


def block_realize(c: StmtCompiler, stmt: BlockRealize) -> None:
    """Compile a block with values for its variables, under its predicate."""
    inner = stmt.block
    for iv, bound in zip(inner.iter_vars, stmt.iter_values, strict=True):
        c.names[iv.var] = c.assign(c.expr(bound))
    if isinstance(stmt.predicate, IntImm) and stmt.predicate.value:
        c.stmt(inner)
    else:
        c.stmt(IfThenElse(stmt.predicate, inner))


def block(c: StmtCompiler, stmt: Block) -> None:
    """Compile a block: its buffers, its init in the first step of its reductions, its body."""
    for buffer in stmt.alloc_buffers:
        _allocate(c, buffer)
    bound = {v for m in stmt.match_buffers for v in m.variables() if v not in c.names}
    for match in stmt.match_buffers:
        _match(c, match)
    if stmt.init is not None:
        c.stmt(IfThenElse(_first_step(stmt), stmt.init))
    c.stmt(stmt.body)
    for var in bound:  # another block may bind the same variable again
        c.names.pop(var)


def _allocate(c: StmtCompiler, buffer: Buffer) -> None:
    """Allocate fresh storage for a buffer, large enough for its strides."""
    if not buffer.strides:
        c.realize(buffer, [(IntImm(0), extent) for extent in buffer.shape])
        return
    size = c.assign(c.expr(op.mul(buffer.strides[0], buffer.shape[0])))
    c.allocate(buffer.data, buffer.name, buffer.dtype, [size])


def _match(c: StmtCompiler, match: MatchBufferRegion) -> None:
    """Bind a match buffer as a view of its region.

    Indices of the view are shifted by the region's mins. Its offset, strides and extents are bound
    if they are unbound variables, else checked against the region.
    """
    view, region = match.buffer, match.source.region
    source = c.place(match.source.buffer)
    dropped = len(region) - len(view.shape)
    if dropped < 0:
        raise InterpreterError(
            f"{view.name} has {len(view.shape)} dimensions, the region that it matches "
            f"{len(region)}"
        )
    extents = [c.assign(c.expr(r.extent)) for r in region]
    shifts = tuple(c.assign(c.expr(r.min)) for r in region)
    c.memory[view.data] = source.memory
    start = flat_index(c, source, tuple(r.min for r in region))
    if source.dtype.lanes > 1:
        start = start._replace(text=f"{start.text} // {source.dtype.lanes}", strength=0)
    pairs: list[tuple[Expr | None, Value]] = [(view.elem_offset, start)]
    pairs += zip(view.strides, source.strides[dropped:], strict=False)
    pairs += zip(view.shape, extents[dropped:], strict=True)
    for wanted, found in pairs:
        _bind(c, match, wanted, found)
    for extent in extents[:dropped]:
        _require(c, match, ("1", Value("1", low=1, high=1)), extent)
    shape = tuple(c.expr(s) for s in view.shape)
    c.places[view] = Place(
        view.name,
        source.memory,
        source.dtype,
        (ZERO,) * len(shape),
        shape,
        source.strides[dropped:],
        complete=True,
        base=source,
        shifts=shifts,
    )


def _bind(c: StmtCompiler, match: MatchBufferRegion, wanted: Expr | None, found: Value) -> None:
    if wanted is None:
        return
    if isinstance(wanted, Var) and wanted not in c.names:
        c.names[wanted] = c.assign(found)
    else:
        _require(c, match, (repr(wanted), c.expr(wanted)), found)


def _require(
    c: StmtCompiler, match: MatchBufferRegion, wanted: tuple[str, Value], found: Value
) -> None:
    """Emit a check that a declared extent, stride or offset of the view equals the region's."""
    text, value = wanted
    if value.low == value.high == found.low == found.high:
        return
    message = f"{match.buffer.name} matches a region that differs from it in {text}"
    c.emit(f"check(({value.text}) == ({found.text}), {c.mask}, {message!r})")


def _first_step(stmt: Block) -> Expr:
    """The condition that all reduction variables of a block are at the start of their domains."""
    return op.all_(
        *(
            op.eq(iv.var, iv.dom.min)
            for iv in stmt.iter_vars
            if iv.kind == IterKind.REDUCE and iv.dom is not None
        )
    )


def match_sources(matches: Sequence[MatchBufferRegion], written: set[Var]) -> set[Var]:
    """The pointers whose memory is written through match buffers, given the `written` pointers."""
    found: set[Var] = set()
    for match in reversed(matches):
        if match.buffer.data in written | found:
            found.add(match.source.buffer.data)
    return found
