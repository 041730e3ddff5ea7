"""Sums whose terms are zero except at some remainders, as arrays (`autosched_1/sparse_sums.py`)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from autosched.features.batched.autosched_1.piece import Piece, SparseSum
from autosched.features.batched.forms import WHOLE, Flags, Form, Forms, Ints, Term, uses_slot
from autosched.features.batched.nest import index_form
from autosched.features.batched.ops import Zeros
from autosched.features.batched.stores import Store, own_indices
from autosched.state.iterator import Annotation
from autosched.tir.expr import Expr
from autosched.tir.linear import sum_of

PART = "zeros along a part of a loop"
TEXT = "zeros along an index that is a text"


def without_zeros(forms: Forms, pieces: Sequence[Piece]) -> None:
    """Let sums leave out iterations that add zero, and copies elements that nobody reads."""
    for piece in pieces:
        zeros = piece.store.ops.zeros
        if zeros and piece.store.ops.updates:
            _leave_out(forms, piece)
        elif zeros:
            piece.share = 1 / np.full(forms.count, math.prod(own.modulus for own in zeros))


def _leave_out(forms: Forms, piece: Piece) -> None:
    """Set the `sparse` and `share` of a piece that is a sum."""
    store = piece.store
    period = {loop.slot: forms.one for loop in store.loops}
    moduli = forms.one
    for zeros in store.ops.zeros:
        moving = list(_moving(forms, store, zeros))
        followed = _are_followed(forms, store, moving)
        moduli = moduli * np.where(followed, zeros.modulus, 1)
        for slot, scale, part in moving:
            serial = followed & (scale != 0) & (_kind(store, slot) != Annotation.PARALLEL)
            forms.refuse(serial & part, PART)
            own = zeros.modulus // np.gcd(scale, zeros.modulus)
            period[slot] = np.lcm(period[slot], np.where(serial, own, 1))
    every, some = forms.one, forms.one
    loops, gone = [], []
    for loop in store.loops:
        extent = np.where(loop.present, -(-loop.extent // period[loop.slot]), 1)
        present = loop.present & ((extent > 1) | (period[loop.slot] == 1))
        gone.append(loop.present & ~present)
        loops.append(replace(loop, extent=extent, present=present))
        every, some = every * np.where(loop.present, loop.extent, 1), some * extent
    strided = {slot: by for slot, by in period.items() if (by > 1).any()}
    touched = []
    for access in store.touched:
        tuples = [[_strided(form, strided) for form in indices] for indices in access.tuples]
        touched.append(replace(access, tuples=tuples))
        for text in access.written.values():
            for by in strided.values():
                forms.refuse(text.where & (by > 1), TEXT)
    present = [loop.present for loop in store.loops]
    piece.sparse = SparseSum(replace(store, loops=loops, touched=touched), gone, present)
    piece.share = every / (some * moduli)


def _moving(forms: Forms, store: Store, zeros: Zeros) -> Iterator[tuple[int, Ints, Flags]]:
    """The loops around the store that change the remainder: slot, factor (0 where the loop is not
    present), and where only a digit of the loop changes it."""
    terms: dict[Expr, int] = dict(zeros.terms)
    value = sum_of(terms, 0, zeros.terms[0][0].dtype)
    for slot, term in index_form(forms, value, store.stage.axes).every():
        if slot in forms.virtual:
            forms.refuse(term.scale % zeros.modulus != 0, TEXT)
        elif slot in store.at:
            present = store.loops[store.at[slot]].present
            scale = np.where(present, term.scale % zeros.modulus, 0)
            yield slot, scale, (scale != 0) & forms.is_digit(slot, term)


def _are_followed(forms: Forms, store: Store, moving: Sequence[tuple[int, Ints, Flags]]) -> Flags:
    """Where the sum becomes nests by this remainder: neither lanes nor loops over the last
    dimension of the output are split by it, unless such a loop is parallel."""
    last = own_indices(forms, store)[-1]
    found: Flags = np.ones(forms.count, bool)
    for slot, scale, _ in moving:
        kind = _kind(store, slot)
        over = uses_slot(last.terms[slot]) if slot in last.terms else np.zeros(forms.count, bool)
        kept = (kind == Annotation.VECTORIZE) | (over & (kind != Annotation.PARALLEL))
        found = found & ~(kept & (scale != 0))
    return found


def _kind(store: Store, slot: int) -> Ints:
    return store.loops[store.at[slot]].kind


def _strided(form: Form, period: dict[int, Ints]) -> Form:
    """The form with each loop variable multiplied by its `period`; where that is more than 1, the
    whole variable replaces its digit."""
    if period.keys().isdisjoint(form.terms):
        return form
    terms = {
        slot: tuple([_times(term, period[slot]) for term in own]) if slot in period else own
        for slot, own in form.terms.items()
    }
    return Form(terms, form.base)


def _times(term: Term, by: Ints) -> Term:
    return Term(term.lower, np.where(by > 1, WHOLE, term.upper), term.scale * by)
