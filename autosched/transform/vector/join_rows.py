"""JoinRows: sums of short rows become one vector if one vector of their operand holds the rows.

before:
    def main(A: Buffer((36,), float32), K: Buffer((4,), float32), C: Buffer((6,), float32)):
        C.acc = allocate((6,), float32, "local")
        C.acc[0:3] = broadcast(0.0, 3)
        C.acc[3:6] = broadcast(0.0, 3)
        for k in range(4):
            C.acc[0:3] = C.acc[0:3] + A[k * 9:k * 9 + 3] * broadcast(K[k], 3)
            C.acc[3:6] = C.acc[3:6] + A[k * 9 + 5:k * 9 + 5 + 3] * broadcast(K[k], 3)
        C[0:3] = C.acc[0:3]
        C[3:6] = C.acc[3:6]
after JoinRows{vector_bytes=32}:
    def main(A: Buffer((36,), float32), K: Buffer((4,), float32), C: Buffer((6,), float32)):
        C.acc.rows = allocate((8,), float32, "local")
        C.acc.rows[0:8] = broadcast(0.0, 8)
        for k in range(4):
            C.acc.rows[0:8] = C.acc.rows[0:8] + A[k * 9:k * 9 + 8] * broadcast(K[k], 8)
        C[0:3] = shuffle([C.acc.rows[0:8]], [0, 1, 2])
        C[3:6] = shuffle([C.acc.rows[0:8]], [5, 6, 7])

The rows of a small image have 7 floats, where a register has 16. Two of these rows and the border
between them lie in 16 floats. The lanes between compute values that nothing uses. The elements that
they load exist, because elements before and behind them are loaded. Convolutions of 7x7 take 0.54
to 0.72 of the time (AVX-512); they gain less where they wait for their weights.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar, NamedTuple

from autosched.tir.buffer import Buffer
from autosched.tir.expr import (
    Add,
    Broadcast,
    BufferLoad,
    Cast,
    Expr,
    FloatImm,
    IntImm,
    Mul,
    Ramp,
    Shuffle,
    Sub,
    Var,
    pointer,
)
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import loads_in
from autosched.tir.linear import linear
from autosched.tir.op import broadcast, const
from autosched.tir.stmt import TRUE, Allocate, BufferStore, SeqStmt, Stmt, seq
from autosched.tir.walk import child_stmts, direct_exprs, distinct, map_children, rewrite_expr
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.vector.chosen_columns import lanes_at
from autosched.transform.vector.lanes import lane_slice


@dataclass(frozen=True)
class JoinRows(FunctionPass):
    """Joins sums in registers whose vectors are half of `vector_bytes` or less.

    Sums become one if their terms differ only in where a vector is loaded, always by the same
    number of elements, and if all of them fit one register. The sums begin with the same constant.
    """

    vector_bytes: int = 64
    name: ClassVar[str] = "JoinRows"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        return func.with_body(self._stmt(func.body))

    def _stmt(self, s: Stmt) -> Stmt:
        if isinstance(s, BufferStore):
            return s
        if isinstance(s, Allocate) and s.buffer_var.scope == "local":
            sums = _Sums(s.buffer_var, self.vector_bytes // s.dtype.bytes)
            groups = list(sums.groups()) if sums.read(s.body) else []
            if groups:
                return _Joined(sums, groups).allocate(s)
        return map_children(s, self._stmt)


class _Slot(NamedTuple):
    """The place of one sum in the buffer: `lanes` elements from `start` on."""

    start: int
    lanes: int


class _Place(NamedTuple):
    """A statement of a sequence: the one at position `number` of `whole`."""

    whole: SeqStmt
    number: int


class _Term(NamedTuple):
    """An added value.

    `form` is the value with its load at 0. The load is at the sum of `terms` plus the constant
    `offset`.
    """

    form: Expr
    terms: frozenset[tuple[Expr, int]]
    offset: int


@dataclass(slots=True)
class _Sum:
    """A sum: its first constant, its terms in program order, and the places of its statements."""

    initial: list[Expr] = field(default_factory=list)
    terms: list[_Term] = field(default_factory=list)
    places: list[_Place] = field(default_factory=list)


class _Group(NamedTuple):
    """Sums that become one sum of `lanes` lanes; `shifts` has the first lane of each, from 0 on."""

    shifts: dict[_Slot, int]
    lanes: int


@dataclass(slots=True)
class _Sums:
    """The sums in the buffer of the pointer `data`, of which `fit` elements fill a register."""

    data: Var
    fit: int
    slots: dict[_Slot, _Sum] = field(default_factory=dict)

    def read(self, s: Stmt, place: _Place | None = None) -> bool:
        """Whether `s` uses the buffer only to begin sums, add to them and read them."""
        if isinstance(s, BufferStore) and s.buffer.data is self.data:
            return place is not None and self._store(s, place)
        if isinstance(s, SeqStmt):
            return all(self.read(part, _Place(s, k)) for k, part in enumerate(s.stmts))
        used = [x for e in direct_exprs(s) for x in self._uses(e)]
        if used and not (isinstance(s, BufferStore) and all(map(self._is_sum, used))):
            return False
        return all(self.read(part) for part in child_stmts(s))

    def _store(self, s: BufferStore, place: _Place) -> bool:
        slot = self.slot_of(s)
        if slot is None or slot.lanes < 2 or 2 * slot.lanes > self.fit or s.predicate is not None:
            return False
        found = self.slots.setdefault(slot, _Sum())
        found.places.append(place)
        match s.value:
            case Broadcast(FloatImm() | IntImm() as value, _) if not found.places[1:]:
                found.initial.append(value)
                return True
            case Add(a, b):
                old, added = (a, b) if self._is_sum(a) else (b, a)
                term = None if list(self._uses(added)) else _term(added)
                if term is not None and isinstance(old, BufferLoad) and self.slot_of(old) == slot:
                    found.terms.append(term)
                    return True
        return False

    def slot_of(self, access: BufferStore | BufferLoad) -> _Slot | None:
        """The slot of an access to the buffer; None for other accesses and variable places."""
        if access.buffer.data is self.data and access.buffer.dtype.lanes == 1:
            match access.indices:
                case (Ramp(IntImm(start), IntImm(1), lanes),):
                    return _Slot(start, lanes)
        return None

    def _uses(self, e: Expr) -> Iterator[Expr]:
        """The loads from the buffer in `e`, and its pointer where that stands alone."""
        for x in distinct(e):
            if x is self.data or (isinstance(x, BufferLoad) and x.buffer.data is self.data):
                yield x

    def _is_sum(self, e: Expr) -> bool:
        """Whether `e` loads one sum as a whole."""
        if not isinstance(e, BufferLoad) or e.predicate is not None:
            return False
        slot = self.slot_of(e)
        return slot is not None and slot in self.slots

    def groups(self) -> Iterator[_Group]:
        """Groups of sums that can become one sum, two or more sums each."""
        if any(a.start + a.lanes > b.start for a, b in pairwise(sorted(self.slots))):
            return
        alike = defaultdict[object, list[_Slot]](list)
        for slot, one in self.slots.items():
            if one.initial and one.terms:
                terms = [(term.form, term.terms) for term in one.terms]
                alike[(slot.lanes, *one.initial, *terms)].append(slot)
        for slots in alike.values():
            slots.sort(key=lambda slot: self.slots[slot].terms[0].offset)
            while slots:
                chosen, lanes = dict[_Slot, int](), 0
                for slot in slots:
                    shift = self._shift(slots[0], slot)
                    if shift is not None and lanes <= shift <= self.fit - slot.lanes:
                        chosen[slot] = shift
                        lanes = shift + slot.lanes
                if len(chosen) > 1:
                    yield _Group(chosen, lanes)
                slots = [slot for slot in slots if slot not in chosen]

    def _shift(self, first: _Slot, other: _Slot) -> int | None:
        """The distance from the loads of `first` to those of `other`, if it is always the same.

        None if it is not, or if other statements stand between the statements of the two sums.
        """
        one, two = self.slots[first], self.slots[other]
        shifts = {b.offset - a.offset for a, b in zip(one.terms, two.terms, strict=True)}
        beside = all(map(self._beside, one.places, two.places))
        return shifts.pop() if beside and len(shifts) == 1 else None

    def _beside(self, a: _Place, b: _Place) -> bool:
        """Whether nothing but statements about sums stands between the two."""
        low, high = sorted((a.number, b.number))
        return a.whole is b.whole and all(
            isinstance(s, BufferStore) and s.buffer.data is self.data
            for s in a.whole.stmts[low:high]
        )


def _term(e: Expr) -> _Term | None:
    """`e` as a term that can be widened, with one load of consecutive elements; else None."""
    loads = {x for x in loads_in(e) if x.dtype.lanes > 1}
    if len(loads) != 1 or not _lanewise(e):
        return None
    (load,) = loads
    match load:
        case BufferLoad(buffer, (Ramp(base, IntImm(1), lanes),), None) if buffer.dtype.lanes == 1:
            offset, terms = linear(base)
            first = BufferLoad(buffer, (lanes_at(const(0, base.dtype), lanes),))
            form = rewrite_expr(e, lambda x: first if x is load else None)
            return _Term(form, frozenset(terms.items()), offset)
    return None


def _lanewise(e: Expr) -> bool:
    """Whether `e` may be computed in additional lanes, whatever values these have."""
    match e:
        case BufferLoad() | Broadcast():
            return True
        case Add() | Sub() | Mul() | Cast():
            return all(map(_lanewise, e.children()))
    return False


def _wider(e: Expr, lanes: int) -> Expr:
    """`e` with `lanes` lanes; its load goes on behind its end."""
    match e:
        case Broadcast(value, _):
            return broadcast(value, lanes)
        case BufferLoad(buffer, (Ramp(base, _, _),)):
            return BufferLoad(buffer, (lanes_at(base, lanes),))
        case Cast(value=value):
            return Cast(e.dtype.with_lanes(lanes), _wider(value, lanes))
    return e.with_children(tuple(_wider(x, lanes) for x in e.children()))


class _Joined:
    """Rewrites statements so that the groups of `sums` are in a new buffer."""

    def __init__(self, sums: _Sums, groups: Sequence[_Group]) -> None:
        self._sums = sums
        self._groups = groups
        self._of = {slot: number for number, each in enumerate(groups) for slot in each.shifts}
        self._rows: Buffer

    def allocate(self, s: Allocate) -> Stmt:
        """The allocation `s` with the new buffer, and its body rewritten."""
        data = pointer(f"{s.buffer_var.name}.rows", s.dtype, "local")
        size = const(len(self._groups) * self._sums.fit)
        self._rows = Buffer(data, s.dtype, (size,), name=data.name)
        body = self._stmt(s.body)
        if self._of.keys() < self._sums.slots.keys():
            body = Allocate(s.buffer_var, s.dtype, s.extents, s.condition, body, s.annotations)
        return Allocate(data, s.dtype, (size,), TRUE, body)

    def _stmt(self, s: Stmt) -> Stmt:
        if isinstance(s, SeqStmt):
            return seq(*(self._stmt(part) for part in s.stmts if not self._is_other(part)))
        if not isinstance(s, BufferStore):
            return map_children(s, self._stmt)
        slot = self._sums.slot_of(s)
        if slot is None:
            return map_children(s, self._stmt, lambda e: rewrite_expr(e, self._sum))
        if slot not in self._of:
            return s
        number = self._of[slot]
        index = self._index(number)
        if isinstance(s.value, Broadcast):
            return BufferStore(self._rows, broadcast(s.value.value, index.dtype.lanes), (index,))
        old = BufferLoad(self._rows, (index,))
        parts = []
        for e in s.value.children():
            is_old = isinstance(e, BufferLoad) and self._sums.slot_of(e) == slot
            wider = old if is_old else lane_slice(e, 0, index.dtype.lanes)
            assert wider is not None, "no more than `_lanewise` allows"
            parts.append(wider)
        return BufferStore(self._rows, s.value.with_children(tuple(parts)), (index,))

    def _is_other(self, s: Stmt) -> bool:
        """Whether `s` is for a later sum of a group, whose first sum does the same for all."""
        slot = self._sums.slot_of(s) if isinstance(s, BufferStore) else None
        number = None if slot is None else self._of.get(slot)
        return number is not None and slot is not None and self._groups[number].shifts[slot] > 0

    def _index(self, number: int) -> Expr:
        return lanes_at(const(number * self._sums.fit), self._groups[number].lanes)

    def _sum(self, e: Expr) -> Expr | None:
        """The lanes of a joined sum in place of `e`; None if `e` loads no joined sum."""
        slot = self._sums.slot_of(e) if isinstance(e, BufferLoad) else None
        if slot is None or slot not in self._of:
            return None
        number = self._of[slot]
        shift = self._groups[number].shifts[slot]
        lanes = tuple(const(shift + k) for k in range(slot.lanes))
        return Shuffle((BufferLoad(self._rows, (self._index(number),)),), lanes)
