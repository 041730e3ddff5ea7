"""Find which elements each output of statements is the maximum or minimum of.

    Y[i] = 0;  for k in 2: Y[i] = max(Y[i], X[i + k])    ->    Y[i] = max{0, X[i], X[i + 1]}

Neither order nor repetition matters to an extreme, so that a set of elements describes it.
"""

from __future__ import annotations

from typing import NamedTuple

from autosched.tir.buffer import Buffer
from autosched.tir.expr import Broadcast, BufferLoad, Expr, FloatImm, IntImm, Max, Min, Var
from autosched.tir.stmt import Allocate, AttrStmt, BufferStore, For, SeqStmt, Stmt
from autosched.transform.vector.row_outputs import Elements, Place, UnlikeError, place_of

Fold = type[Max] | type[Min]


class Extreme(NamedTuple):
    """The largest or the least of `constants` and of the elements of the source at `offsets`."""

    constants: frozenset[FloatImm | IntImm]
    offsets: frozenset[int]


class RowExtremes:
    """The extremes that consecutive statements store, as long as the statements are alike.

    All outputs are in `output`, all loaded elements in `source`, and `fold` is Max or Min.
    `outputs` has the extreme of each output, by its offset.
    """

    def __init__(self) -> None:
        self.fold: Fold | None = None
        self.source: Elements | None = None
        self.output: Elements | None = None
        self.outputs: dict[int, Extreme] = {}
        self._held: dict[tuple[Var, int], Extreme] = {}
        self._own: dict[Var, Buffer | None] = {}
        self._at: dict[Var, int] = {}
        self._places: dict[tuple[Buffer, tuple[Expr, ...]], Place] = {}

    def take(self, s: Stmt) -> bool:
        """Add `s`, which has `outputs_of`, to the statements; return whether it is alike.

        If it is not alike, the extremes known so far stay. `outputs` becomes a new dictionary: a
        copy of the row made before stays as it is.
        """
        before = self.fold, self.source, self.output, self.outputs
        self.outputs = dict(self.outputs)
        try:
            self._stmt(s)
        except UnlikeError:
            self.fold, self.source, self.output, self.outputs = before
            self._at.clear()
            return False
        return True

    # -- statements

    def _stmt(self, s: Stmt) -> None:
        match s:
            case BufferStore():
                self._store(s)
            case SeqStmt():
                for part in s.stmts:
                    self._stmt(part)
            case AttrStmt():
                self._stmt(s.body)
            case Allocate():
                self._own[s.buffer_var] = None
                self._stmt(s.body)
            case For(extent=IntImm(extent)):
                for k in range(extent):
                    self._at[s.loop_var] = k
                    self._stmt(s.body)
                del self._at[s.loop_var]

    def _store(self, s: BufferStore) -> None:
        values = self._value(s.value)
        elements, offsets = self._place(s.buffer, s.indices)
        data = s.buffer.data
        if self._is_own(s.buffer):
            if elements.terms:
                raise UnlikeError
            self._held.update(((data, at), v) for at, v in zip(offsets, values, strict=True))
            return
        if self.source is not None and data is self.source.buffer.data:
            raise UnlikeError
        if self.output is None:
            self.output = elements
        if elements != self.output:
            raise UnlikeError
        self.outputs.update(zip(offsets, values, strict=True))

    # -- values

    def _value(self, e: Expr) -> list[Extreme]:
        """The extreme in each lane of `e`."""
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
                    raise UnlikeError
                pairs = zip(self._value(e.a), self._value(e.b), strict=True)
                return [Extreme(a.constants | b.constants, a.offsets | b.offsets) for a, b in pairs]
        raise UnlikeError

    def _load(self, e: BufferLoad) -> list[Extreme]:
        elements, offsets = self._place(e.buffer, e.indices)
        data = e.buffer.data
        if self._is_own(e.buffer):
            known = [None if elements.terms else self._held.get((data, at)) for at in offsets]
        elif self.output is not None and data is self.output.buffer.data:
            known = [self.outputs.get(at) if elements == self.output else None for at in offsets]
        else:
            if self.source is None:
                self.source = elements
            if elements != self.source:
                raise UnlikeError
            return [Extreme(_NO_CONSTANTS, frozenset((at,))) for at in offsets]
        found = [value for value in known if value is not None]
        if len(found) < len(offsets):
            raise UnlikeError
        return found

    def _is_own(self, buffer: Buffer) -> bool:
        """Whether the statements allocate the buffer; UnlikeError for a second view of one."""
        if buffer.data not in self._own:
            return False
        first = self._own[buffer.data] = self._own[buffer.data] or buffer
        if first is not buffer:
            raise UnlikeError
        return True

    def _place(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Elements, list[int]]:
        """The elements that an index moves over, and the offset of each lane in this iteration."""
        place = self._places.get((buffer, indices))
        if place is None:
            place = self._places[buffer, indices] = place_of(buffer, indices, self._at)
        first = place.first + sum(factor * self._at[var] for var, factor in place.factors)
        return place.elements, [first + k * place.stride for k in range(place.lanes)]


_NO_CONSTANTS: frozenset[FloatImm | IntImm] = frozenset()


def _constant(e: FloatImm | IntImm) -> Extreme:
    """The extreme of a constant, rounded to its type; UnlikeError for NaN and custom types."""
    if e.dtype.is_custom or e.value != e.value:
        raise UnlikeError
    if isinstance(e, FloatImm):
        e = FloatImm(float(e.dtype.numpy.type(e.value)), e.dtype)
    return Extreme(frozenset((e,)), frozenset())
