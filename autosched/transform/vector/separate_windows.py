"""SeparateWindows: maxima over windows that overlap are taken down each column first.

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
                11, 13, 15])), shuffle([X.columns[16:32], X.columns[16:32]], [1, 3, 5, 7, 9, 11,
                13, 15]))
        Y[0:8] = Y.acc[0:8]

A window of three by three with a stride of 2 takes nine vectors of every second element for each
vector of outputs, with two loads and a shuffle each. Here each column is read once, in whole
vectors, and stays in registers; three shuffles choose from the maxima of the columns. Maxima and
minima do not depend on their order. Sums of floats do, and stay as they are.

If the columns of a row do not all fit the registers, the accumulators are finished one after the
other, and a vector of columns is computed right before the first accumulator that uses it.

If all rows of an argument begin at a whole vector, columns are read from a whole vector on, even if
some of them are not used: a vector that crosses the end of a cache line is read in two parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

from autosched.nest.core import Core, core_of
from autosched.tir.buffer import Buffer
from autosched.tir.expr import BufferLoad, Expr, IntImm, Max, Min, Var, pointer
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import bits_of, kinds_in
from autosched.tir.op import add, const
from autosched.tir.stmt import TRUE, Allocate, AttrStmt, BufferStore, SeqStmt, Stmt, seq
from autosched.tir.walk import map_children
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.vector.chosen_columns import chosen, lanes_at
from autosched.transform.vector.held_reduction import is_pragma
from autosched.transform.vector.window_groups import (
    Window,
    WindowGroup,
    from_whole_vectors,
    groups_of,
    most_at_once,
    sources_of,
    steps_of,
    windows_of,
)

SPARE = 4
"""Registers for values other than accumulators and columns."""

MOST_BYTES_IN_TURN = 32
"""Widest vector registers with which accumulators are finished one after the other.

That is done where not all columns fit. It was not measured with 64 bytes, which come with twice the
registers.
"""


@dataclass(frozen=True)
class SeparateWindows(FunctionPass):
    """Takes maxima and minima that are accumulated in registers over rows first, then over columns.

    Each accumulator is compared with vectors whose elements are a constant apart. Several of these
    vectors begin next to each other, at the same places of several rows. The columns that
    neighbouring accumulators use, or at least the columns that one of them uses, fit the registers
    of `vector_bytes` beside the accumulators. `registers` is 0 for the usual number at that width.
    Functions whose arguments may overlap stay as they are.
    """

    vector_bytes: int = 64
    registers: int = 0
    name: ClassVar[str] = "SeparateWindows"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if not func.noalias or not kinds_in(func.body) & bits_of(Max, Min):
            return func
        arguments = frozenset(buffer.data for buffer in func.buffers)
        return func.with_body(
            _separated(func.body, core_of(self.vector_bytes, self.registers), arguments)
        )


def _separated(s: Stmt, core: Core, arguments: frozenset[Var]) -> Stmt:
    if isinstance(s, BufferStore):
        return s
    new = _in_registers(s, core, arguments) if isinstance(s, Allocate) else None
    if new is not None:
        return new
    return map_children(s, lambda inner: _separated(inner, core, arguments))


def _in_registers(allocate: Allocate, core: Core, arguments: frozenset[Var]) -> Stmt | None:
    """The accumulators with their windows separated; None if they have no such windows."""
    own, size = allocate.buffer_var, allocate.extents[0]
    pragmas: list[AttrStmt] = []
    s = allocate.body
    while isinstance(s, AttrStmt) and is_pragma(s):
        pragmas.append(s)
        s = s.body
    if own.scope != "local" or not isinstance(s, SeqStmt) or not isinstance(size, IntImm):
        return None
    steps = [steps_of(part, own) for part in s.stmts]
    places = [k for k, found in enumerate(steps) if found]
    if not places or len(places) != places[-1] + 1 - places[0]:
        return None
    windows = windows_of([step for k in places for step in steps[k]])
    if windows is None:
        return None
    vector = core.vector_bytes // windows[0].load.buffer.dtype.bytes
    groups = [from_whole_vectors(group, vector, arguments) for group in groups_of(windows)]
    most = max(len(group.starts(vector)) for group in groups)
    held = -(-size.value * allocate.dtype.bytes // core.vector_bytes)
    free = core.registers - SPARE - held
    build = _group
    if most > free:
        one = max(most_at_once(group, vector) for group in groups)
        if one > free or core.vector_bytes > MOST_BYTES_IN_TURN:
            return None
        build = _group_in_turn
    source = windows[0].load.buffer
    data = pointer(f"{source.name}.columns", source.dtype, "local")
    columns = Buffer(data, source.dtype, (const(most * vector),), name=data.name)
    parts = [part for group in groups for part in build(columns, group, vector)]
    body = seq(*s.stmts[: places[0]], *parts, *s.stmts[places[-1] + 1 :])
    body = reduce(lambda inner, attr: attr.with_(body=inner), reversed(pragmas), body)
    return allocate.with_(body=Allocate(data, source.dtype, columns.shape, TRUE, body))


def _group(columns: Buffer, group: WindowGroup, vector: int) -> Iterator[Stmt]:
    """The extremes of the columns that the group uses, then those of each accumulator."""
    starts, width = group.starts(vector), min(vector, group.columns)
    for number in range(len(starts)):
        yield _extremes(columns, group, starts, width, number)
    for window in group.windows:
        yield _extreme_of_taps(columns, group, window, starts, width)


def _group_in_turn(columns: Buffer, group: WindowGroup, vector: int) -> Iterator[Stmt]:
    """As `_group`, but one accumulator after the other, each behind the columns it uses first."""
    starts, width = group.starts(vector), min(vector, group.columns)
    done = 0
    for window in group.windows:
        needed = sources_of(group, window, starts, width).stop
        for number in range(done, needed):
            yield _extremes(columns, group, starts, width, number)
        done = max(done, needed)
        yield _extreme_of_taps(columns, group, window, starts, width)


def _extremes(
    columns: Buffer, group: WindowGroup, starts: Sequence[int], width: int, number: int
) -> Stmt:
    """The store of one vector of columns: their extremes over the rows."""
    head = group.windows[0]
    rows: list[Expr] = []
    for row in head.rows:
        at = add(head.base, const(group.first + row + starts[number], head.base.dtype))
        rows.append(BufferLoad(head.load.buffer, (lanes_at(at, width),)))
    return BufferStore(columns, reduce(head.fold, rows), _slot(columns, width, number).indices)


def _slot(columns: Buffer, width: int, number: int) -> BufferLoad:
    return BufferLoad(columns, (lanes_at(const(number * width), width),))


def _extreme_of_taps(
    columns: Buffer, group: WindowGroup, window: Window, starts: Sequence[int], width: int
) -> Stmt:
    """The store to the window's accumulator: the extreme of it and of every tap.

    A tap is the column at one place of the windows, in each lane.
    """
    loads = [_slot(columns, width, number) for number in range(len(starts))]
    value: Expr = BufferLoad(window.store.buffer, window.store.indices)
    reach = (window.store.value.dtype.lanes - 1) * window.stride
    for tap in range(window.width):
        first = window.first - group.first + tap
        places = range(first, first + reach + 1, window.stride)
        value = window.fold(value, chosen(loads, starts, places, width))
    return BufferStore(window.store.buffer, value, window.store.indices)
