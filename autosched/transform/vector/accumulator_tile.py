"""The code of a register tile: the accumulators of a reduction, its steps, its loops."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from autosched.nest.piece import Tile
from autosched.nest.register_tile import unrolled_steps, whole_loops, window_of
from autosched.nest.window import Window, statements
from autosched.tir.buffer import Buffer
from autosched.tir.copy_stmt import copy_stmt
from autosched.tir.expr import (
    Add,
    BinaryExpr,
    BufferLoad,
    Expr,
    FloatImm,
    IntImm,
    Ramp,
    Select,
    Var,
    pointer,
)
from autosched.tir.kinds import bits_of, exprs_with
from autosched.tir.op import add, broadcast, const, mul
from autosched.tir.repeated_substitution import RepeatedSubstitution
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    AttrStmt,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    Stmt,
    seq,
)
from autosched.tir.substitute_stmt import map_stmt
from autosched.tir.walk import free_vars, rewrite_expr
from autosched.transform.vector.border_tiles import inside_of
from autosched.transform.vector.lanes import lane_slice
from autosched.transform.vector.reduction_nest import Axis, Nest
from autosched.transform.vector.turns import Turns

_MOST_CHOSEN = 512
"""Most statements of a loop that is unrolled so that its choices among numbers become constants.

For a transform of 8 rows with 4 vectors each there are 256.
"""


Point = tuple[Var, Expr]


def build_tile(nest: Nest, tile: Tile, registers: int, first: Expr | None) -> Stmt:
    """The nest with the tile's part of its spatial loops, and of its vector, unrolled inside.

    Unless `first` is None, all outputs begin with the value `first` instead of their stored values.
    """
    factors = dict(zip((a.var for a in nest.axes), tile.factors, strict=True))
    points, remaining = _points(nest, factors)
    points.sort(key=len, reverse=True)  # the longest dimension varies slowest: its operand streams
    body = _accumulated(nest, tile, registers, first, points)
    inside = inside_of(nest, points, tile.inside)
    if inside is not None:
        whole = _accumulated(replace(nest, value=inside.value), tile, registers, first, points)
        body = IfThenElse(inside.condition, whole, copy_stmt(body, {}))
    for axis in reversed([nest.axes[k] for k in tile.outer]):
        var, extent = remaining.get(axis.var, (axis.var, axis.extent))
        body = _loop(var, extent, body)
    return body


def _accumulated(
    nest: Nest,
    tile: Tile,
    registers: int,
    first: Expr | None,
    points: Sequence[Sequence[Point]],
) -> Stmt:
    """The reduction of one tile: its accumulators, the steps of all `points`, and what is stored.

    `first` is as for `build_tile`.
    """
    piece, pieces = Var("lane.o"), tile.chunks // tile.held
    width = nest.width // tile.chunks * tile.held
    if pieces > 1:
        index, value = (_part(e, piece, width) for e in (nest.index, nest.value))
        nest = replace(nest, index=index, value=value)
    turns = Turns.of([nest.axes[k] for k in tile.inside], tile.parts)
    held = _Accumulators(nest, width, turns, first, points)
    for number, point in enumerate(itertools.product(*points)):
        held.add(number, dict(point))
    body = seq(*held.before, _steps(nest, tile, held, registers, points), *held.after)
    # The tile is what unrolling is for: more copies would only cost compilation.
    body = AttrStmt(None, "pragma_auto_unroll_max_step", const(0), body)
    body = Allocate(held.buffer.data, held.buffer.dtype, held.buffer.shape, TRUE, body)
    return _loop(piece, pieces, body) if pieces > 1 else body


class _Accumulators:
    """The accumulators of a tile in `buffer`: one for each point and turn, of `width` lanes.

    `before` gives them their first values, and `after` stores the results. `steps` has one step of
    each accumulator, `rest` the steps that `turns` leave over.
    """

    def __init__(
        self,
        nest: Nest,
        width: int,
        turns: Turns,
        first: Expr | None,
        points: Sequence[Sequence[Point]],
    ) -> None:
        self.nest, self.width, self.turns, self.first = nest, width, turns, first
        data = pointer(f"{nest.buffer.name}.acc", nest.buffer.dtype, "local")
        size = const(math.prod(map(len, points)) * turns.parts * width)
        self.buffer = Buffer(data, nest.buffer.dtype, (size,), name=data.name)
        self.before: list[Stmt] = []
        self.steps: list[Stmt] = []
        self.rest: list[Stmt] = []
        self.after: list[Stmt] = []
        self._output = Var("output", nest.value.dtype)
        stored = BufferLoad(nest.buffer, (nest.index,))
        self._value = rewrite_expr(nest.value, lambda e: self._output if e is stored else None)
        places = [values[0][0] for values in points]
        self._at_point = RepeatedSubstitution(places)
        self._step_at = RepeatedSubstitution((*places, self._output))

    def add(self, number: int, table: dict[Var, Expr]) -> None:
        """Add the statements of the point `number`, where `table` has the variables' values."""
        where = self._at_point(self.nest.index, table)
        old: Expr = BufferLoad(self.nest.buffer, (where,))
        if self.first is not None:
            old = broadcast(self.first, old.dtype.lanes)
        if self.nest.fold is None:
            result = self._add_whole(number, table, old)
        else:
            result = self._add_lanes(number, table, old, self.nest.fold)
        self.after.append(BufferStore(self.nest.buffer, result, (where,)))

    def _add_whole(self, number: int, table: dict[Var, Expr], old: Expr) -> Expr:
        """Add the steps of an accumulator that begins with `old`; returns the result."""
        slot = _lanes(number * self.width, self.width)
        own = BufferLoad(self.buffer, (slot,))
        self.before.append(BufferStore(self.buffer, old, (slot,)))
        step = self._step_at(self._value, {**table, self._output: own})
        self.steps.append(BufferStore(self.buffer, step, (slot,)))
        return own

    def _add_lanes(
        self, number: int, table: dict[Var, Expr], old: Expr, fold: type[BinaryExpr]
    ) -> Expr:
        """Add the steps of partial results, which are folded to one at the end; returns that."""
        turns, width = self.turns, self.width
        lanes = turns.parts * width
        what = self._at_point(self._value, table)
        for part in range(turns.parts):
            slot = _lanes(number * lanes + part * width, width)
            own = BufferLoad(self.buffer, (slot,))
            start = const(0, own.dtype) if fold is Add else broadcast(old, width)
            self.before.append(BufferStore(self.buffer, start, (slot,)))
            step = fold(own, turns.turn(what, part))
            self.steps.append(BufferStore(self.buffer, step, (slot,)))
            if part < turns.rest:
                step = fold(own, turns.last(what, part))
                self.rest.append(BufferStore(self.buffer, step, (slot,)))
        self.after += _fold_lanes(self.buffer, fold, number * lanes, lanes)
        return fold(old, BufferLoad(self.buffer, (const(number * lanes),)))


def _steps(
    nest: Nest,
    tile: Tile,
    held: _Accumulators,
    registers: int,
    points: Sequence[Sequence[Point]],
) -> Stmt:
    """The loops of the reduction around the steps of all accumulators."""
    turns = held.turns
    chain = [nest.axes[k] for k in tile.inside]
    copies = math.prod(map(len, points)) * tile.held
    window = window_of(tile.problem, tile.chosen, math.prod(axis.extent for axis in chain))
    if window is not None:
        rolled = len(chain) - window.loops
        body = seq(*_in_window(nest, tile, window, chain[rolled:], points, held.steps))
        return _around(chain[:rolled], chain[-1], body, copies, registers)
    body = _rolled(turns.chain, held.steps, copies * turns.parts, registers)
    if not held.rest:
        return body
    others = [axis for axis in chain if axis.var is not turns.var]
    return seq(body, _rolled(others, held.rest, copies * turns.rest, registers))


def _rolled(chain: Sequence[Axis], steps: Sequence[Stmt], copies: int, registers: int) -> Stmt:
    """The steps in the loops `chain`; innermost loops of few copies are unrolled whole."""
    body: Stmt = seq(*steps)
    few = whole_loops([axis.extent for axis in chain], copies, registers)
    rolled = len(chain) - max(few, _choosing(chain, body, copies))
    for axis in reversed(chain[rolled:]):
        body = _loop(axis.var, axis.extent, body, ForKind.UNROLLED)
    return _around(chain[:rolled], chain[-1] if chain else None, body, copies, registers)


def _choosing(chain: Sequence[Axis], body: Stmt, copies: int) -> int:
    """The number of innermost loops whose variables choose among numbers, as in a table.

    Unrolled, the chosen numbers are constants, and no step chooses. A convolution by tiles of 4
    takes 0.88 of the time (Zen 4).
    """
    variables: frozenset[Var] = frozenset()
    for e in exprs_with(body, bits_of(Select)):
        if isinstance(e, Select) and _are_numbers(e):
            variables |= free_vars(e)
    found = 0
    for axis in reversed(chain):
        copies *= axis.extent
        if axis.var not in variables or copies > _MOST_CHOSEN:
            break
        found += 1
    return found


def _are_numbers(e: Expr) -> bool:
    """Whether `e` is a number or a choice among numbers."""
    if isinstance(e, Select):
        return _are_numbers(e.true_value) and _are_numbers(e.false_value)
    return isinstance(e, IntImm | FloatImm)


def _around(
    chain: Sequence[Axis], last: Axis | None, body: Stmt, copies: int, registers: int
) -> Stmt:
    """The loops around `body`, of `copies` statements; the loop `last` is unrolled in part."""
    for axis in reversed(chain):
        body = _loop(axis.var, axis.extent, body)
        if axis is last:
            body.annotations["unroll_count"] = unrolled_steps(axis.extent, copies, registers)
    return body


def _in_window(
    nest: Nest,
    tile: Tile,
    window: Window,
    axes: Sequence[Axis],
    points: Sequence[Sequence[Point]],
    steps: Sequence[Stmt],
) -> Iterator[Stmt]:
    """All iterations of `axes` of the statements `steps`, in the window's order.

    `steps` has a statement for each point of the tile.
    """
    shared = tile.problem.operands[window.shared]
    extents = [axis.extent for axis in axes]
    variables = [nest.axes[k].var for k in tile.tiled]
    step_in = RepeatedSubstitution(axis.var for axis in axes)
    for iteration, point in statements(shared, extents, (*tile.chosen[:-1], 1)):
        at = dict(zip(variables, point, strict=False))
        number = 0
        for values in points:
            number = number * len(values) + at.get(values[0][0], 0)
        table = {a.var: const(k, a.var.dtype) for a, k in zip(axes, iteration, strict=True)}
        yield map_stmt(steps[number], partial(step_in, table=table))


def _lanes(start: int, width: int) -> Expr:
    return const(start) if width == 1 else Ramp(const(start), const(1), width)


def _fold_lanes(tile: Buffer, fold: type[BinaryExpr], start: int, width: int) -> Iterator[Stmt]:
    """Fold the upper lanes onto the lower ones until the result is in the first lane.

    The lower lanes are a power of two: of nine lanes the last one is folded first, then halves.
    """
    while width > 1:
        kept = 1 << (width - 1).bit_length() - 1
        low, high = (_lanes(start + at, width - kept) for at in (0, kept))
        yield BufferStore(tile, fold(BufferLoad(tile, (low,)), BufferLoad(tile, (high,))), (low,))
        width = kept


def _loop(var: Var, extent: int, body: Stmt, kind: ForKind = ForKind.SERIAL) -> For:
    return For(var, const(0, var.dtype), const(extent, var.dtype), kind, body)


def _part(e: Expr, piece: Var, width: int) -> Expr:
    part = lane_slice(e, mul(piece, const(width)), width)
    assert part is not None, "the nest was matched only when its lanes can be sliced"
    return part


def _points(
    nest: Nest, factors: dict[Var, int]
) -> tuple[list[list[Point]], dict[Var, tuple[Var, int]]]:
    """The values of each tiled variable inside the tile, and the loops that remain outside."""
    points: list[list[Point]] = []
    remaining: dict[Var, tuple[Var, int]] = {}
    for axis in nest.axes:
        factor, var = factors.get(axis.var, 1), axis.var
        if not axis.stride or (factor == 1 and axis.extent > 1):
            continue
        start: Expr = const(0, var.dtype)
        if factor < axis.extent:
            outside = Var(f"{var.name}.o", var.dtype)
            remaining[var] = outside, axis.extent // factor
            start = mul(outside, const(factor, var.dtype))
        points.append([(var, add(start, const(p, var.dtype))) for p in range(factor)])
    return points, remaining
