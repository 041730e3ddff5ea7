"""Accesses that have an index which is a text: all their dimensions, simplified together.

Digits of one loop may be in two dimensions, and join to a whole in the flattened address:

    A[0, (i * 5 + j) // 49, (i * 5 + j) % 49]   in storage (1, 30, 49)   -> i * 5 + j

An access is read as the walk reads it, once for all candidates with the same numbers in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from autosched.arith import eval_bound
from autosched.features.batched.context import Text
from autosched.features.batched.forms import Flags, Form, Forms, Ints
from autosched.features.batched.one import alike, same_loads, signature, simplified
from autosched.features.batched.stores import Place, Store, Touched, stored_text, text_of
from autosched.features.walk.regions import IndexBounds
from autosched.features.walk.scope import Loop
from autosched.features.walk.strides import Coefficients, Index, Strides, flat_terms
from autosched.te.operations.operation import tensor_loads
from autosched.tir.expr import Expr, Var
from autosched.tir.walk import substitute
from autosched.transform.vector.index_steps import step_along

TEXT = "an index that is a text"


@dataclass(frozen=True, eq=False)
class TextAccess:
    """An access of the candidates `where`; its arrays are right for these only.

    By place (index tuple) and loop, `strides`, `steps` and `blocks` are in elements
    (`walk/strides.py`, `index_steps.py`). By loop, `uneven` tells whether the access has no even
    stride. By dimension, `regions` has the extents by level, one more than loops. `again` says by
    place where it equals one of the places before it; None means where they are written alike.
    """

    where: Flags
    strides: Ints
    steps: Ints
    blocks: Ints
    uneven: Flags
    regions: list[Ints]
    inside: list[Flags]
    added_to: Flags
    again: Flags | None = None


@dataclass(frozen=True, slots=True)
class _Moves:
    """How loops move one access.

    `along` has, by loop position, stride, step, block and 1 where uneven. By dimension, `start` has
    the bounds while no loop runs; `ends` has, by loop position, those while the loop and the loops
    inside it run.
    """

    along: dict[int, tuple[int, int, int, int]]
    start: list[tuple[int, int]]
    ends: dict[int, list[tuple[int, int]]]


def either(a: TextAccess | None, b: TextAccess | None) -> TextAccess | None:
    """`a` for its candidates, `b` for all others; None if both are None."""
    if a is None or b is None:
        return b if a is None else a

    def joined(one: Ints, other: Ints) -> Ints:
        return np.where(a.where, one, other)

    return TextAccess(
        a.where | b.where,
        joined(a.strides, b.strides),
        joined(a.steps, b.steps),
        joined(a.blocks, b.blocks),
        np.where(a.where, a.uneven, b.uneven),
        [joined(one, other) for one, other in zip(a.regions, b.regions, strict=True)],
        [np.where(a.where, one, other) for one, other in zip(a.inside, b.inside, strict=True)],
        np.where(a.where, a.added_to, b.added_to),
        b.again if a.again is None else a.again,
    )


def text_access(
    store: Store, access: Touched, storage: list[Ints], where: Flags
) -> TextAccess | None:
    """The access of the candidates `where`, which have a text in it; None where there are none.

    Candidates without a rule are refused: a stored index that is a text, and values with conditions
    that read several places.
    """
    forms = store.stage.context.forms
    if not where.any():
        return None
    reads = _reads_of(store, access)
    if not reads:
        forms.refuse(where, TEXT)
        return None
    where = where & ~forms.bad
    if not where.any():
        return None
    names = _Names()
    known = {read: _place(store, read, storage, where, names) for read in dict.fromkeys(reads)}
    for place in known.values():
        forms.refuse(place.lost, TEXT)
    places = [known[read] for read in reads]
    along = np.stack([place.along for place in places])
    regions = [extents(store, [place.ends[d] for place in places]) for d in range(len(storage))]
    again = np.zeros((len(places), forms.count), bool)
    for k, place in enumerate(places):
        for before in places[:k]:
            again[k] |= place.index == before.index
    none = np.zeros(forms.count, bool)
    uneven: Flags = np.any(along[:, 3] > 0, axis=0)
    moves = along[:, 0], along[:, 1], along[:, 2]
    return TextAccess(where, *moves, uneven, regions, [where] * len(storage), none, again)


@dataclass(frozen=True, eq=False)
class _PlaceRead:
    """One place for all candidates.

    `along` is by number in `_Moves.along` and by loop, `ends` by dimension, level and side. `index`
    is a number that distinguishes indices. `lost` says where simplification leaves no load.
    """

    along: Ints
    ends: Ints
    index: Ints
    lost: Flags


@dataclass(frozen=True)
class _Names:
    """One variable for each loop, by slot, and one number for each index tuple."""

    variables: dict[int, Var] = field(default_factory=dict)
    numbers: dict[Index, int] = field(default_factory=dict)

    def number(self, index: Index, own: dict[int, Var]) -> int:
        """The number of an index tuple whose loops have their `own` variables."""
        same = {var: self.variables.setdefault(slot, var) for slot, var in own.items()}
        named = tuple([substitute(e, same) for e in index])
        return self.numbers.setdefault(named, len(self.numbers))


def _place(
    store: Store, read: _Read, storage: list[Ints], where: Flags, names: _Names
) -> _PlaceRead:
    """The place that `read` reads, for the candidates `where`."""
    forms = store.stage.context.forms
    axes = dict(read.axes)
    for extent in storage:
        axes[Var("extent")] = Form({}, extent)
    rows = np.flatnonzero(where)
    first, which = alike(forms, axes, rows)
    known: dict[tuple[int, ...], tuple[_Moves, int] | None] = {}
    lost = np.zeros(len(first), bool)
    count, dims = len(store.loops), len(storage)
    along = np.zeros((4, count, len(first)), np.int64)
    ends = np.zeros((dims, count + 1, 2, len(first)), np.int64)
    number = np.zeros(len(first), np.int64)
    for k, n in enumerate(first.tolist()):
        key = signature(forms, axes, n, store.at, read.texts[0].own)
        if key not in known:
            index, own = read(forms, n)
            inner = sorted(own, key=lambda slot: store.at[slot])
            around = [(store.at[s], own[s]) for s in inner]
            loops = [(j, var, int(store.loops[j].extent[n])) for j, var in around]
            shape = [int(extent[n]) for extent in storage]
            known[key] = None
            if index is not None:
                known[key] = _moves(index, shape, loops), names.number(index, own)
        found = known[key]
        if found is None:
            lost[k] = True
            continue
        moves, number[k] = found
        ends[:, count, :, k] = moves.start
        for j in range(count - 1, -1, -1):
            ends[:, j, :, k] = moves.ends.get(j, ends[:, j + 1, :, k])
            along[:, j, k] = moves.along.get(j, 0)

    def spread(table: Ints) -> Ints:
        found = np.zeros((*table.shape[:-1], forms.count), np.int64)
        found[..., rows] = table[..., which]
        return found

    gone = np.zeros(forms.count, bool)
    gone[rows] = lost[which]
    return _PlaceRead(spread(along), spread(ends), spread(number), gone)


def extents(store: Store, places: Sequence[Ints]) -> Ints:
    """The extents by level of the region that a dimension reads, from the bounds (by level and
    side) at each of its places.

    Several places count as one element where no loop runs.
    """
    last = np.max([ends[:, 1] for ends in places], axis=0)
    found: Ints = np.maximum(last - np.min([ends[:, 0] for ends in places], axis=0) + 1, 1)
    if len(places) > 1:
        runs = np.zeros(found.shape, bool)
        for j in range(len(store.loops) - 1, -1, -1):
            runs[j] = runs[j + 1] | store.loops[j].present
        found[~runs] = 1
    return found


@dataclass(frozen=True, eq=False)
class _Read:
    """The texts of a load's dimensions, and the places of the indices in them.

    Either one text of the whole load, or one for each dimension: the part of a choice whose
    condition depends on the dimension's axis.
    """

    texts: Sequence[Text]
    places: Sequence[Place | None] = ()

    @property
    def axes(self) -> dict[Var, Form]:
        """The forms of all variables in the texts."""
        return {var: form for text in self.texts for var, form in text.axes.items()}

    def __call__(self, forms: Forms, n: int) -> tuple[Index | None, dict[int, Var]]:
        """The indices of candidate n, and the variables of loops by slot.

        The indices are None where simplification leaves no load.
        """
        if not self.places:
            simple, variables = simplified(forms, self.texts[0], n, as_ansor=False)
            found = next(iter(tensor_loads(simple)), None)
            return None if found is None else tuple(found.indices), variables
        indices: list[Expr] = []
        variables = {}
        for text, place in zip(self.texts, self.places, strict=True):
            simple, own = simplified(forms, text, n, as_ansor=False)
            if place is not None:
                if not same_loads(simple, text.value):
                    return None, {}
                simple = tensor_loads(simple)[place[0]].indices[place[1]]
            same = {var: variables.setdefault(slot, var) for slot, var in own.items()}
            indices.append(substitute(simple, same))
        return tuple(indices), variables


def _reads_of(store: Store, access: Touched) -> list[_Read]:
    """The places that the access reads, in order; a place that is read again is the same object.

    Empty where they depend on the candidate.
    """
    numbers = [k for k, (buffer, _) in enumerate(store.ops.loads) if buffer == access.buffer]
    if access is store.touched[-1]:
        own = [stored_text(store, d) for d in range(len(access.tuples[0]))]
        return [] if numbers else [_Read(*zip(*own, strict=True))]
    if store.ops.conditional:
        if len(numbers) != 1 or not (store.ops.keeps_conditions or not store.ops.parts):
            return []
        every = [text_of(store, numbers[0], d, False) for d in range(len(access.tuples[0]))]
        return [_Read(*zip(*every, strict=True))]
    loads = tensor_loads(store.ops.value)
    those = [loads[store.ops.places[k]] for k in numbers]
    each = {load: _Read([store.stage.context.text(load)]) for load in dict.fromkeys(those)}
    return [each[load] for load in those]


def _moves(index: Index, storage: list[int], loops: list[tuple[int, Var, int]]) -> _Moves:
    """How the loops (position, variable, extent; outermost first) move the place `index`."""
    around = [Loop(var, extent, (0, 0), (0, extent - 1), {}) for _, var, extent in loops]
    known: dict[Expr, Coefficients] = {}
    strides = Strides(around, known)
    uneven: frozenset[Var] = frozenset()
    total, scale = [0] * len(around), 1
    for d in range(len(index) - 1, -1, -1):
        coefficients = strides.coefficients(index[d])
        uneven |= coefficients[1]
        for k, loop in enumerate(around):
            total[k] += scale * coefficients[0].get(loop.var, 0)
        scale *= storage[d] or 1
    terms = flat_terms(index, storage)
    bounds = IndexBounds(around)
    levels = [bounds.levels(e) for e in index]
    first = {loop.var: loop.point for loop in around}
    start = [eval_bound(e, first) for e in index]
    along, ends = {}, {}
    for k, (j, var, _) in enumerate(loops):
        step, block = (total[k], 0) if var not in uneven else step_along(terms, var)
        along[j] = total[k], step, block, int(var in uneven)
        ends[j] = [dim[k] for dim in levels]
    return _Moves(along, start, ends)
