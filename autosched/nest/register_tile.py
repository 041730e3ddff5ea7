"""The register tile of a reduction: how many outputs to accumulate at once.

Accumulators and operands must share the core's vector registers: beyond, LLVM spills, which costs
far more than anything here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any, overload

import numpy as np

from autosched.nest.core import Core
from autosched.nest.numbers import Array, largest
from autosched.nest.window import Window, window_over

MAX_POINTS = 64
"""Copies of the statement that a tile may have."""

TILE_LOOPS = 4
"""Loops over outputs, the innermost ones, that a tile may take from."""

STORE_CYCLES, FOLD_CYCLES = 1.5, 10.0
"""For each accumulator before and after the reduction; to fold lanes onto each other takes more."""

GOOD, MOST_GOOD = 1.03, 6
"""Cycles of a tile over those of the best one that count as equal, and how many such there are."""

NEAR, MOST_NEAR = 1.15, 6
"""The same for tiles that are worth a look where the good ones leave no choice of the order."""

WINDOW = 1.05
"""Cycles of an unrolled window over those modelled: long code, and idle units at both ends."""

MOST_PARTS, STEPS_OF_PART = 8, 4
"""Partial results of one output whose lanes are folded at the end, and the least steps of each."""

LONG_STEP = 16
"""Copies of the statement from which on a step gains nothing from being unrolled: kernels of random
candidates of seven operators take 0.998 of the time on a Zen 4. With 32 registers, that is. With 16
unrolling decides how LLVM keeps the accumulators, and kernels take 0.99 to 1.06 of the time."""

LEAST_ROUNDS = 8
"""Rounds of an unrolled loop that leaves steps over."""

ENDLESS = 10**9
"""Steps of a reduction so long that what surrounds it does not count."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A load in the reduction: `cost` is the number of load instructions of one copy.

    `varies` has a flag for each tile loop: whether the load's address depends on it. `steps` is how
    far each tile loop moves it, `along` how far each loop of the problem's window, in elements.
    """

    cost: float
    varies: tuple[bool, ...]
    steps: tuple[int, ...] = ()
    along: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TileProblem:
    """What the choice depends on.

    `extents` are those of the tile loops, outermost first; the last one counts the vector
    registers of one statement. `steps` is the number of reduction steps between loading and
    storing the accumulators, `weight` the instructions for each accumulator and step besides loads,
    `finish` the cycles for each accumulator before and after the reduction. `window` has the
    extents of the innermost reduction loops where their steps share what they read, else nothing.
    `most_parts` is the power of two that `parts_of` is limited to: 1 where lanes are not folded.
    """

    extents: tuple[int, ...]
    operands: tuple[Operand, ...]
    steps: int
    core: Core
    weight: float = 1.0
    finish: float = STORE_CYCLES
    window: tuple[int, ...] = ()
    most_parts: int = 1


@overload
def parts_of(problem: TileProblem, accumulators: int) -> float: ...
@overload
def parts_of(problem: TileProblem, accumulators: int | Array) -> float | Array: ...
def parts_of(problem: TileProblem, accumulators: int | Array) -> float | Array:
    """Partial results of each of so many accumulators, for steps that take turns at them.

    Each step of one accumulator waits for the one before; a core that begins two in each of four
    cycles needs eight that do not. Lanes that are folded at the end can be more lanes as well.
    """
    return largest(1, -largest(-(MOST_PARTS // accumulators), -problem.most_parts))


def most_parts(steps: int) -> int:
    """The power of two of partial results that a reduction of so many steps is worth."""
    parts = 1
    while 2 * parts <= MOST_PARTS and 2 * parts * STEPS_OF_PART <= steps:
        parts *= 2
    return parts


@overload
def cost(problem: TileProblem, tile: Sequence[int], steps: int | None = None) -> float: ...
@overload
def cost(
    problem: TileProblem, tile: Sequence[int | Array], steps: int | Array | None = None
) -> float | Array: ...
def cost(
    problem: TileProblem, tile: Sequence[int | Array], steps: int | Array | None = None
) -> float | Array:
    """Modelled cycles for each accumulator and reduction step; infinite when registers run out.

    The factors of `tile`, and the `steps` that may stand for the problem's, can be arrays: then the
    cycles of each of those tiles. Tiles of a problem with a window are numbers.
    """
    core, accumulators = problem.core, math.prod(tile)
    steps = problem.steps if steps is None else steps
    window = window_of(problem, tile, steps)
    if window is not None:
        return _window_cycles(problem, window) / accumulators
    live, loads = operand_registers(problem.operands, tile)
    parts = parts_of(problem, accumulators)
    spills = (accumulators > 1) & (accumulators * parts + live > core.registers)
    if spills is True:
        return math.inf
    work = accumulators * problem.weight
    cycles = core.cycles(work, loads, 2 / parts, core.latency / parts)
    finish = accumulators * (problem.finish + parts - 1) / steps
    value = (cycles + finish) / accumulators
    return value if spills is False else np.where(spills, math.inf, value)


def needs(
    problem: TileProblem, tile: Sequence[int | Array], steps: int | Array | None = None
) -> tuple[Any, Any]:
    """The registers that the operands of a tile take, and the loads of one step (of a window on
    average)."""
    window = window_of(problem, tile, problem.steps if steps is None else steps)
    if window is None:
        return operand_registers(problem.operands, tile)
    return window.live, window.loads


def window_of(
    problem: TileProblem, tile: Sequence[int | Array], steps: int | Array
) -> Window | None:
    """The window that becomes of a tile whose accumulators live for `steps`, where that is faster.

    A problem that has a window takes numbers, no arrays.
    """
    if not problem.window:
        return None
    core, numbers = problem.core, [int(factor) for factor in tile]
    accumulators = math.prod(numbers)
    window = window_over(
        problem.operands, problem.window, int(steps), numbers, core.registers, problem.weight
    )
    if window is None:
        return None
    live, loads = operand_registers(problem.operands, tile)
    if accumulators > 1 and accumulators + live > core.registers:
        return window
    work = accumulators * problem.weight
    rolled = core.cycles(work, loads, 2, core.latency) + accumulators * STORE_CYCLES / window.steps
    return window if _window_cycles(problem, window) < rolled else None


def _window_cycles(problem: TileProblem, window: Window) -> float:
    """Of a step: loads and stores of the accumulators run beside the arithmetic."""
    each = window.copies / window.steps
    work, loads = window.copies * problem.weight, window.loads + each
    return WINDOW * problem.core.cycles(work, loads, each, problem.core.latency)


def operand_registers(operands: Sequence[Operand], tile: Sequence[int | Array]) -> tuple[Any, Any]:
    """The registers that the operands of a tile take, and the loads of one step.

    The operand with most copies streams through one register while the others are held.
    """
    loads: float | Array = 0.0
    held: int | Array = 0
    most: Any = 0
    for operand in operands:
        copies: int | Array = 1
        for factor, varies in zip(tile, operand.varies, strict=True):
            if varies:
                copies = copies * factor
        loads = loads + copies * operand.cost
        held = held + copies
        most = largest(most, copies)
    return 1 + held - most, loads


def choose_tile(problem: TileProblem) -> tuple[int, ...]:
    """The tile whose steps take least; among equals the one with larger inner factors."""
    return good_tiles(problem)[0]


def good_tiles(problem: TileProblem) -> list[tuple[int, ...]]:
    """A few tiles that keep the core about as busy as the best one, which is first.

    Each has a factor for each tile loop. Among equals those with larger inner factors come first.
    """
    return good_and_near_tiles(problem)[0]


def good_and_near_tiles(
    problem: TileProblem,
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """The good tiles, and a few behind them."""
    points = max(1, min(problem.core.registers - 1, MAX_POINTS))  # an operand needs a register too
    keys = []
    for tile in _tiles(problem.extents, points):
        value = cost(problem, tile, ENDLESS)
        if value != math.inf:
            keys.append((round(value, 3), tuple([-f for f in reversed(tile)])))
    if not keys:
        return [(1,) * len(problem.extents)], []
    least = min(keys)[0]
    good = nsmallest(MOST_GOOD, [key for key in keys if key[0] <= GOOD * least])
    near = nsmallest(MOST_NEAR, [key for key in keys if GOOD < key[0] / least <= NEAR])
    return _factors(good), _factors(near)


def _factors(keys: Sequence[tuple[float, tuple[int, ...]]]) -> list[tuple[int, ...]]:
    return [tuple([-f for f in reversed(inner)]) for _, inner in keys]


def unrolled_steps(extent: int, copies: int, registers: int) -> int:
    """Steps in each round of the innermost loop of `extent`: up to four, while their copies of the
    tile's `copies` stay few. Long loops may leave some over, which run one by one.

    In a matmul this gains 1 to 4%, where steps are short up to a tenth.
    """
    enough = MAX_POINTS if registers < 32 else LONG_STEP
    rounds = 1
    while rounds < 4 and rounds * copies < enough and 2 * rounds * copies <= MAX_POINTS:
        if extent % (2 * rounds) and extent < LEAST_ROUNDS * 2 * rounds:
            break
        rounds *= 2
    return rounds


def whole_loops(extents: Sequence[int], copies: int, registers: int) -> int:
    """How many of the innermost reduction loops of `extents` are unrolled whole, with `copies` of
    the statement in the tile.

    The window of a pooling or of a convolution by channels has few steps: rolled, its counters take
    longer than its steps, and what neighbouring steps both read is read twice. What is read once
    for several steps takes registers beside the accumulators, up to one for each: where they are
    too few, LLVM would keep it on the stack.
    """
    if 2 * copies > registers:
        return 0
    found = 0
    for extent in reversed(extents):
        copies *= extent
        if copies > MAX_POINTS:
            break
        found += 1
    return found


def _tiles(extents: Sequence[int], limit: int) -> Iterator[tuple[int, ...]]:
    if not extents:
        yield ()
        return
    for rest in _tiles(extents[1:], limit):
        used = math.prod(rest)
        for factor in _divisors(extents[0], limit // used):
            yield (factor, *rest)


def _divisors(n: int, limit: int) -> list[int]:
    return [d for d in range(1, min(n, limit) + 1) if n % d == 0]
