"""Move invariant stages out of loops (`transform/loops/hoist_invariants.py`), as arrays.

A stage that is computed in a loop of another one leaves it, with all stages computed inside, where
none of them moves with the loop and nothing that it reads stays in the loop:

    for i in range(16):                  for i in range(16):
        for j in range(8):         ->        total[0] = ...
            total[0] = ...                   for j in range(8):
            Y[i, j] = total[0]                   Y[i, j] = total[0]

Regions and loops stay as InferBound made them; only the position of the stage changes. Nothing
leaves a loop whose body begins with storage of aligned strides, which the pass does not look into.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autosched.features.batched.build_nest import place_stages
from autosched.features.batched.forms import Flags, Ints
from autosched.features.batched.nest import Nest, Population
from autosched.state.iterator import Annotation

ALL_LOOPS = "a stage that may leave all loops of another"
LIMIT = "a stage that leaves a loop with a limit of unrolling"


def hoist(nest: Nest, population: Population) -> Population:
    """The population with its stages at their final positions; itself where none moves.

    Updates the positions in the nest, too. Candidates without a rule are refused.
    """
    moves = _Moves(nest, population)
    ats = [moves.stage(s) for s in range(len(nest.ops.stages))]
    if not any((left >= 0).any() for left in moves.left):
        return population
    order = _order(nest, population, moves.left)
    found = moves.beside(replace(population, at=ats, left=moves.left, order=order))
    place_stages(nest, found)
    return found


def _order(nest: Nest, population: Population, left: list[Ints]) -> list[Ints]:
    """The order of stages that have left the same loops, as a number for each stage.

    A stage that was further inside comes later. The stages at one position share out their own
    numbers in the program in this order.
    """
    stages = range(len(left))
    found = []
    for s in stages:
        beside = [
            (left[s] >= 0) & (left[u] == left[s]) & (population.target[u] == population.target[s])
            for u in stages
        ]
        rank, place, own = nest.forms.zero, nest.forms.zero, nest.forms.full(s)
        for u in stages:
            earlier = population.at[u] < population.at[s]
            if u < s:
                earlier = earlier | (population.at[u] == population.at[s])
            rank = rank + (beside[u] & earlier)
        for u in stages:
            own = np.where(beside[u] & (place == rank), u, own)
            place = place + beside[u]
        found.append(own)
    return found


class _Moves:
    """The moves of the stages.

    `left` has, by stage, the outermost loop of its target that it leaves, or -1; `_gone` says where
    it has left all of them.
    """

    def __init__(self, nest: Nest, population: Population) -> None:
        self._nest, self._population = nest, population
        self._at: list[Ints] = []
        self.left: list[Ints] = []
        self._gone: list[Flags] = []

    def stage(self, s: int) -> Ints:
        """The loop, by position in its target, that stage s is finally computed in."""
        population = self._population
        at, left = population.at[s].copy(), self._nest.forms.full(-1)
        self._gone.append(np.zeros(self._nest.forms.count, bool))
        for t in range(s + 1, len(self._nest.ops.stages)):
            here = population.target[s] == t
            if here.any():
                self._out_of(s, t, here, at, left)
        self._at.append(at)
        self.left.append(left)
        return at

    def beside(self, population: Population) -> Population:
        """Move stages that have left all loops of their target to right before the target.

        Candidates with another stage between the two are refused.
        """
        forms, before = self._nest.forms, self._population
        targets, ats, lefts = list(population.target), list(population.at), list(self.left)
        for s in range(len(targets) - 1, -1, -1):
            for t in range(s + 1, len(targets)):
                where = self._gone[s] & (before.target[s] == t)
                if not where.any():
                    continue
                for u in range(s + 1, t):
                    same = before.target[u] == before.target[t]
                    same = same & ((before.at[u] == before.at[t]) | (before.target[t] < 0))
                    outer = (before.target[u] == t) & (before.at[u] < before.at[s]) & self._gone[u]
                    forms.refuse(where & (same | outer), ALL_LOOPS)
                targets[s] = np.where(where, targets[t], targets[s])
                ats[s] = np.where(where, ats[t], ats[s])
                lefts[s] = np.where(where, lefts[t], lefts[s])
        return replace(population, target=targets, at=ats, left=lefts)

    def _out_of(self, s: int, t: int, here: Flags, at: Ints, left: Ints) -> None:
        """Move stage s, which is in stage t where `here`, out of its loops, innermost first."""
        nest, forms = self._nest, self._nest.forms
        loops = nest.stages[t].loops
        inside = self._inside(s)
        moving = here & ~self._population.aligned[s]
        for k in range(len(loops.slots) - 1, -1, -1):
            now = moving & (at == k)
            if not now.any():
                continue
            runs = forms.extents[loops.slots[k]] > 1
            limited = (loops.unroll == k) & (nest.own_step[t] >= 0)
            still = (loops.kinds[k] != Annotation.PARALLEL) & ~self._held(s, t, k, inside)
            still &= ~self._uses(inside, loops.slots[k]) & ~self._behind_aligned(s, t, k)
            leaves = now & runs & still
            forms.refuse(leaves & limited, LIMIT)
            left[leaves] = k
            goes = np.where(runs, still, ~limited)
            at[now & goes] = k - 1
            moving = moving & ~(now & ~goes)
        gone = moving & (at < 0)
        forms.refuse(gone & self._is_still(s, t, inside), ALL_LOOPS)
        outermost = forms.extents[loops.slots[0]] > 1
        self._gone[s] |= gone & (left >= 0) & outermost
        at[gone & (left >= 0) & ~outermost] = 0
        # Leaving a loop that runs once is no move: the stage stays unless it left another loop.
        at[here & (left < 0)] = self._population.at[s][here & (left < 0)]

    def _behind_aligned(self, s: int, t: int, k: int) -> Flags:
        """Where the body of loop k of stage t begins with aligned storage of a stage before s."""
        forms, population = self._nest.forms, self._population
        found: Flags = np.zeros(forms.count, bool)
        for u in range(s):
            here = population.aligned[u] & (population.target[u] == t) & (population.at[u] >= k)
            if here.any():
                for inner, slot in enumerate(self._nest.stages[t].loops.slots):
                    if inner > k:  # a loop that runs once is none
                        here = here & ((population.at[u] < inner) | (forms.extents[slot] == 1))
                found |= here
        return found

    def _inside(self, s: int) -> list[tuple[int, Flags]]:
        """The stages that move with stage s, itself included, and the candidates where they do."""
        found = [(s, np.ones(self._nest.forms.count, bool))]
        for u in range(s):
            there = self._nest.inside[u][s] >= 0
            if there.any():
                found.append((u, there))
        return found

    def _uses(self, inside: list[tuple[int, Flags]], slot: int) -> Flags:
        """Where the loop is in an axis of these stages, whose loads are all indexed by their
        axes."""
        count = self._nest.forms.count
        found: Flags = np.zeros(count, bool)
        for u, there in inside:
            used: Flags = np.zeros(count, bool)
            for form in self._nest.stages[u].axes.values():
                for term in form.terms.get(slot, ()):
                    used = used | (term.scale != 0)
            found = found | (used & there)
        return found

    def _held(self, s: int, t: int, k: int, inside: list[tuple[int, Flags]]) -> Flags:
        """Where one of these stages reads a stage that stays in loop k of stage t."""
        found: Flags = np.zeros(self._nest.forms.count, bool)
        for u in range(s):
            buffer = self._nest.ops.stages[u].buffer
            stays = (self._population.target[u] == t) & (self._at[u] >= k)
            if stays.any():
                for v, there in inside:
                    stores = self._nest.ops.stages[v].stores
                    if any(b == buffer for own in stores for b, _ in own.loads):
                        found = found | (stays & there)
        return found

    def _is_still(self, s: int, t: int, inside: list[tuple[int, Flags]]) -> Flags:
        """Where the innermost loop around stage t does not move the stages inside stage s."""
        nest = self._nest
        found: Flags = np.zeros(nest.forms.count, bool)
        for above in range(len(nest.ops.stages) - 1, t, -1):
            loops = nest.stages[above].loops
            for k, slot in enumerate(loops.slots):
                around = nest.around(t, above, k)
                if not around.any():
                    continue
                around = around & (nest.forms.extents[slot] > 1)
                still = (loops.kinds[k] != Annotation.PARALLEL) & ~self._uses(inside, slot)
                found = np.where(around, still, found)
        return found
