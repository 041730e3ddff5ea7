"""The axes that a factored reduction had, in terms of the axes of its partial results.

Where reduction axes are fused and the loop that is factored does not divide them, such an axis is a
quotient or remainder that is no digit, like (v * 52 + k) // 49: then it is a text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from autosched.features.batched.context import Condition
from autosched.features.batched.forms import QUOTIENT, Flags, Form, Forms, Ints
from autosched.features.batched.plan import Loops
from autosched.tir.expr import Expr, Var
from autosched.tir.op import floordiv, floormod


@dataclass(frozen=True, eq=False)
class Origin:
    """The `values` of the old axes and loops by id; some also as `texts` in terms of `axes`.

    `lost` says for which candidates these values are no forms, `conditions` what holds around them,
    `merged` by id where a value is a quotient of a sum of loops, or a digit of one.
    """

    values: dict[int, Form]
    texts: dict[int, Expr] = field(default_factory=dict)
    lost: dict[int, Flags] = field(default_factory=dict)
    axes: dict[Var, Form] = field(default_factory=dict)
    conditions: list[Condition] = field(default_factory=list)
    merged: dict[int, Flags] = field(default_factory=dict)


def origin_values(
    forms: Forms,
    loops: Loops,
    extents: Sequence[Ints],
    leaves: Sequence[Form],
    stand_in: Callable[[str, int], Var],
) -> Origin:
    """The old axes of `loops`; `stand_in` gives the variables that the texts are made of."""
    found = Origin({})
    for k, value in zip(loops.leaves, leaves, strict=True):
        # A loop of extent 1 is 0 there, although the parts that it is split into reach beyond it.
        found.values[k] = forms.scaled(value, (extents[k] > 1).astype(np.int64))
    values = found.values
    for relation in reversed(loops.relations):
        if len(relation) == 4:
            parent, outer, inner, _ = relation
            for part in found.lost.keys() & {outer, inner}:
                forms.refuse(found.lost[part], QUOTIENT)
            above = forms.scaled(values[outer], extents[inner])
            values[parent] = forms.add(above, values[inner])
            continue
        outer, inner, fused = relation
        both, lost = forms.attempt(partial(forms.divmod, values[fused], extents[inner]))
        values[outer], values[inner] = both
        merged = found.merged.get(fused, np.zeros(forms.count, bool))
        found.merged[outer] = merged | (_terms(forms, values[fused]) > 1)
        found.merged[inner] = merged
        if fused in found.lost:
            lost = lost | found.lost[fused]
        if lost.any():
            source = found.texts.get(fused)
            if source is None:
                source = stand_in("fused", fused)
                found.axes[source] = values[fused]
                beyond = forms.ends(values[fused])[1] >= extents[fused]
                found.conditions.append(Condition(beyond, values[fused], extents[fused]))
            divisor = stand_in("extent", inner)
            found.axes[divisor] = Form({}, extents[inner])
            found.texts[outer] = floordiv(source, divisor)
            found.texts[inner] = floormod(source, divisor)
            found.lost[outer] = found.lost[inner] = lost
    return found


def _terms(forms: Forms, form: Form) -> Ints:
    """The number of terms that are not 0."""
    return sum([(term.scale != 0).astype(np.int64) for _, term in form.every()], forms.zero)
