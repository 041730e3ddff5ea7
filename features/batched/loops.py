"""The loops of one stage, for all candidates: their extents, and the axes in terms of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autosched.features.batched.forms import Flags, Form, Forms, Ints, Term
from autosched.features.batched.mixed import Mixed, Texts, mixed_values
from autosched.features.batched.plan import FIRST_THREAD, REDUCE, Loops, bound_ids, masks_of


@dataclass(frozen=True, eq=False)
class Group:
    """The candidates `rows` whose loops of a stage come from the same splits, fusions and reorders.

    `factors` has a row for every split, in order.
    """

    loops: Loops
    rows: Ints
    factors: Ints


@dataclass(frozen=True, eq=False)
class Uneven:
    """A group of candidates some of which have splits that do not divide.

    `extents` and `values` are by id. The values are in terms of the group's loops by position, and
    belong to `forms`.
    """

    loops: Loops
    rows: Ints
    extents: list[Ints]
    values: list[Form]
    forms: Forms


@dataclass(frozen=True, eq=False)
class StageLoops:
    """The loops of a stage, by position.

    `slots` are their slots, `kinds` their annotations; `reducing` tells whether a loop only
    reduces. `common` is the number of loops outside of all reduction loops. `values` are the axes
    without the mins of their domains. `unroll` is the position of the loop with the unroll pragma,
    or -1. `uneven` are the candidates with splits that do not divide. `threads` has the annotation
    of loops that are bound to threads, 0 for others. For the candidates in `mixed`, the values are
    texts.
    """

    slots: tuple[int, ...]
    kinds: tuple[Ints, ...]
    reducing: tuple[Flags, ...]
    common: Ints
    values: tuple[Form, ...]
    unroll: Ints
    uneven: tuple[Uneven, ...]
    threads: tuple[int, ...]
    mixed: Mixed | None = None


def extents_of(
    loops: Loops, axes: list[Ints], factors: Ints, tighten: bool = True
) -> tuple[list[Ints], Flags]:
    """The extents by id, and where a split does not divide.

    With `tighten`, a part is no longer than the loop that is split, unless it is bound to threads.
    """
    bound = bound_ids(loops)
    extents: dict[int, Ints] = dict(enumerate(axes))
    uneven = np.zeros(len(axes[0]) if axes else factors.shape[-1], bool)
    split = 0
    for relation in loops.relations:
        if len(relation) == 4:
            parent, outer, inner, sized_inner = relation
            whole, part = extents[parent], factors[split]
            split += 1
            rest = -(-whole // part)
            if tighten and (inner if sized_inner else outer) not in bound:
                part = np.minimum(part, whole)
            uneven |= rest * part != whole
            extents[outer], extents[inner] = (rest, part) if sized_inner else (part, rest)
        else:
            outer, inner, fused = relation
            extents[fused] = extents[outer] * extents[inner]
    return [extents[k] for k in range(len(extents))], uneven


def surplus_of(loops: Loops, extents: list[Ints], relaxed: list[Flags]) -> list[Ints]:
    """For each axis, how much further its loops reach than the region that they cover.

    The loops where `relaxed` (by position) run; the others stand still. The parts of a loop that
    runs completely cover that loop and no more, even if they reach beyond it (as in InferBound).
    """
    whole: dict[int, Flags] = {}
    reach: dict[int, Ints] = {}
    region: dict[int, Ints] = {}
    for leaf, runs in zip(loops.leaves, relaxed, strict=True):
        whole[leaf] = runs | (extents[leaf] == 1)
        reach[leaf] = region[leaf] = np.where(runs, extents[leaf] - 1, 0)
    for relation in reversed(loops.relations):
        if len(relation) == 4:
            parent, outer, inner, _ = relation
            whole[parent] = whole[outer] & whole[inner]
            reach[parent] = reach[outer] * extents[inner] + reach[inner]
            part = region[outer] * extents[inner] + region[inner]
            region[parent] = np.where(whole[parent], extents[parent] - 1, part)
        else:
            outer, inner, fused = relation
            whole[outer] = whole[inner] = whole[fused]
            reach[outer] = reach[fused] // extents[inner]
            reach[inner] = np.minimum(reach[fused], extents[inner] - 1)
            region[outer] = region[fused] // extents[inner]
            region[inner] = np.minimum(region[fused], extents[inner] - 1)
    return [reach[k] - region[k] for k in range(loops.axes)]


def values_of(forms: Forms, loops: Loops, extents: list[Ints], leaves: list[Form]) -> list[Form]:
    """The values of all axes and loops by id, in terms of the values of the leaves."""
    values: dict[int, Form] = dict(zip(loops.leaves, leaves, strict=True))
    for relation in reversed(loops.relations):
        if len(relation) == 4:
            parent, outer, inner, _ = relation
            above = forms.scaled(values[outer], extents[inner])
            values[parent] = forms.add(above, values[inner])
        else:
            outer, inner, fused = relation
            values[outer], values[inner] = forms.divmod(values[fused], extents[inner])
    return [values[k] for k in range(len(extents))]


def make_loops(
    forms: Forms,
    groups: list[Group],
    data: int,
    axes: list[Ints],
    texts: Texts | None,
    whole: bool = False,
) -> StageLoops:
    """The loops of a stage whose axes have the extents `axes`; its slots are made in `forms`.

    With `texts`, values that are no sums of digits are taken from there. With `whole`, so are all
    values of parts of a fused loop, since conditions do not simplify them as indices do.
    """
    most = max(len(group.loops.leaves) for group in groups)
    count = forms.count
    extents = [np.ones(count, np.int64) for _ in range(most)]
    kinds = [np.zeros(count, np.int64) for _ in range(most)]
    reducing = [np.zeros(count, bool) for _ in range(most)]
    common, unroll = np.zeros(count, np.int64), np.full(count, -1, np.int64)
    slots = tuple(map(forms.slot, extents))
    parts: list[tuple[Group, list[Form]]] = []
    uneven: list[Uneven] = []
    lost = np.zeros(count, bool)
    for group in groups:
        rows, loops = group.rows, group.loops
        sizes, ragged = extents_of(loops, [axis[rows] for axis in axes], group.factors)
        own = Forms(len(rows), short=texts is not None)
        masks = masks_of(loops, data)
        for k, leaf in enumerate(loops.leaves):
            extents[k][rows] = sizes[leaf]
            kinds[k][rows] = loops.kinds[k]
            reducing[k][rows] = masks[k] == REDUCE and loops.kinds[k] < FIRST_THREAD
            own.slot(sizes[leaf])
        inner = [m & REDUCE and loops.kinds[k] < FIRST_THREAD for k, m in enumerate(masks)]
        common[rows] = next((k for k, reduces in enumerate(inner) if reduces), len(masks))
        unroll[rows] = loops.unroll
        leaves = [own.variable(k) for k in range(len(loops.leaves))]
        found = values_of(own, loops, sizes, leaves)
        parts.append((group, found))
        if texts is None:
            forms.refuse_part(rows, own)
            if ragged.any():
                uneven.append(Uneven(loops, rows, sizes, found, own))
        else:
            lost[rows] = ragged | own.bad | (whole and splits_fused(loops))
    values = tuple(
        gathered(forms, slots, [(group.rows, found[k]) for group, found in parts])
        for k in range(len(axes))
    )
    threads = [0] * most
    for k, kind in enumerate(groups[0].loops.kinds):
        threads[k] = kind if kind >= FIRST_THREAD else 0
    mixed = None
    if lost.any() and texts is not None:
        every = [np.ones(count, bool)] * len(loops.leaves)  # of the only group, for threads
        past = [lost & (more > 0) for more in surplus_of(loops, sizes, every)]
        mixed = texts.mixed(forms, groups[0], axes, slots, lost, extents, past)
        values = mixed_values(forms, mixed, values)
    known = slots, tuple(kinds), tuple(reducing), common, values, unroll
    return StageLoops(*known, tuple(uneven), tuple(threads), mixed)


def splits_fused(loops: Loops) -> bool:
    """Whether a fused loop is split again, so that its parts have digits of the axes."""
    fused = {relation[2] for relation in loops.relations if len(relation) == 3}
    return any(len(relation) == 4 and relation[0] in fused for relation in loops.relations)


def gathered(forms: Forms, slots: tuple[int, ...], parts: list[tuple[Ints, Form]]) -> Form:
    """Merge the forms of the groups, whose slots are loop positions, into one form."""
    base, joined = np.zeros((2, forms.count), np.int64)
    terms: dict[int, list[Term]] = {}
    for rows, form in parts:
        base[rows], joined[rows] = form.base, form.joined
        for k, own in form.terms.items():
            into = terms.setdefault(slots[k], [])
            used = [term for term in own if term.scale.any()]
            while len(into) < len(used):
                into.append(Term(forms.one.copy(), forms.whole.copy(), forms.zero.copy()))
            for term, place in zip(used, into, strict=False):
                place.lower[rows], place.upper[rows] = term.lower, term.upper
                place.scale[rows] = term.scale
    return Form({slot: tuple(own) for slot, own in terms.items() if own}, base, joined)
