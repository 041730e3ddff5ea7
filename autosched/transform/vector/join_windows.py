"""JoinWindows: the maxima of a whole row, with its borders and its tail, are taken together.

before:
    def main(X: Buffer((20,), float32), Y: Buffer((10,), float32)):
        Y[0] = 0.0
        for r in range(2):
            Y.acc = allocate((1,), float32, "local")
            Y.acc[0] = Y[0]
            for s in unrolled(2):
                Y.acc[0] = max(Y.acc[0], X[r * 10 + s])
            Y[0] = Y.acc[0]
        with Y.acc_1 = allocate((8,), float32, "local"):
            Y.acc_1[0:8] = broadcast(0.0, 8)
            for r_1 in unrolled(2):
                for s_1 in unrolled(3):
                    Y.acc_1[0:8] = max(Y.acc_1[0:8], X[r_1 * 10 + s_1:r_1 * 10 + s_1 + 8])
            Y[1:9] = Y.acc_1[0:8]
        Y[9] = max(max(max(max(0.0, X[8]), X[9]), X[18]), X[19])
after JoinWindows{vector_bytes=32}:
    def main(X: Buffer((20,), float32), Y: Buffer((10,), float32)):
        X.columns = allocate((16,), float32, "local")
        X.columns[0:8] = max(X[0:8], X[10:18])
        X.columns[8:16] = max(X[2:10], X[12:20])
        Y[0:8] = max(max(max(broadcast(0.0, 8), shuffle([X.columns[0:8], X.columns[0:8]], [0, 0, 1,
                2, 3, 4, 5, 6])), X.columns[0:8]), shuffle([X.columns[0:8], X.columns[8:16]], [1,
                2, 3, 4, 5, 6, 7, 14]))
        Y[2:10] = max(max(max(broadcast(0.0, 8), shuffle([X.columns[0:8], X.columns[8:16]], [1, 2,
                3, 4, 5, 6, 7, 14])), X.columns[8:16]), shuffle([X.columns[8:16], X.columns[8:16]],
                [1, 2, 3, 4, 5, 6, 7, 7]))

A loop over the outputs of a row is cut where windows reach past the border, and where the last
outputs fill no vector. A row of 57 becomes a scalar, three vectors, a vector of seven lanes and a
scalar, each with its own loads. Here all outputs share vectors of columns. The maxima of the
columns over the rows are taken once, and shuffles choose from them. A window that ends at the
border has its last column twice, which changes no maximum. The last vector of outputs ends with the
row and overlaps the vector before. Poolings of 30x57x57 and 64x112x112 (stride 2) take 0.60 and
0.92 of their time (Zen 4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise, takewhile
from operator import is_
from typing import ClassVar, NamedTuple

from autosched.tir.buffer import Buffer
from autosched.tir.expr import BufferLoad, Expr, Max, Min, pointer
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import bits_of, kinds_in
from autosched.tir.op import add, broadcast, const
from autosched.tir.stmt import TRUE, Allocate, BufferStore, SeqStmt, Stmt, seq
from autosched.tir.walk import map_children
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.vector.chosen_columns import chosen, lanes_at
from autosched.transform.vector.row_extremes import Extreme, Fold, RowExtremes
from autosched.transform.vector.row_outputs import Elements, Outputs, outputs_of
from autosched.transform.vector.window_groups import LEAST_BYTES, rectangle, vector_starts

LEAST_OUTPUTS = 4
"""Fewest outputs of a row: fewer are no vector."""

MOST_STRIDE = 4
"""Largest stride of the windows.

Each vector of outputs uses `stride` vectors of columns, and one more shuffle for each of them.
"""


MOST_PARTS = 16
"""Most statements of a row: each border takes two or three, each piece of vectors one or two."""


@dataclass(frozen=True)
class JoinWindows(FunctionPass):
    """Joins neighbouring statements that take maxima, or minima, over windows of one row.

    Together the statements store consecutive outputs. Each output is the extreme of a constant,
    which is the same for all, and of neighbouring columns in the same rows. The number of columns
    is the same for all outputs, but smaller at the ends of the row. Functions whose arguments may
    overlap stay as they are.
    """

    vector_bytes: int = 64
    name: ClassVar[str] = "JoinWindows"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if not func.noalias or not kinds_in(func.body) & _EXTREMES:
            return func
        return func.with_body(_joined(func.body, self.vector_bytes))


_EXTREMES = bits_of(Max, Min)


def _joined(s: Stmt, vector_bytes: int) -> Stmt:
    if isinstance(s, BufferStore) or not kinds_in(s) & _EXTREMES:
        return s
    if not isinstance(s, SeqStmt):
        return map_children(s, lambda inner: _joined(inner, vector_bytes))
    parts = list(_in_runs(s, vector_bytes))
    alike = len(parts) == len(s.stmts) and all(map(is_, parts, s.stmts))
    return s if alike else seq(*parts)


def _in_runs(s: SeqStmt, vector_bytes: int) -> Iterator[Stmt]:
    """The statements; the most of them that make up a row become one."""
    outputs = list(map(outputs_of, s.stmts))
    k = 0
    while k < len(s.stmts):
        part = slice(k, k + MOST_PARTS)
        windows, end = _longest(s.stmts[part], outputs[part])
        if windows is None:
            yield _joined(s.stmts[k], vector_bytes)
        else:
            yield _in_vectors(windows, vector_bytes)
        k += end


def _longest(
    parts: Sequence[Stmt], outputs: Sequence[Outputs | None]
) -> tuple[RowOfWindows | None, int]:
    """The row that most of the first statements make up, at least two, and their number.

    (None, 1) if no statements make up a row.
    """
    numbers = _without_gaps(parts, outputs)
    row, rows = RowExtremes(), []
    for number in range(1, max(numbers, default=0) + 1):
        if not row.take(parts[number - 1]):
            break
        if number in numbers:
            rows.append((number, copy(row)))
    for number, one in reversed(rows):
        windows = _windows_of(one)
        if windows is not None:
            return windows, number
    return None, 1


def _without_gaps(parts: Sequence[Stmt], outputs: Sequence[Outputs | None]) -> list[int]:
    """The lengths, from two on, of runs of first statements that store consecutive outputs.

    Some statement of each run takes extremes, and each run has at least LEAST_OUTPUTS outputs.
    """
    found: list[int] = []
    elements: Elements | None = None
    places: set[int] = set()
    folds = False
    alike = list(takewhile(lambda part: part is not None, outputs))
    if len(alike) < 2 or not any(kinds_in(part) & _EXTREMES for part in parts[: len(alike)]):
        return found
    for number, (part, stored) in enumerate(zip(parts, alike, strict=False), 1):
        assert stored is not None
        if None not in (elements, stored.elements) and elements != stored.elements:
            break
        elements = elements or stored.elements
        places |= stored.places
        folds = folds or bool(kinds_in(part) & _EXTREMES)
        if (
            number > 1
            and folds
            and len(places) >= LEAST_OUTPUTS
            and (max(places) - min(places) == len(places) - 1)
        ):
            found.append(number)
    return found


class RowOfWindows(NamedTuple):
    """Consecutive outputs from `start` on, each an extreme over a window.

    Each output is the extreme, by `fold`, of `initial` and of elements of `source`. `taps` has, for
    each tap, the column of every output. The taps of one output are consecutive columns, some of
    them twice at the borders. A window has its columns in all `rows`, which are distances from its
    first row.
    """

    fold: Fold
    source: Elements
    output: Elements
    start: int
    initial: Expr
    rows: tuple[int, ...]
    taps: tuple[tuple[int, ...], ...]

    @property
    def first(self) -> int:
        """The first column that any window has."""
        return self.taps[0][0]

    @property
    def columns(self) -> int:
        """The number of columns that all windows together have."""
        return self.taps[-1][-1] + 1 - self.first


def _windows_of(row: RowExtremes) -> RowOfWindows | None:
    """The windows of the outputs, which are consecutive; None if the windows are not alike."""
    places = sorted(row.outputs)
    if row.fold is None or row.source is None or row.output is None:
        return None
    if row.source.buffer.dtype.bytes < LEAST_BYTES or row.source.buffer.dtype is not (
        row.output.buffer.dtype
    ):
        return None
    initial = _initial(row.fold, row.outputs[places[0]])
    rows, _, _ = _spans(row.outputs[places[0]])
    if initial is None or len(rows) < 2:
        return None
    spans: list[tuple[int, int]] = []
    for place in places:
        value = row.outputs[place]
        others, first, width = _spans(value)
        if others != rows or _initial(row.fold, value) != initial:
            return None
        spans.append((first, width))
    taps = _taps(spans)
    if taps is None:
        return None
    return RowOfWindows(row.fold, row.source, row.output, places[0], initial, rows, taps)


def _initial(fold: Fold, value: Extreme) -> Expr | None:
    """The extreme of the constants alone; None if there are no constants."""
    if not value.constants:
        return None
    return (max if fold is Max else min)(value.constants, key=lambda e: e.value)


def _spans(value: Extreme) -> tuple[tuple[int, ...], int, int]:
    """The rows of a window, its first column and its width; no rows if it is no window."""
    rows, width = rectangle(value.offsets) if value.offsets else ([], 0)
    first = rows[0] if rows else 0
    return tuple(row - first for row in rows), first, width


def _taps(spans: list[tuple[int, int]]) -> tuple[tuple[int, ...], ...] | None:
    """The column of each output at each tap.

    Columns of whole windows move by the stride from output to output; at the ends they are clamped
    to the smaller windows. None if the windows do not fit this scheme.
    """
    most = max(width for _, width in spans)
    whole = [k for k, (_, width) in enumerate(spans) if width == most]
    if most < 2 or len(whole) < 2:
        return None
    (one, two), at = (spans[k][0] for k in whole[:2]), whole[0]
    stride = (two - one) // (whole[1] - at)
    if not 0 < stride <= MOST_STRIDE:
        return None
    taps = []
    for tap in range(most):
        free = [one + (k - at) * stride + tap for k in range(len(spans))]
        ends = ((first, first + width - 1) for first, width in spans)
        taps.append(
            tuple(min(max(c, low), high) for c, (low, high) in zip(free, ends, strict=True))
        )
    for k, (first, width) in enumerate(spans):
        if {tap[k] for tap in taps} != set(range(first, first + width)):
            return None
    return tuple(taps) if all(a <= b for tap in taps for a, b in pairwise(tap)) else None


def _in_vectors(windows: RowOfWindows, vector_bytes: int) -> Stmt:
    """The row in vectors, with each vector of columns right before its first use."""
    source, output = windows.source, windows.output
    dtype = source.buffer.dtype
    vector = vector_bytes // dtype.bytes
    width = min(vector, windows.columns)
    starts = vector_starts(windows.columns, vector)
    data = pointer(f"{source.buffer.name}.columns", dtype, "local")
    columns = Buffer(data, dtype, (const(len(starts) * width),), name=data.name)
    slots = [lanes_at(const(number * width), width) for number in range(len(starts))]
    loads = [BufferLoad(columns, (slot,)) for slot in slots]
    parts: list[Stmt] = []
    done = 0
    lanes = min(vector, len(windows.taps[0]))
    for begin in vector_starts(len(windows.taps[0]), vector):
        taps = [[c - windows.first for c in tap[begin : begin + lanes]] for tap in windows.taps]
        needed = min(taps[-1][-1] // width, len(starts) - 1) + 1
        for number in range(done, needed):
            parts.append(
                BufferStore(columns, _extremes(windows, starts[number], width), (slots[number],))
            )
        done = max(done, needed)
        values = (chosen(loads, starts, tap, width) for tap in taps)
        value = reduce(windows.fold, values, broadcast(windows.initial, lanes))
        at = add(output.base, const(windows.start + begin, output.dtype))
        parts.append(BufferStore(output.buffer, value, (lanes_at(at, lanes),)))
    return Allocate(data, dtype, columns.shape, TRUE, seq(*parts))


def _extremes(windows: RowOfWindows, start: int, width: int) -> Expr:
    """The extremes over the rows of `width` columns from `start` on."""
    source = windows.source
    found: list[Expr] = []
    for row in windows.rows:
        at = add(source.base, const(windows.first + row + start, source.dtype))
        found.append(BufferLoad(source.buffer, (lanes_at(at, width),)))
    return reduce(windows.fold, found)
