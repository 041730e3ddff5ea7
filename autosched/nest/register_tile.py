"""Choose the register tile of a reduction: how many outputs to accumulate at once.

Accumulators and operands share the core's vector registers. Where these run out, LLVM spills, which
costs far more than any effect modelled here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import nsmallest
from typing import Any, overload

import numpy as np

from autosched.nest.core import Core
from autosched.nest.numbers import Array, largest
from autosched.nest.window import Window, window_over

MAX_POINTS = 64
"""The most copies of the statement in a tile."""

TILE_LOOPS = 4
"""The number of innermost loops over outputs that a tile may take iterations from."""

STORE_CYCLES, FOLD_CYCLES = 1.5, 10.0
"""Cycles for each accumulator before and after the reduction: to load and store it, or to fold its
lanes onto each other, which takes more."""

GOOD, MOST_GOOD = 1.03, 6
"""A tile is good if it takes at most `GOOD` times the cycles of the best one; at most `MOST_GOOD`
are kept."""

NEAR, MOST_NEAR = 1.15, 6
"""The same limits for near tiles, which are considered where the good ones leave no choice of the
loop order."""

WINDOW = 1.05
"""Real over modelled cycles of an unrolled window: its code is long, and units idle at both
ends."""

MOST_PARTS, STEPS_OF_PART = 8, 4
"""The most partial results of one output whose lanes are folded at the end, and the fewest steps of
each."""

LONG_STEP = 16
"""Copies of the statement from which a step gains nothing from being unrolled, with 32 registers:
kernels of random candidates of seven operators then take 0.998 of the time on a Zen 4. With 16
registers, unrolling decides how LLVM keeps the accumulators, and kernels take 0.99 to 1.06 of the
time."""

LEAST_ROUNDS = 8
"""The fewest rounds of an unrolled loop that leaves steps over."""

ENDLESS = 10**9
"""The steps of a reduction so long that the cycles before and after it do not count."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A load in the reduction: `cost` is the number of load instructions of one copy.

    `varies` has a flag for each tile loop: whether the load's address depends on it. `steps` has
    the load's stride along each tile loop, `along` its stride along each loop of the problem's
    window, in elements.
    """

    cost: float
    varies: tuple[bool, ...]
    steps: tuple[int, ...] = ()
    along: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TileProblem:
    """The inputs of the choice of a tile.

    `extents` are those of the tile loops, outermost first; the last one counts the vector registers
    of one statement. `steps` is the number of reduction steps between loading and storing the
    accumulators. `weight` is the number of instructions besides loads for each accumulator and
    step, `finish` the cycles for each accumulator before and after the reduction. `window` has the
    extents of the innermost reduction loops where their steps share reads, else nothing.
    `most_parts` is the power of two that limits `parts_of`: 1 where lanes are not folded.
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
    """The number of partial results of each accumulator, for steps that take turns at them.

    Each step of one accumulator waits for the one before. A core that starts two steps a cycle,
    with a latency of four cycles, needs eight independent ones. Where lanes are folded at the end,
    partial results are just more lanes to fold.
    """
    return largest(1, -largest(-(MOST_PARTS // accumulators), -problem.most_parts))


def most_parts(steps: int) -> int:
    """The most partial results, a power of two, that a reduction of `steps` steps is worth."""
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

    The factors of `tile`, and `steps` (None: the problem's), can be arrays; the result then has the
    cycles of each of those tiles. A problem with a window takes numbers only.
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


def needs(problem: TileProblem, tile: Sequence[int | Array], steps: int | Array) -> tuple[Any, Any]:
    """The registers that a tile's operands take, and the loads of a step (in a window, on
    average)."""
    window = window_of(problem, tile, steps)
    if window is None:
        return operand_registers(problem.operands, tile)
    return window.live, window.loads


def window_of(
    problem: TileProblem, tile: Sequence[int | Array], steps: int | Array
) -> Window | None:
    """The window of a tile whose accumulators live for `steps`; None without one, or if slower.

    A problem with a window takes numbers only, no arrays.
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
    """Cycles of one step of a window; accumulator loads and stores run beside the arithmetic."""
    each = window.copies / window.steps
    work, loads = window.copies * problem.weight, window.loads + each
    return WINDOW * problem.core.cycles(work, loads, each, problem.core.latency)


def operand_registers(operands: Sequence[Operand], tile: Sequence[int | Array]) -> tuple[Any, Any]:
    """The registers that the operands of a tile take, and the loads of one step.

    The operand with the most copies streams through one register while the others are held.
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


@lru_cache(maxsize=20_000)
def good_and_near_tiles(
    problem: TileProblem,
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """The good tiles, and a few that are nearly as good; each list has its best first.

    A tile has a factor for each tile loop. The best has the least `cost` in an endless reduction;
    among equals, tiles with larger inner factors come first.
    """
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
    """The number of steps that one round of the innermost loop of `extent` unrolls: 1, 2 or 4.

    The steps' copies of a tile with `copies` of the statement must stay few. A long loop may leave
    a rest of steps, which run one by one. In a matmul this gains 1 to 4%, with short steps up to a
    tenth.
    """
    enough = MAX_POINTS if registers < 32 else LONG_STEP
    rounds = 1
    while rounds < 4 and rounds * copies < enough and 2 * rounds * copies <= MAX_POINTS:
        if extent % (2 * rounds) and extent < LEAST_ROUNDS * 2 * rounds:
            break
        rounds *= 2
    return rounds


def whole_loops(extents: Sequence[int], copies: int, registers: int) -> int:
    """How many of the innermost reduction loops of `extents` are fully unrolled around a tile with
    `copies` of the statement.

    The window of a pooling or of a depthwise convolution has few steps. Rolled, its loop counters
    take longer than its steps, and elements that neighbouring steps share are read twice. An
    element loaded once for several steps takes a register beside the accumulators, up to one for
    each. Where registers are too few, LLVM would keep it on the stack.
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
