"""Forms are what the index expressions are for every candidate and every iteration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from autosched.features.batched.forms import Form, Forms

EXTENTS = np.array([[1, 2, 3, 4, 6, 4, 2, 1], [6, 3, 2, 1, 4, 4, 1, 5], [2, 2, 4, 3, 1, 6, 5, 1]])


def _value(forms: Forms, form: Form, point: tuple[int, ...], n: int) -> int:
    total = int(form.base[n])
    for slot, term in form.every():
        digit = point[slot] % int(term.upper[n]) // int(term.lower[n])
        total += digit * int(term.scale[n])
    return total


def test_digits_of_fused_loops() -> None:
    """Three loops fused: their values are digits of the fused one, and add up to what it was."""
    count = EXTENTS.shape[1]
    forms = Forms(count)
    a, b, c = (np.ascontiguousarray(e) for e in EXTENTS)
    fused = forms.slot(a * b * c)
    both, inner = forms.divmod(forms.variable(fused), c)
    outer, middle = forms.divmod(both, b)
    again = forms.add(forms.scaled(forms.add(forms.scaled(outer, b), middle), c), inner)
    assert not forms.bad.any()
    for n in range(count):
        for k in range(int((a * b * c)[n])):
            want = (k // c[n] // b[n], k // c[n] % b[n], k % c[n], k)
            got = [_value(forms, f, (k,), n) for f in (outer, middle, inner, again)]
            assert got == list(want)
        assert sum(int(term.scale[n] != 0) for _, term in again.every()) <= 1


def test_quotients_of_sums() -> None:
    """Where a sum of loops is cut it is cut right, and elsewhere the candidate is marked."""
    count = EXTENTS.shape[1]
    forms = Forms(count)
    outer, inner = (forms.slot(np.ascontiguousarray(e)) for e in EXTENTS[:2])
    whole = forms.add(forms.scaled(forms.variable(outer), EXTENTS[1]), forms.variable(inner))
    divisor = np.ascontiguousarray(EXTENTS[2])
    quotient, remainder = forms.divmod(whole, divisor)
    assert not forms.bad.all()
    for n in map(int, np.flatnonzero(~forms.bad)):
        for point in product(*(range(e[n]) for e in EXTENTS[:2])):
            value = _value(forms, whole, point, n)
            got = _value(forms, quotient, point, n), _value(forms, remainder, point, n)
            assert got == divmod(value, int(divisor[n]))


def test_a_form_is_not_compared_with_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that read one element hundreds of times have as many equal forms, in pairs."""
    forms = Forms(EXTENTS.shape[1])
    outer, inner = (forms.slot(np.ascontiguousarray(e)) for e in EXTENTS[:2])
    whole = forms.add(forms.scaled(forms.variable(outer), EXTENTS[1]), forms.variable(inner))
    alike = forms.same(whole, Form(dict(whole.terms), whole.base.copy()))

    def compared(*given: object) -> None:
        raise AssertionError(given)

    monkeypatch.setattr(Forms, "_equal", compared)
    assert alike.all() and (forms.same(whole, whole) == alike).all()


def test_a_candidate_has_the_same_terms_in_a_population_as_alone() -> None:
    """Loops of one axis that are fused with others: digits are joined wherever they follow."""
    # i.0, j.0, i.1, j.1, i.2, j.2
    parts = np.array([(a, 2, 2, b, c, 3) for a, b, c in product((1, 2), repeat=3)]).T

    def axis(of: list[int]) -> tuple[Forms, Form]:
        own = np.ascontiguousarray(parts[:, of])
        forms = Forms(len(of))
        rest = forms.variable(forms.slot(own.prod(axis=0)))
        digits = []
        for extent in own[:0:-1]:
            rest, digit = forms.divmod(rest, np.ascontiguousarray(extent))
            digits.append(digit)
        loops = [rest, *reversed(digits)]
        total = loops[0]
        for k in (2, 4):
            total = forms.add(forms.scaled(total, own[k]), loops[k])
        return forms, total

    alone = [axis([n])[1] for n in range(parts.shape[1])]
    for pair in product(range(parts.shape[1]), repeat=2):
        forms, both = axis(list(pair))
        assert not forms.bad.any()
        for k, n in enumerate(pair):
            want = {(t.lower[0], t.upper[0], t.scale[0]) for _, t in alone[n].every() if t.scale[0]}
            got = {(t.lower[k], t.upper[k], t.scale[k]) for _, t in both.every() if t.scale[k]}
            assert got == want
