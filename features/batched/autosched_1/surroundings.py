"""Which loops enclose nothing but a store, and which stores are beside it (`walk/visitor.py`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autosched.features.batched.forms import Flags, Ints
from autosched.features.batched.nest import Nest, Population
from autosched.features.batched.stores import Store

_AROUND_A_SUM_OF_THREADS = 3
"""The statements beside each of the four of a reduction across threads: its initialisation, its
update, the call that adds up, and the result."""


@dataclass(eq=False)
class Surroundings:
    """The surroundings of a store.

    The loops from depth `floor` on enclose nothing but the store. Where `beside`, the statements
    next to it in `level` loops are `count`, including its own, and the loops from `outer` on
    enclose nothing but them. `of_reduction` says where these are the initialisation and the update
    of its own reduction, and nothing is between them and the stores.
    """

    floor: Ints
    level: Ints
    outer: Ints
    count: Ints
    beside: Flags
    of_reduction: Flags

    def sequence(self, depth: Ints, more: Ints | int, where: Flags) -> None:
        """Enter, at `depth`, a sequence of `more` statements besides the one with the store."""
        if not np.count_nonzero(where):
            return
        joins = where & self.beside & (self.level == depth)
        new = where & ~joins
        self.count = np.where(joins, self.count + more, np.where(new, 1 + more, self.count))
        self.outer = np.where(new, self.floor, self.outer)
        self.level = np.where(new, depth, self.level)
        self.floor = np.where(new, depth, self.floor)
        self.beside = self.beside | new
        self.of_reduction = self.of_reduction & ~where

    def alone(self, depth: Ints, where: Flags) -> None:
        """Enter, at `depth`, a statement other than a loop; no perfect nest extends across it."""
        if not np.count_nonzero(where):
            return
        self.floor = np.where(where, depth, self.floor)
        self.beside = self.beside & ~where
        self.of_reduction = self.of_reduction & ~where


def surroundings_of(nest: Nest, population: Population, store: Store) -> Surroundings:
    """The surroundings of a store in all candidates."""
    forms = nest.forms
    zero, none = forms.zero, np.zeros(forms.count, bool)
    found = Surroundings(zero, zero, zero, forms.one, none, none)
    roots = sum(((target < 0).astype(np.int64) for target in population.target), zero)
    found.sequence(zero, roots - 1, roots > 1)
    s = next(k for k, stage in nest.stages.items() if stage is store.stage)
    depth = zero
    for t in range(len(nest.ops.stages) - 1, s, -1):
        around = nest.inside[s][t]
        if (around < 0).all():
            continue
        reduces = len(nest.stages[t].ops.stores) > 1
        for k in range(len(nest.stages[t].loops.slots)):
            here: Flags = around >= k
            if reduces:
                crosses = nest.stages[t].ops.crosses
                more = _AROUND_A_SUM_OF_THREADS if crosses else 1
                found.sequence(depth, more, here & (nest.stages[t].start == k))
            depth = _loop(nest, population, found, t, k, here, here, depth)
    own, start = store.stage.loops, store.stage.start
    more = _AROUND_A_SUM_OF_THREADS if store.stage.ops.crosses else 1
    for k in range(len(own.slots) + 1):
        if len(store.stage.ops.stores) > 1:
            begins = start == k
            found.sequence(depth, more, begins)
            found.of_reduction = found.of_reduction | (begins & ~store.stage.guarded)
            if store.ops.is_init:
                found.alone(depth, begins & store.stage.guarded)
        if k == len(own.slots):
            break
        here = np.ones(forms.count, bool)
        if store.ops.is_init:
            here = ~((start <= k) & own.reducing[k])
        inside = here & (start > k) if store.ops.is_init else here
        depth = _loop(nest, population, found, s, k, here, inside, depth)
    return found


def _loop(
    nest: Nest,
    population: Population,
    found: Surroundings,
    t: int,
    k: int,
    here: Flags,
    shares: Flags,
    depth: Ints,
) -> Ints:
    """Enter loop k of stage t, which is around the store where `here`; return the depth inside it.

    Where it `shares`, the stages that are computed in the loop are beside the store.
    """
    loops = nest.stages[t].loops
    found.alone(depth, here & (loops.unroll == k) & (nest.own_step[t] >= 0))
    loop = nest.forms.extents[loops.slots[k]] > 1
    depth = depth + (here if loops.threads[k] else here & loop)
    inside = nest.forms.zero
    for u in range(t):
        inside = inside + ((population.target[u] == t) & (population.at[u] == k))
    found.sequence(depth, inside, shares & (inside > 0))
    return depth
