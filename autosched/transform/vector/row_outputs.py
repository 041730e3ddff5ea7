"""Find which elements a statement of maxima or minima stores, without computing their values.

    for i in 2: for k in 3: Y[i * 4:i * 4 + 4] = max(Y[i * 4:i * 4 + 4], X[i * 9 + k:i * 9 + k + 4])

stores Y[0] to Y[7]. That costs little compared with computing what is stored, and rules out most
statements that are not part of a row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from autosched.tir.buffer import Buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import (
    Broadcast,
    BufferLoad,
    Expr,
    FloatImm,
    IntImm,
    Max,
    Min,
    Ramp,
    Var,
)
from autosched.tir.linear import linear, sum_of
from autosched.tir.stmt import TRUE, Allocate, AttrStmt, BufferStore, For, ForKind, SeqStmt, Stmt
from autosched.tir.walk import uses
from autosched.transform.vector.held_reduction import is_pragma

MOST_LANES = 1 << 12
"""Most elements that the stores of one statement make: the row of an image has a few hundred."""


class UnlikeError(Exception):
    """A statement does something else than take extremes of elements at constant distances."""


class Elements(NamedTuple):
    """Elements of `buffer` at constant distances from the sum of `terms`, of the type `dtype`."""

    buffer: Buffer
    terms: dict[Expr, int]
    dtype: DType

    @property
    def base(self) -> Expr:
        """The sum of the terms."""
        return sum_of(self.terms, 0, self.dtype)


class Place(NamedTuple):
    """The elements of one access.

    They are `lanes` of `elements`, from `first` on and `stride` apart. `factors` has the distance
    by which each loop inside moves them.
    """

    elements: Elements
    first: int
    stride: int
    lanes: int
    factors: tuple[tuple[Var, int], ...]


def place_of(buffer: Buffer, indices: tuple[Expr, ...], loops: Collection[Var]) -> Place:
    """The elements at an index inside `loops`; UnlikeError if their distances are not constant."""
    (index, *others) = indices
    stride, lanes, base = 0, 1, index
    if isinstance(index, Ramp) and isinstance(index.stride, IntImm):
        stride, lanes, base = index.stride.value, index.dtype.lanes, index.base
    if others or base.dtype.lanes > 1 or buffer.dtype.lanes > 1:
        raise UnlikeError
    first, terms = linear(base)
    factors = tuple((var, terms.pop(var)) for var in loops if var in terms)
    if loops and any(uses(term, loops) for term in terms):
        raise UnlikeError
    return Place(Elements(buffer, terms, base.dtype), first, stride, lanes, factors)


class Outputs(NamedTuple):
    """The elements that a statement stores to, at the offsets `places` in `elements`.

    `elements` is None if the statement stores to its own buffers alone.
    """

    elements: Elements | None
    places: set[int]


def outputs_of(s: Stmt) -> Outputs | None:
    """The elements that `s` stores to, except those of buffers that it allocates.

    None if `s` computes anything but extremes, stores more than MOST_LANES elements, has loops
    other than from 0 to a constant, or stores to registers that outlive it.
    """
    if not 0 < _lanes_in(s) <= MOST_LANES:
        return None
    elements: Elements | None = None
    places: set[int] = set()
    try:
        for store, loops in _outer_stores(s, {}, set()):
            place = place_of(store.buffer, store.indices, loops)
            if elements is not None and place.elements != elements:
                return None
            elements = place.elements
            places.update(_places(place, loops))
    except UnlikeError:
        return None
    return Outputs(elements, places)


def _lanes_in(s: Stmt) -> int:
    """The number of elements that the stores of `s` make.

    More than MOST_LANES if it is unknown, or if the stored values are not extremes.
    """
    match s:
        case BufferStore(predicate=None) if _is_extreme(s.value):
            return s.value.dtype.lanes
        case SeqStmt():
            lanes = 0
            for part in s.stmts:
                lanes += _lanes_in(part)
                if lanes > MOST_LANES:
                    break
            return lanes
        case AttrStmt() | Allocate():
            return _lanes_in(s.body)
        case For(min=IntImm(0), extent=IntImm(extent)):
            return extent * _lanes_in(s.body)
    return MOST_LANES + 1


def _is_extreme(e: Expr) -> bool:
    """Whether `e` consists of Max and Min alone, over constants and loads."""
    while isinstance(e, Max | Min):
        if not _is_extreme(e.b):
            return False
        e = e.a
    return isinstance(e, BufferLoad | FloatImm | IntImm | Broadcast)


def _outer_stores(
    s: Stmt, loops: dict[Var, int], own: set[Var]
) -> Iterator[tuple[BufferStore, dict[Var, int]]]:
    """The stores of `s` to buffers that it does not allocate, with their loops and extents."""
    match s:
        case BufferStore():
            data = s.buffer.data
            if data in own:
                return
            if data.scope == "local":
                raise UnlikeError
            yield s, loops
        case SeqStmt():
            for part in s.stmts:
                yield from _outer_stores(part, loops, own)
        case AttrStmt() if is_pragma(s):
            yield from _outer_stores(s.body, loops, own)
        case Allocate() if s.buffer_var.scope == "local" and s.condition is TRUE:
            own.add(s.buffer_var)
            yield from _outer_stores(s.body, loops, own)
        case For(kind=ForKind.SERIAL | ForKind.UNROLLED, extent=IntImm(extent)):
            yield from _outer_stores(s.body, {**loops, s.loop_var: extent}, own)
        case _:
            raise UnlikeError


def _places(place: Place, loops: dict[Var, int]) -> list[int]:
    """All offsets that a place takes while its `loops` run."""
    found = [place.first + k * place.stride for k in range(place.lanes)]
    for var, factor in place.factors:
        found = [at + k * factor for k in range(loops[var]) for at in found]
    return found
