"""The nests of many stores, and the code generator's code for them (`plans/`).

Each distinct nest is computed once: a nest is identified by its numbers, the extents, strides and
lanes of its loops.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from autosched.features.autosched_1.machine import Machine
from autosched.features.batched.along_loops import Counts, marks, picked
from autosched.features.batched.autosched_1.distributed import (
    distributed,
    without_common_elements,
)
from autosched.features.batched.autosched_1.facts import Facts
from autosched.features.batched.autosched_1.guards import guarded_along
from autosched.features.batched.autosched_1.plans.codes import Stores, codes_of
from autosched.features.batched.autosched_1.plans.lanes import Nests
from autosched.features.batched.autosched_1.plans.walk_levels import Visits
from autosched.features.batched.autosched_1.plans.walks import cycles_of, walks
from autosched.features.batched.autosched_1.surroundings import Surroundings
from autosched.features.batched.autosched_1.values import Chosen, ValueFacts, loops_asked
from autosched.features.batched.forms import Flags, Ints
from autosched.features.batched.unique import different, keys_of
from autosched.nest.core import Core

Floats = npt.NDArray[np.float64]
_Intp = npt.NDArray[np.intp]


@dataclass(eq=False)
class Code:
    """By candidate, the depth where the nest begins, and the fields of its `VectorCode`.

    `walked` is the memory traffic of the code's loop order (`Walk`): lines, runs, pages and cycles.
    """

    start: Ints
    lanes: Floats
    accumulators: Floats
    registers: Floats
    cycles: Floats
    folded: Floats
    gathers: Floats
    walked: Floats


@dataclass(eq=False)
class Distribution:
    """A cached result of `distributed` for the stores of one sequence.

    `depth` is the depth from which on the loops around them become loops of each store, for the
    candidates `where` it was computed. `outer` and `level` are the inputs from `Surroundings`.
    """

    where: Flags
    outer: Ints
    level: Ints
    depth: Ints


def starts_of(
    facts: Facts,
    around: Surroundings,
    beside: Sequence[Facts],
    together: Flags,
    known: list[Distribution],
) -> Ints:
    """The depth from which on the loops around the store are its nest (`nest_starts`).

    Where `together`, the stores `beside`, including this one, are all that is in their sequence.
    `known` caches distributions of these stores, and gains new ones.
    """
    start = _after_others(facts, around.floor)
    plain = together & (around.outer < around.level) & ~facts.forms.bad
    for item in beside:
        plain = plain & ~(item.apart & (item.depth[:-1] >= around.level)).any(axis=0)
    if plain.any():
        level = around.level.copy()
        level[plain] = _distributed(beside, around, plain, known)
        moved = level < around.level
        start = np.where(moved, np.maximum(level, _after_others(facts, level)), start)
    return _evenly_stored(facts, start)


def _distributed(
    beside: Sequence[Facts], around: Surroundings, where: Flags, known: list[Distribution]
) -> Ints:
    """`distributed` for the candidates `where`, from `known` where possible: it is mostly the same
    for all stores of a sequence."""
    outer, level = around.outer[where], around.level[where]
    for item in known:
        asked = zip((item.where, item.outer, item.level), (where, outer, level), strict=True)
        if all(np.array_equal(one, two) for one, two in asked):
            return item.depth
    depth = distributed(beside, around.outer, around.level, where)[where]
    known.append(Distribution(where, outer, level, depth))
    return depth


def _evenly_stored(facts: Facts, start: Ints) -> Ints:
    """The first depth from `start` on inside all loops along which the store has no even stride."""
    found = start
    for j in range(len(facts.present)):
        uneven = facts.present[j] & (facts.blocks[0][j] != 0) & (facts.depth[j] >= start)
        found = np.where(uneven, facts.depth[j + 1], found)
    return found


def _after_others(facts: Facts, start: Ints) -> Ints:
    found = start
    for j in range(len(facts.present)):
        found = np.where(facts.apart[j], np.maximum(found, facts.depth[j + 1]), found)
    return found


@dataclass(eq=False)
class Wanted:
    """A store whose code is to be computed, with the loops from depth `start` on.

    By (loop, candidate): `inside` tells which loops are its nest; `conditional` along which loops a
    value that is chosen is conditional; `lanes` how many iterations can be lanes (0: any number).
    By candidate: `weight` of the value, in instructions.
    """

    facts: Facts
    value: ValueFacts
    start: Ints
    inside: Flags
    conditional: Flags
    lanes: Ints
    weight: Floats


def wanted(facts: Facts, value: ValueFacts, chosen: Chosen | None, start: Ints) -> Wanted:
    """The store as a `Wanted`, without outer loops whose iterations write common elements."""
    start = without_common_elements(facts, start)
    inside = facts.present & (facts.depth[:-1] >= start)
    conditional = np.zeros_like(inside)
    lanes = np.zeros_like(facts.extent)
    weight = np.full(facts.forms.count, value.weight)
    if chosen is not None:
        conditional, weight = inside & facts.packed.loops(chosen.conditional), chosen.weight
        asked = chosen.asked
        if chosen.lanes is not None:
            lanes = np.where(inside, facts.packed.loops(chosen.lanes), 0)
            uneven = np.any(conditional & facts.uneven, axis=0)
            facts.forms.refuse(uneven, "a condition on an index with uneven steps")
        elif asked is None:
            masked = np.flatnonzero(np.any(conditional & facts.uneven, axis=0))
            asked = loops_asked(facts.forms, facts.store, masked) if len(masked) else None
        if asked is not None and len(facts.accesses) > 1:
            alone = np.any(inside & facts.packed.loops(asked) & ~conditional, axis=0)
            facts.forms.refuse(alone, "a condition on a loop along which no read moves")
            lanes = np.where(conditional & facts.packed.loops(asked), facts.blocks[1], 0)
    elif not facts.store.ops.conditional:
        varies, asks, alone = map(facts.packed.loops, guarded_along(facts.store, facts.forms.count))
        conditional = inside & varies
        lanes = np.where(inside & alone, 1, 0)
        uneven = np.any(inside & asks & facts.uneven, axis=0)
        facts.forms.refuse(uneven, "a condition that is read, at an index with uneven steps")
    return Wanted(facts, value, start, inside, conditional, lanes, weight)


def codes_of_all(every: Sequence[Wanted], machine: Machine) -> list[Code]:
    """The code of each store; stores with as many places and the same element sizes are computed
    together."""
    alike: dict[tuple[int, tuple[int, ...]], list[int]] = defaultdict(list)
    for k, item in enumerate(every):
        alike[len(item.facts.places), tuple(item.facts.element_bytes)].append(k)
    found: dict[int, Code] = {}
    for (_, elements), those in alike.items():
        some = [every[k] for k in those]
        found.update(zip(those, _codes(some, elements, machine), strict=True))
    return [found[k] for k in range(len(every))]


def _codes(some: Sequence[Wanted], elements: tuple[int, ...], machine: Machine) -> list[Code]:
    """The code of stores that access elements of these bytes, the stored one first."""
    good = [_good(item).nonzero()[0] for item in some]
    table = np.ones((15, sum(map(len, good))))
    if table.size:
        stores = _stores(some, good, elements[0])
        table[:6], order = _each_once(stores, machine.core)
        if machine.gpu:
            table[6:] = 0
        else:
            table[6:] = _walked(some, good, order, elements, machine)
    found = []
    ends = np.cumsum([len(those) for those in good])
    for item, those, own in zip(some, good, np.split(table, ends[:-1], axis=1), strict=True):
        whole = np.ones((len(table), item.facts.forms.count))
        whole[:, those] = own
        lanes, accumulators, registers, cycles, folded, gathers = whole[:6]
        numbers = lanes, accumulators, registers, cycles, folded, gathers
        found.append(Code(item.start, *numbers, whole[6:]))
    return found


def _walked(
    some: Sequence[Wanted],
    good: Sequence[_Intp],
    order: Visits,
    elements: tuple[int, ...],
    machine: Machine,
) -> Floats:
    """The memory traffic of the loops in the order of the code: lines, runs, pages and cycles."""
    order = Visits(order.extents, order.strides[: len(elements)], order.first)
    visits = _with_outer(some, good, order)
    walked = walks(visits, elements, machine.memory)
    iterations = _joined(some, good, lambda item: item.facts.iterations)
    part = iterations / visits.extents.prod(axis=0)
    found = np.concatenate([walked.lines, walked.runs, walked.pages]) * part
    return np.concatenate([found, cycles_of(found)[None]])


def _good(item: Wanted) -> Flags:
    return ~item.facts.forms.bad


_Made = TypeVar("_Made", bound=np.generic)


def _joined(
    some: Sequence[Wanted], good: Sequence[_Intp], table: Callable[[Wanted], npt.NDArray[_Made]]
) -> npt.NDArray[_Made]:
    """A table by candidate, of the good candidates of one store after the other."""
    return np.concatenate([table(item)[those] for item, those in zip(some, good, strict=True)])


class _Packed:
    """Some loops of the good candidates of stores, packed without gaps, since each candidate has
    few of a store's loops."""

    def __init__(
        self,
        some: Sequence[Wanted],
        good: Sequence[_Intp],
        which: Callable[[Wanted], Flags],
    ) -> None:
        self._some, self._places = some, list[_Intp]()
        numbers, columns, rank = [], [], []
        start = 0
        for item, those in zip(some, good, strict=True):
            flags = picked(which(item), those)
            found = marks(flags)
            numbers.append(found[-1] if len(found) else np.zeros(len(those), np.int16))
            at = np.flatnonzero(flags)
            loop, column = np.divmod(at, max(1, len(those)))
            rank.append(found.take(at) - 1)
            columns.append(start + column)
            self._places.append(loop * item.facts.forms.count + those[column])
            start += len(those)
        self.number: Counts = np.concatenate(numbers)
        self.rank: Counts = np.concatenate(rank)
        self.columns: _Intp = np.concatenate(columns)
        self._shape = max(1, int(self.number.max(initial=0))), start
        self._at = self.rank * np.int64(start) + self.columns

    def values(self, table: Callable[[Wanted], npt.NDArray[_Made]]) -> npt.NDArray[_Made]:
        """The entries of a table by (loop, candidate) at the packed loops, as one list."""
        places = zip(self._some, self._places, strict=True)
        return np.concatenate([table(item).take(at) for item, at in places])

    def table(
        self, table: Callable[[Wanted], npt.NDArray[_Made]], default: int = 0
    ) -> npt.NDArray[_Made]:
        """A packed table by (loop, candidate), with the `default` where there is no loop."""
        values = self.values(table)
        found = np.full(self._shape, default, values.dtype)
        found.ravel()[self._at] = values
        return found


def _stores(some: Sequence[Wanted], good: Sequence[_Intp], element: int) -> Stores:
    loops = _Packed(some, good, lambda item: item.inside)
    inside = loops.table(lambda item: item.inside)
    count, reads = inside.shape[1], range(1, len(some[0].facts.places))
    steps, blocks = np.zeros((2, len(reads), *inside.shape), np.int64)
    for k in reads:
        steps[k - 1] = loops.table(partial(_steps_of, k=k))
        blocks[k - 1] = loops.table(partial(_blocks_of, k=k))
    nests = Nests(
        inside,
        loops.table(lambda item: item.facts.extent, 1),
        loops.table(lambda item: item.facts.strides[0]),
        loops.table(lambda item: item.conditional),
        loops.table(lambda item: item.lanes),
        steps,
        blocks,
        np.ones(count, np.int64),
        np.ones(count, np.int64),
        np.zeros(count, bool),
        np.zeros((len(reads), count), np.int64),
        np.zeros((len(reads), count), bool),
    )
    of = np.repeat(np.arange(len(some)), [len(those) for those in good])
    updates = np.array([item.value.updates for item in some])[of]
    folds = np.array([item.value.folds for item in some])[of]
    vector = loops.table(lambda item: item.facts.vector)
    weight = _joined(some, good, lambda item: item.weight)
    return Stores(nests, vector, element, weight, updates, folds)


def _steps_of(item: Wanted, k: int) -> Ints:
    return item.facts.steps[k]


def _blocks_of(item: Wanted, k: int) -> Ints:
    return item.facts.blocks[k]


def _strides_of(item: Wanted, k: int) -> Ints:
    return item.facts.strides[k]


def _each_once(stores: Stores, core: Core) -> tuple[Floats, Visits]:
    """The numbers and the loop order of each store; stores that are alike are computed once."""
    nests = stores.nests
    loops = nests.there * 1 + stores.vector * 2 + nests.conditional * 4
    rest = [stores.weight.view(np.int64), stores.updates + 2 * stores.folds]
    reads = chain(*nests.reads, *nests.blocks)
    columns = [*loops, *nests.extent, *nests.own, *nests.lanes, *reads, *rest]
    first, which = different(keys_of(columns))
    codes = codes_of(stores.of(first), core)
    return picked(codes.numbers, which), codes.order.of(which)


def _with_outer(some: Sequence[Wanted], good: Sequence[_Intp], order: Visits) -> Visits:
    """Put the loops around the nests in front of the loops of `order`."""
    outer = _Packed(some, good, lambda item: item.facts.present & ~item.inside)
    own = int((len(order.extents) - order.first).max(initial=1))
    inner = order.first - len(order.extents)  # counted from the last line
    most = max(own, int((outer.number - inner).max(initial=1)))
    accesses = range(len(order.strides))
    extents = np.ones((most, len(inner)), np.int64)
    found = np.zeros((len(accesses), most, len(inner)), np.int64)
    extents[-own:], found[:, -own:] = order.extents[-own:], order.strides[:, -own:]
    first = most + inner - outer.number
    at = first[outer.columns] + outer.rank, outer.columns
    extents[at] = outer.values(lambda item: item.facts.extent)
    for k in accesses:
        found[k][at] = outer.values(partial(_strides_of, k=k))
    return Visits(extents, found, first)
