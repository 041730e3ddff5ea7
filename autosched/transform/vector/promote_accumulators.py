"""PromoteAccumulators: a reduction's outputs stay in registers while it runs.

before:
    def main(A: Buffer((128,), float32), B: Buffer((512,), float32), C: Buffer((16,), float32)):
        for i in range(2):
            for k in range(64):
                C[i * 8:i * 8 + 8] = C[i * 8:i * 8 + 8] + broadcast(A[i * 64 + k],
                        8) * B[k * 8:k * 8 + 8]
after:
    def main(A: Buffer((128,), float32), B: Buffer((512,), float32), C: Buffer((16,), float32)):
        C.acc = allocate((16,), float32, "local")
        pragma(None, "auto_unroll_max_step", 0)
        C.acc[0:8] = C[0:8]
        C.acc[8:16] = C[8:16]
        for k in range(64, annotations={"unroll_count": 4}):
            C.acc[0:8] = C.acc[0:8] + broadcast(A[k], 8) * B[k * 8:k * 8 + 8]
            C.acc[8:16] = C.acc[8:16] + broadcast(A[k + 64], 8) * B[k * 8:k * 8 + 8]
        C[0:8] = C.acc[0:8]
        C[8:16] = C.acc[8:16]

The pass takes perfect nests of constant loops around one store `X[a] = f(X[a], ...)` whose address
does not depend on the innermost loops that reduce. It splits loops over outputs so that a tile of
outputs fits the vector registers, and unrolls the tile inside the reduction. Each output still sees
its reduction steps in the same order, so that results do not change by a bit. Only where the loads
are contiguous along the reduction alone are partial results kept in lanes and folded at the end
(`reassociate`). If each output is accumulated once and a constant is stored to all outputs right
before, the accumulators begin with that constant and the store disappears (first_values.py). Tiles
of windows that may reach past a border have a version for it (border_tiles.py).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from autosched.nest.core import Core
from autosched.nest.loop_nest import LoopNest
from autosched.nest.piece import Piece, Tile, accumulates_once, is_first
from autosched.nest.plan import Planned, plan_reduction
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
from autosched.tir.function import PrimFunc
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
    SeqStmt,
    Stmt,
    seq,
)
from autosched.tir.substitute_stmt import map_stmt
from autosched.tir.walk import free_vars, map_children, rewrite_expr
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.vector.apply_moves import planned_nests
from autosched.transform.vector.border_tiles import inside_of, without_borders
from autosched.transform.vector.describe_nest import can_fold
from autosched.transform.vector.distribute_loops import distribute
from autosched.transform.vector.first_values import first_value
from autosched.transform.vector.instructions import step_weight
from autosched.transform.vector.lanes import lane_slice
from autosched.transform.vector.reduction_nest import (
    Axis,
    Nest,
    is_counted,
    is_reduction,
    match_nest,
)
from autosched.transform.vector.turns import Turns

_MOST_CHOSEN = 512
"""Most statements of a loop that is unrolled so that its choices among numbers become constants.

For a transform of 8 rows with 4 vectors each there are 256.
"""


@dataclass(frozen=True)
class PromoteAccumulators(FunctionPass):
    """Accumulates in registers; `vector_bytes` and `registers` describe the register file.

    `reassociate` allows partial sums of floats where loads are contiguous along the reduction
    alone. Functions whose arguments may overlap stay as they are.
    """

    vector_bytes: int = 64
    registers: int = 32
    reassociate: bool = True
    name: ClassVar[str] = "PromoteAccumulators"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if not func.noalias:
            return func
        return func.with_body(_Promoter(self).stmt(func.body))

    def planned(self, func: PrimFunc) -> list[Planned]:
        """The nests that `apply` makes of `func`, in program order."""
        promoter = _Promoter(self)
        promoter.stmt(func.body)
        return promoter.planned


class _Promoter:
    """One walk that adds every nest that it plans to `planned`."""

    def __init__(self, options: PromoteAccumulators) -> None:
        self._core = Core(options.vector_bytes, options.registers)
        self._reassociate = options.reassociate
        self._times = 1
        self.planned: list[Planned] = []

    def stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, SeqStmt):
            return seq(*self._parts(stmt.stmts))
        if not isinstance(stmt, For):
            return map_children(stmt, self.stmt)
        if is_counted(stmt):
            pieces = self._reduction(stmt)
            if pieces:
                return seq(*pieces)
            distributed = distribute(stmt)
            if distributed is not stmt:
                return self.stmt(distributed)
        outside = self._times
        self._times *= stmt.extent.value if isinstance(stmt.extent, IntImm) else 1
        inside = map_children(stmt, self.stmt)
        self._times = outside
        return inside

    def _parts(self, parts: Sequence[Stmt]) -> Iterator[Stmt]:
        """The statements; one that only initialises the outputs of the next disappears in it."""
        k = 0
        while k < len(parts):
            following = parts[k + 1] if k + 1 < len(parts) else None
            started = self._reduction(following, parts[k]) if isinstance(following, For) else []
            k += 2 if started else 1
            yield from started or (self.stmt(parts[k - 1]),)

    def _reduction(self, outer: For, start: Stmt | None = None) -> list[Stmt]:
        """The nests of the reduction that `outer` starts; none if it is not a reduction.

        With `start`, the accumulators of the nests begin with the value that `start` stores; there
        are no nests if `start` must stay.
        """
        nest = match_nest(outer) if is_counted(outer) else None
        if nest is None or not is_reduction(nest):
            return []
        first = None if start is None else first_value(start, nest)
        if start is not None and first is None:
            return []
        folds = can_fold(nest, self._reassociate)
        weight = step_weight(without_borders(nest).value)

        def plan(described: LoopNest) -> tuple[Piece, ...]:
            element = nest.buffer.dtype.bytes
            return plan_reduction(described, self._core, element, weight, folds=folds)

        planned = planned_nests(nest, plan)
        if first is not None and not all(accumulates_once(piece) for _, piece in planned):
            return []
        self.planned += [Planned(nest.buffer.name, self._times, piece) for _, piece in planned]
        registers = self._core.registers
        reduces = [axis.reduces for axis in nest.axes]
        return [
            _build(part, piece.tile, registers, first if is_first(piece, reduces) else None)
            for part, piece in planned
            if piece.tile is not None
        ]


# -- building -----------------------------------------------------------------------------------


def _build(nest: Nest, tile: Tile, registers: int, first: Expr | None) -> Stmt:
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

    `first` is as for `_build`.
    """
    chain = [nest.axes[k] for k in tile.inside]
    piece = Var("lane.o")
    width = nest.width // tile.chunks * tile.held
    pieces = tile.chunks // tile.held
    index, value = nest.index, nest.value
    if pieces > 1:
        index, value = _part(index, piece, width), _part(value, piece, width)
    output = Var("output", value.dtype)
    value = _replace(value, BufferLoad(nest.buffer, (index,)), output)
    data = pointer(f"{nest.buffer.name}.acc", nest.buffer.dtype, "local")
    count = math.prod(map(len, points))
    size = const(count * tile.parts * width)
    held = Buffer(data, nest.buffer.dtype, (size,), name=data.name)
    before: list[Stmt] = []
    steps: list[Stmt] = []
    rest: list[Stmt] = []
    after: list[Stmt] = []
    turns = Turns.of(chain, tile.parts)
    places = [values[0][0] for values in points]
    at_point = RepeatedSubstitution(places)
    step_at = RepeatedSubstitution((*places, output))
    for number, point in enumerate(itertools.product(*points)):
        table = dict(point)
        where = at_point(index, table)
        old: Expr = BufferLoad(nest.buffer, (where,))
        if first is not None:
            old = broadcast(first, old.dtype.lanes)
        slots = [
            _lanes((number * turns.parts + part) * width, width) for part in range(turns.parts)
        ]
        owns = [BufferLoad(held, (slot,)) for slot in slots]
        if nest.fold is None:
            before.append(BufferStore(held, old, (slots[0],)))
            step = step_at(value, {**table, output: owns[0]})
            steps.append(BufferStore(held, step, (slots[0],)))
            after.append(BufferStore(nest.buffer, owns[0], (where,)))
            continue
        what = at_point(value, table)
        start = const(0, owns[0].dtype) if nest.fold is Add else broadcast(old, width)
        for part, (slot, own) in enumerate(zip(slots, owns, strict=True)):
            before.append(BufferStore(held, start, (slot,)))
            step = nest.fold(own, turns.turn(what, part))
            steps.append(BufferStore(held, step, (slot,)))
            if part < turns.rest:
                rest.append(BufferStore(held, nest.fold(own, turns.last(what, part)), (slot,)))
        place, lanes = number * turns.parts * width, turns.parts * width
        after += _fold_lanes(held, nest.fold, place, lanes)
        total = nest.fold(old, BufferLoad(held, (const(place),)))
        after.append(BufferStore(nest.buffer, total, (where,)))
    copies = count * tile.held
    window = window_of(tile.problem, tile.chosen, math.prod(axis.extent for axis in chain))
    if window is None:
        body = _rolled(turns.chain, steps, copies * turns.parts, registers)
        if rest:
            others = [axis for axis in chain if axis.var is not turns.var]
            body = seq(body, _rolled(others, rest, copies * turns.rest, registers))
    else:
        rolled = len(chain) - window.loops
        body = seq(*_in_window(nest, tile, window, chain[rolled:], points, steps))
        body = _around(chain[:rolled], chain[-1], body, copies, registers)
    # The tile is what unrolling is for: more copies would only cost compilation.
    body = AttrStmt(None, "pragma_auto_unroll_max_step", const(0), seq(*before, body, *after))
    body = Allocate(data, held.dtype, held.shape, TRUE, body)
    if pieces > 1:
        body = _loop(piece, pieces, body)
    return body


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


def _replace(e: Expr, old: Expr, new: Expr) -> Expr:
    return rewrite_expr(e, lambda node: new if node is old else None)


Point = tuple[Var, Expr]


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
