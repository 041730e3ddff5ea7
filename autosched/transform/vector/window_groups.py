"""Windows of maxima and minima: rows of neighbouring elements, grouped where they overlap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from autosched.tir.expr import BufferLoad, Expr, IntImm, Max, Min, Ramp, Var
from autosched.tir.linear import linear, sum_of
from autosched.tir.loops import count_from_zero
from autosched.tir.op import const
from autosched.tir.stmt import BufferStore, Stmt
from autosched.tir.walk import substitute, uses
from autosched.transform.vector.held_reduction import loops_and_steps

MOST_STEPS = 64
"""Most elements of a window; larger windows stay as they are."""

LEAST_BYTES = 4
"""Fewest bytes of an element: shuffles of shorter elements take several instructions."""


class Step(NamedTuple):
    """One maximum or minimum of an accumulator and a loaded vector.

    `store` updates the accumulator by `fold` with `load`. The load begins at the sum of `terms`,
    which are the terms of `base`, plus the constant `offset`.
    """

    store: BufferStore
    fold: type[Max] | type[Min]
    load: BufferLoad
    base: Expr
    terms: dict[Expr, int]
    offset: int


def steps_of(s: Stmt, own: Var) -> list[Step]:
    """The steps of a statement, its loops unrolled; none if it does more, or has too many steps."""
    loops, stores = loops_and_steps(s)
    variables = [loop.loop_var for loop in loops]
    extents = [count_from_zero(loop) for loop in loops]
    if prod(extents) > MOST_STEPS:
        return []
    zero: dict[Var, Expr] = {v: const(0, v.dtype) for v in variables}
    found: list[Step] = []
    for store in stores:
        step = _step(store, own) if isinstance(store, BufferStore) else None
        if step is None or not all(extents):
            return []
        factors = [step.terms.pop(v, 0) for v in variables]
        if any(uses(e, variables) for e in (*step.terms, *step.store.indices)):
            return []
        base = substitute(step.base, zero)
        for place in product(*map(range, extents)):
            moved = sum(k * factor for k, factor in zip(place, factors, strict=True))
            found.append(step._replace(base=base, offset=step.offset + moved))
    return found


def _step(s: BufferStore, own: Var) -> Step | None:
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
            return Step(s, type(value), other, base, terms, first)
    return None


class Window(NamedTuple):
    """The elements that one accumulator is compared with.

    `store` compares its accumulator, by `fold`, with `width` vectors, which begin at `first` and at
    the elements next to it, and with the same vectors in every row. `rows` has the distance of each
    row from the first one. `stride` is the distance between the lanes of a vector. `load` is one of
    the loads, and `base` the sum of the terms that all loads have in common.
    """

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
        """The number of columns from the first to the last."""
        return (self.store.value.dtype.lanes - 1) * self.stride + self.width


def windows_of(steps: Sequence[Step]) -> list[Window] | None:
    """The window of each accumulator; None if the steps do not form separable windows."""
    head = steps[0]
    offsets: dict[tuple[Expr, ...], list[int]] = {}
    by_place: dict[tuple[Expr, ...], Step] = {}
    for step in steps:
        alike = step.load.buffer is head.load.buffer and step.fold is head.fold
        alike = alike and step.store.buffer is head.store.buffer
        if not alike or step.terms != head.terms:
            return None
        first = by_place.setdefault(step.store.indices, step)
        if _ramp(first.load).stride is not _ramp(step.load).stride:
            return None
        offsets.setdefault(step.store.indices, []).append(step.offset)
    base = sum_of(head.terms, 0, head.base.dtype)
    found: list[Window] = []
    for place, step in by_place.items():
        rows, width = rectangle(offsets[place])
        if len(rows) < 2 or width < 2:
            return None
        stride = _ramp(step.load).stride
        assert isinstance(stride, IntImm), "_step takes constant strides"
        apart = tuple(row - rows[0] for row in rows)
        found.append(
            Window(step.store, step.fold, step.load, base, apart, width, rows[0], stride.value)
        )
    return found


def _ramp(load: BufferLoad) -> Ramp:
    (index,) = load.indices
    assert isinstance(index, Ramp), "_step takes vectors alone"
    return index


def rectangle(offsets: Iterable[int]) -> tuple[list[int], int]:
    """The first offset of each row, and the length of the rows.

    A row is a run of consecutive offsets. There are no rows if their lengths differ.
    """
    known = set(offsets)
    rows = sorted(k for k in known if k - 1 not in known)
    width = len(known) // len(rows)
    whole = all(row + k in known for row in rows for k in range(width))
    return (rows, width) if whole and width * len(rows) == len(known) else ([], 0)


class WindowGroup(NamedTuple):
    """Windows of the same rows whose `columns` columns, the first at `first`, overlap or touch."""

    windows: tuple[Window, ...]
    first: int
    columns: int

    def starts(self, vector: int) -> list[int]:
        """Where the vectors begin that the columns are read in, counted from the first column."""
        return vector_starts(self.columns, vector)


def vector_starts(count: int, vector: int) -> list[int]:
    """Where the vectors of `count` elements begin; the last one ends with the last element."""
    if count <= vector:
        return [0]
    return [*range(0, count - vector, vector), count - vector]


def groups_of(windows: Sequence[Window]) -> Iterator[WindowGroup]:
    """Groups of windows that overlap or touch, from the first window of a row to the last."""
    group: list[Window] = []
    end = 0
    for window in sorted(windows, key=lambda w: (w.rows, w.width, w.first)):
        if group:
            same = (window.rows, window.width) == (group[0].rows, group[0].width)
            if not same or window.first > end:
                yield WindowGroup(tuple(group), group[0].first, end - group[0].first)
                group = []
        end = max(end, window.first + window.columns) if group else window.first + window.columns
        group.append(window)
    yield WindowGroup(tuple(group), group[0].first, end - group[0].first)


def from_whole_vectors(group: WindowGroup, vector: int, arguments: frozenset[Var]) -> WindowGroup:
    """The group extended at both ends to whole vectors, if these are no more vectors than before.

    If one element of a whole vector is inside of a buffer of whole vectors, the vector is inside as
    well.
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
    return WindowGroup(group.windows, group.first - before, count * vector)


def most_at_once(group: WindowGroup, vector: int) -> int:
    """The largest number of column vectors that one window uses."""
    starts = group.starts(vector)
    return max(len(sources_of(group, window, starts, vector)) for window in group.windows)


def sources_of(group: WindowGroup, window: Window, starts: Sequence[int], vector: int) -> range:
    """The numbers of those vectors, among the ones at `starts`, that hold the window's columns.

    `starts` counts from the group's first column.
    """
    first = window.first - group.first
    last = first + window.columns - 1
    return range(min(first // vector, len(starts) - 1), min(last // vector, len(starts) - 1) + 1)
