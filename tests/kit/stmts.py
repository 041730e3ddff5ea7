"""Statements and functions built by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from autosched.tir.buffer import Buffer
from autosched.tir.dtype import handle
from autosched.tir.expr import Expr, IntImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import BufferStore, For, ForKind, Stmt
from autosched.transform.vector.reduction_nest import Nest, match_nest

T = TypeVar("T")


def loop(
    var: Var,
    extent: int | Expr,
    body: Stmt,
    kind: ForKind = ForKind.SERIAL,
    low: int | Expr = 0,
) -> For:
    """`for var in range(low, low + extent): body`; integers are int32."""
    return For(var, _expr(low), _expr(extent), kind, body)


def matched(buffer: Buffer, index: Expr, value: Expr, *loops: tuple[Var, int]) -> Nest:
    """The nest of `loops`, outermost first, around `buffer[index] = value`."""
    body: Stmt = BufferStore(buffer, value, (index,))
    for var, extent in reversed(loops):
        body = loop(var, extent, body)
    found = match_nest(as_a(For, body))
    assert found is not None
    return found


def func_of(
    body: Stmt, *buffers: Buffer, te: bool = False, scalars: Sequence[Var] = (), **attrs: Any
) -> PrimFunc:
    """A function called main whose parameters are `buffers` and then `scalars`.

    `te` marks the function as coming from a schedule: its buffers are not flat yet.
    """
    params = [Var(f"{b.name}_handle", handle) for b in buffers]
    attrs = {"global_symbol": "main", **attrs}
    if te:
        attrs["from_legacy_te_schedule"] = True
    return PrimFunc((*params, *scalars), body, dict(zip(params, buffers, strict=True)), attrs)


def as_a(kind: type[T], found: object) -> T:
    """`found`, asserted to be of the type `kind`."""
    assert isinstance(found, kind), f"expected {kind.__name__}, found {found!r}"
    return found


def _expr(value: int | Expr) -> Expr:
    return IntImm(value) if isinstance(value, int) else value
