"""The code that many stores become: `autosched_1/vector_code.py` for arrays of nests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosched.features.autosched_1.vector_code import VectorCode, vector_code
from autosched.features.batched.along_loops import marks_from_last, picked
from autosched.features.batched.autosched_1.plans.arrangement import least_moved
from autosched.features.batched.autosched_1.plans.lanes import Nests, each_of, parts_of, scheduled
from autosched.features.batched.autosched_1.plans.orders import (
    joined_visits,
    order_of,
    plain_visits,
    tiled_visits,
)
from autosched.features.batched.autosched_1.plans.tiles import cost_of, problems_of
from autosched.features.batched.autosched_1.plans.walk_levels import Visits
from autosched.features.batched.autosched_1.plans.windows import unrolled, with_windows
from autosched.features.batched.forms import Flags, Ints
from autosched.features.batched.stores import Floats
from autosched.nest.core import Core
from autosched.nest.plan import ScalarStore

_Intp = npt.NDArray[np.intp]
_FEW, _FEW_REDUCTIONS = 40, 6  # fewer nests than that are planned faster one by one
NUMBERS = ("lanes", "accumulators", "registers", "cycles", "folded", "gathers")


@dataclass(eq=False)
class Stores:
    """Stores with one element size and one number of reads, as in `nest.plan.ScalarStore`.

    `vector` marks by (loop, store) the loops that the schedule vectorises.
    """

    nests: Nests
    vector: Flags
    element: int
    weight: Floats
    updates: Flags
    folds: Flags

    def of(self, those: _Intp) -> Stores:
        """Select these stores."""
        own = (self.weight[those], self.updates[those], self.folds[those])
        return Stores(self.nests.of(those), picked(self.vector, those), self.element, *own)


@dataclass(eq=False)
class Codes:
    """The code of stores: `NUMBERS` of `VectorCode` by (number, store), and the loops in order."""

    numbers: Floats
    order: Visits


def codes_of(stores: Stores, core: Core) -> Codes:
    """`vector_code` of each store."""
    if stores.nests.count < (_FEW_REDUCTIONS if stores.updates.any() else _FEW):
        return _one_by_one(stores, np.arange(stores.nests.count), core)
    return _at_once(stores, core)


def _at_once(stores: Stores, core: Core) -> Codes:
    given, fit = stores.nests, core.lanes(stores.element)
    nests = given.of(np.arange(given.count))
    scheduled(nests, stores.vector)
    scattered = (nests.lane != 0) & (nests.lane != 1)
    reduces = stores.updates & ~scattered & nests.reduces.any(axis=0)
    as_they_are, others = scattered.nonzero()[0], (~scattered).nonzero()[0]
    parts = parts_of(nests.only(~scattered), fit, (stores.folds & reduces)[others])
    of = others[parts.of]
    tiled = reduces[of]
    pieces = []
    if len(as_they_are):
        pieces.append(_plain(nests.of(as_they_are), core, fit, stores.weight[as_they_are]))
    if not tiled.all():
        pieces.append(_plain(parts.nests.only(~tiled), core, fit, stores.weight[of[~tiled]]))
    if tiled.any():
        weight = stores.weight[of[tiled]]
        pieces.append(_tiled(parts.nests.only(tiled), weight, stores.element, core, fit))
    which = np.concatenate([as_they_are, of[~tiled], of[tiled]])
    order = [np.zeros(len(as_they_are), np.intp), parts.order[~tiled], parts.order[tiled]]
    return _put_together(pieces, which, np.concatenate(order), given.count)


@dataclass(eq=False)
class _Pieces:
    """The fields of `Codes` for pieces of stores, and the iterations of each piece."""

    numbers: Floats
    order: Visits
    iterations: Ints


def _plain(nests: Nests, core: Core, fit: int, weight: Floats) -> _Pieces:
    """The code of nests without reductions: vectors that are read, computed and stored."""
    registers = -(-nests.width // fit)
    gathered = nests.gathered
    loads: Floats = np.zeros(nests.count)
    for apart in gathered:
        loads = loads + np.where(apart, nests.width, 1)
    scattered = (nests.lane != 0) & (nests.lane != 1)
    loads = np.where(scattered, loads + nests.width, loads)
    numbers = np.empty((len(NUMBERS), nests.count))
    numbers[0] = nests.width / registers
    numbers[1] = 1
    numbers[2] = 1 + len(nests.reads)
    numbers[3] = core.cycles(weight, loads, 1, 1.0)
    numbers[4] = 0
    numbers[5] = gathered.sum(axis=0)
    return _Pieces(numbers, plain_visits(nests), nests.iterations)


def _tiled(nests: Nests, weight: Floats, element: int, core: Core, fit: int) -> _Pieces:
    """The code of reductions, with their tiles."""
    nests.there &= (nests.extent > 1) | _only_reduction(nests)
    problems, windows = with_windows(nests, problems_of(nests, weight, core, fit), fit)
    best = least_moved(nests, problems, windows, element, fit)
    every = np.arange(nests.count)
    order = order_of(nests, problems, every, best.tile, best.short)
    registers = -(-nests.width // fit)
    each = registers // problems.chunks
    cost = cost_of(problems, every, best.tile, order.steps)
    accumulators = problems.table.points[best.tile] * cost.parts
    numbers = np.empty((len(NUMBERS), nests.count))
    numbers[0] = nests.width / registers
    numbers[1] = accumulators * each
    window = unrolled(nests, problems, windows, every, best.tile, order.steps)
    numbers[2] = (accumulators + np.where(window.where, window.live, cost.live)) * each
    numbers[3] = np.where(window.where, window.cycles, cost.cycles)
    numbers[4] = nests.lane == 0
    numbers[5] = nests.gathered.sum(axis=0)
    visits = tiled_visits(nests, problems, every, order, best.tile)
    return _Pieces(numbers, visits, nests.iterations)


def _only_reduction(nests: Nests) -> Flags:
    """Marks the innermost reduction loop where all reduction loops run once: it stays."""
    reduces = nests.reduces
    single = reduces & (nests.extent == 1)
    found: Flags = single & (marks_from_last(reduces) == 1) & ~(reduces & ~single).any(axis=0)
    return found


def _put_together(pieces: list[_Pieces], of: _Intp, order: _Intp, count: int) -> Codes:
    """Combine the pieces of each store.

    `of` has the store of each piece, `order` its place among the pieces of that store.
    """
    numbers = np.concatenate([part.numbers for part in pieces], axis=1)
    visits = joined_visits([part.order for part in pieces])
    counts = np.concatenate([part.iterations for part in pieces])
    place = np.lexsort((order, of))
    starts = np.searchsorted(of[place], np.arange(count))
    sizes = np.diff([*starts, len(of)])
    largest = place[starts]
    found = picked(numbers, largest)
    several = (sizes > 1).nonzero()[0]
    if len(several):
        vectors, cycles = np.zeros((2, len(several)))
        whole = np.zeros(len(several), np.int64)
        for k in range(int(sizes.max())):
            at = (sizes[several] > k).nonzero()[0]
            own = place[starts[several[at]] + k]
            vector = counts[own] / numbers[0, own]
            vectors[at] += vector
            cycles[at] += vector * numbers[3, own]
            whole[at] += counts[own]
            better = counts[own] > counts[largest[several[at]]]
            largest[several[at[better]]] = own[better]
        found = picked(numbers, largest)
        found[0, several] = whole / vectors
        found[3, several] = cycles / vectors
    return Codes(found, visits.of(largest))


def _one_by_one(stores: Stores, those: _Intp, core: Core) -> Codes:
    reads = len(stores.nests.reads)
    flags = [stores.updates[those].tolist(), stores.folds[those].tolist()]
    found = []
    nests = each_of(stores.nests, those, stores.vector)
    for nest, weight, *of in zip(nests, stores.weight[those].tolist(), *flags, strict=True):
        store = ScalarStore(nest.loops, reads, stores.element, weight, *of)
        found.append(vector_code(store, core, 1 + reads))
    numbers = [[float(getattr(code, name)) for name in NUMBERS] for code in found]
    return Codes(np.array(numbers).T, _visits_of(found, reads))


def _visits_of(codes: list[VectorCode], reads: int) -> Visits:
    most = max(len(code.order) for code in codes)
    none = (1, *[0] * (1 + reads))
    table = np.array(
        [
            [*[none] * (most - len(code.order)), *((v.extent, *v.strides) for v in code.order)]
            for code in codes
        ],
        np.int64,
    )
    first = np.array([most - len(code.order) for code in codes])
    return Visits(table[:, :, 0].T.copy(), table[:, :, 1:].transpose(2, 1, 0).copy(), first)
