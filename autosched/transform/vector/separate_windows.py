"""SeparateWindows: maxima over windows that overlap are taken down the columns first.

before:
    def main(X: Buffer((35,), float32), Y: Buffer((8,), float32)):
        Y.acc = allocate((8,), float32, "local")
        Y.acc[0:8] = broadcast(0.0, 8)
        for i in unrolled(2):
            for j in unrolled(3):
                Y.acc[0:8] = max(Y.acc[0:8], X[ramp(i * 18 + j, 2, 8)])
        Y[0:8] = Y.acc[0:8]
after:
    def main(X: Buffer((35,), float32), Y: Buffer((8,), float32)):
        Y.acc = allocate((8,), float32, "local")
        X.columns = allocate((32,), float32, "local")
        Y.acc[0:8] = broadcast(0.0, 8)
        X.columns[0:16] = max(X[0:16], X[18:34])
        X.columns[16:32] = max(X[1:17], X[19:35])
        Y.acc[0:8] = max(max(max(Y.acc[0:8], shuffle([X.columns[0:16], X.columns[0:16]], [0, 2, 4,
                6, 8, 10, 12, 14])), shuffle([X.columns[0:16], X.columns[0:16]], [1, 3, 5, 7, 9,
                11, 13, 15])), shuffle([X.columns[0:16], X.columns[16:32]], [2, 4, 6, 8, 10, 12,
                14, 31]))
        Y[0:8] = Y.acc[0:8]

A window of three by three with a stride of 2 takes nine vectors of every second element for each
vector of outputs, two loads and a shuffle each. Here each column is read once, in whole vectors,
and stays in registers: three shuffles choose from their maxima. Maxima and minima do not depend on
their order; sums of floats do, and stay.

Where the registers are too few for all the columns of a row, each accumulator is done with before
the next, and a vector of columns is computed right before the first that uses it.

Where all rows of an argument begin at a whole vector, columns are read from a whole vector on, some
of them for nothing: a vector that crosses the end of a cache line is read in two parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import prod
from typing import ClassVar, NamedTuple

from autosched.nest.core import core_of
from autosched.tir.buffer import Buffer
from autosched.tir.expr import BufferLoad, Expr, IntImm, Max, Min, Ramp, Shuffle, Var, pointer
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import bits_of, kinds_in
from autosched.tir.linear import linear, sum_of
from autosched.tir.op import add, const
from autosched.tir.stmt import TRUE, Allocate, AttrStmt, BufferStore, For, SeqStmt, Stmt, seq
from autosched.tir.walk import free_vars, map_children, substitute
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.vector.held_reduction import is_pragma, nest_of

MOST_STEPS = 64
"""Elements of a window: larger ones stay as they are."""

LEAST_BYTES = 4
"""Shuffles of shorter elements take several instructions."""

SPARE = 4
"""Registers for neither accumulators nor columns."""

MOST_BYTES_IN_TURN = 32
"""Vector registers of accumulators that are done with one after the other, where all columns do not
fit: with 64 bytes, which come with twice the registers, it was not measured."""


@dataclass(frozen=True)
class SeparateWindows(FunctionPass):
    """Takes maxima and minima that are accumulated in registers over rows first, then over columns.

    Each accumulator is compared with vectors of elements that are a constant apart: several that
    begin next to each other, at the same places of several rows. The columns that neighbouring
    accumulators use, or those of one of them, fit the registers of `vector_bytes` beside these.
    """

    vector_bytes: int = 64
    name: ClassVar[str] = "SeparateWindows"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if not kinds_in(func.body) & bits_of(Max, Min):
            return func
        arguments = frozenset(buffer.data for buffer in func.buffers)
        return func.with_body(_separated(func.body, self.vector_bytes, arguments))


def _separated(s: Stmt, vector_bytes: int, arguments: frozenset[Var]) -> Stmt:
    if isinstance(s, BufferStore):
        return s
    new = _in_registers(s, vector_bytes, arguments) if isinstance(s, Allocate) else None
    if new is not None:
        return new
    return map_children(s, lambda inner: _separated(inner, vector_bytes, arguments))


def _in_registers(allocate: Allocate, vector_bytes: int, arguments: frozenset[Var]) -> Stmt | None:
    """The accumulators with their windows apart; None where what they are compared with is none."""
    own, size = allocate.buffer_var, allocate.extents[0]
    pragmas: list[AttrStmt] = []
    s = allocate.body
    while isinstance(s, AttrStmt) and is_pragma(s):
        pragmas.append(s)
        s = s.body
    if own.scope != "local" or not isinstance(s, SeqStmt) or not isinstance(size, IntImm):
        return None
    steps = [_steps(part, own) for part in s.stmts]
    places = [k for k, found in enumerate(steps) if found]
    if not places or len(places) != places[-1] + 1 - places[0]:
        return None
    windows = _windows([step for k in places for step in steps[k]])
    if windows is None:
        return None
    vector = vector_bytes // windows[0].load.buffer.dtype.bytes
    groups = [_from_whole_vectors(group, vector, arguments) for group in _groups(windows)]
    most = max(len(group.starts(vector)) for group in groups)
    held = -(-size.value * allocate.dtype.bytes // vector_bytes)
    free = core_of(vector_bytes).registers - SPARE - held
    build = _group
    if most > free:
        one = max(_most_at_once(group, vector) for group in groups)
        if one > free or vector_bytes > MOST_BYTES_IN_TURN:
            return None
        build = _group_in_turn
    source = windows[0].load.buffer
    data = pointer(f"{source.name}.columns", source.dtype, "local")
    columns = Buffer(data, source.dtype, (const(most * vector),), name=data.name)
    parts = [part for group in groups for part in build(columns, group, vector)]
    body = seq(*s.stmts[: places[0]], *parts, *s.stmts[places[-1] + 1 :])
    body = reduce(lambda inner, attr: attr.with_(body=inner), reversed(pragmas), body)
    return allocate.with_(body=Allocate(data, source.dtype, columns.shape, TRUE, body))


# -- what is compared -----------------------------------------------------------------------------


class _Step(NamedTuple):
    """`store` compares an accumulator with what is loaded, at `offset` from the terms of `base`."""

    store: BufferStore
    fold: type[Max] | type[Min]
    load: BufferLoad
    base: Expr
    terms: dict[Expr, int]
    offset: int


def _steps(s: Stmt, own: Var) -> list[_Step]:
    """All steps of a statement and its loops; none when it does something else, or too many."""
    loops, stores = nest_of(s)
    variables = [loop.loop_var for loop in loops]
    extents = [_extent(loop) for loop in loops]
    zero: dict[Var, Expr] = {v: const(0, v.dtype) for v in variables}
    found: list[_Step] = []
    for store in stores:
        step = _step(store, own) if isinstance(store, BufferStore) else None
        if step is None or not all(extents):
            return []
        factors = [step.terms.pop(v, 0) for v in variables]
        if any(not free_vars(e).isdisjoint(variables) for e in (*step.terms, *step.store.indices)):
            return []
        base = substitute(step.base, zero)
        for place in product(*map(range, extents)):
            moved = sum(k * factor for k, factor in zip(place, factors, strict=True))
            found.append(step._replace(base=base, offset=step.offset + moved))
            if len(found) > MOST_STEPS * len(stores):
                return []
    return found


def _extent(loop: For) -> int:
    """The iterations of a loop from 0 to a constant, 0 for others."""
    plain = isinstance(loop.min, IntImm) and loop.min.value == 0
    return loop.extent.value if plain and isinstance(loop.extent, IntImm) else 0


def _step(s: BufferStore, own: Var) -> _Step | None:
    value, old = s.value, BufferLoad(s.buffer, s.indices)
    if s.buffer.data is not own or s.predicate is not None or not isinstance(value, Max | Min):
        return None
    other = value.b if value.a is old else value.a
    if old not in (value.a, value.b) or not isinstance(other, BufferLoad):
        return None
    plain = other.predicate is None and other.buffer.dtype.lanes == 1
    if not plain or other.buffer.data is own or other.buffer.dtype.bytes < LEAST_BYTES:
        return None
    match other.indices:
        case (Ramp(base, IntImm(stride), _),) if stride > 0:
            first, terms = linear(base)
            return _Step(s, type(value), other, base, terms, first)
    return None


class _Window(NamedTuple):
    """The accumulator of `store` is compared with `width` vectors that begin at `first` and next to
    it, and with the same in the rows that are `rows` further."""

    store: BufferStore
    fold: type[Max] | type[Min]
    load: BufferLoad
    base: Expr
    rows: tuple[int, ...]
    width: int
    first: int
    stride: int

    @property
    def columns(self) -> int:
        """The columns from the first to the last."""
        return (self.store.value.dtype.lanes - 1) * self.stride + self.width


def _windows(steps: Sequence[_Step]) -> list[_Window] | None:
    """What the steps make up, for each accumulator; None where that is not separable windows."""
    head = steps[0]
    offsets: dict[tuple[Expr, ...], list[int]] = {}
    by_place: dict[tuple[Expr, ...], _Step] = {}
    for step in steps:
        alike = step.load.buffer is head.load.buffer and step.fold is head.fold
        if not alike or step.terms != head.terms:
            return None
        first = by_place.setdefault(step.store.indices, step)
        if _ramp(first.load).stride is not _ramp(step.load).stride:
            return None
        offsets.setdefault(step.store.indices, []).append(step.offset)
    base = sum_of(head.terms, 0, head.base.dtype)
    found: list[_Window] = []
    for place, step in by_place.items():
        rows, width = _rectangle(offsets[place])
        if len(rows) < 2 or width < 2:
            return None
        stride = _ramp(step.load).stride
        assert isinstance(stride, IntImm), "_step takes constant strides"
        apart = tuple(row - rows[0] for row in rows)
        found.append(
            _Window(step.store, step.fold, step.load, base, apart, width, rows[0], stride.value)
        )
    return found


def _ramp(load: BufferLoad) -> Ramp:
    (index,) = load.indices
    assert isinstance(index, Ramp), "_step takes vectors alone"
    return index


def _rectangle(offsets: Sequence[int]) -> tuple[list[int], int]:
    """The first offset of each row, and how many follow one another in each of them; no rows when
    they are not alike."""
    known = set(offsets)
    rows = sorted(k for k in known if k - 1 not in known)
    width = len(known) // len(rows)
    whole = all(row + k in known for row in rows for k in range(width))
    return (rows, width) if whole and width * len(rows) == len(known) else ([], 0)


class _Group(NamedTuple):
    """Windows of the same rows whose `columns` columns, the first at `first`, overlap or touch."""

    windows: tuple[_Window, ...]
    first: int
    columns: int

    def starts(self, vector: int) -> list[int]:
        """Where the vectors begin that the columns are read in; the last ends with the last."""
        if self.columns <= vector:
            return [0]
        return [*range(0, self.columns - vector, vector), self.columns - vector]


def _groups(windows: Sequence[_Window]) -> Iterator[_Group]:
    """The windows that overlap or touch, from the first to the last of each row."""
    group: list[_Window] = []
    end = 0
    for window in sorted(windows, key=lambda w: (w.rows, w.width, w.first)):
        if group:
            same = (window.rows, window.width) == (group[0].rows, group[0].width)
            if not same or window.first > end:
                yield _Group(tuple(group), group[0].first, end - group[0].first)
                group = []
        end = max(end, window.first + window.columns) if group else window.first + window.columns
        group.append(window)
    yield _Group(tuple(group), group[0].first, end - group[0].first)


def _from_whole_vectors(group: _Group, vector: int, arguments: frozenset[Var]) -> _Group:
    """The group with columns before and behind it up to whole vectors, where these are no more.

    A whole vector of which one element is inside of a buffer of whole vectors is inside as well.
    """
    head = group.windows[0]
    buffer, (_, terms) = head.load.buffer, linear(head.base)
    size = prod(e.value if isinstance(e, IntImm) else 1 for e in buffer.shape)
    if buffer.data not in arguments or any(n % vector for n in (size, *head.rows, *terms.values())):
        return group
    before = group.first % vector
    count = -(-(before + group.columns) // vector)
    if count > len(group.starts(vector)):
        return group
    return _Group(group.windows, group.first - before, count * vector)


def _most_at_once(group: _Group, vector: int) -> int:
    """How many vectors of columns one window uses at most."""
    starts = group.starts(vector)
    return max(len(_sources(group, window, starts, vector)) for window in group.windows)


def _sources(group: _Group, window: _Window, starts: Sequence[int], vector: int) -> range:
    """Which of the vectors at `starts` behind the group's first column hold the window's."""
    first = window.first - group.first
    last = first + window.columns - 1
    return range(min(first // vector, len(starts) - 1), min(last // vector, len(starts) - 1) + 1)


# -- building -------------------------------------------------------------------------------------


def _group(columns: Buffer, group: _Group, vector: int) -> Iterator[Stmt]:
    """The extremes of the columns that the group uses, and of these for each accumulator."""
    starts, width = group.starts(vector), min(vector, group.columns)
    for number in range(len(starts)):
        yield _extremes(columns, group, starts, width, number)
    for window in group.windows:
        yield _extreme_of_taps(columns, group, window, starts, width)


def _group_in_turn(columns: Buffer, group: _Group, vector: int) -> Iterator[Stmt]:
    """The same, one accumulator after the other, with the columns that none before has used."""
    starts, width = group.starts(vector), min(vector, group.columns)
    done = 0
    for window in group.windows:
        needed = _sources(group, window, starts, width).stop
        for number in range(done, needed):
            yield _extremes(columns, group, starts, width, number)
        done = max(done, needed)
        yield _extreme_of_taps(columns, group, window, starts, width)


def _extremes(
    columns: Buffer, group: _Group, starts: Sequence[int], width: int, number: int
) -> Stmt:
    """One vector of columns: the extremes over the rows."""
    head = group.windows[0]
    rows: list[Expr] = []
    for row in head.rows:
        at = add(head.base, const(group.first + row + starts[number], head.base.dtype))
        rows.append(BufferLoad(head.load.buffer, (_lanes(at, width),)))
    return BufferStore(columns, reduce(head.fold, rows), _slot(columns, width, number).indices)


def _slot(columns: Buffer, width: int, number: int) -> BufferLoad:
    return BufferLoad(columns, (_lanes(const(number * width), width),))


def _extreme_of_taps(
    columns: Buffer, group: _Group, window: _Window, starts: Sequence[int], width: int
) -> Stmt:
    """What the window's accumulator becomes: the extreme of it and of every tap.

    A tap is the column that each lane's window has at one place.
    """
    loads = [_slot(columns, width, number) for number in range(len(starts))]
    value: Expr = BufferLoad(window.store.buffer, window.store.indices)
    reach = (window.store.value.dtype.lanes - 1) * window.stride
    for tap in range(window.width):
        first = window.first - group.first + tap
        places = range(first, first + reach + 1, window.stride)
        value = window.fold(value, _chosen(loads, starts, places, width))
    return BufferStore(window.store.buffer, value, window.store.indices)


def _lanes(start: Expr, width: int) -> Expr:
    return Ramp(start, const(1, start.dtype), width)


def _chosen(
    loads: Sequence[Expr], starts: Sequence[int], places: Sequence[int], width: int
) -> Expr:
    """The columns `places`, of the vectors `loads` of `width` columns that begin at `starts`."""
    if len(places) > width:
        half = width
        while 2 * half < len(places):
            half *= 2
        rest = [*places[half:], *[places[-1]] * (2 * half - len(places))]
        one, two = (_chosen(loads, starts, part, width) for part in (places[:half], rest))
        return _shuffle(one, two, range(len(places)))
    sources = [min(place // width, len(starts) - 1) for place in places]
    lanes = [place - starts[source] for place, source in zip(places, sources, strict=True)]
    used = sorted(set(sources))
    if len(used) == 1 and lanes == list(range(width)):
        return loads[used[0]]
    if len(used) == 1:
        return _shuffle(loads[used[0]], loads[used[0]], lanes)
    found, known = loads[used[0]], lanes[: sources.count(used[0])]
    for source in used[1:]:
        more = [width + lane for lane, s in zip(lanes, sources, strict=True) if s == source]
        order = [*known, *more]
        missing = 0 if source == used[-1] else width - len(order)
        found = _shuffle(found, loads[source], [*order, *[0] * missing])
        known = list(range(len(order)))
    return found


def _shuffle(one: Expr, two: Expr, order: Sequence[int]) -> Expr:
    return Shuffle((one, two), tuple(map(const, order)))
