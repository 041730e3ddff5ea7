"""Choose the tile and order that move the least, for many reductions.

`nest/arrangement.py` as arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosched.features.batched.autosched_1.plans.lanes import Nests
from autosched.features.batched.autosched_1.plans.orders import Order, order_of, tiled_levels
from autosched.features.batched.autosched_1.plans.tiles import (
    Chosen,
    Problems,
    cost_of,
    good_and_near,
)
from autosched.features.batched.autosched_1.plans.walks import walks_of, weighted
from autosched.features.batched.autosched_1.plans.windows import Windows, unrolled
from autosched.features.batched.forms import Ints
from autosched.features.batched.stores import Floats
from autosched.nest.arrangement import (
    HELD_CYCLES,
    LEAST_SHARE,
    LEAST_STEPS,
    LINE_CYCLES,
    MEMORY,
    RUN_CYCLES,
    WORTH,
)
from autosched.nest.loop_order import SHORT_REDUCTION

_Intp = npt.NDArray[np.intp]


@dataclass(eq=False)
class Arranged:
    """Nests, each with a tile and an order of the loops around it.

    `of` is the nest, `tile` the tile, `short` the argument that gave the order. `steps` is the
    number of steps between loading and storing accumulators, `cycles` the modelled cycles.
    """

    of: _Intp
    tile: _Intp
    short: Ints
    steps: Ints
    cycles: Floats


def least_moved(
    nests: Nests, problems: Problems, windows: Windows, element: int, fit: int
) -> Arranged:
    """The best tile and order for each nest, in the order of the nests."""
    good, near = good_and_near(problems)
    best = _stepwise(nests, problems, good, near, element, fit)
    if windows.where.any():
        _unroll(best, nests, problems, windows, [good, near], element)
    return best


def _stepwise(
    nests: Nests, problems: Problems, good: Chosen, near: Chosen, element: int, fit: int
) -> Arranged:
    """The best tile and order for each nest when no reduction is unrolled into a window."""
    first = good.rank == 0
    best = _best(nests, problems, good.of[first], good.tile[first], element)
    lanes = nests.width // problems.chunks
    busy = good.cycles[first] * nests.iterations / lanes
    worth = WORTH * busy
    goes_on = best.cycles - busy > worth
    least, limit = best.cycles.copy(), best.cycles - worth
    others = ~first & goes_on[good.of]
    found = _best(nests, problems, good.of[others], good.tile[others], element, limit)
    limit = _take(best, found, limit)
    most = best.steps.copy()
    behind = (goes_on & (2 * lanes >= fit))[near.of]
    limit = np.minimum(limit, (1 - LEAST_SHARE) * least)
    found = _best(nests, problems, near.of[behind], near.tile[behind], element, limit, most)
    _take(best, found, limit)
    return best


def _unroll(
    best: Arranged,
    nests: Nests,
    problems: Problems,
    windows: Windows,
    tiles: list[Chosen],
    element: int,
) -> None:
    """Replace the best tile by one that becomes a window where that takes fewer cycles.

    Only tiles in an order with the same reduction loops inside are considered.
    """
    every = windows.where.nonzero()[0]
    own = order_of(nests, problems, every, best.tile[every], best.short[every])
    inside = np.zeros(nests.count, np.int64)
    inside[every] = own.inside
    of = np.concatenate([chosen.of for chosen in tiles])
    tile = np.concatenate([chosen.tile for chosen in tiles])
    asked = windows.where[of]
    of, tile = of[asked], tile[asked]
    first, second = (order_of(nests, problems, of, tile, s) for s in (SHORT_REDUCTION, 1))
    one = first.inside == inside[of]
    two = (second.inside == inside[of]) & second.differs(first)
    rows = np.concatenate([one.nonzero()[0], two.nonzero()[0]])
    short = np.repeat([SHORT_REDUCTION, 1], [np.count_nonzero(one), np.count_nonzero(two)])
    order = Order.joined([first.of(one), second.of(two)])
    found = unrolled(nests, problems, windows, of[rows], tile[rows], order.steps)
    rows, short, order = rows[found.where], short[found.where], order.of(found.where)
    of, tile, each = of[rows], tile[rows], found.cycles[found.where]
    cycles = _of_all_steps(nests, problems, of, each)
    cycles += _moved(nests, problems, of, tile, order, element)
    limit = np.zeros(nests.count)
    some = np.isin(every, of)
    every, own = every[some], own.of(some)
    limit[every] = _unrolled(nests, problems, windows, every, best.tile[every], own, element)
    place = np.lexsort((short == 1, rows, cycles, of))
    kept = np.ones(len(place), bool)
    kept[1:] = of[place][1:] != of[place][:-1]
    chosen = place[kept]
    chosen = chosen[cycles[chosen] < limit[of[chosen]]]
    at = of[chosen]
    best.tile[at], best.short[at] = tile[chosen], short[chosen]
    best.steps[at] = order.steps[chosen]


def _unrolled(
    nests: Nests,
    problems: Problems,
    windows: Windows,
    of: _Intp,
    tile: _Intp,
    order: Order,
    element: int,
) -> Floats:
    """Cycles of all steps, memory traffic included, with a window where the tile becomes one."""
    found = unrolled(nests, problems, windows, of, tile, order.steps)
    each = cost_of(problems, of, tile, order.steps, HELD_CYCLES).cycles
    each = np.where(found.where, found.cycles, each)
    moved = _moved(nests, problems, of, tile, order, element)
    return _of_all_steps(nests, problems, of, each) + moved


def _take(best: Arranged, found: Arranged, limit: Floats) -> Floats:
    """Replace the best by those `found` that take less than the limit; return the new limits."""
    those = found.cycles < limit[found.of]
    at, limit = found.of[those], limit.copy()
    best.tile[at], best.short[at] = found.tile[those], found.short[those]
    best.steps[at], limit[at] = found.steps[those], found.cycles[those]
    return limit


def _best(
    nests: Nests,
    problems: Problems,
    of: _Intp,
    tile: _Intp,
    element: int,
    limit: Floats | None = None,
    most: Ints | None = None,
) -> Arranged:
    """The cheapest of these tiles for each nest, in the order of the nests, over both loop orders.

    With a `limit` by nest, only tiles that take less even without memory traffic are considered:
    all others take as much or more with it. With `most` steps by nest, only orders with fewer
    steps, but at least `LEAST_STEPS`, are considered.
    """
    rows, short, order = _in_both_orders(nests, problems, of, tile)
    computed = _computed(nests, problems, of[rows], tile[rows], order)
    kept = np.ones(len(rows), bool)
    if limit is not None:
        kept &= computed < limit[of[rows]]
    if most is not None:
        kept &= (order.steps >= LEAST_STEPS) & (order.steps < most[of[rows]])
    if not kept.all():
        rows, short, order, computed = rows[kept], short[kept], order.of(kept), computed[kept]
    of, tile = of[rows], tile[rows]
    cycles = computed + _moved(nests, problems, of, tile, order, element)
    least = np.full(nests.count, np.inf)
    np.minimum.at(least, of, cycles)
    place = np.flatnonzero(cycles == least[of])
    place = place[np.lexsort((short[place] == 1, rows[place], of[place]))]
    first = np.ones(len(place), bool)
    first[1:] = of[place][1:] != of[place][:-1]
    chosen = place[first]
    return Arranged(of[chosen], tile[chosen], short[chosen], order.steps[chosen], cycles[chosen])


def _in_both_orders(
    nests: Nests, problems: Problems, of: _Intp, tile: _Intp
) -> tuple[_Intp, Ints, Order]:
    """Each tile, by row, in the order with short = 1 and, where that differs, in the order with
    `SHORT_REDUCTION`."""
    rows, short = np.arange(len(of)), np.full(len(of), SHORT_REDUCTION)
    second = order_of(nests, problems, of, tile, 1)
    some = rows[second.steps < SHORT_REDUCTION]  # with as many or more, both orders are equal
    first = order_of(nests, problems, of[some], tile[some], SHORT_REDUCTION)
    apart = first.differs(second.of(some))
    some = some[apart]
    short[some] = 1
    order = Order.joined([second, first.of(apart)])
    return np.append(rows, some), np.append(short, np.full(len(some), SHORT_REDUCTION)), order


def _computed(nests: Nests, problems: Problems, of: _Intp, tile: _Intp, order: Order) -> Floats:
    """Cycles of all steps when they are not unrolled into a window, without memory traffic."""
    each = cost_of(problems, of, tile, order.steps, HELD_CYCLES).cycles
    return _of_all_steps(nests, problems, of, each)


def _of_all_steps(nests: Nests, problems: Problems, of: _Intp, each: Floats) -> Floats:
    """Cycles of all steps where one accumulator and step takes `each`."""
    found: Floats = each * nests.iterations[of] / (nests.width[of] // problems.chunks[of])
    return found


def _moved(
    nests: Nests, problems: Problems, of: _Intp, tile: _Intp, order: Order, element: int
) -> Floats:
    """Cycles of the memory traffic of these nests with a tile and an order each."""
    if not len(of):
        return np.zeros(0)
    elements = (element,) * (1 + len(nests.reads))
    levels = tiled_levels(nests, problems, of, order, tile, elements, MEMORY)
    moved = walks_of(levels, MEMORY)
    return weighted(moved.lines, LINE_CYCLES) + weighted(moved.runs, RUN_CYCLES)
