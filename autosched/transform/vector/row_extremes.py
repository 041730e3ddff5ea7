"""What statements that take maxima or minima come to: of which elements each output is one.

    Y[i] = 0;  for k in 2: Y[i] = max(Y[i], X[i + k])    ->    Y[i] = max{0, X[i], X[i + 1]}

Order and repetition do not matter for either, so a set says all there is.
"""

from __future__ import annotations

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
from autosched.tir.walk import free_vars
from autosched.transform.vector.held_reduction import is_pragma

MOST_LANES = 1 << 12
"""Elements that the stores of one statement may make: the row of an image has a few hundred."""

Fold = type[Max] | type[Min]


class Extreme(NamedTuple):
    """The largest, or the least, of `constants` and of the elements `offsets` of the source."""

    constants: frozenset[FloatImm | IntImm]
    offsets: frozenset[int]


class Elements(NamedTuple):
    """Those of `buffer` at constant distances from the sum of `terms`, of type `dtype`."""

    buffer: Buffer
    terms: dict[Expr, int]
    dtype: DType

    @property
    def base(self) -> Expr:
        """The sum of the terms."""
        return sum_of(self.terms, 0, self.dtype)


class _UnlikeError(Exception):
    """A statement that does something else."""


class RowExtremes:
    """What statements one after the other come to, as far as they are alike.

    All outputs are in `output`, all that is read is in `source`, and `fold` is what they take.
    """

    def __init__(self) -> None:
        self.fold: Fold | None = None
        self.source: Elements | None = None
        self.output: Elements | None = None
        self.outputs: dict[int, Extreme] = {}
        self._held: dict[tuple[Var, int], Extreme] = {}
        self._own: set[Var] = set()
        self._at: dict[Var, int] = {}

    def take(self, s: Stmt) -> bool:
        """Whether `s` goes on with what was taken before; what it does is known then."""
        if not _is_small(s):
            return False
        before = self.fold, self.source, self.output
        outputs = dict(self.outputs)
        try:
            self._stmt(s)
        except _UnlikeError:
            self.fold, self.source, self.output = before
            self.outputs = outputs
            self._at.clear()
            return False
        return True

    # -- statements

    def _stmt(self, s: Stmt) -> None:
        match s:
            case BufferStore(predicate=None):
                self._store(s)
            case SeqStmt():
                for part in s.stmts:
                    self._stmt(part)
            case AttrStmt() if is_pragma(s):
                self._stmt(s.body)
            case Allocate() if s.buffer_var.scope == "local" and s.condition is TRUE:
                self._own.add(s.buffer_var)
                self._stmt(s.body)
            case For(kind=ForKind.SERIAL | ForKind.UNROLLED, extent=IntImm(extent)):
                for k in range(extent):
                    self._at[s.loop_var] = k
                    self._stmt(s.body)
                del self._at[s.loop_var]
            case _:
                raise _UnlikeError

    def _store(self, s: BufferStore) -> None:
        values = self._value(s.value)
        place, offsets = self._place(s.buffer, s.indices)
        data = s.buffer.data
        if data in self._own:
            if place.terms:
                raise _UnlikeError
            self._held.update(((data, at), v) for at, v in zip(offsets, values, strict=True))
            return
        if data.scope == "local" or (self.source is not None and data is self.source.buffer.data):
            raise _UnlikeError
        if self.output is None:
            self.output = place
        if place != self.output:
            raise _UnlikeError
        self.outputs.update(zip(offsets, values, strict=True))

    # -- values

    def _value(self, e: Expr) -> list[Extreme]:
        """What each lane of `e` is."""
        match e:
            case FloatImm() | IntImm():
                return [_constant(e)]
            case Broadcast(value=FloatImm() | IntImm() as value):
                return [_constant(value)] * e.dtype.lanes
            case BufferLoad(predicate=None):
                return self._load(e)
            case Max() | Min():
                if self.fold is None:
                    self.fold = type(e)
                if type(e) is not self.fold:
                    raise _UnlikeError
                pairs = zip(self._value(e.a), self._value(e.b), strict=True)
                return [Extreme(a.constants | b.constants, a.offsets | b.offsets) for a, b in pairs]
        raise _UnlikeError

    def _load(self, e: BufferLoad) -> list[Extreme]:
        place, offsets = self._place(e.buffer, e.indices)
        data = e.buffer.data
        if data in self._own:
            known = [None if place.terms else self._held.get((data, at)) for at in offsets]
        elif self.output is not None and data is self.output.buffer.data:
            known = [self.outputs.get(at) if place == self.output else None for at in offsets]
        else:
            if self.source is None:
                self.source = place
            if place != self.source:
                raise _UnlikeError
            return [Extreme(frozenset(), frozenset((at,))) for at in offsets]
        found = [value for value in known if value is not None]
        if len(found) < len(offsets):
            raise _UnlikeError
        return found

    def _place(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Elements, list[int]]:
        """An index: what no loop inside moves, and the rest of it for each lane."""
        (index, *others) = indices
        stride, lanes, base = 0, 1, index
        if isinstance(index, Ramp) and isinstance(index.stride, IntImm):
            stride, lanes, base = index.stride.value, index.dtype.lanes, index.base
        if others or base.dtype.lanes > 1 or buffer.dtype.lanes > 1:
            raise _UnlikeError
        first, terms = linear(base)
        for var, k in self._at.items():
            first += k * terms.pop(var, 0)
        if any(not free_vars(term).isdisjoint(self._at) for term in terms):
            raise _UnlikeError
        return Elements(buffer, terms, base.dtype), [first + k * stride for k in range(lanes)]


def _constant(e: FloatImm | IntImm) -> Extreme:
    """A constant, as the value that its type has for it."""
    if e.dtype.is_custom or e.value != e.value:
        raise _UnlikeError
    if isinstance(e, FloatImm):
        e = FloatImm(float(e.dtype.numpy.type(e.value)), e.dtype)
    return Extreme(frozenset((e,)), frozenset())


def _is_small(s: Stmt) -> bool:
    """Whether the stores of `s` make few enough elements, in loops from 0 to a constant."""
    return 0 < _lanes_in(s) <= MOST_LANES


def _lanes_in(s: Stmt) -> int:
    """Elements that the stores of `s` make; more than MOST_LANES where that is not known."""
    match s:
        case BufferStore():
            return s.value.dtype.lanes
        case SeqStmt():
            return sum(map(_lanes_in, s.stmts))
        case AttrStmt() | Allocate():
            return _lanes_in(s.body)
        case For(min=IntImm(0), extent=IntImm(extent)):
            return extent * _lanes_in(s.body)
    return MOST_LANES + 1
