"""The register tiles of many reductions: `nest/register_tile.py` for arrays of problems.

All tiles that a core could hold are in one table, in the order of preference among equals. The
table also tells which of them divide the loops of a nest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from autosched.features.batched.along_loops import marks_from_last, picked_in_all
from autosched.features.batched.autosched_1.plans.lanes import Nests
from autosched.features.batched.forms import Flags, Ints
from autosched.features.batched.stores import Floats
from autosched.features.batched.unique import different, keys_of
from autosched.nest.core import Core
from autosched.nest.register_tile import (
    ENDLESS,
    FOLD_CYCLES,
    GOOD,
    MAX_POINTS,
    MOST_GOOD,
    MOST_NEAR,
    MOST_PARTS,
    NEAR,
    STEPS_OF_PART,
    STORE_CYCLES,
    TILE_LOOPS,
)

_Intp = npt.NDArray[np.intp]
_DIMS = TILE_LOOPS + 1


@dataclass(frozen=True, eq=False)
class TileTable:
    """All tiles of at most a given number of points.

    `factors` is by (dimension, tile); `points` is the product of a tile's factors; `copies` has, by
    (set of dimensions as bits, tile), the product of the factors in the set.
    """

    factors: Ints
    points: Ints
    copies: Ints


@lru_cache(maxsize=8)
def tile_table(limit: int) -> TileTable:
    """The tiles of at most `limit` points in order of preference: larger inner factors first."""
    factors: Ints = np.ones((0, 1), np.int64)
    for _ in range(_DIMS):  # from the inside out, extend each tile by all factors that fit
        most = limit // factors.prod(axis=0)
        of = np.repeat(np.arange(len(most)), most)
        rank = np.arange(len(of)) - (most.cumsum() - most)[of]
        factors = np.concatenate([(most[of] - rank)[None], factors[:, of]])
    copies = [
        np.where((bits >> np.arange(_DIMS) & 1)[:, None], factors, 1).prod(axis=0)
        for bits in range(1 << _DIMS)
    ]
    return TileTable(factors, factors.prod(axis=0), np.array(copies))


@dataclass(eq=False)
class Problems:
    """`nest.register_tile.TileProblem` of each nest, without windows.

    `loop` has by (dimension, nest) the tile loop, -1 where there is none; the last dimension of
    `extents` is the `chunks`. By (read, nest): the `cost` of a load, and as bits the dimensions
    that it `varies` with.
    """

    table: TileTable
    core: Core
    loop: Ints
    extents: Ints
    chunks: Ints
    cost: Floats
    varies: Ints
    weight: Floats
    finish: Floats
    most_parts: Ints

    def of(self, those: _Intp | Flags) -> Problems:
        """Select the problems of these nests."""
        return picked_in_all(self, those)


def problems_of(nests: Nests, weight: Floats, core: Core, fit: int) -> Problems:
    """The problem of each nest, as `nest.plan._tiled` describes it."""
    every = np.arange(nests.count)
    many = (nests.width > fit) & (nests.width % fit == 0)
    chunks = np.where(many, nests.width // fit, 1)
    spatial = nests.there & (nests.own != 0) & (nests.extent > 1)
    from_last = marks_from_last(spatial)
    loop = np.full((TILE_LOOPS, nests.count), -1, np.int64)
    for dim in range(TILE_LOOPS):
        here = spatial & (from_last == TILE_LOOPS - dim)
        loop[dim] = np.where(here.any(axis=0), np.argmax(here, axis=0), -1)
    there = loop >= 0
    extents = np.ones((_DIMS, nests.count), np.int64)
    extents[:-1] = np.where(there, nests.extent[loop, every], 1)
    extents[-1] = chunks
    folded, gathered = nests.lane == 0, nests.gathered
    along = ~folded & ((nests.steps != 0) | gathered)
    varies = along.astype(np.int64) << TILE_LOOPS
    for dim in range(TILE_LOOPS):
        moves = (nests.reads[:, loop[dim], every] != 0) | (nests.blocks[:, loop[dim], every] != 0)
        varies |= (there[dim] & moves).astype(np.int64) << dim
    points = max(1, min(core.registers - 1, MAX_POINTS))
    return Problems(
        tile_table(points),
        core,
        loop,
        extents,
        chunks,
        np.where(gathered, nests.width // chunks, 1).astype(np.float64),
        varies,
        weight,
        np.where(folded, FOLD_CYCLES, STORE_CYCLES),
        np.where(folded, _most_parts(_longest(nests)), 1),
    )


def _longest(nests: Nests) -> Ints:
    """The largest extent in the innermost run of reduction loops."""
    found: Ints = np.where(innermost_run(nests), nests.extent, 1).max(axis=0, initial=1)
    return found


def innermost_run(nests: Nests) -> Flags:
    """(loop, nest): the innermost run of adjacent reduction loops."""
    running = nests.reduces & (nests.extent > 1)
    last = np.where(running.any(axis=0), _innermost(running), _innermost(nests.reduces))
    ended = np.zeros(nests.count, bool)
    found = np.zeros_like(running)
    for k in range(len(running) - 1, -1, -1):
        ended = ended | ((k <= last) & nests.there[k] & (nests.own[k] != 0))
        found[k] = (k <= last) & nests.reduces[k] & ~ended
    return found


def _innermost(flags: Flags) -> _Intp:
    found: _Intp = len(flags) - 1 - np.argmax(flags[::-1], axis=0)
    return found


def _most_parts(steps: Ints) -> Ints:
    """`nest.register_tile.most_parts`."""
    parts = np.ones_like(steps)
    limit = 2
    while limit <= MOST_PARTS:
        parts = np.where(limit * STEPS_OF_PART <= steps, limit, parts)
        limit *= 2
    return parts


@dataclass(eq=False)
class Cost:
    """The cost of nests with a tile each.

    `cycles` for each accumulator and step (infinite where registers run out), registers `live` for
    operands, `parts` (partial results), and `loads` of a step.
    """

    cycles: Floats
    live: Ints
    parts: Ints
    loads: Floats


def cost_of(
    problems: Problems, those: _Intp, tile: _Intp, steps: Ints | int, least_finish: float = 0.0
) -> Cost:
    """`nest.register_tile.cost` of the nests `those` with a tile each, without windows."""
    core, table = problems.core, problems.table
    points = table.points[tile]
    loads: Floats = np.zeros(len(tile))
    held, most = np.zeros((2, len(tile)), np.int64)
    for cost, varies in zip(problems.cost, problems.varies, strict=True):
        copies = table.copies[varies[those], tile]
        loads = loads + copies * cost[those]
        held = held + copies
        most = np.maximum(most, copies)
    live = 1 + held - most
    parts = np.maximum(1, np.minimum(MOST_PARTS // points, problems.most_parts[those]))
    work = points * problems.weight[those]
    cycles = core.cycles(work, loads, 2 / parts, core.latency / parts)
    finish = points * (np.maximum(problems.finish[those], least_finish) + parts - 1) / steps
    spills = (points > 1) & (points * parts + live > core.registers)
    value = np.where(spills, np.inf, (cycles + finish) / points)
    return Cost(value, live, parts, loads)


@dataclass(eq=False)
class Chosen:
    """Candidate tiles, by nest and then in the order of preference.

    `of` is the nest, `tile` the tile, `rank` its place among the nest's tiles, `cycles` its cycles
    in an endless reduction.
    """

    of: _Intp
    tile: _Intp
    rank: _Intp
    cycles: Floats


def good_and_near(problems: Problems) -> tuple[Chosen, Chosen]:
    """`nest.register_tile.good_and_near_tiles` of each nest; equal problems are solved once."""
    floats = (*problems.cost, problems.weight, problems.finish)
    columns = [*problems.extents, *problems.varies, problems.most_parts]
    first, which = different(keys_of([*columns, *(own.view(np.int64) for own in floats)]))
    good, near = _good_and_near(problems.of(first))
    return _of_each(good, which), _of_each(near, which)


def _of_each(chosen: Chosen, which: _Intp) -> Chosen:
    """The tiles of all nests; nest k has the problem `which[k]`."""
    sizes = np.bincount(chosen.of, minlength=int(which.max(initial=-1)) + 1)
    starts, sizes = (sizes.cumsum() - sizes)[which], sizes[which]
    at = np.arange(sizes.sum()) + np.repeat(starts - (sizes.cumsum() - sizes), sizes)
    of = np.repeat(np.arange(len(which)), sizes)
    return Chosen(of, chosen.tile[at], chosen.rank[at], chosen.cycles[at])


def _good_and_near(problems: Problems) -> tuple[Chosen, Chosen]:
    count = problems.extents.shape[1]
    if not count:
        none = np.zeros(0, np.intp)
        empty = Chosen(none, none, none, np.zeros(0))
        return empty, empty
    fits = np.ones((count, len(problems.table.points)), bool)
    for extent, factors in zip(problems.extents, problems.table.factors, strict=True):
        values, which = np.unique(extent, return_inverse=True)
        fits &= (values[:, None] % factors == 0)[which]
    of, tile = np.divmod(np.flatnonzero(fits), fits.shape[1])
    cycles = cost_of(problems, of, tile, ENDLESS).cycles
    keys = _rounded(cycles)
    starts = np.searchsorted(of, np.arange(count))
    least = np.minimum.reduceat(keys, starts)[of]
    good = keys <= GOOD * least
    share = keys / least
    near = (share > GOOD) & (share <= NEAR)
    found = []
    for those, most in ((good, MOST_GOOD), (near, MOST_NEAR)):
        at = those.nonzero()[0]
        at = at[np.lexsort((keys[at], of[at]))]
        rank = np.arange(len(at)) - np.searchsorted(of[at], of[at])
        kept = rank < most
        at = at[kept]
        found.append(Chosen(of[at], tile[at], rank[kept], cycles[at]))
    return found[0], found[1]


def _rounded(values: Floats) -> Floats:
    """`round(value, 3)` of each."""
    scaled = values * 1000.0
    found: Floats = np.rint(scaled) / 1000.0
    with np.errstate(invalid="ignore"):
        close = np.abs(scaled - np.floor(scaled) - 0.5) < 1e-6
    for k in close.nonzero()[0].tolist():
        found[k] = round(float(values[k]), 3)
    return found
