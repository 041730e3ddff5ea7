"""Choosing the register tile of a reduction: how many outputs to accumulate at once.

A model of one core stands behind the choice: two fused multiply-adds and two loads a cycle, four
instructions a cycle, a latency of four cycles for an accumulation, and a file of vector registers
that accumulators and operands must share (LLVM spills beyond, which costs far more than anything
here).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from autosched.tir.expr import Add, Broadcast, BufferLoad, Call, Expr, IntImm, Mul, Ramp, Var
from autosched.tir.intrin import UNARY_MATH
from autosched.tir.walk import pre_order, rewrite_expr

MAX_POINTS = 64
"""Copies of the statement that a tile may have."""

TILE_LOOPS = 4
"""Loops over outputs, the innermost ones, that a tile may take from."""

STORE_CYCLES, FOLD_CYCLES = 1.5, 10.0
"""For each accumulator before and after the reduction; to fold lanes onto each other takes more."""

SHORT_REDUCTION = 16
"""A reduction of fewer steps takes the loops outside with it into the accumulators' life."""

_LATENCY = 4.0


@dataclass(frozen=True, slots=True)
class Operand:
    """A load in the reduction: `cost` is the number of load instructions of one copy.

    `varies` has a flag for each tile loop: whether the load's address depends on it.
    """

    cost: float
    varies: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class TileProblem:
    """What the choice depends on.

    `extents` are those of the tile loops, outermost first; the last one counts the vector
    registers of one statement. `steps` is the number of reduction steps between loading and
    storing the accumulators, `weight` the instructions for each accumulator and step besides loads,
    `finish` the cycles for each accumulator before and after the reduction.
    """

    extents: tuple[int, ...]
    operands: tuple[Operand, ...]
    steps: int
    registers: int
    weight: float = 1.0
    finish: float = 1.5


_FREE = (Broadcast, IntImm, Var, Ramp)
_MATH_CALL = 20.0


def instructions(value: Expr) -> float:
    """Vector instructions of one step of `value` besides loads; a multiply and an add are one."""

    def leaf(e: Expr) -> Expr | None:
        return Var("leaf", e.dtype) if isinstance(e, BufferLoad) else None

    nodes = list(pre_order(rewrite_expr(value, leaf)))
    total = sum(not isinstance(e, _FREE) for e in nodes)
    fused = sum(isinstance(e, Add) and any(isinstance(c, Mul) for c in e.children()) for e in nodes)
    calls = sum(isinstance(e, Call) and e.op in UNARY_MATH for e in nodes)
    return total - fused + _MATH_CALL * calls


class NestLoop(Protocol):
    """A loop of a nest around a reduction: `stride` is how far it moves the output."""

    @property
    def extent(self) -> int: ...
    @property
    def stride(self) -> int: ...


_Loop = TypeVar("_Loop", bound=NestLoop)


def last_reduction(loops: Sequence[NestLoop]) -> int:
    """The innermost loop that reduces, if possible one that runs more than once."""
    return max((a.extent > 1, k) for k, a in enumerate(loops) if not a.stride)[1]


def around_accumulators(loops: Sequence[_Loop]) -> tuple[list[_Loop], list[_Loop]]:
    """The loops outside the accumulators' life, and the reduction loops inside.

    The innermost run of reduction loops is inside; when it is short, the run before it too, past
    the spatial loops between.
    """
    last = last_reduction(loops)
    inside: list[_Loop] = []
    moved = [a for a in loops[last + 1 :] if a.stride]
    position, steps = last, 1
    while position >= 0 and (not loops[position].stride or steps < SHORT_REDUCTION):
        loop = loops[position]
        if not loop.stride:
            inside.insert(0, loop)
            steps *= loop.extent
        elif any(not a.stride and a.extent > 1 for a in loops[:position]):
            moved.insert(0, loop)
        else:
            break
        position -= 1
    inside += [a for a in loops[last + 1 :] if not a.stride]
    return [*loops[: position + 1], *moved], inside


def _divisors(n: int, limit: int) -> list[int]:
    return [d for d in range(1, min(n, limit) + 1) if n % d == 0]


def _tiles(extents: Sequence[int], limit: int) -> Iterator[tuple[int, ...]]:
    if not extents:
        yield ()
        return
    for rest in _tiles(extents[1:], limit):
        used = math.prod(rest)
        for factor in _divisors(extents[0], limit // used):
            yield (factor, *rest)


def cost(problem: TileProblem, tile: tuple[int, ...]) -> float | None:
    """Modelled cycles for each accumulator and reduction step; None when registers run out."""
    accumulators = math.prod(tile)
    loads, held = 0.0, [0]
    for operand in problem.operands:
        copies = math.prod(f for f, v in zip(tile, operand.varies, strict=True) if v)
        loads += copies * operand.cost
        held.append(copies)
    # The operand with most copies streams through one register while the others are held.
    live = 1 + sum(held) - max(held)
    if accumulators > 1 and accumulators + live > problem.registers:
        return None
    work = accumulators * problem.weight
    cycles = max(work / 2, loads / 2, _LATENCY, (work + loads + 2) / 4)
    return (cycles + accumulators * problem.finish / problem.steps) / accumulators


def choose_tile(problem: TileProblem) -> tuple[int, ...]:
    """The cheapest factor for each tile loop; among equals the one with larger inner factors."""
    best: tuple[float, tuple[int, ...]] | None = None
    chosen = (1,) * len(problem.extents)
    for tile in _tiles(problem.extents, min(problem.registers, MAX_POINTS)):
        value = cost(problem, tile)
        if value is None:
            continue
        key = (round(value, 3), tuple(-f for f in reversed(tile)))
        if best is None or key < best:
            best, chosen = key, tile
    return chosen
