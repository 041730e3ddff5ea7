"""The copies of stores that cut loops make (`partition.py`), as arrays.

A candidate has as many rows as copies of a store (`spread.py`). There is a piece for each store, or
for each start of a reduction with its steps where these are all of a sequence; rows are without
those that the candidate has fewer copies of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from autosched.features.batched.autosched_1.borders import (
    AFTER_ALL,
    PLACES,
    KnownBorders,
    border_pieces,
    is_padded,
)
from autosched.features.batched.autosched_1.cut_texts import (
    CutTerm,
    CutText,
    IndexTexts,
    cut_text,
    index_texts,
    no_texts,
)
from autosched.features.batched.autosched_1.cut_trees import FREE, is_hinted
from autosched.features.batched.autosched_1.left_trees import Instance, Path, Place
from autosched.features.batched.autosched_1.partition import Pieces
from autosched.features.batched.autosched_1.piece import Piece, Ready
from autosched.features.batched.autosched_1.sparse_sums import without_zeros
from autosched.features.batched.autosched_1.surroundings import Surroundings
from autosched.features.batched.autosched_1.windows import window_forms, with_borders
from autosched.features.batched.forms import Flags, Form, Forms, Ints
from autosched.features.batched.stores import Floats, LoopAround, Store, own_indices, times
from autosched.tir.expr import Var
from autosched.tir.walk import free_vars

AGAIN = "a value with conditions in a loop that is cut, simplified again"
FIRST = "a copy with a border in the first piece of a loop"
Group = tuple[int, ...]
"""The stores of what takes a place."""
Grouped = dict[Group, list[list[Instance]]]


@dataclass(frozen=True, eq=False)
class CopiesOf:
    """The copies of stores by kind, each in a row of the candidates that have it; None of kind 0.

    `simplified` and `budget` are those of their `Pieces`, `cleared` the kind instead of each where
    something else has the program simplified. Of different pieces, by number: the `first` of their
    kinds, and how many rows they take.
    """

    kinds: list[dict[Group, list[Instance]]]
    simplified: list[bool]
    budget: list[int]
    cleared: list[int]
    first: Ints
    number: Ints

    @staticmethod
    def of(different: Sequence[Pieces], stores: Sequence[Store]) -> CopiesOf:
        """The copies of these pieces."""
        buffers = [store.buffer for store in stores]
        kinds: list[dict[Group, list[Instance]]] = [{}]
        simplified, budget, cleared = [False], [0], [0]
        first, number = [], []
        for own in different:
            every = [_groups(one, buffers) for one in (own, own.cleared) if one is not None]
            rows = max(1, *[len(those) for grouped in every for those in grouped.values()])
            first.append(len(kinds))
            number.append(rows)
            for grouped in every:
                kinds += [_nth(grouped, k) for k in range(rows)]
            last = len(kinds) - rows
            cleared += list(range(last, len(kinds))) * len(every)
            simplified += [own.simplified] * rows * len(every)
            budget += [own.budget] * rows * len(every)
        return CopiesOf(kinds, simplified, budget, cleared, np.array(first), np.array(number))


def _nth(grouped: Grouped, k: int) -> dict[Group, list[Instance]]:
    return {group: those[k] for group, those in grouped.items() if k < len(those)}


def pieces_of(ready: Ready, copies: CopiesOf, which: Ints, borders: KnownBorders) -> list[Piece]:
    """The pieces of a population, each row of which has copies of a kind (`which`)."""
    found: list[Piece] = []
    nodes: dict[Path, int] = {}
    forms = ready.nest.forms
    compared = np.zeros(forms.count, bool)
    groups = sorted({group for own in copies.kinds for group in own})
    cut: dict[tuple[Group, int], list[Piece]] = {}
    moved = np.array(copies.simplified)[which]
    budget = np.array(copies.budget)[which]
    for group in groups:
        for member, number in enumerate(group):
            if is_padded(ready.stores[number]):
                hinted = [_hinted(item) for item in _items(copies, group, member)]
                whole = _Copies(ready, ready.stores[number], hinted, which, nodes).piece()
                own = cut[group, member] = _with_border(ready, whole, borders, budget)
                moved = np.logical_or.reduce([moved, *_simplifying(own)])
    moved = forms.in_all_rows(moved)
    which = np.where(moved, np.array(copies.cleared)[which], which)
    for group in groups:
        first = len(found)
        for member, number in enumerate(group):
            store, items = ready.stores[number], _items(copies, group, member)
            if is_padded(store):
                found += cut[group, member]
                items = [None if _hinted(item) else item for item in items]
                first = len(found)
                marked = [item is not None and is_hinted(item) for item in items]
                forms.refuse(np.array(marked)[which], FIRST)
            piece = _Copies(ready, store, items, which, nodes).piece()
            piece.beside = tuple(range(first, first + len(group)))
            piece.together = piece.together & (len(group) > 1)
            for text in piece.compared.values():
                compared = compared | text.where
            found.append(piece)
    for piece in found:
        if piece.texts is not None:
            piece.correction = np.where(moved, piece.texts.simplified, piece.texts.counts)
            forms.refuse(piece.texts.unsure & ~moved, "constants apart in an index")
    forms.refuse(moved & compared, AGAIN)
    return with_borders(forms, without_zeros(forms, found))


def _items(copies: CopiesOf, group: Group, member: int) -> list[Instance | None]:
    """By kind, the copy of a store of a group."""
    every = [own.get(group) for own in copies.kinds]
    return [None if own is None else own[member] for own in every]


def _hinted(item: Instance | None) -> Instance | None:
    """A copy with a border that is cut there."""
    return item if item is not None and is_hinted(item) and not item.path else None


def _groups(pieces: Pieces, buffers: Sequence[int]) -> dict[Group, list[list[Instance]]]:
    """The copies of one candidate by the stores that are together."""
    found: dict[Group, list[list[Instance]]] = {}
    instances = pieces.instances
    among: dict[int, list[int]] = {}
    for k, item in enumerate(instances):
        among.setdefault(item.beside if item.beside >= 0 else -1 - k, []).append(k)
    for those in among.values():
        if not _together(those, pieces, buffers):
            for k in those:
                found.setdefault((instances[k].store,), []).append([instances[k]])
        else:
            items = [instances[k] for k in those]
            found.setdefault(tuple([item.store for item in items]), []).append(items)
    return found


def _together(those: Sequence[int], pieces: Pieces, buffers: Sequence[int]) -> bool:
    """Whether these copies are all of a sequence, and of one buffer at one place."""
    items = [pieces.instances[k] for k in those]
    if items[0].beside < 0 or len(items) != items[0].count:
        return False
    places = {(buffers[pieces.instances[k].store], pieces.at[k]) for k in those}
    return len(places) == 1


def _with_border(ready: Ready, piece: Piece, borders: KnownBorders, budget: Ints) -> list[Piece]:
    """The pieces of a copy with a border."""
    assert piece.exists is not None
    if not piece.exists.any():
        return []
    own = ready.nest.forms, piece.store, piece.around
    return border_pieces(*own, borders, piece.exists, budget)


def _simplifying(pieces: Sequence[Piece]) -> list[Flags]:
    return [piece.simplifies for piece in pieces if piece.simplifies is not None]


class _Copies:
    """The copies of a store that have one place, by number of the pieces that a candidate has
    (`which`): None for those without one."""

    def __init__(
        self,
        ready: Ready,
        store: Store,
        items: Sequence[Instance | None],
        which: Ints,
        nodes: dict[Path, int],
    ) -> None:
        self._forms, self._store, self._which = ready.nest.forms, store, which
        self._kinds = len(items)
        some = [(k, item) for k, item in enumerate(items) if item is not None]
        self._rows, self._items = [k for k, _ in some], [item for _, item in some]
        self._nodes = nodes
        self._places: dict[int, Place] = {
            slot: (s, k)
            for s, stage in ready.nest.stages.items()
            for k, slot in enumerate(stage.loops.slots)
        }
        self._exists: Flags = self._numbers([1] * len(some)) > 0
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
            place=self._numbers([item.number * PLACES for item in self._items], AFTER_ALL),
            outside=self._outside(loops),
            touched=[replace(access) for access in store.touched],
        )
        among = self._numbers([int(item.beside >= 0) for item in self._items]) > 0
        around = Surroundings(
            self._numbers([item.floor for item in self._items]),
            self._numbers([item.level for item in self._items]),
            self._numbers([item.outer for item in self._items]),
            self._numbers([item.count for item in self._items], 1),
            among,
            np.zeros(forms.count, bool),
        )
        most = max((len(item.guards) for item in self._items), default=0)
        guards = [
            self._numbers([_of(item.guards, k) for item in self._items], -1) for k in range(most)
        ]
        piece = Piece(copy, around, (), among, None, self._exists, guards=guards)
        piece.texts, piece.compared = self._indices(), self._compared()
        piece.added = self._added_to_windows()
        return piece

    def _numbers(self, values: Sequence[int], default: int = 0) -> Ints:
        """By candidate; `values` are those of the copies that there are."""
        found = np.full(self._kinds, default, np.int64)
        found[self._rows] = values
        return found[self._which]

    def _loops(self) -> list[LoopAround]:
        """The loops around the copies: the same one for copies in the same pieces of the loops up
        to it."""
        found = []
        known, own = self._nodes, dict.fromkeys((item.path for item in self._items), 0)
        nodes, cut = self._numbers([0] * len(self._items)), {p for path in own for p, _ in path}
        outside = set[Place]()
        for number, loop in enumerate(self._store.loops):
            place = self._places[loop.slot]
            outside.add(place)
            if place in cut or number == 0:
                for path in own:
                    kept = tuple([step for step in path if step[0] in outside])
                    own[path] = known.setdefault(kept, len(known))
                nodes = self._numbers([own[item.path] for item in self._items])
            extent = self._extents(loop, [item.extents.get(place, 1) for item in self._items])
            found.append(replace(loop, extent=extent, present=extent > 1, node=nodes))
        return found

    def _extents(self, loop: LoopAround, extents: Sequence[int]) -> Ints:
        """Those of a loop around the copies, 0 for all of it."""
        extent = self._numbers(extents, 1)
        if FREE in extents:
            extent = np.where(extent == FREE, self._forms.extents[loop.slot], extent)
        return extent

    def _outside(self, loops: Sequence[LoopAround]) -> Floats:
        """The product of the loops around the stage, or the last storage of what it stores."""
        if any(item.storage is not None for item in self._items):
            around = [
                item.extents if item.storage is None else item.storage for item in self._items
            ]
            places = [self._places[loop.slot] for loop in loops]
            extents = [[own.get(place, 1) for own in around] for place in places]
            loops = [
                replace(loop, extent=self._extents(loop, own))
                for loop, own in zip(loops, extents, strict=True)
            ]
        return _outside(self._store, loops, self._forms)

    def _note(self, slot: int) -> None:
        """Where the copies are in a piece of the loop, still in a loop over it, and from where."""
        if slot in self._cut:
            return
        place = self._places[slot]
        cut, stays, added = [], [], []
        for item in self._items:
            here = any(step[0] == place for step in item.path)
            cut.append(here)
            stays.append(not here or place in item.extents)
            added.append(item.added.get(place, 0))
        self._cut[slot], self._stays[slot] = self._numbers(cut) > 0, self._numbers(stays) > 0
        self._added[slot] = self._numbers(added)

    def _indices(self) -> IndexTexts:
        """What the constants in place of variables, and added to them, change in indices."""
        forms, store = self._forms, self._store
        if store.ops.conditional and not all(store.ops.paddings):
            forms.refuse(self._cuts_conditions(), "a value with conditions in a loop that is cut")
        found = no_texts(forms.count)
        for form in own_indices(forms, store) * store.ops.updates:
            found = found.plus(self._of_index(form))
        for indices in store.loaded:
            for form in indices:
                found = found.plus(self._of_index(form))
        return found

    def _cuts_conditions(self) -> Flags:
        """Where conditions in the value may ask for a loop that is cut."""
        store = self._store
        found = self._numbers([bool(item.path) for item in self._items]) > 0
        if not store.ops.keeps_conditions:
            return found
        asked = frozenset[Var]().union(*map(free_vars, store.ops.parts))
        among = np.zeros_like(found)
        for axis in asked:
            for slot, term in store.stage.axes[axis].every():
                self._note(slot)
                among = among | (self._cut[slot] & (term.scale != 0))
        return found & among

    def _compared(self) -> dict[Var, CutText]:
        """By axis that conditions compare, where it is cut and what changes in its text."""
        store = self._store
        axes = [padding.axis for padding in store.ops.paddings if padding is not None]
        if not any(item.path for item in self._items):
            return {}
        return {axis: self._text(store.stage.axes[axis]) for axis in axes}

    def _added_to_windows(self) -> dict[int, Ints]:
        """What is added to the loops that limits of a window ask for."""
        slots = [slot for form, _ in window_forms(self._forms, self._store) for slot in form.terms]
        for slot in slots:
            self._note(slot)
        return {slot: self._added[slot] for slot in slots}

    def _text(self, form: Form) -> CutText:
        index = self._of_index(form)
        self._forms.refuse(index.unsure, "constants apart in a comparison")
        return cut_text(self._terms(form), index.counts)

    def _terms(self, form: Form) -> list[CutTerm]:
        """The terms of an index, those that are cut without digits."""
        terms = []
        for slot, term in form.every():
            self._note(slot)
            there = (term.scale != 0) & self._exists
            cut, stays = self._cut[slot], self._stays[slot]
            digit = there & cut & self._forms.is_digit(slot, term)
            self._forms.refuse(digit, "a cut loop that an index has a part of")
            terms.append(CutTerm(there, term.scale, stays, self._added[slot]))
        return terms

    def _of_index(self, form: Form) -> IndexTexts:
        return index_texts(self._terms(form), form.base)


def _of(guards: Sequence[int], k: int) -> int:
    return guards[k] if k < len(guards) else -1


def _outside(store: Store, loops: Sequence[LoopAround], forms: Forms) -> Floats:
    """The product of the loops around the stage, as the walk makes it."""
    own = set(store.stage.loops.slots)
    product = outside = np.ones(forms.count)
    for loop in loops:
        product = times(forms, product, loop)
        outside = outside if loop.slot in own else product
    return outside
