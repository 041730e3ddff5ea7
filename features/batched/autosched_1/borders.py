"""Copies with a border as arrays: the pieces that passes make of them (`border_copy.py`).

What they make follows from the numbers in the conditions and from the copy's own loops. It is
worked out once for all candidates that have these in common, and remembered. Each piece takes one
of several places, some of which a candidate leaves free.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from autosched.features.batched.autosched_1.border_copy import Copied, OwnLoop, copies_of
from autosched.features.batched.autosched_1.border_leaves import copies_by_rule
from autosched.features.batched.autosched_1.border_numbers import borders_of
from autosched.features.batched.autosched_1.branch_places import replaced
from autosched.features.batched.autosched_1.piece import Piece
from autosched.features.batched.autosched_1.surroundings import Surroundings
from autosched.features.batched.autosched_1.values import Chosen, along_reads
from autosched.features.batched.counts import add_index
from autosched.features.batched.forms import Flags, Form, Forms, Ints
from autosched.features.batched.nest import index_form
from autosched.features.batched.one import Rows, alike, signature, simplified, slots_of
from autosched.features.batched.ops import loads_of
from autosched.features.batched.stores import LoopAround, Store, Touched, own_indices, times
from autosched.features.walk.count import NUM_COUNTERS
from autosched.tir.expr import Call, Expr, ProducerLoad, Var
from autosched.tir.walk import free_vars

PLACES = 64
"""The pieces of one copy are at most as many, so that their places are in order with others'."""
NO_RULE = "a border cut too often, or an index that a branch simplifies"
GROWN = "little is left of what a program may grow"
AFTER_ALL = 1 << 62
"""The place of a copy that a candidate does not have."""
_MOST_PIECES = 24  # more of them are faster one by one
_MOST_KNOWN = 20_000
_OWN = 1 << 20
_BOTH = "value_and_place"
KnownBorders = dict[tuple[Expr, tuple[int, ...]], tuple[Copied, ...] | None]


def is_padded(store: Store) -> bool:
    """Whether all that the store does is to copy what a condition chooses."""
    return store.ops.is_padding and len(store.stage.ops.stores) == 1


def border_pieces(
    forms: Forms,
    store: Store,
    around: Surroundings,
    known: KnownBorders,
    where: Flags,
    budget: Ints | None = None,
) -> list[Piece]:
    """The pieces of a padded copy in some candidates; those whose pieces have no rule are refused,
    and those that add more to their program than its `budget`, from which it is taken.

    Where none of them is left, the copy as it is, of no candidate.
    """
    rows = np.flatnonzero(where & ~forms.bad)
    if not len(rows):
        none = np.zeros(forms.count, bool)
        return [Piece(store, around, (), none, exists=none)]
    made, which = _worked_out(forms, store, rows, known)
    table = _Table(made, rows, which, forms.count)
    forms.refuse(table.flags([copied is None for copied in made]), NO_RULE)
    if budget is not None:
        budget -= table.ints([copied[0].grown if copied else 0 for copied in made])
        forms.refuse(where & (budget < 0), GROWN)
    slots = [_Slot(table, n, kind) for kind in (1, 0) for n in range(_most(made, kind))]
    return [_piece(forms, store, slot) for slot in slots]


def _most(made: Sequence[Sequence[Copied] | None], kind: int) -> int:
    return max(sum(one.loads == kind for one in copied or ()) for copied in made)


Made = tuple[list[tuple[Copied, ...] | None], Rows]
"""What becomes of a copy in some candidates: all there is, and which each has."""


def _worked_out(forms: Forms, store: Store, rows: Rows, known: KnownBorders) -> Made:
    """What becomes of the copy in the candidates `rows`, by rule where there is one."""
    made = by_rule(forms, store, rows)
    return _rest(made, lambda those: by_passes(forms, store, rows[those], known))


def by_rule(forms: Forms, store: Store, rows: Rows) -> Made:
    """Where a branch changes indices, all of them are looked at."""
    made = _ruled(forms, store, rows, False)
    return _rest(made, lambda those: _ruled(forms, store, rows[those], True))


def by_passes(forms: Forms, store: Store, rows: Rows, known: KnownBorders) -> Made:
    """The same by running the passes."""
    made = _alike_worked_out(forms, store, rows, known, _conditional_part(store))
    both = _with_place(store)
    return _rest(made, lambda those: _alike_worked_out(forms, store, rows[those], known, both))


def _rest(made: Made, way: Callable[[Rows], Made]) -> Made:
    """With those that nothing is known of, by number, in another `way`."""
    every, which = made
    again = np.array([copied is None for copied in every])[which].nonzero()[0]
    if not len(again):
        return made
    more, those = way(again)
    which[again] = those + len(every)
    return every + more, which


def _ruled(forms: Forms, store: Store, rows: Rows, placed: bool) -> Made:
    borders, which = borders_of(forms, store, rows, placed)
    made = []
    for numbered in borders:
        found = None if numbered is None else copies_by_rule(numbered.border)
        if numbered is not None and found is not None:
            found = _with_slots(found, numbered.slots)
        made.append(found if found is None or len(found) <= _MOST_PIECES else None)
    return made, which


def _alike_worked_out(
    forms: Forms, store: Store, rows: Rows, known: KnownBorders, value: Expr
) -> Made:
    """What the passes make of `value`."""
    stage = store.stage
    text = stage.context.text(value)
    axes = dict(text.axes)
    for k, slot in enumerate(stage.loops.slots):
        extent = forms.extents[slot]
        kind = np.where(extent > 1, stage.loops.kinds[k], 0)
        axes[Var("loop")] = Form({}, np.minimum(extent, 2) + 2 * kind)
    order = {slot: _OWN + k for k, slot in enumerate(stage.loops.slots)}
    first, which = alike(forms, axes, rows)
    found = []
    for n in first.tolist():
        key = text.value, signature(forms, axes, n, order)
        if key not in known:
            if len(known) > _MOST_KNOWN:
                known.clear()
            simple, variables = simplified(forms, text, n, as_ansor=False)
            known[key] = _copied(forms, store, n, simple, variables, slots_of(forms, axes, n))
        found.append(_with_slots(known[key], slots_of(forms, axes, n)))
    return found, which


def _with_slots(made: tuple[Copied, ...] | None, slots: Sequence[int]) -> tuple[Copied, ...] | None:
    """With the slots of the variables for their numbers."""
    if made is None or not any(copied.stored for copied in made):
        return made
    return tuple(
        [
            replace(copied, slots={name: slots[k] for name, k in copied.slots.items()})
            for copied in made
        ]
    )


def _copied(
    forms: Forms,
    store: Store,
    n: int,
    value: Expr,
    variables: Mapping[int, Var],
    slots: Sequence[int],
) -> tuple[Copied, ...] | None:
    """The stores of candidate n; the extent of a loop that is whole is -1."""
    loops = store.stage.loops
    own, places = [], []
    for k, slot in enumerate(loops.slots):
        extent = int(forms.extents[slot][n])
        if extent > 1:
            places.append(k)
            var = variables.get(slot, Var(f"i{slot}"))
            own.append(OwnLoop(var, extent, int(loops.kinds[k][n])))
    mine = set(loops.slots)
    outer = [
        (var, int(forms.extents[slot][n])) for slot, var in variables.items() if slot not in mine
    ]
    place = None
    if isinstance(value, Call) and value.op == _BOTH:
        value, at = value.args
        place = at.children()
    found = copies_of(value, own, outer, place)
    if len(found) > _MOST_PIECES or not all(copied.same for copied in found):
        return None
    count = len(loops.slots)
    numbers = {var.name: slots.index(slot) for slot, var in variables.items()}
    extents = [loop.extent for loop in own]
    spread = [_spread(copied, places, extents, count) for copied in found]
    return tuple([replace(copied, slots=numbers) for copied in spread])


def _spread(copied: Copied, places: list[int], whole: list[int], count: int) -> Copied:
    """With an entry for every loop of the stage, -1 for the extent of one that is whole."""
    extents, nodes, asked = [0] * count, [0] * count, [False] * count
    for k, place in enumerate(places):
        extents[place] = -1 if copied.extents[k] == whole[k] else copied.extents[k]
        nodes[place], asked[place] = copied.nodes[k], copied.asked[k]
    return replace(copied, extents=tuple(extents), nodes=tuple(nodes), asked=tuple(asked))


def _conditional_part(store: Store) -> Expr:
    """The choice without those indices of its load that no condition asks for."""
    value = store.ops.original
    assert isinstance(value, Call)
    condition, load, other = value.args
    assert isinstance(load, ProducerLoad)
    asked = free_vars(condition)
    indices = tuple([e for e in load.indices if not free_vars(e).isdisjoint(asked)])
    return Call(value.dtype, value.op, (condition, ProducerLoad(load.producer, indices), other))


def _with_place(store: Store) -> Expr:
    """The choice, and where it is stored to."""
    ops = store.stage.ops
    ((_, load),) = zip(store.ops.loads, loads_of(store.ops.original), strict=True)
    place = ProducerLoad(load.producer, ops.axes[: ops.data])
    return Call(store.ops.original.dtype, _BOTH, (store.ops.original, place))


@dataclass(eq=False)
class _Table:
    """Puts what is known of each sort of candidates into arrays over all candidates."""

    made: Sequence[tuple[Copied, ...] | None]
    rows: Rows
    which: Rows
    count: int

    def ints(self, values: Sequence[object]) -> Ints:
        """`values`, each with its entries first, as values by candidate; 0 for the others."""
        table = np.array(values, np.int64).T
        found = np.zeros((*table.shape[:-1], self.count), np.int64)
        found[..., self.rows] = table[..., self.which]
        return found

    def flags(self, values: Sequence[bool]) -> Flags:
        """The same of one flag each."""
        return self.ints(values) > 0


class _Slot:
    """One place: the `number`th piece that loads, or that does not."""

    def __init__(self, table: _Table, number: int, kind: int) -> None:
        self.loads = bool(kind)
        chosen: list[tuple[int, Copied] | None] = []
        for copied in table.made:
            those = [(at, c) for at, c in enumerate(copied or ()) if c.loads == kind]
            chosen.append(those[number] if number < len(those) else None)
        some = next(own for own in chosen if own is not None)
        every = [own or some for own in chosen]
        self.copied = [c for _, c in every]
        most = max(len(c.guards) for c in self.copied)
        there = [own is not None for own in chosen]
        numbers = [
            (
                *(has, at, has and c.hoisted, c.guarded, c.floor, bool(c.stored)),
                *(*c.extents, *c.nodes, *c.asked, *c.counts),
                *(*c.guards, *[-1] * (most - len(c.guards))),
            )
            for has, (at, c) in zip(there, every, strict=True)
        ]
        known, rest = np.split(table.ints(numbers), [6])
        self.exists, self.hoisted = known[0] > 0, known[2] > 0
        self.guarded, self.placed = known[3] > 0, known[5] > 0
        self.at, self.floor = known[1], known[4]
        count = len(some[1].extents)
        ends = np.cumsum([count, count, count, NUM_COUNTERS])
        self.extents, self.nodes, asked, self.counts, guards = np.split(rest, ends)
        self.asked, self.guards = asked > 0, list(guards)
        floats = np.array([(c.weight, c.share) for c in self.copied]).T
        self.weight, self.share = np.ones((2, table.count))
        self.weight[table.rows], self.share[table.rows] = floats[:, table.which]
        self.ints, self.flags = table.ints, table.flags


def _piece(forms: Forms, store: Store, slot: _Slot) -> Piece:
    own = {s: k for k, s in enumerate(store.stage.loops.slots)}
    digits = _digits(forms, store)
    loops: list[LoopAround] = []
    outside = forms.zero
    asked = np.zeros((len(store.loops), forms.count), bool)
    for j, loop in enumerate(store.loops):
        k = own.get(loop.slot)
        if k is None:
            present = loop.present & slot.exists
            extent = np.where(present, loop.extent, 1)
            loops.append(replace(loop, extent=extent, present=present))
            outside = outside + present
            continue
        given = slot.extents[k]
        cut = given >= 0
        extent = np.where(slot.exists, np.where(cut, np.maximum(given, 1), loop.extent), 1)
        changed = loop.present & slot.exists & (extent != loop.extent)
        forms.refuse(
            changed & digits.get(loop.slot, False), "a cut loop that an index has a part of"
        )
        loops.append(replace(loop, extent=extent, present=extent > 1, node=slot.nodes[k]))
        asked[j] = slot.asked[k]
    product = np.ones(forms.count)
    for loop in loops:
        product = times(forms, product, loop)
    touched = [replace(access) for access in store.touched]
    if slot.placed.any():
        _place(slot, touched)
    copy = replace(
        store,
        loops=loops,
        place=np.where(slot.exists, store.place + slot.at, AFTER_ALL),
        touched=touched if slot.loads else touched[-1:],
        loaded=touched[0].tuples if slot.loads else store.loaded,
    )
    floor = np.where(slot.exists, outside + slot.floor, 0)
    none = np.zeros(forms.count, bool)
    alone = Surroundings(floor, floor, floor, forms.one, none, none)
    conditional = slot.guarded & along_reads(copy, forms.count)
    chosen = Chosen(_counts(forms, store, slot), slot.weight, conditional, asked)
    there = [slot.exists & (guard >= 0) for guard in slot.guards]
    guards = [np.where(w, outside + g, -1) for w, g in zip(there, slot.guards, strict=True)]
    piece = Piece(copy, alone, (), none, None, slot.exists, chosen, guards)
    piece.simplifies, piece.share = slot.hoisted, slot.share
    return piece


def _place(slot: _Slot, touched: Sequence[Touched]) -> None:
    """Let the load and the store be at the places that are left of theirs."""
    slots = [copied.slots for copied in slot.copied]
    both = [copied.loaded for copied in slot.copied], [copied.stored for copied in slot.copied]
    for access, places in zip(touched, both, strict=True):
        where = slot.placed & slot.flags([bool(place) for place in places])
        access.tuples = [replaced(access.tuples[0], where, places, slots, slot.ints)]


def _counts(forms: Forms, store: Store, slot: _Slot) -> Ints:
    """The operations, those of indices that no condition asks for among them."""
    counts: Ints = slot.counts.copy()
    if slot.loads:
        asked = free_vars(store.ops.original.children()[0])
        ((_, indices),) = store.ops.loads
        free = np.zeros_like(counts)
        for e in indices:
            if free_vars(e).isdisjoint(asked):
                add_index(forms, index_form(forms, e, store.stage.axes), free)
        counts += np.where(slot.placed, 0, free)
    return counts


def _digits(forms: Forms, store: Store) -> dict[int, Flags]:
    """By loop, where an index has a part of it only."""
    found: dict[int, Flags] = {}
    for form in (*own_indices(forms, store), *(form for load in store.loaded for form in load)):
        for slot, term in form.every():
            part = (term.lower > 1) | (term.upper < forms.extents[slot])
            found[slot] = found.get(slot, False) | (part & (term.scale != 0))
    return found
