"""How well the loops inside a store fill the vector units: lanes and register tiles.

The CPU code generator takes lanes from loops over consecutive outputs and keeps a tile of outputs
in registers while it reduces (transform/promote_accumulators.py). Both are foreseen here from the
strides of the accesses, with the same model of a core.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from autosched.transform.register_tile import Operand, TileProblem, choose_tile, cost
from features.machine import Machine

_TILE_LOOPS = 4
_SHORT_REDUCTION = 16
_LEAST_LANES = 4
_FOLD_CYCLES, _STORE_CYCLES = 10.0, 1.5


@dataclass(frozen=True, slots=True)
class InnerLoop:
    """A loop of the nest around a store: `stride` is how far it moves the stored element, `reads`
    how far each element that is read, all in elements."""

    extent: int
    stride: int
    reads: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tile:
    """Foreseen vector code: `lanes` of a vector, `accumulators` held in registers at once, the
    `registers` they and their operands need, and `cycles` for each vector of one iteration. Where
    a loop is cut in two, lanes and cycles are those of both on average.

    `folded`: the lanes run along the reduction. `gathers` counts reads whose lanes are apart.
    """

    lanes: float
    accumulators: int
    registers: int
    cycles: float
    folded: bool
    gathers: int


@lru_cache(maxsize=20_000)
def register_tile(
    loops: tuple[InnerLoop, ...], reads: int, element: int, weight: float, machine: Machine
) -> Tile:
    """The tile for a store inside `loops` (outermost first) that reads `reads` elements besides
    its own and spends `weight` instructions on each vector."""
    running = tuple(loop for loop in loops if loop.extent > 1)
    parts = list(_parts(running, reads, max(1, machine.vector // element), weight, machine))
    if len(parts) == 1:
        return parts[0][1]
    iterations = sum(count for count, _ in parts)
    vectors = sum(count / tile.lanes for count, tile in parts)
    cycles = sum(count / tile.lanes * tile.cycles for count, tile in parts)
    _, largest = max(parts, key=lambda part: part[0])
    return replace(largest, lanes=iterations / vectors, cycles=cycles / vectors)


def _parts(
    loops: tuple[InnerLoop, ...], reads: int, fit: int, weight: float, machine: Machine
) -> Iterator[tuple[int, Tile]]:
    """The nests that a nest becomes, with their iterations: two where a loop over consecutive
    outputs is cut into whole vectors and a rest."""
    iterations = math.prod(loop.extent for loop in loops)
    lanes, rest = _lanes(loops, fit)
    contiguous = [_contiguous(rest, k) for k in range(reads)]
    gathers = sum(not c for c in contiguous)
    if 2 * lanes < fit or gathers:
        folded = _folded(loops, reads, fit)
        if folded is not None:
            lanes, inside = folded
            yield (
                iterations,
                _tile(inside, (1.0,) * reads, lanes, weight, machine, 0, folded=True),
            )
            return
    if 2 * lanes < fit:
        for k, loop in enumerate(loops):
            left = loop.extent % fit
            if abs(loop.stride) == 1 and 0 < left < loop.extent:
                for extent in (loop.extent - left, left):
                    part = (*loops[:k], replace(loop, extent=extent), *loops[k + 1 :])
                    yield from _parts(part, reads, fit, weight, machine)
                return
    costs = tuple(1.0 if contiguous[k] or lanes == 1 else float(lanes) for k in range(reads))
    inside = tuple(InnerLoop(loop.extent // count, loop.stride, loop.reads) for loop, count in rest)
    yield iterations, _tile(inside, costs, lanes, weight, machine, gathers, folded=False)


Counted = tuple[InnerLoop, int]
"""A loop, and how many of its iterations became lanes."""


def _lanes(loops: Sequence[InnerLoop], fit: int) -> tuple[int, tuple[Counted, ...]]:
    """Lanes from loops over consecutive outputs."""
    lanes = 1
    counts = [1] * len(loops)
    while lanes < fit:
        for k, loop in enumerate(loops):
            if counts[k] == 1 and abs(loop.stride) == lanes:
                taken = _from_extent(loop.extent, fit // lanes)
                break
        else:
            break
        counts[k] = taken
        lanes *= taken
        if taken < loop.extent or taken == 1:
            break
    return lanes, tuple(zip(loops, counts, strict=True))


def _from_extent(extent: int, limit: int) -> int:
    power = extent & -extent
    if power >= limit:
        return 1 << (limit.bit_length() - 1)
    return extent if extent <= limit and extent > 2 * power else power


def _contiguous(rest: Sequence[Counted], read: int) -> bool:
    """Whether the lanes of a read are one element, or follow each other as the outputs do."""
    moving = [(loop.reads[read], loop.stride) for loop, count in rest if count > 1]
    return all(r == 0 for r, _ in moving) or all(r == s for r, s in moving)


def _folded(
    loops: Sequence[InnerLoop], reads: int, fit: int
) -> tuple[int, tuple[InnerLoop, ...]] | None:
    """Lanes along reductions whose reads follow each other, and the loops that remain."""
    lanes, remaining = 1, list(loops)
    for k in range(len(loops) - 1, -1, -1):
        loop = loops[k]
        if loop.stride or not any(loop.reads) or any(r not in (0, lanes) for r in loop.reads):
            continue
        power = loop.extent & -loop.extent if loop.extent < fit else loop.extent
        taken = min(fit // lanes, 1 << (power.bit_length() - 1))
        lanes *= taken
        remaining[k] = InnerLoop(max(1, loop.extent // taken), 0, loop.reads)
    if lanes < min(fit, _LEAST_LANES) or lanes == 1:
        return None
    return lanes, tuple(remaining)


def _tile(
    loops: Sequence[InnerLoop],
    costs: Sequence[float],
    lanes: int,
    weight: float,
    machine: Machine,
    gathers: int,
    *,
    folded: bool,
) -> Tile:
    reducing = [loop.extent for loop in loops if loop.stride == 0 and loop.extent > 1]
    if not reducing and not folded:
        loads = sum(costs)
        cycles = max(weight / 2, loads / 2, 1.0, (weight + loads + 1) / 4)
        return Tile(lanes, 1, 1 + len(costs), cycles, False, gathers)
    steps = 1
    for extent in reversed(reducing):
        if steps >= _SHORT_REDUCTION:
            break
        steps *= extent
    spatial = [loop for loop in loops if loop.stride and loop.extent > 1][-_TILE_LOOPS:]
    operands = tuple(
        Operand(c, tuple(bool(loop.reads[k]) for loop in spatial)) for k, c in enumerate(costs)
    )
    problem = TileProblem(
        tuple(loop.extent for loop in spatial),
        operands,
        steps,
        machine.registers,
        weight,
        _FOLD_CYCLES if folded else _STORE_CYCLES,
    )
    factors, cycles = _chosen(problem)
    accumulators, held = 1, [0]
    for factor in factors:
        accumulators *= factor
    for operand in operands:
        copies = 1
        for factor, varies in zip(factors, operand.varies, strict=True):
            copies *= factor if varies else 1
        held.append(copies)
    needed = accumulators + 1 + sum(held) - max(held)
    return Tile(lanes, accumulators, needed, cycles, folded, gathers)


@lru_cache(maxsize=20_000)
def _chosen(problem: TileProblem) -> tuple[tuple[int, ...], float]:
    factors = choose_tile(problem)
    cycles = cost(problem, factors)
    return factors, float("inf") if cycles is None else cycles
