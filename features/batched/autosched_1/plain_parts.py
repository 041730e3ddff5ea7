"""What a padded load takes along one axis where simplification leaves its comparisons alone.

`batched/padding.py` says where that is so, and what they count; here is what they weigh.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from autosched.features.batched.axis_text import AxisText
from autosched.features.batched.counts import add_index
from autosched.features.batched.forms import Flags, Form, Forms, Ints
from autosched.features.batched.nest import index_form
from autosched.features.batched.padding import Padding, plain_counts
from autosched.tir.expr import Add, Expr, Mul
from autosched.tir.walk import pre_order

if TYPE_CHECKING:
    from autosched.features.batched.context import Text

_INT_ADDSUB, _INT_MUL, _INT_DIVMOD = 8, 9, 10


def plain_part(forms: Forms, text: Text, padding: Padding) -> tuple[Ints, Ints, Flags, Flags]:
    """The counters, the vector instructions but those of the choice, where there is a choice; and
    of which candidates all this is right."""
    # Where Ansor's simplification divides by what all scales have in common, autosched's divides
    # by what those above 1 have, as both do with a subtraction.
    moved = padding._replace(moved=True)
    counts, comparisons, plain = plain_counts(forms, text, moved, as_ansor=False)
    form = text.axes[padding.axis]
    compared = np.zeros_like(counts)
    add_index(forms, form, compared, needed=False)
    counts += compared * comparisons
    _add_indices(forms, text, padding, counts, plain)
    # Each comparison is an instruction, besides its index, and so is what joins two.
    weight = comparisons * (1 + _instructions(forms, form, compared))
    weight = weight + np.maximum(comparisons - 1, 0)
    return counts, weight, comparisons > 0, plain


def _add_indices(
    forms: Forms, text: Text, padding: Padding, counts: Ints, needed: Flags | bool
) -> None:
    for e in padding.indices:
        add_index(forms, index_form(forms, e, text.axes), counts, needed=needed)


def _instructions(forms: Forms, form: Form, counts: Ints) -> Ints:
    """Those of an index whose operations are `counts`: a product that something is added to takes
    none of its own."""
    terms, products, inside = forms.zero, forms.zero, forms.zero
    for slot, term in form.every():
        there = term.scale != 0
        if slot in forms.virtual:
            mixed, axis = forms.virtual[slot]
            own = [_of_text(entry.axes[axis]) for entry in mixed.entries]
            each = np.array(own, np.int64)[mixed.which]
            terms = terms + np.where(there, each[:, 0], 0)
            products = products + np.where(there, each[:, 1], 0)
            inside = inside + np.where(there, each[:, 2], 0)
        else:
            terms = terms + there
            products = products + (there & (np.abs(term.scale) != 1))
    # Products stand first in a sum: the first addition has one or two, each other one at most.
    added = np.where((terms > 1) & (products > 0), 1 + np.maximum(products - 2, 0), 0)
    every: Ints = counts[_INT_ADDSUB] + counts[_INT_MUL] + counts[_INT_DIVMOD]
    return every - added - inside


def _of_text(axis: AxisText) -> tuple[int, int, int]:
    """The terms of an axis that loops mix, how many are products, and how many additions inside
    them have a product."""
    inside = sum(_adds_product(e) for term in axis.terms for e in pre_order(term))
    return len(axis.terms), sum(isinstance(term, Mul) for term in axis.terms), inside


def _adds_product(e: Expr) -> bool:
    return isinstance(e, Add) and (isinstance(e.a, Mul) or isinstance(e.b, Mul))
