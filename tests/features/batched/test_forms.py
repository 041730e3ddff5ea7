"""Forms are what the index expressions are for every candidate and every iteration."""

from __future__ import annotations

from itertools import product

import numpy as np

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
