"""Divisors and factorizations, against their definitions."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest

from autosched.search.factors import divisors, factorizations


@pytest.mark.parametrize("n", [1, 2, 12, 36, 97, 360, 1000])
def test_divisors(n: int) -> None:
    assert divisors(n) == tuple(d for d in range(1, n + 1) if n % d == 0)


@pytest.mark.parametrize(
    ("extent", "parts", "limit"), [(12, 3, 64), (24, 2, 4), (7, 3, 2), (9, 1, 3)]
)
def test_factorizations(extent: int, parts: int, limit: int) -> None:
    expected = [
        f
        for f in product(divisors(extent), repeat=parts)
        if extent % prod(f) == 0 and f[-1] <= limit
    ]
    assert list(factorizations(extent, parts, limit)) == expected
