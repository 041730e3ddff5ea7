"""The context that a value is simplified in: texts of axes that are no forms, and conditions.

Loops of a split that does not divide, and regions that reach beyond their tensor, have iterations
that are skipped. The conditions say which, as `te.bounds.bound_check` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from autosched.features.batched.forms import Flags, Form, Forms, Ints, fixed, masked
from autosched.features.batched.loops import StageLoops, Uneven, gathered
from autosched.features.batched.mixed import excess
from autosched.tir.expr import CompareExpr, Expr, Var
from autosched.tir.op import ge, lt
from autosched.tir.walk import free_vars, post_order, substitute

_DEEPER = "an axis of a sum in parts that is a digit of a digit of a loop"
_MERGED = "a comparison of an axis of a sum in parts that is a quotient of two loops"


@dataclass(frozen=True, eq=False)
class Condition:
    """`value` < `limit` holds around the stores of candidates `where`; no limit: `value` >= 0."""

    where: Flags
    value: Form
    limit: Ints | None = None


@dataclass(frozen=True, eq=False)
class Text:
    """A value, the forms of the variables in it, and the conditions around it.

    `given` has the conditions, each with a variable that is 1 for candidates that have the
    condition. Digits of the stage's `own` loops are written as its splits make them, t // 3 % 4.
    Digits of other loops come from regions, which are simplified already: t % 12 // 3. What
    conditions tell about an index depends on how it is written.
    """

    value: Expr
    axes: dict[Var, Form]
    given: Sequence[tuple[Var, Expr]]
    own: frozenset[int]


@dataclass(eq=False)
class Context:
    """The values of a stage's axes, for texts.

    `data` has min, extent and shape of each data axis. `texts` has some axes as expressions in
    terms of `axes`; `lost` says for which candidates such an axis is no form.

    For partial results, `cut` has the old axes that are the lower digits of a loop whose upper part
    was factored, and where this is so; `parts` are the values of both parts of the loop. `deeper`
    says where an old axis is a digit that is taken of a digit of one of the stage's own loops: it
    is written t % 12 // 3 then, beside other axes' t // 3 % 4, for which there is no rule.
    `merged` says where an old axis is a quotient of a sum that is told without all of its terms:
    1 <= (o * 2 + i) // 4 becomes 4 <= o * 2 + i, although (o * 2 + i) // 4 becomes o // 2.
    """

    forms: Forms
    variables: Sequence[Var]
    loops: StageLoops
    data: Sequence[tuple[Form, Ints, Ints]]
    axes: dict[Var, Form]
    texts: dict[Var, Expr] = field(default_factory=dict)
    lost: dict[Var, Flags] = field(default_factory=dict)
    given: list[Condition] = field(default_factory=list)
    cut: dict[Var, Flags] = field(default_factory=dict)
    parts: tuple[Sequence[Form], Sequence[Form]] = ((), ())
    deeper: dict[Var, Flags] = field(default_factory=dict)
    merged: dict[Var, Flags] = field(default_factory=dict)
    _known: dict[Var, list[Condition]] = field(default_factory=dict)

    def where_lost(self, e: Expr) -> Flags | None:
        """Where an axis in `e` is no form; None where that is so for no candidate."""
        found: Flags | None = None
        if self.lost:
            for var in free_vars(e) & self.lost.keys():
                found = self.lost[var] if found is None else found | self.lost[var]
        return found

    def text(self, value: Expr) -> Text:
        """`value` with its axes as texts, and the conditions on them."""
        replaced = not self.texts.keys().isdisjoint(free_vars(value))
        value = substitute(value, self.texts)
        axes = {var: form for var, form in self.axes.items() if var in free_vars(value)}
        for var in axes.keys() & self.deeper.keys():
            self.forms.refuse(self.deeper[var], _DEEPER)
        if not self.merged.keys().isdisjoint(axes):
            for var in self.merged.keys() & _compared(value):
                self.forms.refuse(self.merged[var], _MERGED)
        conditions = list(self.given) if replaced else []
        for var in list(axes):
            conditions += self.conditions(var)
        given = []
        for condition in conditions:
            flag, var, limit = Var("holds"), Var("value"), Var("limit")
            axes[flag] = Form({}, condition.where.astype(np.int64))
            axes[var] = condition.value
            if condition.limit is None:
                given.append((flag, ge(var, 0)))
                axes[limit] = self.forms.constant(-1)
            else:
                given.append((flag, lt(var, limit)))
                axes[limit] = Form({}, np.where(condition.where, condition.limit, 0))
        return Text(value, axes, given, frozenset(self.loops.slots))

    def conditions(self, var: Var) -> list[Condition]:
        """The conditions on axis `var` that at least one candidate has."""
        if var not in self.variables:
            return []
        found = self._known.get(var)
        if found is None:
            k = self.variables.index(var)
            found = [*_of_splits(self.forms, self.loops, k), *self.of_region(k)]
            self._known[var] = found
        return found

    def of_region(self, k: int) -> list[Condition]:
        """The conditions on axis k that come from a region that reaches beyond the tensor."""
        if k >= len(self.data):
            return []
        value, (low, extent, shape) = self.axes[self.variables[k]], self.data[k]
        first, last = self.forms.ends(value)
        differs = ~(fixed(low) & (low.base == 0) & (extent == shape))
        below = differs & (first < 0)
        above = differs & (last + excess(self.forms, low) >= shape)
        found = [Condition(below, _masked(value, below))] if below.any() else []
        if above.any():
            found.append(Condition(above, _masked(value, above), shape))
        return found


def _compared(value: Expr) -> frozenset[Var]:
    """The variables in comparisons."""
    compared = (free_vars(e) for e in post_order(value) if isinstance(e, CompareExpr))
    return frozenset[Var]().union(*compared)


def _masked(form: Form, where: Flags) -> Form:
    terms = {slot: masked(where, own) for slot, own in form.terms.items()}
    return Form(terms, np.where(where, form.base, 0))


def _of_splits(forms: Forms, loops: StageLoops, k: int) -> list[Condition]:
    """The conditions on axis k and on its parts that come from splits that do not divide."""
    places: list[list[tuple[Uneven, int, Flags]]] = []
    for uneven in loops.uneven:
        flagged, divided = _flagged(uneven)
        for relation in uneven.loops.relations:
            if len(relation) == 3 and flagged[relation[2]].any():
                some = np.zeros(forms.count, bool)
                some[uneven.rows] = flagged[relation[2]]
                forms.refuse(some, "conditions on a fused loop around a value with conditions")
        at = 0
        for part in _parts(uneven, k):
            value, extent = uneven.values[part], uneven.extents[part]
            where = flagged[part] & ~divided[part] & (uneven.forms.ends(value)[1] >= extent)
            if where.any():
                if at == len(places):
                    places.append([])
                places[at].append((uneven, part, where))
                at += 1
    found = []
    for those in places:
        holds, limit = np.zeros(forms.count, bool), np.zeros(forms.count, np.int64)
        for uneven, part, where in those:
            holds[uneven.rows] = where
            limit[uneven.rows] = uneven.extents[part]
        value = gathered(forms, loops.slots, [(u.rows, u.values[part]) for u, part, _ in those])
        found.append(Condition(holds, _masked(value, holds), limit))
    return found


def _parts(uneven: Uneven, k: int) -> list[int]:
    """The ids of axis k and of the loops that it is split into, in the order of their making."""
    found = [k]
    for relation in uneven.loops.relations:
        if len(relation) == 4 and relation[0] in found:
            found += relation[1:3]
    return sorted(found)


def _flagged(uneven: Uneven) -> tuple[dict[int, Flags], dict[int, Flags]]:
    """By id: where values may be outside the domain, and where the loop is split evenly."""
    none = np.zeros(len(uneven.rows), bool)
    flagged = dict.fromkeys(range(len(uneven.extents)), none)
    divided = dict(flagged)
    for relation in reversed(uneven.loops.relations):
        if len(relation) == 4:
            parent, outer, inner, _ = relation
            product = uneven.extents[outer] * uneven.extents[inner]
            divided[parent] = product == uneven.extents[parent]
            flagged[parent] = flagged[outer] | flagged[inner] | ~divided[parent]
        else:
            outer, inner, fused = relation
            flagged[outer] = flagged[outer] | flagged[fused]
            flagged[inner] = flagged[inner] | flagged[fused]
    return flagged, divided
