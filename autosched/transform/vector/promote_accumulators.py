"""PromoteAccumulators: a reduction's outputs stay in registers while it runs.

for i in range(8):                           for i.o in range(2):
    for k in range(64):                          acc = allocate([64], "float32", "local")
        for r in range(2):            ->         acc[0:16] = C[i.o*512 : +16]
            C[i*128 + r*64 : +16] +=             ... (one for each of 4 i and r)
                A[i*64 + k] * B[...]             for k in range(64):
                                                     acc[0:16] = acc[0:16] + A[i.o*256 + k] * B[...]
                                                     ...
                                                 C[i.o*512 : +16] = acc[0:16]
                                                 ...

The pass takes perfect nests of constant loops around one store `X[a] = f(X[a], ...)` whose address
does not depend on the innermost loops that reduce. Loops over outputs are split so that a tile of
outputs fits the vector registers, and the tile is unrolled inside the reduction. Each output still
sees its reduction steps in the same order, so results do not change by a bit; only where the loads
are contiguous along the reduction alone are partial results kept in lanes and folded at the end
(`reassociate`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from autosched.tir.buffer import Buffer
from autosched.tir.expr import (
    Add,
    BinaryExpr,
    BufferLoad,
    Expr,
    IntImm,
    Mul,
    Ramp,
    Var,
    pointer,
)
from autosched.tir.function import PrimFunc
from autosched.tir.op import add, broadcast, const, mul
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    AttrStmt,
    BufferStore,
    For,
    ForKind,
    Stmt,
    seq,
)
from autosched.tir.walk import free_vars, map_children, pre_order, rewrite_expr, substitute
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.loops.distribute_loops import distribute
from autosched.transform.vector.lanes import lane_slice
from autosched.transform.vector.reduction_nest import Axis, Nest, is_counted, match_nests
from autosched.transform.vector.register_tile import (
    FOLD_CYCLES,
    MAX_POINTS,
    STORE_CYCLES,
    TILE_LOOPS,
    Operand,
    TileProblem,
    around_accumulators,
    choose_tile,
    instructions,
    last_reduction,
)


@dataclass(frozen=True)
class PromoteAccumulators(FunctionPass):
    """Accumulates in registers; `vector_bytes` and `registers` describe the register file.

    `reassociate` allows partial sums of floats where only the reduction's loads are contiguous.
    """

    vector_bytes: int = 64
    registers: int = 32
    reassociate: bool = True
    name: ClassVar[str] = "PromoteAccumulators"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        return func.with_body(self._stmt(func.body))

    def _stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, For) and is_counted(stmt):
            nests = match_nests(stmt, self.vector_bytes, self.reassociate)
            if nests:
                return seq(*(_tile(nest, self.registers) for nest in nests))
            distributed = distribute(stmt)
            if distributed is not stmt:
                return self._stmt(distributed)
        return map_children(stmt, self._stmt)


# -- choosing -----------------------------------------------------------------------------------


def _operands(nest: Nest, tile_axes: list[Axis]) -> Iterator[Operand]:
    seen = set()
    for e in pre_order(nest.value):
        if not isinstance(e, BufferLoad) or e.buffer.data is nest.buffer.data or e in seen:
            continue
        seen.add(e)
        (index,) = e.indices
        used = free_vars(index)
        vector = index.dtype.lanes > 1
        contiguous = isinstance(index, Ramp) and index.stride is IntImm(1, index.stride.dtype)
        cost = 1.0 if not vector or contiguous else float(nest.width)
        yield Operand(cost, (*(a.var in used for a in tile_axes), vector and nest.fold is None))


def _weight(nest: Nest) -> float:
    """Instructions of one step besides loads."""
    total = instructions(nest.value)
    if nest.fold is not None and not (nest.fold is Add and isinstance(nest.value, Mul)):
        total += 1
    return max(1.0, total)


def _tile(nest: Nest, registers: int) -> Stmt:
    spatial = [a for a in nest.axes if not a.reduces and a.extent > 1]
    tile_axes = spatial[-TILE_LOOPS:]
    problem = TileProblem(
        (*(a.extent for a in tile_axes), nest.chunks),
        tuple(_operands(nest, tile_axes)),
        nest.axes[last_reduction(nest.axes)].extent,
        registers,
        _weight(nest),
        STORE_CYCLES if nest.fold is None else FOLD_CYCLES,
    )
    tile = choose_tile(problem)
    factors = {a.var: f for a, f in zip(tile_axes, tile[:-1], strict=True)}
    return _build(nest, factors, tile[-1])


# -- building -----------------------------------------------------------------------------------


def _build(nest: Nest, factors: dict[Var, int], chunks: int) -> Stmt:
    """The nest with `factors` of its spatial loops and `chunks` of its vector unrolled inside."""
    outer, chain = _order(nest, factors)
    piece = Var("lane.o")
    width = nest.width * chunks
    pieces = nest.chunks // chunks
    index, value = nest.index, nest.value
    if pieces > 1:
        index, value = _part(index, piece, width), _part(value, piece, width)
    output = Var("output", value.dtype)
    value = _replace(value, BufferLoad(nest.buffer, (index,)), output)
    points, remaining = _points(nest, factors)
    points.sort(key=len, reverse=True)  # the operand with most copies streams
    data = pointer(f"{nest.buffer.name}.acc", nest.buffer.dtype, "local")
    count = math.prod(map(len, points))
    tile = Buffer(data, nest.buffer.dtype, (const(count * width),), name=data.name)
    before: list[Stmt] = []
    steps: list[Stmt] = []
    after: list[Stmt] = []
    for number, point in enumerate(itertools.product(*points)):
        slot = _lanes(number * width, width)
        own = BufferLoad(tile, (slot,))
        table = dict(point)
        where, what = substitute(index, table), substitute(value, {**table, output: own})
        old = BufferLoad(nest.buffer, (where,))
        if nest.fold is None:
            before.append(BufferStore(tile, old, (slot,)))
            steps.append(BufferStore(tile, what, (slot,)))
            after.append(BufferStore(nest.buffer, own, (where,)))
            continue
        start = const(0, own.dtype) if nest.fold is Add else broadcast(old, width)
        before.append(BufferStore(tile, start, (slot,)))
        steps.append(BufferStore(tile, nest.fold(own, what), (slot,)))
        after += _fold_lanes(tile, nest.fold, number * width, width)
        total = nest.fold(old, BufferLoad(tile, (const(number * width),)))
        after.append(BufferStore(nest.buffer, total, (where,)))
    body: Stmt = seq(*steps)
    for axis in reversed(chain):
        body = _loop(axis.var, axis.extent, body)
        if axis is chain[-1]:
            body.annotations["unroll_count"] = _rounds(axis.extent, count * chunks)
    # The tile is what unrolling is for: more copies would only cost compilation.
    body = AttrStmt(None, "pragma_auto_unroll_max_step", const(0), seq(*before, body, *after))
    body = Allocate(data, tile.dtype, tile.shape, TRUE, body)
    if pieces > 1:
        body = _loop(piece, pieces, body)
    for axis in reversed(outer):
        var, extent = remaining.get(axis.var, (axis.var, axis.extent))
        body = _loop(var, extent, body)
    return body


def _rounds(extent: int, copies: int) -> int:
    """Steps in each round of the innermost loop: up to four, while their copies stay few.

    In a matmul this gains 1 to 4%. The code generator hands it on to LLVM.
    """
    rounds = 1
    while rounds < 4 and 2 * rounds * copies <= MAX_POINTS and extent % (2 * rounds) == 0:
        rounds *= 2
    return rounds


def _lanes(start: int, width: int) -> Expr:
    return const(start) if width == 1 else Ramp(const(start), const(1), width)


def _fold_lanes(tile: Buffer, fold: type[BinaryExpr], start: int, width: int) -> Iterator[Stmt]:
    """Halves of the lanes folded onto each other until the result is in the first."""
    while width > 1:
        width //= 2
        low, high = _lanes(start, width), _lanes(start + width, width)
        yield BufferStore(tile, fold(BufferLoad(tile, (low,)), BufferLoad(tile, (high,))), (low,))


def _loop(var: Var, extent: int, body: Stmt) -> For:
    return For(var, const(0, var.dtype), const(extent, var.dtype), ForKind.SERIAL, body)


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
    """The values each tiled variable takes inside, and the loops that remain outside for them."""
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


def _order(nest: Nest, factors: dict[Var, int]) -> tuple[list[Axis], list[Axis]]:
    """The loops outside the accumulators' life, and the reduction loops inside.

    Loops that are unrolled whole disappear.
    """
    kept = [a for a in nest.axes if not (a.stride and factors.get(a.var, 1) == a.extent)]
    return around_accumulators(kept)
