"""The copies of stores that cut loops make (`partition.py`), of candidates that are alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from autosched.features.batched.autosched_1.partition import Instance, Path, Place, Trees
from autosched.features.batched.autosched_1.piece import Piece, Ready
from autosched.features.batched.autosched_1.surroundings import Surroundings
from autosched.features.batched.forms import Form, Forms, Ints
from autosched.features.batched.stores import Floats, Store, own_indices, r32
from autosched.features.walk.count import NUM_COUNTERS

_INT_ADDSUB, _INT_MUL = 8, 9
Key = tuple[object, ...]


def copies(trees: Trees, n: int) -> tuple[Key, list[Instance]]:
    """The copies of the stores of candidate n, by stage in program order, and what must be alike
    for candidates to be worked out together. Raises UncutError."""
    found = trees.instances(n)
    order = {id(item): k for k, item in enumerate(found)}
    found.sort(key=lambda item: (trees.stage_of(item.store), order[id(item)]))
    for item in found:
        item.number = order[id(item)]
    return tuple((item.store, item.path, _together(item, found)) for item in found), found


def _together(item: Instance, every: Sequence[Instance]) -> tuple[int, ...]:
    """The copies that are all of the sequence of a copy, itself among them, if they are of one
    buffer at one place."""
    if item.beside < 0:
        return ()
    found = [k for k, other in enumerate(every) if other.beside == item.beside]
    if len(found) != item.count or any(every[k].at != item.at for k in found):
        return ()
    return tuple(found)


def pieces_of(ready: Ready, every: Sequence[Sequence[Instance]]) -> list[Piece]:
    """The pieces of a population, whose candidates have the copies `every`, alike."""
    nest, forms = ready.nest, ready.nest.forms
    places = {
        slot: (s, k) for s, stage in nest.stages.items() for k, slot in enumerate(stage.loops.slots)
    }
    tables: dict[tuple[int, Path], int] = {}
    found = []
    for number, first in enumerate(every[0]):
        own = [instances[number] for instances in every]
        store = ready.stores[first.store]
        cut = {place for place, _ in first.path}
        loops, outside = [], set[Place]()
        for loop in store.loops:
            place = places[loop.slot]
            extent = np.array([item.extents.get(place, 1) for item in own], np.int64)
            outside.add(place)
            path = tuple(step for step in first.path if step[0] in outside)
            table = tables.setdefault((loop.slot, path), len(tables))
            loops.append(replace(loop, extent=extent, present=extent > 1, table=table))
        copy = replace(
            store,
            loops=loops,
            place=np.array([item.number for item in own], np.int64),
            outside=_outside(store, [loop.extent for loop in loops], forms),
            touched=[replace(access) for access in store.touched],
            tables={loop.table: j for j, loop in enumerate(loops)},
        )
        floor, level, outer, count = np.array([_numbers(item) for item in own], np.int64).T
        among = np.array([item.beside >= 0 for item in own])
        none = np.zeros(forms.count, bool)
        around = Surroundings(floor, level, outer, count, among, none)
        beside = _together(first, every[0])
        together = np.full(forms.count, len(beside) > 1)
        correction = _correction(forms, store, own, cut, places)
        found.append(Piece(copy, around, beside, together, correction))
    return found


def _numbers(item: Instance) -> tuple[int, int, int, int]:
    return item.floor, item.level, item.outer, item.count


def _outside(store: Store, extents: Sequence[Ints], forms: Forms) -> Floats:
    """The product of the loops around the stage, as the walk makes it."""
    own = set(store.stage.loops.slots)
    product = np.ones(forms.count)
    for loop, extent in zip(store.loops, extents, strict=True):
        if loop.slot not in own:
            product = r32(product * extent)
    return product


def _correction(
    forms: Forms,
    store: Store,
    own: Sequence[Instance],
    cut: set[Place],
    places: dict[int, Place],
) -> Ints:
    """What the constants in place of variables, and added to them, change in the counters."""
    found = np.zeros((NUM_COUNTERS, forms.count), np.int64)
    if store.ops.conditional and cut:
        forms.refuse(np.ones(forms.count, bool), "a value with conditions in a loop that is cut")
    for form in own_indices(forms, store) * store.ops.updates:
        found += _of_index(forms, form, own, cut, places)
    for indices in store.loaded:
        for form in indices:
            found += _of_index(forms, form, own, cut, places)
    return found


def _of_index(
    forms: Forms,
    form: Form,
    own: Sequence[Instance],
    cut: set[Place],
    places: dict[int, Place],
) -> Ints:
    found = np.zeros((NUM_COUNTERS, forms.count), np.int64)
    before, after, constant = forms.zero, forms.zero, forms.zero
    constants, largest, smallest = forms.zero, forms.zero, forms.whole
    for slot, term in form.every():
        there = term.scale != 0
        before = before + there
        place = places[slot]
        if place not in cut:
            after = after + there
            largest = np.maximum(largest, np.abs(term.scale))
            continue
        digit = there & ((term.lower > 1) | (term.upper < forms.extents[slot]))
        forms.refuse(digit, "a cut loop that an index has a part of")
        stays = np.array([place in item.extents for item in own])
        added = np.array([item.added.get(place, 0) for item in own], np.int64)
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
