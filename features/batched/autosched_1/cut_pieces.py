"""The copies of stores that cut loops make (`partition.py`), as arrays.

The copies of a candidate take places: one for each store, or for each start of a reduction with
its steps where these are all of a sequence, as often as some candidate has such a copy. Candidates
leave free what they have no copy for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from autosched.features.batched.autosched_1.borders import (
    AFTER_ALL,
    PLACES,
    KnownBorders,
    border_pieces,
    is_padded,
)
from autosched.features.batched.autosched_1.partition import Instance, Path, Place
from autosched.features.batched.autosched_1.piece import Piece, Ready
from autosched.features.batched.autosched_1.surroundings import Surroundings
from autosched.features.batched.forms import Flags, Form, Forms, Ints
from autosched.features.batched.stores import Floats, LoopAround, Store, own_indices, times
from autosched.features.walk.count import NUM_COUNTERS

_INT_ADDSUB, _INT_MUL = 8, 9
Group = tuple[int, ...]
"""The stores of what takes a place."""
Grouped = dict[Group, list[list[Instance]]]


def pieces_of(
    ready: Ready, every: Sequence[Sequence[Instance]], borders: KnownBorders
) -> list[Piece]:
    """The pieces of a population, whose candidates have the copies `every`, in program order."""
    buffers = [store.buffer for store in ready.stores]
    grouped = [_groups(instances, buffers) for instances in every]
    most: dict[Group, int] = {}
    for own in grouped:
        for group, those in own.items():
            most[group] = max(most.get(group, 0), len(those))
    found: list[Piece] = []
    nodes: dict[Path, int] = {}
    for group in sorted(most):
        for number in range(most[group]):
            first = len(found)
            for member, store in enumerate(group):
                items = [
                    own[group][number][member] if number < len(own.get(group, ())) else None
                    for own in grouped
                ]
                if is_padded(ready.stores[store]):
                    hinted = [item if _is_hinted(item) else None for item in items]
                    whole = _Copies(ready, ready.stores[store], hinted, nodes).piece()
                    found += _with_border(ready, whole, every, borders)
                    items = [None if _is_hinted(item) else item for item in items]
                    first = len(found)
                piece = _Copies(ready, ready.stores[store], items, nodes).piece()
                piece.beside = tuple(range(first, first + len(group)))
                piece.together = piece.together & (len(group) > 1)
                found.append(piece)
    return found


def _is_hinted(item: Instance | None) -> bool:
    """Whether HintBorders marks a copy with a border: one that no condition is around."""
    return item is not None and not item.asked and not item.path


def _groups(
    instances: Sequence[Instance], buffers: Sequence[int]
) -> dict[Group, list[list[Instance]]]:
    """The copies of one candidate by the stores that are together."""
    found: dict[Group, list[list[Instance]]] = {}
    done: set[int] = set()
    for k, item in enumerate(instances):
        if k in done:
            continue
        those = _together(item, instances, buffers) or [k]
        done.update(those)
        items = [instances[n] for n in those]
        found.setdefault(tuple([own.store for own in items]), []).append(items)
    return found


def _together(item: Instance, every: Sequence[Instance], buffers: Sequence[int]) -> list[int]:
    """The copies that are all of the sequence of a copy, itself among them, if they are of one
    buffer at one place."""
    if item.beside < 0:
        return []
    found = [k for k, other in enumerate(every) if other.beside == item.beside]
    place = buffers[item.store], item.at
    if len(found) != item.count or any(
        (buffers[every[k].store], every[k].at) != place for k in found
    ):
        return []
    return found


def _with_border(
    ready: Ready, piece: Piece, every: Sequence[Sequence[Instance]], borders: KnownBorders
) -> list[Piece]:
    """The pieces of a copy with a border."""
    forms = ready.nest.forms
    assert piece.exists is not None
    if not piece.exists.any():
        return []
    found = border_pieces(forms, piece.store, piece.around, borders, piece.exists)
    moved = np.zeros(forms.count, bool)
    for own in found:
        if own.simplifies is not None:
            moved = moved | own.simplifies
    dead = np.array([any(item.dead for item in items) for items in every])
    forms.refuse(moved & dead, "starts that simplification takes out")
    return found


class _Copies:
    """The copies of a store that have one place, None for a candidate without one."""

    def __init__(
        self,
        ready: Ready,
        store: Store,
        items: Sequence[Instance | None],
        nodes: dict[Path, int],
    ) -> None:
        self._forms, self._store, self._items = ready.nest.forms, store, items
        self._nodes = nodes
        self._places: dict[int, Place] = {
            slot: (s, k)
            for s, stage in ready.nest.stages.items()
            for k, slot in enumerate(stage.loops.slots)
        }
        self._exists: Flags = np.array([item is not None for item in items])
        self._cut: dict[int, Flags] = {}
        self._stays: dict[int, Flags] = {}
        self._added: dict[int, Ints] = {}

    def piece(self) -> Piece:
        """The piece; `beside` follows."""
        forms, store = self._forms, self._store
        loops = self._loops()
        copy = replace(
            store,
            loops=loops,
            place=self._numbers([_number(item) for item in self._items]),
            outside=_outside(store, loops, forms),
            touched=[replace(access) for access in store.touched],
        )
        table = [_around(item) for item in self._items]
        floor, level, outer, count, among = np.array(table, np.int64).T
        none = np.zeros(forms.count, bool)
        around = Surroundings(floor, level, outer, count, among > 0, none)
        return Piece(copy, around, (), among > 0, self._correction(), self._exists)

    def _numbers(self, values: Sequence[int]) -> Ints:
        found: Ints = np.array(values, np.int64)
        return found

    def _loops(self) -> list[LoopAround]:
        """The loops around the copies: the same one for copies in the same pieces of the loops up
        to it."""
        found, outside = [], set[Place]()
        for loop in self._store.loops:
            place = self._places[loop.slot]
            outside.add(place)
            extents, nodes = [], []
            for item in self._items:
                extents.append(1 if item is None else item.extents.get(place, 1))
                nodes.append(0 if item is None else self._node(item.path, outside))
            extent = self._numbers(extents)
            node = self._numbers(nodes)
            found.append(replace(loop, extent=extent, present=extent > 1, node=node))
        return found

    def _node(self, path: Path, outside: set[Place]) -> int:
        """A number for the pieces of these loops."""
        own = tuple([step for step in path if step[0] in outside])
        return self._nodes.setdefault(own, len(self._nodes))

    def _note(self, slot: int) -> None:
        """Where the copies are in a piece of the loop, still in a loop over it, and from where."""
        if slot in self._cut:
            return
        place = self._places[slot]
        cut, stays, added = [], [], []
        for item in self._items:
            here = item is not None and any(step[0] == place for step in item.path)
            cut.append(here)
            stays.append(item is not None and (not here or place in item.extents))
            added.append(0 if item is None else item.added.get(place, 0))
        self._cut[slot], self._stays[slot] = np.array(cut), np.array(stays)
        self._added[slot] = self._numbers(added)

    def _correction(self) -> Ints:
        """What the constants in place of variables, and added to them, change in the counters."""
        forms, store = self._forms, self._store
        found = np.zeros((NUM_COUNTERS, forms.count), np.int64)
        if store.ops.conditional:
            cut: Flags = np.array([item is not None and bool(item.path) for item in self._items])
            forms.refuse(cut, "a value with conditions in a loop that is cut")
        for form in own_indices(forms, store) * store.ops.updates:
            found += self._of_index(form)
        for indices in store.loaded:
            for form in indices:
                found += self._of_index(form)
        return found

    def _of_index(self, form: Form) -> Ints:
        forms = self._forms
        found = np.zeros((NUM_COUNTERS, forms.count), np.int64)
        before, after, constant = forms.zero, forms.zero, forms.zero
        constants, largest, smallest = forms.zero, forms.zero, forms.whole
        for slot, term in form.every():
            self._note(slot)
            cut, stays, added = self._cut[slot], self._stays[slot], self._added[slot]
            there = (term.scale != 0) & self._exists
            before = before + there
            digit = there & cut & ((term.lower > 1) | (term.upper < forms.extents[slot]))
            forms.refuse(digit, "a cut loop that an index has a part of")
            after = after + (there & stays)
            found[_INT_ADDSUB] += there & stays & (added != 0)
            found[_INT_MUL] -= there & ~stays & (np.abs(term.scale) != 1)
            largest = np.maximum(largest, np.where(stays, np.abs(term.scale), 0))
            fixed = np.where(there & ~stays, added * term.scale, 0)
            constant, constants = constant + fixed, constants + (fixed != 0)
            smaller = np.minimum(smallest, np.abs(term.scale))
            smallest = np.where(fixed != 0, smaller, smallest)
        forms.refuse((constants > 1) & (largest > smallest), "constants apart in an index")
        base = form.base != 0
        was = np.maximum(before + base - 1, 0)
        now = np.where(after > 0, after + base + (constant != 0) - 1, 0)
        found[_INT_ADDSUB] += now - was
        return found


def _number(item: Instance | None) -> int:
    return AFTER_ALL if item is None else item.number * PLACES


def _around(item: Instance | None) -> tuple[int, int, int, int, int]:
    if item is None:
        return 0, 0, 0, 1, 0
    return item.floor, item.level, item.outer, item.count, int(item.beside >= 0)


def _outside(store: Store, loops: Sequence[LoopAround], forms: Forms) -> Floats:
    """The product of the loops around the stage, as the walk makes it."""
    own = set(store.stage.loops.slots)
    product = outside = np.ones(forms.count)
    for loop in loops:
        product = times(forms, product, loop)
        outside = outside if loop.slot in own else product
    return outside
