"""The pieces that conditions cut the loops of many candidates into, as LoopPartition does.

The stages of a candidate become a tree of loops and stores (`cut_trees.py`). Candidates that have
all numbers in common which the tree follows from are worked out once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from autosched.features.batched.autosched_1.borders import is_padded
from autosched.features.batched.autosched_1.cut_trees import (
    FREE,
    Alone,
    Condition,
    Cut,
    Leaf,
    Loop,
    Node,
    UncutError,
    cut,
)
from autosched.features.batched.autosched_1.left_trees import Instance, Path, Place, Variable
from autosched.features.batched.autosched_1.plans.unique import different, keys_of
from autosched.features.batched.context import Condition as Around
from autosched.features.batched.forms import Flags, Ints
from autosched.features.batched.nest import Nest, Population, Stage
from autosched.features.batched.stores import Store, own_indices


@dataclass(frozen=True, eq=False)
class Pieces:
    """The copies of stores of a candidate in program order, and of each the constants in its
    indices; copies that store to one buffer and have the same are at one place.

    `simplified`: a condition leaves a loop; `cleared` are those that there would be if something
    else had the program simplified, where that makes others. `budget` is what is left of what the
    program may grow.
    """

    instances: tuple[Instance, ...]
    at: list[tuple[int, ...]]
    simplified: bool
    budget: int
    cleared: Pieces | None = None


@dataclass(frozen=True, eq=False, slots=True)
class _Factor:
    """A term of a condition, 0 where it is none; where it is of part of a loop."""

    place: Place
    slot: int
    factor: Ints
    partial: Flags


class _Numbers:
    """A condition as `sum of terms + constant <= 0`."""

    def __init__(self, nest: Nest, places: dict[int, Place], around: Around) -> None:
        self.where, self.limit = around.where, around.limit
        sign = -1 if around.limit is None else 1
        self.constant: Ints = sign * around.value.base
        if around.limit is not None:
            self.constant = self.constant + 1 - around.limit
        self.factors = []
        for slot, term in around.value.every():
            extent = nest.forms.extents[slot]
            factor = np.where(around.where & (extent > 1), sign * term.scale, 0)
            if factor.any():
                partial = (factor != 0) & ((term.lower > 1) | (term.upper < extent))
                self.factors.append(_Factor(places[slot], slot, factor, partial))

    def columns(self) -> list[Ints]:
        """What a tree follows from."""
        found = [np.where(self.where, self.constant, 0), self.where.astype(np.int64)]
        for own in self.factors:
            found += [own.factor, own.partial.astype(np.int64)]
        return found

    def of(self, n: int, start: tuple[int, int]) -> Condition:
        """That of candidate n, around a start if its loops from that place on are its own."""
        terms: dict[Variable, int] = {}
        for own in self.factors:
            factor = int(own.factor[n])
            if factor == 0:
                continue
            if own.partial[n]:
                raise UncutError("a condition on part of a loop")
            var = Variable(own.place, own.place[0] == start[0] and own.place[1] >= start[1])
            terms[var] = terms.get(var, 0) + factor
        return Condition(tuple(terms.items()), int(self.constant[n]))


@dataclass(frozen=True, eq=False, slots=True)
class _Axis:
    """The conditions on one axis of a stage; `implied`: those of splits keep it in the tensor."""

    of_data: bool
    splits: list[_Numbers]
    region: list[_Numbers]
    implied: Flags


def _conditions_of(nest: Nest, places: dict[int, Place], stage: Stage) -> list[_Axis]:
    context = stage.context
    found = []
    for k in range(len(context.variables)):
        splits = [_Numbers(nest, places, c) for c in context.of_splits(k)]
        region = [_Numbers(nest, places, c) for c in context.of_region(k)]
        if not splits and not region:
            continue
        implied: Flags = np.zeros(nest.forms.count, bool)
        if k < len(context.data):
            low, extent, shape = context.data[k]
            for own in splits:
                if own.limit is not None:
                    implied = implied | (own.where & (own.limit == extent))
            implied = implied & (context.forms.ends(low)[1] + extent <= shape)
        found.append(_Axis(k < stage.ops.data, splits, region, implied))
    return found


class Trees:
    """Makes the trees of the candidates of a nest."""

    def __init__(self, nest: Nest, population: Population, stores: list[Store]) -> None:
        self._nest, self._population, self._stores = nest, population, stores
        self._index = {id(stage): s for s, stage in nest.stages.items()}
        self._places = {
            slot: (s, k)
            for s, stage in nest.stages.items()
            for k, slot in enumerate(stage.loops.slots)
        }
        self._of_stage: dict[int, list[int]] = {s: [] for s in nest.stages}
        for k, store in enumerate(stores):
            self._of_stage[self._index[id(store.stage)]].append(k)
        self._conditions = {
            s: _conditions_of(nest, self._places, stage) for s, stage in nest.stages.items()
        }
        self._asked: dict[int, Flags] = {}
        for own in self._every():
            for part in own.factors:
                before = self._asked.get(part.slot)
                here = part.factor != 0
                self._asked[part.slot] = here if before is None else before | here
        self._padded = any(is_padded(store) for store in stores)
        self._own = [own_indices(nest.forms, store) for store in stores]

    def _every(self) -> list[_Numbers]:
        every = [axis for axes in self._conditions.values() for axis in axes]
        return [own for axis in every for own in (*axis.splits, *axis.region)]

    def pieces(self, those: Ints) -> tuple[list[Pieces | str], Ints]:
        """The different pieces of these candidates, or why there is no rule; which each has."""
        columns = [np.ascontiguousarray(column[those]) for column in self._columns()]
        first, which = different(keys_of(columns))
        return [self._pieces(int(those[k])) for k in first], which

    def _columns(self) -> list[Ints]:
        """All numbers that the pieces follow from."""
        nest, population = self._nest, self._population
        found: list[Ints] = []
        for s, stage in nest.stages.items():
            loops = stage.loops
            found += [population.target[s], population.at[s], stage.start]
            found += [stage.guarded.astype(np.int64), self._pragma(s)]
            if population.left is not None:
                found += [(population.left[s] >= 0).astype(np.int64), population.order[s]]
            for k, slot in enumerate(loops.slots):
                extent = nest.forms.extents[slot]
                flags = 2 * (extent > 1) + loops.reducing[k]
                found.append(4 * np.where(extent > 1, loops.kinds[k], 0) + flags)
                asked = self._asked.get(slot)
                if asked is not None:
                    found.append(np.where(asked, extent, FREE))
            found += [axis.implied.astype(np.int64) for axis in self._conditions[s]]
        for own in self._every():
            found += own.columns()
        for indices in self._own:
            for form in indices:
                found.append(form.base)
                for slot, term in form.every():
                    if slot in self._asked:
                        found.append(np.where(self._asked[slot], term.scale, 0))
        return found

    def _pragma(self, s: int) -> Ints:
        unroll = self._nest.stages[s].loops.unroll
        return np.where(self._nest.own_step[s] >= 0, unroll, -1)

    def _pieces(self, n: int) -> Pieces | str:
        """Those of candidate n, or why there is no rule."""
        roots: list[Node] = []
        try:
            for s in sorted(self._nest.stages):
                if self._population.target[s][n] < 0:
                    roots += self._stage(s, n)
            found = cut(tuple(roots), self._padded)
            if isinstance(found, str):
                return found
            every = [
                self._with_storage(found, items)
                for items in (found.instances, found.cleared)
                if items is not None
            ]
        except UncutError as error:
            return str(error)
        whole, *others = [
            Pieces(items, [self._at(item, n) for item in items], found.simplified, found.budget)
            for items in every
        ]
        return replace(whole, cleared=others[0]) if others else whole

    def _with_storage(self, found: Cut, items: tuple[Instance, ...]) -> tuple[Instance, ...]:
        """The copies: the last one of a store knows the last storage, if that is another's."""
        if not found.gone:
            return items
        instances = list(items)
        last = {item.store: k for k, item in enumerate(instances)}
        for store, (path, around) in found.gone.items():
            stage = self._stores[store].stage
            if stage.ops.is_output:
                continue
            if store not in last:
                raise UncutError("storage that nothing is stored to")
            item, s = instances[last[store]], self._index[id(stage)]
            if _outer(path, s) != _outer(item.path, s):
                instances[last[store]] = replace(item, storage=dict(around))
        return tuple(instances)

    def _at(self, item: Instance, n: int) -> tuple[int, ...]:
        """The constants in the indices that are stored to; () for none."""
        found = []
        for index in self._own[item.store]:
            constant = int(index.base[n])
            for slot, term in index.every() if item.added else ():
                added = item.added.get(self._places[slot], 0)
                if added:
                    constant += added * int(term.scale[n])
            found.append(constant)
        return tuple(found) if any(found) else ()

    def _stage(self, s: int, n: int) -> list[Node]:
        stage, population = self._nest.stages[s], self._population
        loops, extents = stage.loops, self._nest.forms.extents
        attached: dict[int, list[Node]] = {}
        for u in self._in_order(s, n):
            if population.target[u][n] == s:
                attached.setdefault(int(population.at[u][n]), []).extend(self._stage(u, n))
        own = self._of_stage[s]
        reducing = [bool(flags[n]) for flags in loops.reducing]
        common = int(stage.start[n]) if len(own) > 1 else -1
        guard: tuple[Variable, ...] = ()
        if stage.guarded[n]:
            outer = [k for k in range(common) if reducing[k]]
            guard = tuple(
                [Variable((s, k), False) for k in outer if extents[loops.slots[k]][n] > 1]
            )
        pragma = int(loops.unroll[n]) if self._nest.own_step[s][n] >= 0 else -1

        def wrapped(k: int, of_start: bool, body: list[Node]) -> list[Node]:
            slot = loops.slots[k]
            extent = int(extents[slot][n])
            if extent > 1:
                asked = slot in self._asked and bool(self._asked[slot][n])
                var, kind = Variable((s, k), of_start), int(loops.kinds[k][n])
                body = [Loop(var, extent if asked else FREE, kind, tuple(body))]
            return [Alone(tuple(body))] if pragma == k else body

        def start(k: int) -> list[Node]:
            if k == len(loops.slots):
                return [self._leaf(own[0], s, n, common)]
            inner = start(k + 1)
            return inner if reducing[k] else wrapped(k, True, inner)

        body: list[Node] = [self._leaf(own[-1], s, n, len(loops.slots))]
        for k in reversed(range(len(loops.slots) + 1)):
            if k < len(loops.slots):
                body = wrapped(k, False, [*attached.get(k, ()), *body])
            if k == common:
                begin = start(k)
                body = [Alone(tuple(begin), guard), *body] if guard else [*begin, *body]
        return body

    def _in_order(self, s: int, n: int) -> Iterable[int]:
        """The stages before s; those that have left loops stand after the others of a place."""
        left, order = self._population.left, self._population.order
        if left is None:
            return range(s)
        return sorted(range(s), key=lambda u: (left[u][n] >= 0, order[u][n]))

    def _implies(self, one: Condition, other: Condition, n: int) -> bool:
        """Whether one condition implies the other, whose terms are multiples of its own.

        Simplification takes such a condition out. Raises UncutError where it is hard to tell.
        """
        terms = dict(other.terms)
        factors = [(terms.pop(var, 0), factor) for var, factor in one.terms]
        if not any(by for by, _ in factors):
            return False
        times = factors[0][0] // factors[0][1]
        if any(by != times * factor for by, factor in factors):
            raise UncutError("several conditions on an axis")
        if times < 0:
            return False
        low = high = other.constant
        for var, factor in terms.items():
            slot = self._nest.stages[var.place[0]].loops.slots[var.place[1]]
            reach = factor * (int(self._nest.forms.extents[slot][n]) - 1)
            low, high = low + min(reach, 0), high + max(reach, 0)
        if -low // times <= -one.constant:
            raise UncutError("several conditions on an axis")
        return high - times * one.constant <= 0

    def _leaf(self, k: int, s: int, n: int, common: int) -> Leaf:
        """The store; loops of its stage from position `common` on are those of the start."""
        store = self._stores[k]
        found = []
        for axis in self._conditions[s]:
            if store.ops.is_init and not axis.of_data:
                continue
            own = [c for c in axis.splits if c.where[n]]
            region = [] if store.ops.is_init else [c for c in axis.region if c.where[n]]
            if own and axis.implied[n] and all(c.limit is not None for c in region):
                region = []  # what the splits keep in their extent is in the tensor
            kept = [c.of(n, (s, common)) for c in own]
            found += kept
            for condition in [c.of(n, (s, common)) for c in region]:
                if not any(self._implies(c, condition, n) for c in kept):
                    found.append(condition)
        return Leaf(k, tuple(found))


def _outer(path: Path, s: int) -> Path:
    """The pieces of the loops of other stages."""
    return tuple([step for step in path if step[0][0] != s])
