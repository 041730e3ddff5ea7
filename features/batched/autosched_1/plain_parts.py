"""Count the vector instructions of a padded load along one axis whose comparisons stay as written.

`batched/padding.py` says where that is so, and counts the operations.
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
    """Four arrays by candidate for a part of a padding.

    The counters; the vector instructions without those of the choice; where there is a choice; and
    where all of this is right.
    """
    # Ansor's simplification divides a comparison by the common factor of all scales, autosched's
    # by that of the scales above 1, as both do with a subtraction.
    moved = padding._replace(moved=True)
    counts, comparisons, plain = plain_counts(forms, text, moved, as_ansor=False)
    form = text.axes[padding.axis]
    compared = np.zeros_like(counts)
    add_index(forms, form, compared, needed=False)
    counts += compared * comparisons
    _add_indices(forms, text, padding, counts, plain)
    # Each comparison is an instruction besides those of its index, and so is each `and`.
    weight = comparisons * (1 + _instructions(forms, form, compared))
    weight = weight + np.maximum(comparisons - 1, 0)
    return counts, weight, comparisons > 0, plain


def _add_indices(
    forms: Forms, text: Text, padding: Padding, counts: Ints, needed: Flags | bool
) -> None:
    for e in padding.indices:
        add_index(forms, index_form(forms, e, text.axes), counts, needed=needed)


def _instructions(forms: Forms, form: Form, counts: Ints) -> Ints:
    """The instructions of an index whose operations are `counts`.

    A product that something is added to takes no instruction of its own.
    """
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
    # Products come first in a sum: the first addition has one or two, every other at most one.
    added = np.where((terms > 1) & (products > 0), 1 + np.maximum(products - 2, 0), 0)
    every: Ints = counts[_INT_ADDSUB] + counts[_INT_MUL] + counts[_INT_DIVMOD]
    return every - added - inside


def _of_text(axis: AxisText) -> tuple[int, int, int]:
    """Three numbers of an axis that loops mix: its terms, those that are products, and the
    additions inside of terms that have a product."""
    inside = sum(_adds_product(e) for term in axis.terms for e in pre_order(term))
    return len(axis.terms), sum(isinstance(term, Mul) for term in axis.terms), inside


def _adds_product(e: Expr) -> bool:
    return isinstance(e, Add) and (isinstance(e.a, Mul) or isinstance(e.b, Mul))
