"""Reductions over windows that reach over a border, as arrays (`autosched_1/windows.py`).

How many nests are inside follows from each limit alone, for its axes are of loops, or digits of
loops, that no other limit asks for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from autosched.features.batched.autosched_1.piece import Piece
from autosched.features.batched.autosched_1.plans.unique import different, keys_of
from autosched.features.batched.autosched_1.surroundings import Surroundings
from autosched.features.batched.forms import Flags, Form, Forms, Ints
from autosched.features.batched.nest import index_form
from autosched.features.batched.ops import Limit
from autosched.features.batched.stores import Store
from autosched.tir.expr import Expr
from autosched.tir.linear import sum_of

NEVER = "a window that is never inside"
MIXED = "windows whose axes are not of different loops"
LOST = "a border that simplification may know more of"


def with_borders(forms: Forms, pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces, and for each that has limits another one, of its nests that are not inside."""
    found = list(pieces)
    for number, piece in enumerate(pieces):
        if piece.store.ops.limits:
            border = _Border(forms, piece)
            found.append(border.others(number))
            piece.share, piece.guards = border.inside, [*piece.guards, border.around]
    return found


def window_forms(forms: Forms, store: Store) -> Iterator[tuple[Form, Limit]]:
    """What the limits of a store are of."""
    for limit in store.ops.limits:
        terms: dict[Expr, int] = dict(limit.terms)
        value = sum_of(terms, 0, limit.terms[0][0].dtype)
        yield index_form(forms, value, store.stage.axes), limit


class _Digit(NamedTuple):
    """scale * (loop % upper // lower), of so many values; `outside`: its loop is around the nests,
    `level` loops are around what is in it."""

    slot: int
    lower: Ints
    upper: Ints
    scale: Ints
    size: Ints
    outside: Flags
    level: Ints


class _Border:
    """What becomes of a piece: the share of its nests that is `inside`, and how many loops are
    `around` the condition of that; -1 where there is none."""

    def __init__(self, forms: Forms, piece: Piece) -> None:
        self._forms, self._piece = forms, piece
        self._depth = forms.zero
        count, points = forms.one, forms.one
        every: list[_Digit] = []
        for form, limit in window_forms(forms, piece.store):
            base, digits = self._digits(form)
            every += digits
            own, of = self._limited(limit, base, digits)
            count, points = count * own, points * of
        self._check(every)
        self.inside = count / points
        self._others = (points - count) / points
        self.around = np.where(self._depth > 0, piece.around.floor, -1)

    def others(self, number: int) -> Piece:
        """The piece of the other nests; the one that there is has this number."""
        piece, depth = self._piece, self._depth
        floor = np.maximum(piece.around.floor, depth)
        none: Flags = np.zeros(self._forms.count, bool)
        alone = Surroundings(floor, floor, floor, self._forms.one, none, none)
        guards = [*piece.guards, depth]
        found = Piece(piece.store, alone, (), none, None, piece.exists, guards=guards)
        found.share, found.same_as = self._others, number
        return found

    def _digits(self, form: Form) -> tuple[Ints, list[_Digit]]:
        """The constant and the digits of a form, for the loops around the piece."""
        forms, store = self._forms, self._piece.store
        base, digits = form.base, []
        depth = forms.zero
        loops = {}
        for loop in store.loops:
            depth = depth + loop.present
            loops[loop.slot] = loop, depth
        for slot, term in form.every():
            forms.refuse(term.scale < 0, MIXED)
            added = self._piece.added.get(slot)
            if added is not None:
                base = base + added * term.scale
            if slot not in loops:
                continue
            loop, level = loops[slot]
            part = forms.is_digit(slot, term)
            size = np.where(part, forms.largest(slot, term) + 1, loop.extent)
            there = loop.present & (term.scale != 0)
            upper = np.where(part, np.minimum(term.upper, loop.extent), loop.extent)
            outside = there & (level <= self._piece.around.floor)
            scale, size = np.where(there, term.scale, 0), np.where(there, size, 1)
            digits.append(_Digit(slot, term.lower, upper, scale, size, outside, level))
        return base, digits

    def _limited(self, limit: Limit, base: Ints, digits: Sequence[_Digit]) -> tuple[Ints, Ints]:
        """How many values of what is outside keep all that is inside within the limit, and of how
        many; both are 1 where all do."""
        forms = self._forms
        inner, outer = forms.zero, forms.zero
        for digit in digits:
            reach = digit.scale * (digit.size - 1)
            inner = inner + np.where(digit.outside, 0, reach)
            outer = outer + np.where(digit.outside, reach, 0)
        low = forms.zero if limit.least is None else limit.least - base
        high = outer if limit.most is None else limit.most - base - inner
        forms.refuse((low > outer + inner) | (high + inner < 0), NEVER)
        opens = [low > 0, high < outer]
        self._check_digits(digits, low, opens[0])
        self._check_digits(digits, high + inner + 1, opens[1])
        left: Flags = opens[0] | opens[1]
        for digit in digits:
            asked = left & (digit.size > 1)
            self._depth = np.where(asked, np.maximum(self._depth, digit.level), self._depth)
        columns = [
            np.where(left, np.maximum(low, 0), 0),
            np.where(left, np.minimum(high, outer), 0),
        ]
        for digit in digits:
            there = left & digit.outside
            columns += [np.where(there, digit.scale, 0), np.where(there, digit.size, 1)]
        first, which = different(keys_of([np.ascontiguousarray(c) for c in columns]))
        table = np.stack(columns, axis=1)[first].tolist()
        found = np.array([_counted(tuple(row)) for row in table], np.int64)
        return found[which, 0], found[which, 1]

    def _check_digits(self, digits: Sequence[_Digit], limit: Ints, where: Flags) -> None:
        """Refuse where 2 <= i * 2 + j may be written as 1 <= i, which j is not in."""
        for digit in digits:
            divisor = np.maximum(digit.scale, 1)
            rest = self._forms.zero
            for other in digits:
                apart = other.scale % divisor != 0
                rest = rest + np.where(apart, other.scale * (other.size - 1), 0)
            lost = (digit.scale > 1) & (rest > 0) & (rest < divisor) & (limit % divisor == 0)
            self._forms.refuse(where & lost, LOST)

    def _check(self, digits: Sequence[_Digit]) -> None:
        """Refuse where the digits of a loop depend on each other, or not all come as often."""
        forms = self._forms
        loops = {loop.slot: loop for loop in self._piece.store.loops}
        for k, one in enumerate(digits):
            there = one.outside & (one.scale != 0)
            extent = np.where(loops[one.slot].present, loops[one.slot].extent, 1)
            uneven = (extent % np.maximum(one.upper, 1) != 0) | (one.upper % one.lower != 0)
            forms.refuse(there & uneven, MIXED)
            for other in digits[:k]:
                if other.slot == one.slot:
                    apart = (one.lower % np.maximum(other.upper, 1) == 0) | (
                        other.lower % np.maximum(one.upper, 1) == 0
                    )
                    forms.refuse(there & (other.scale != 0) & ~apart, MIXED)


@lru_cache(maxsize=20_000)
def _counted(row: tuple[int, ...]) -> tuple[int, int]:
    """Of (low, high, scale, size, ...): how many sums of the digits are within, and all."""
    low, high, *digits = row
    values = np.zeros(1, np.int64)
    for scale, size in zip(digits[::2], digits[1::2], strict=True):
        values = (values[:, None] + scale * np.arange(size)).reshape(-1)
    return int(np.count_nonzero((values >= low) & (values <= high))), len(values)
