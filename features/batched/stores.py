"""The stores of a nest: the loops around each store, and the regions accessed under each loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import product

import numpy as np
import numpy.typing as npt

from autosched.features.batched.build_nest import place_of_store
from autosched.features.batched.context import Text
from autosched.features.batched.drift import follow
from autosched.features.batched.forms import QUOTIENT, Flags, Form, Forms, Ints, uses_slot
from autosched.features.batched.merged import simpler_when_merged
from autosched.features.batched.mixed_index import mixed_index
from autosched.features.batched.nest import Nest, Stage, index_form
from autosched.features.batched.ops import StoreOps
from autosched.features.batched.plan import UnsupportedError
from autosched.features.batched.value_parts import Border, axes_outside_loads, undivided
from autosched.features.batched.written import Ends, Written, either, written_index
from autosched.features.walk.access import READ, READ_WRITE, WRITE
from autosched.tir.expr import Expr, Var
from autosched.tir.walk import free_vars

Floats = npt.NDArray[np.float64]
_HALF = 1 << 31
EXACT = 1 << 24  # whole numbers up to here are exact in single precision
Place = tuple[int, int]
"""An index of a load in a value: the number of the load, and the dimension."""


def r32(x: npt.NDArray[np.generic]) -> Floats:
    """`x` rounded to single precision, kept in double: as `walk.scope.f32`."""
    return x.astype(np.float32).astype(np.float64)


@dataclass(frozen=True, eq=False)
class LoopAround:
    """A loop around a store, for the candidates where it is `present`.

    `extent` is 1 for other candidates. `only` says where no other store is in the loop (a loop of
    an initialisation whose counterpart in the update is another loop). `table` is the number of its
    touch table, `thread` its annotation if it is a thread axis.
    """

    slot: int
    extent: Ints
    present: Flags
    kind: Ints
    only: Flags | None
    table: int
    thread: int = 0


@dataclass(eq=False)
class Touched:
    """A buffer in a store: the forms of its index tuples, and the elements touched under each loop.

    `written` has, by tuple and dimension, the indices that are no forms for all candidates. `sizes`
    are the elements by loop position, `regions` the extents at the outermost loop.
    """

    buffer: int
    kind: str
    tuples: list[list[Form]]
    written: dict[tuple[int, int], Written] = field(default_factory=dict)
    sizes: list[Ints] = field(default_factory=list)
    regions: list[Ints] = field(default_factory=list)

    def uses(self, slot: int, count: int) -> Flags:
        """Where the loop's variable is in an index of the buffer."""
        found: Flags = np.zeros(count, bool)
        for k in range(len(self.tuples)):
            found = found | self.uses_at(k, slot, count)
        return found

    def uses_at(self, k: int, slot: int, count: int) -> Flags:
        """Where the loop's variable is in an index of tuple k."""
        found: Flags = np.zeros(count, bool)
        for d, form in enumerate(self.tuples[k]):
            here: Flags = np.zeros(count, bool)
            for term in form.terms.get(slot, ()):
                here = here | (term.scale != 0)
            text = self.written.get((k, d))
            if text is not None:
                stride = text.strides.get(slot)
                here = np.where(text.where, False if stride is None else stride != 0, here)
            found = found | here
        return found


@dataclass(eq=False)
class Store:
    """One store of all candidates; `loops` are outermost first, lists are by loop position.

    `product` is the product of the loop extents, rounded to single precision step by step,
    `outside` the product of the loops around the storage of the stored buffer. Where a product
    `drifts` (None: nowhere), both are replayed (`drift.py`). `memory` has the bytes touched under
    each loop, `at` and `tables` the positions of the loops by slot and by table. `loaded` has the
    forms of all loads' indices. `texts` is for indices that are no forms, by load and dimension:
    where this is so, and the operations in them.
    """

    stage: Stage
    ops: StoreOps
    loops: list[LoopAround]
    place: Ints
    product: Floats
    outside: Floats
    drifts: Flags | None
    step: Ints
    touched: list[Touched] = field(default_factory=list)
    memory: list[Ints] = field(default_factory=list)
    at: dict[int, int] = field(default_factory=dict)
    tables: dict[int, int] = field(default_factory=dict)
    loaded: list[list[Form]] = field(default_factory=list)
    texts: dict[tuple[int, int], tuple[Flags, Ints]] = field(default_factory=dict)

    @property
    def buffer(self) -> int:
        """The buffer that is stored to."""
        return self.stage.ops.buffer if self.ops.into is None else self.ops.into

    def load_uses(self, number: int | None, slot: int, count: int) -> Flags:
        """Where the loop's variable is in an index of load `number` (None: the stored element)."""
        if number is None:
            return self.touched[-1].uses_at(0, slot, count)
        buffer = self.ops.loads[number][0]
        before = [other for other, _ in self.ops.loads[:number]].count(buffer)
        access = next(access for access in self.touched if access.buffer == buffer)
        return access.uses_at(before + (buffer == self.buffer), slot, count)


def make_stores(nest: Nest, as_ansor: bool = True) -> list[Store]:
    """All stores, in no certain order, except that initialisations come before their updates.

    Indices that are texts are simplified `as_ansor`, or as autosched's own pass does.
    """
    found = []
    for s in sorted(nest.stages):
        for ops in nest.stages[s].ops.stores:
            found.append((s, _make_store(nest, s, ops, as_ansor)))
    drifts = [store.drifts for _, store in found if store.drifts is not None]
    if drifts:
        follow(nest, found, np.flatnonzero(np.any(drifts, axis=0) & ~nest.forms.bad))
    return [store for _, store in found]


def _make_store(nest: Nest, s: int, ops: StoreOps, as_ansor: bool) -> Store:
    stage, forms = nest.stages[s], nest.forms
    result = stage.ops.crosses and ops.into is None
    if ops.conditional and ops.is_init:
        forms.refuse(stage.checked, "conditions around a start value that is read")
    loops = _outer(nest, s)
    product = np.ones(forms.count)
    drifts: Flags | None = None
    for loop in loops:
        product, drifts = _times(product, loop, drifts)
    outside = product
    step = stage.step
    pragma = nest.own_step[s]
    own = stage.loops
    for k, slot in enumerate(own.slots):
        extent = forms.extents[slot]
        thread = own.threads[k]
        present = extent > 1 if not thread else np.ones(forms.count, bool)
        only = None
        if ops.into is not None:
            outside = np.where(own.common == k, product, outside)
        if ops.is_init and thread:
            forms.refuse(own.common <= k, "threads inside a reduction")
        elif ops.is_init or result:
            only = stage.start <= k
            present = present & ~(only & own.reducing[k])
        counts = (own.unroll == k) & (pragma >= 0)
        if ops.is_init or result:
            counts = counts & ~((stage.start <= k) & own.reducing[k])
        step = np.where(counts, pragma, step)
        if present.any():
            around = np.where(present, extent, 1)
            table = nest.tables.get((s, k), slot)
            loop = LoopAround(slot, around, present, own.kinds[k], only, table, thread)
            loops.append(loop)
            product, drifts = _times(product, loop, drifts)
    place = place_of_store(stage, ops)
    store = Store(stage, ops, loops, place, product, outside, drifts, step)
    store.at = {loop.slot: j for j, loop in enumerate(loops)}
    store.tables = {loop.table: j for j, loop in enumerate(loops)}
    store.touched = _accesses(nest, store, as_ansor)
    if not ops.conditional:
        merged = simpler_when_merged(forms, ops, store.loaded, store.texts, as_ansor)
        forms.refuse(merged, "loads of one element that simplify a value")
    _touch(nest, store)
    return store


def _outer(nest: Nest, s: int) -> list[LoopAround]:
    """The loops of other stages around stage s."""
    loops = []
    for t in range(len(nest.ops.stages) - 1, s, -1):
        above = nest.stages[t].loops
        if (nest.inside[s][t] < 0).all():
            continue
        for k, slot in enumerate(above.slots):
            extent = nest.forms.extents[slot]
            thread = above.threads[k]
            present = nest.around(s, t, k) & (True if thread else extent > 1)
            if present.any():
                around = np.where(present, extent, 1)
                table = nest.tables.get((t, k), slot)
                loops.append(LoopAround(slot, around, present, above.kinds[k], None, table, thread))
    return loops


def _times(product: Floats, loop: LoopAround, drifts: Flags | None) -> tuple[Floats, Flags | None]:
    """The product with one more loop, and where dividing by the extent would not restore it."""
    exact: Floats = product * loop.extent
    if exact.max(initial=0.0) <= EXACT:
        return exact, drifts
    more = r32(exact)
    changed: Flags = r32(more / loop.extent) != product
    return more, changed if drifts is None else drifts | changed


def own_indices(forms: Forms, store: Store) -> list[Form]:
    """The indices of the stored element."""
    if store.ops.into is not None:
        return [forms.constant(0)]
    stage = store.stage
    return [stage.axes[var] for var in stage.ops.axes[: stage.ops.data]]


def _accesses(nest: Nest, store: Store, as_ansor: bool) -> list[Touched]:
    """Every buffer of the store, in reverse order of appearance, the stored one last."""
    forms, stage, ops = nest.forms, store.stage, store.ops
    axes, slots = stage.axes, stage.loops.slots
    own = own_indices(forms, store)
    buffer, kind = store.buffer, READ_WRITE if ops.updates else WRITE
    found = {buffer: Touched(buffer, kind, [own])}
    for d, form in enumerate(own):
        known, deep = mixed_index(forms, form, store.at, slots, as_ansor)
        if deep.any():
            whole, _ = written_index(forms, *stored_text(store, d), store.at, deep, as_ansor)
            known = whole if known is None else either(whole, known, store.at)
        if known is not None:
            found[buffer].written[0, d] = known
    asked = _asked(store) if ops.conditional and not ops.parts else {}
    told = _told_by_borders(forms, store)
    if not ops.conditional or (as_ansor and len(ops.parts) > 1):
        # Either the borders are not in the value any more, or f < 8 tells that f % 8, another
        # axis, is f.
        for flags in told.values():
            forms.refuse(flags, "a border that determines part of an index")
        told = {}
    for number, (buffer, indices) in enumerate(ops.loads):
        access = found.setdefault(buffer, Touched(buffer, READ, []))
        access.tuples.append([])
        store.loaded.append([])
        for d, e in enumerate(indices):
            form, lost = forms.attempt(partial(index_form, forms, e, axes), short=True)
            also = stage.context.where_lost(e)
            lost = lost if also is None else lost | also
            lost = lost | _told_by_conditions(forms, form, asked)
            for var in free_vars(e) & told.keys():
                lost = lost | told[var]
            access.tuples[-1].append(form)
            store.loaded[-1].append(form)
            known, deep = mixed_index(forms, form, store.at, slots, as_ansor)
            lost = lost | deep
            if lost.any():
                # f // 3 * 6 + f % 3 * 2 is f * 2, but a division of it by 3 is simplified earlier.
                for joined, divisor in product(_joined(axes, e), ops.divisors):
                    forms.refuse(lost & (joined % divisor != 0), QUOTIENT)
                text, place = text_of(store, number, d, as_ansor)
                found_text, counts = written_index(forms, text, place, store.at, lost, as_ansor)
                known = found_text if known is None else either(found_text, known, store.at)
                store.texts[number, d] = lost, counts
            if known is not None:
                access.written[len(access.tuples) - 1, d] = known
    return list(reversed(found.values()))


def _asked(store: Store) -> dict[int, Flags]:
    """By slot, where the conditions in a value depend on the loop."""
    found: dict[int, Flags] = {}
    for var in axes_outside_loads(store.ops.value) & store.stage.axes.keys():
        for slot, own in store.stage.axes[var].terms.items():
            used = uses_slot(own)
            found[slot] = found[slot] | used if slot in found else used
    return found


def _told_by_conditions(forms: Forms, form: Form, asked: Mapping[int, Flags]) -> Flags:
    """Where a condition may simplify a digit in the index.

    if_then_else(t // 7 < 1, A[t % 7], B[t % 7]) -> if_then_else(t < 7, A[t], B[t % 7])
    """
    found: Flags = np.zeros(forms.count, bool)
    for slot, term in form.every():
        if slot in forms.virtual:
            for other, flags in asked.items():
                if other in forms.virtual:
                    found = found | (flags & (term.scale != 0))
        elif slot in asked:
            found = found | (asked[slot] & forms.is_digit(slot, term))
    return found


def _told_by_borders(forms: Forms, store: Store) -> dict[Var, Flags]:
    """Where conditions of borders may fix the value of a digit, by the axes that they depend on.

    if_then_else(b // 2 * 3 + r < 3, X[b // 2 * 3 + r], 0) -> if_then_else(b < 2, X[r], 0)
    """
    found: dict[Var, Flags] = {}
    axes = store.stage.axes
    for border in store.ops.borders:
        try:
            form, lost = forms.attempt(partial(index_form, forms, border.value, axes))
        except UnsupportedError:
            continue
        told = np.where(lost, not undivided(border.value), _single_digit(forms, form, border))
        for var in free_vars(border.value) & axes.keys():
            found[var] = found[var] | told if var in found else told
    return found


def _single_digit(forms: Forms, form: Form, border: Border) -> Flags:
    """Where the border leaves a digit that has several values at most one of them, or leaves a term
    no value at all."""
    low, high = forms.ends(form)
    first = low if border.first is None else np.maximum(low, border.first)
    last = high if border.end is None else np.minimum(high, border.end - 1)
    found: Flags = first > last
    for slot, term in form.every():
        most = forms.largest(slot, term)
        scale = np.maximum(1, np.abs(term.scale))
        least = np.maximum(0, -((high - scale * most - first) // scale))
        greatest = np.minimum(most, (last - low) // scale)
        several: Flags = (term.scale != 0) & (most > 0)
        digit = several if slot in forms.virtual else forms.is_digit(slot, term) & several
        found = found | (several & (least > greatest)) | (digit & (least == greatest))
    return found


def _joined(axes: Mapping[Var, Form], e: Expr) -> list[Ints | int]:
    return [axes[var].joined for var in free_vars(e) if var in axes]


def stored_text(store: Store, d: int) -> tuple[Text, Place | None]:
    """Dimension d of the stored index as a text in context."""
    return store.stage.context.text(store.stage.ops.axes[d]), None


def text_of(store: Store, number: int, d: int, as_ansor: bool) -> tuple[Text, Place | None]:
    """The text in which dimension d of a load is simplified, and the place of the index in it.

    A condition chooses a load as a whole. What autosched's own pass makes of an axis depends only
    on the conditions on that axis.
    """
    ops, context = store.ops, store.stage.context
    if not ops.conditional:
        return context.text(ops.loads[number][1][d]), None
    if as_ansor or not ops.parts:
        return context.text(ops.original), (ops.places[number], d)
    found = ops.part_of(d)
    if found is None:
        return context.text(ops.loads[number][1][d]), None
    part, k = found
    return context.text(part), (0, k)


def _touch(nest: Nest, store: Store) -> None:
    """Compute the sizes of the regions under each loop."""
    forms = nest.forms
    memory = [forms.zero] * len(store.loops)
    for access in store.touched:
        eb = nest.ops.buffers[access.buffer].bytes
        ends = [[(form.base, form.base) for form in indices] for indices in access.tuples]
        for (k, d), text in access.written.items():
            ends[k][d] = _replaced(ends[k][d], text, text.start)
        access.sizes = [forms.one] * len(store.loops)
        size = forms.one
        dims = len(access.tuples[0])
        extents = [forms.one] * dims
        for j in range(len(store.loops) - 1, -1, -1):
            if _move(forms, access, ends, store.loops[j].slot) or j == len(store.loops) - 1:
                size = forms.one
                for d in range(dims):
                    low, high = ends[0][d]
                    for other in ends[1:]:
                        low, high = np.minimum(low, other[d][0]), np.maximum(high, other[d][1])
                    extents[d] = high - low + 1
                    size = size * extents[d]
                    forms.refuse(extents[d] >= _HALF, "a region too large for int32")
            access.sizes[j] = size
            memory[j] = memory[j] + size * eb
        access.regions = extents
    store.memory = memory


def _move(forms: Forms, access: Touched, ends: list[list[Ends]], slot: int) -> bool:
    """Let the loop run through its iterations in all indices; False when it is in none of them."""
    moved = False
    for k, indices in enumerate(access.tuples):
        for d, form in enumerate(indices):
            for term in form.terms.get(slot, ()):
                reach = term.scale * forms.largest(slot, term)
                low, high = ends[k][d]
                ends[k][d] = (low + np.minimum(reach, 0), high + np.maximum(reach, 0))
                moved = True
            text = access.written.get((k, d))
            if text is not None and slot in text.ends:
                ends[k][d] = _replaced(ends[k][d], text, text.ends[slot])
                moved = True
    return moved


def _replaced(ends: Ends, text: Written, other: Ends) -> Ends:
    low, high = (np.where(text.where, b, a) for a, b in zip(ends, other, strict=True))
    return low, high
