"""Index expressions of many candidates at once: sums of digits of loop variables.

A loop has a number, its slot, and an extent for every candidate, 1 where the candidate does not
have the loop. A form is

    base + sum of scale * (var % upper // lower)        (upper a multiple of lower, lower >= 1)

where all numbers are arrays over the candidates. A term that is 0 throughout for a candidate has
scale 0 there: the other terms are what simplification leaves of the index. Adjacent digits of one
variable are merged into a longer one. A candidate for which an operation leaves this form is
refused: it is marked `bad`, and counted by reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from autosched.features.batched.mixed import Mixed
    from autosched.tir.expr import Expr, Var

_Made = TypeVar("_Made")
Ints = npt.NDArray[np.int64]
"""Integers, one for each candidate along the last axis."""
Flags = npt.NDArray[np.bool_]
"""Flags, one for each candidate along the last axis."""

WHOLE = 1 << 40
"""The `upper` of a variable of which no remainder is taken."""
SUM = "a sum of digits of one loop that overlap"
QUOTIENT = "a quotient or remainder that is no digit"
HALVES = "a sum of a half and of what remains"
LATE = "a quotient of a quotient and an axis that conditions make 0"


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """A term of a form: scale * (var % upper // lower)."""

    lower: Ints
    upper: Ints
    scale: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """The terms of each slot, and the constant `base`.

    `joined` is a common divisor of the scales of all digits of a loop that were adjacent and
    merged; 0 where none were.
    """

    terms: dict[int, tuple[Term, ...]]
    base: Ints
    joined: Ints | int = 0

    def every(self) -> Iterator[tuple[int, Term]]:
        """All terms with their slots."""
        for slot, terms in self.terms.items():
            for term in terms:
                yield slot, term


class Forms:
    """Arithmetic on forms of `count` candidates; `extents` has those of the slots so far.

    A slot of `virtual` is no loop: it stands for an axis that is a text (`mixed.py`). Only
    conditions keep some such texts inside the axis: `alone` has the largest values of all of them,
    `beyond` of those whose quotients do not show it. `vanished` says where conditions alone make
    one 0, and `first` where they do and its text stays: t where t < 1. `simple` caches simplified
    values (`one.py`). With `short`, a quotient or remainder that cuts a sum of three terms is no
    form, since simplification does not always see that it cuts only one of them.
    """

    def __init__(self, count: int, short: bool = False) -> None:
        self.count = count
        self.extents: list[Ints] = []
        self.virtual: dict[int, tuple[Mixed, int]] = {}
        self.beyond: dict[int, Ints] = {}
        self.alone: dict[int, Ints] = {}
        self.vanished: dict[int, Flags] = {}
        self.first: dict[int, Flags] = {}
        self.simple: dict[Hashable, tuple[Expr, dict[int, Var]]] = {}
        self._largest: dict[Term, Ints] = {}
        self._last: dict[int, Ints] = {}
        self._digits: dict[Term, Flags] = {}
        self._ends: dict[Form, tuple[Ints, Ints]] = {}
        self.bad: Flags = np.zeros(count, bool)
        self._late: Flags = np.zeros(count, bool)
        self._followed: Ints | int = 0  # `joined` of the sum that is being made
        self.reasons: Counter[str] = Counter()
        self._short = short
        self.every = np.arange(count)
        self.zero: Ints = np.zeros(count, np.int64)
        self.one: Ints = np.ones(count, np.int64)
        self.whole: Ints = np.full(count, WHOLE, np.int64)

    def slot(self, extent: Ints) -> int:
        """Add a loop with these extents; return its slot."""
        self.extents.append(extent)
        return len(self.extents) - 1

    def refuse(self, where: Flags, why: str) -> None:
        """Mark the candidates `where` as bad; only the first reason of each candidate counts."""
        if not np.count_nonzero(where):  # `any` takes several times as long
            return
        self.reasons[why] += int((where & ~self.bad).sum())
        self.bad = self.bad | where

    def refuse_part(self, rows: Ints, part: Forms) -> None:
        """Refuse what `part` refused; its candidates are `rows` here."""
        if part.bad.any():
            self.bad[rows] |= part.bad
            self.reasons += part.reasons

    def attempt(self, make: Callable[[], _Made], *, short: bool = False) -> tuple[_Made, Flags]:
        """The result of `make`, and where it is no form.

        These candidates are not refused, except where a text would not say it either (`LATE`).
        """
        bad, reasons, before = self.bad, self.reasons, self._short
        self.bad, self.reasons, self._short = np.zeros(self.count, bool), Counter(), short
        try:
            return make(), self.bad
        finally:
            self.bad, self.reasons, self._short = bad, reasons, before
            self.refuse(self._late, LATE)

    def full(self, value: int) -> Ints:
        """`value` for every candidate."""
        return np.full(self.count, value, np.int64)

    def constant(self, value: int) -> Form:
        """A form without terms, `value` for every candidate."""
        return Form({}, self.full(value))

    def variable(self, slot: int) -> Form:
        """The variable of a loop; 0 where it runs once."""
        scale = (self.extents[slot] > 1).astype(np.int64)
        return Form({slot: (Term(self.one, self.whole, scale),)}, self.zero)

    def largest(self, slot: int, term: Term) -> Ints:
        """The largest value of the term's digit."""
        last = self._last.get(slot)
        if last is None:
            last = self._last[slot] = self.extents[slot] - 1
        if term.upper is self.whole and term.lower is self.one:
            return last
        found = self._largest.get(term)
        if found is None:
            found = self._largest[term] = np.minimum(term.upper - 1, last) // term.lower
        return found

    def is_digit(self, slot: int, term: Term) -> Flags:
        """Where the term is not 0 and takes a part of the loop variable, not all of it."""
        found = self._digits.get(term)
        if found is None:
            part = (term.lower > 1) | (term.upper < self.extents[slot])
            found = self._digits[term] = part & (term.scale != 0)
        return found

    def add(self, a: Form, b: Form) -> Form:
        """a + b."""
        terms = dict(a.terms)
        self._followed = 0
        for slot, more in b.terms.items():
            known = terms.get(slot)
            terms[slot] = more if known is None else self._joined((*known, *more))
        joined = np.gcd(np.gcd(a.joined, b.joined), self._followed)
        return Form(terms, a.base + b.base, joined)

    def _joined(self, terms: tuple[Term, ...]) -> tuple[Term, ...]:
        """The same sum with fewer terms: adjacent digits are merged."""
        kept: list[Term] = []
        for term in terms:
            free = None
            for k, other in enumerate(kept):
                if ((other.scale != 0) & (term.scale != 0)).any():
                    kept[k], term = self._pair(other, term)
                    if not term.scale.any():
                        break
                elif free is None:  # the term fits in here, but may be adjacent to a later digit
                    free = k
            else:
                if free is None:
                    kept.append(term)
                else:
                    kept[free] = _where(kept[free].scale != 0, kept[free], term)
        return tuple(kept)

    def _pair(self, a: Term, b: Term) -> tuple[Term, Term]:
        """Two terms of one sum; where they are adjacent digits, the merged digit and 0."""
        both = (a.scale != 0) & (b.scale != 0)
        self.refuse(both & (a.lower == b.lower), SUM)
        for above, below in ((a, b), (b, a)):
            ratio = above.lower // below.lower
            next_to = both & (above.lower == below.upper)
            halves = next_to & (ratio == 2) & (above.scale == below.scale)
            self.refuse(halves, HALVES)  # i // 2 + i % 2 is written (i + 1) // 2
            follows = next_to & (above.scale == below.scale * ratio)
            if follows.any():
                self._followed = np.gcd(self._followed, np.where(follows, below.scale, 0))
                one = Term(below.lower, above.upper, below.scale)
                a, b = _where(follows, one, a), _where(follows, _nothing(b), b)
                both = both & ~follows
        return a, b

    def scaled(self, a: Form, factor: Ints | int) -> Form:
        """a * factor."""
        if isinstance(factor, int) and factor == 1:
            return a
        terms = {
            slot: tuple(Term(t.lower, t.upper, t.scale * factor) for t in own)
            for slot, own in a.terms.items()
        }
        return Form(terms, a.base * factor, a.joined * factor)

    def divmod(self, a: Form, divisor: Ints) -> tuple[Form, Form]:
        """a // divisor and a % divisor, for a positive divisor.

        Terms whose scale the divisor divides go to the quotient. If the rest is always smaller than
        the divisor, it is the remainder; otherwise its largest term becomes a digit.
        """
        base, left = a.base // divisor, a.base % divisor
        rest, top, several = self.zero, self.zero, self.zero
        for slot, term in a.every():
            stays: Ints = np.where(term.scale % divisor != 0, term.scale, 0)
            rest, top = rest + stays * self.largest(slot, term), np.maximum(top, stays)
            self.refuse(term.scale < 0, QUOTIENT)
            several = several + (stays != 0)
            if slot in self.beyond:  # the text is cut although the axis would not be
                over = self.beyond[slot] >= self.extents[slot]
                self.refuse(over & (stays * self.beyond[slot] + left >= divisor), QUOTIENT)
        small = rest + left < divisor
        self._refuse_outside(a, divisor, rest + left)
        gone = self._gone(a)
        quotients: dict[int, tuple[Term, ...]] = {}
        remainders: dict[int, tuple[Term, ...]] = {}
        cuts = self.zero
        for slot, own in a.terms.items():
            pairs = []
            for term in own:
                cut = ~small & (term.scale == top) & (term.scale % divisor != 0)
                cuts = cuts + cut
                below = rest - np.where(cut, term.scale * self.largest(slot, term), rest)
                self.refuse(cut & (below >= term.scale), QUOTIENT)
                if gone is not None:
                    self._refuse_late(cut & gone & (term.lower > 1))
                pairs.append(self._cut(slot, term, divisor, cut))
            quotients[slot] = tuple(quotient for quotient, _ in pairs)
            remainders[slot] = tuple(remainder for _, remainder in pairs)
        self.refuse(~small & ((cuts != 1) | (left != 0)), QUOTIENT)
        if self._short:
            self.refuse(~small & (several > 2), QUOTIENT)
        return Form(quotients, base, a.joined), Form(remainders, left, a.joined)

    def _refuse_outside(self, a: Form, divisor: Ints, most: Ints) -> None:
        """Refuse a quotient of a sum that may be too large where a term's text leaves its axis.

        The condition t < 21 says that t // 21 is 0, but not that (t * 5 + b) // 105 is. `most` is
        the largest value of the sum's rest, whose axes are inside.
        """
        for slot in a.terms.keys() & self.alone.keys():
            for term in a.terms[slot]:
                stays = term.scale % divisor != 0
                digit = np.minimum(term.upper - 1, self.alone[slot]) // np.maximum(term.lower, 1)
                largest = self.largest(slot, term)
                more = term.scale * np.maximum(digit - largest, 0)
                own = most == term.scale * largest
                single = own & (term.scale == 1)
                self.refuse(stays & (more > 0) & ~single & (most + more >= divisor), QUOTIENT)

    def _gone(self, a: Form) -> Flags | None:
        """Where a part of the sum is 0 because of conditions alone; None if no candidate has one.

        Simplification finds that too late to make one quotient of two.
        """
        parts = [self.vanished[slot] for slot in a.terms if slot in self.vanished]
        return np.logical_or.reduce(parts) if parts else None

    def _refuse_late(self, where: Flags) -> None:
        """Refuse the candidates `where`, also inside an `attempt`."""
        self._late = self._late | where
        self.refuse(where, LATE)

    def _cut(self, slot: int, term: Term, divisor: Ints, cut: Flags) -> tuple[Term, Term]:
        """The term in the quotient and in the remainder; where `cut`, a digit in each of them."""
        stays = term.scale % divisor != 0
        ratio = np.where(cut, divisor // np.maximum(term.scale, 1), 1)
        limit = term.lower * ratio
        self.refuse(cut & (ratio * term.scale != divisor), QUOTIENT)
        shorter = cut & (term.upper < WHOLE)
        self.refuse(shorter & (term.upper % np.maximum(limit, 1) != 0), QUOTIENT)
        quotient = self._kept(
            slot,
            np.where(cut, limit, term.lower),
            term.upper,
            np.where(cut, 1, np.where(stays, 0, term.scale // divisor)),
        )
        upper = np.where(cut, np.minimum(limit, term.upper), term.upper)
        return quotient, self._kept(slot, term.lower, upper, np.where(stays, term.scale, 0))

    def _kept(self, slot: int, lower: Ints, upper: Ints, scale: Ints) -> Term:
        lower = np.maximum(lower, 1)
        digit = np.minimum(upper, self.extents[slot]) > lower
        if slot in self.first:
            digit = digit | (self.first[slot] & (lower == 1))
        return Term(lower, upper, np.where(digit, scale, 0))

    def ends(self, a: Form) -> tuple[Ints, Ints]:
        """The smallest and the largest value of the form."""
        found = self._ends.get(a)
        if found is None:
            low, high = a.base, a.base
            for slot, term in a.every():
                reach = term.scale * self.largest(slot, term)
                low, high = low + np.minimum(reach, 0), high + np.maximum(reach, 0)
            found = self._ends[a] = low, high
        return found

    def same(self, a: Form, b: Form) -> Flags:
        """Where both forms are written alike."""
        found: Flags = a.base == b.base
        if a is b:
            return found
        for slot in {*a.terms, *b.terms}:
            ours, theirs = a.terms.get(slot, ()), b.terms.get(slot, ())
            for mine, others in ((ours, theirs), (theirs, ours)):
                for term in mine:
                    match = term.scale == 0
                    for other in others:
                        match = match | self._equal(slot, term, other)
                    found = found & match
        return found

    def _equal(self, slot: int, a: Term, b: Term) -> Flags:
        extent = self.extents[slot]
        limits = np.minimum(a.upper, extent) == np.minimum(b.upper, extent)
        found: Flags = (a.lower == b.lower) & (a.scale == b.scale) & limits
        return found


def uses_slot(terms: tuple[Term, ...]) -> Flags:
    """Where one of the loop's terms is not 0."""
    found: Flags = terms[0].scale != 0
    for term in terms[1:]:
        found = found | (term.scale != 0)
    return found


def masked(where: Flags, terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """The terms of the candidates `where`, with scale 0 for the others."""
    return tuple(Term(t.lower, t.upper, np.where(where, t.scale, 0)) for t in terms)


def fixed(form: Form) -> Flags | bool:
    """Where the form is a constant."""
    found: Flags | bool = True
    for _, term in form.every():
        found = found & (term.scale == 0)
    return found


def _where(flags: Flags, a: Term, b: Term) -> Term:
    return Term(
        np.where(flags, a.lower, b.lower),
        np.where(flags, a.upper, b.upper),
        np.where(flags, a.scale, b.scale),
    )


def _nothing(term: Term) -> Term:
    return Term(term.lower, term.upper, np.zeros_like(term.scale))
