"""What is known where conditions on loops around a padded copy hold, or fail.

    if 1 <= tile // 4 * 14: ...          here tile // 4 is 1 or more
    else: ...                            here it is 0, and tile % 4 is tile

An axis whose loops around it make up one quotient loses it in a branch where it is 0. A loop
that stays below what its digits are divided by then needs no remainder. Any other number that a
branch leaves is not seen by simplification, nor are those of sums of digits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from autosched.features.autosched_1.branches import MOST_POINTS
from autosched.features.batched.autosched_1.border_trees import (
    Border,
    Digit,
    Limit,
    NoRuleError,
    Test,
)

_Limits = tuple[int | None, int | None, bool]
"""The smallest and the largest value that a test allows, and whether it holds."""


class _Values(NamedTuple):
    """The values that loops around a copy add to an axis, as tests leave them."""

    number: int
    least: int
    most: int


@lru_cache(maxsize=20_000)
def _values(
    scales: tuple[int, ...], sizes: tuple[int, ...], limits: tuple[_Limits, ...]
) -> _Values:
    """Those of digits with so many values each."""
    if not limits:
        most = sum([scale * (size - 1) for scale, size in zip(scales, sizes, strict=True)])
        return _Values(math.prod(sizes), 0, most)
    values = np.zeros(1, np.int64)
    for scale, size in zip(scales, sizes, strict=True):
        values = (values[:, None] + scale * np.arange(size)).reshape(-1)
    for low, high, taken in limits:
        holds = np.ones(len(values), bool)
        if low is not None:
            holds &= values >= low
        if high is not None:
            holds &= values <= high
        values = values[holds == taken]
    if not len(values):
        return _Values(0, 0, 0)
    return _Values(len(values), int(values.min()), int(values.max()))


class Around(NamedTuple):
    """What loops around a copy add to an axis: digits, how many values each has, and what tests
    ask of their sum. `zero`: there is no digit any more, it is 0."""

    digits: tuple[Digit, ...]
    scales: tuple[int, ...]
    sizes: tuple[int, ...]
    every: _Values
    values: _Values
    limits: tuple[_Limits, ...] = ()
    zero: bool = False

    def where(self, limits: _Limits) -> Around:
        """What a test leaves of it."""
        every = (*self.limits, limits)
        return self._replace(limits=every, values=_values(self.scales, self.sizes, every))


class Known(NamedTuple):
    """What holds at a place of a border's copy: what its axes are made of, and what loops are
    smaller than. Where the program is `simplified`, tests are, too."""

    border: Border
    around: tuple[Around, ...]
    simplified: bool
    tested: tuple[int, ...] = ()
    below: tuple[tuple[int, int], ...] = ()
    changes: bool = False

    def digits(self, number: int) -> tuple[Digit, ...]:
        """What is left of an axis."""
        every = self.border.axes[number].digits
        if not self.changes:
            return every
        own, below = len(self.border.kinds), dict(self.below)
        found = []
        for digit in every:
            if digit.loop >= own:
                if self.around[number].zero:
                    continue
                limit = below.get(digit.loop)
                if limit is not None and digit.upper >= limit:
                    digit = digit._replace(upper=0)
            found.append(digit)
        return tuple(found)

    def left_of(self, test: Test) -> Test | bool:
        """What is left of a test, or whether it holds."""
        if any(limit.own for limit in test):
            raise NoRuleError
        if not self.simplified:
            return test
        found = []
        for limit in test:
            around = self.around[limit.axis]
            if around.limits and not around.zero:
                raise NoRuleError
            _, least, most = around.values
            high = limit.limit >= most if limit.upper else limit.limit <= least
            low = limit.limit < least if limit.upper else limit.limit > most
            if (high or low) and self._is_rewritten(limit.axis):
                raise NoRuleError
            if low:
                return False
            if not high:
                found.append(limit)
        if not found:
            return True
        if any(self._loses_digits(limit) for limit in found):
            raise NoRuleError
        if len(found) > 1 and self._is_empty(found):
            return False
        return tuple(found)

    def _is_rewritten(self, number: int) -> bool:
        if not self.changes or self.around[number].zero:
            return False
        return self.digits(number) != self.border.axes[number].digits

    def _loses_digits(self, limit: Limit) -> bool:
        """Whether 2 <= i * 2 + j may become 1 <= i, as it does where j is 0 or 1."""
        scales = self.around[limit.axis].scales
        if limit.upper or len(scales) < 2 or 1 not in scales:
            return False
        return math.gcd(limit.limit, *[scale for scale in scales if scale != 1]) > 1

    def _is_empty(self, test: Sequence[Limit]) -> bool:
        """Whether no value of a single digit is within the limits."""
        axis = test[0].axis
        around = self.around[axis]
        if len(around.digits) > 1 or any(limit.axis != axis for limit in test):
            return False
        scale = around.scales[0]
        first, last = 0, around.sizes[0] - 1
        for limit in test:
            if limit.upper:
                last = min(last, limit.limit // scale)
            else:
                first = max(first, -(-limit.limit // scale))
        return first > last

    def where(self, test: Test, taken: bool) -> Known:
        """What is known where a test holds, or fails."""
        axes = dict.fromkeys([limit.axis for limit in test])
        if not taken and len(axes) > 1:
            raise NoRuleError
        around = list(self.around)
        for axis in axes:
            low = [limit.limit for limit in test if limit.axis == axis and not limit.upper]
            high = [limit.limit for limit in test if limit.axis == axis and limit.upper]
            around[axis] = around[axis].where(
                (max(low) if low else None, min(high) if high else None, taken)
            )
        found = self._replace(around=tuple(around), tested=(*self.tested, *axes))
        if self.simplified and (taken or len(test) == 1):
            for axis in axes:
                digits = around[axis].digits
                if len(digits) == 1 and digits[0].lower > 1 and not around[axis].values.most:
                    found = found._without(axis)
        return found

    def _without(self, axis: int) -> Known:
        """Where the one digit of loops around in an axis is 0."""
        (digit,) = [d for d in self.digits(axis) if d.loop >= len(self.border.kinds)]
        if not digit.upper:
            for other in self.around:  # its text may change, of which the fact is
                for known in other.digits if other.zero else ():
                    if known.loop == digit.loop and known.upper >= digit.lower:
                        raise NoRuleError
        below = self.below if digit.upper else (*self.below, (digit.loop, digit.lower))
        around = list(self.around)
        around[axis] = around[axis]._replace(zero=True)
        return self._replace(around=tuple(around), below=below, changes=True)

    def share(self) -> float:
        """`branches.share_of_branches` of the tests."""
        if not self.tested:
            return 1.0
        asked = dict.fromkeys(self.tested)
        loops = {digit.loop for axis in asked for digit in self.around[axis].digits}
        points = math.prod([self.border.extents[loop] for loop in loops])
        if points > MOST_POINTS:
            return 1.0
        count = points
        for axis in asked:
            around = self.around[axis]
            count = count // around.every.number * around.values.number
        if not count and self.simplified:
            raise NoRuleError  # it may be seen that nothing is done here
        return count / points


def known_at_first(border: Border, simplified: bool) -> Known:
    """What is known around a copy. Raises NoRuleError where digits depend on each other."""
    own = len(border.kinds)
    found = []
    by_loop: dict[int, list[Digit]] = {}
    for axis in border.axes:
        around = tuple([digit for digit in axis.digits if digit.loop >= own])
        if axis.first is not None or axis.end is not None:
            for digit in axis.digits:
                by_loop.setdefault(digit.loop, []).append(digit)
        scales = tuple([digit.scale for digit in around])
        sizes = tuple([values_of(border, digit) for digit in around])
        values = _values(scales, sizes, ())
        found.append(Around(around, scales, sizes, values, values))
    for loop, digits in by_loop.items():
        _check(border.extents[loop], digits)
    return Known(border, tuple(found), simplified)


def _check(extent: int, digits: list[Digit]) -> None:
    """Raise NoRuleError unless each value of a digit comes as often with those of the others."""
    if len(digits) > 1:
        digits.sort(key=lambda digit: digit.lower)
    below = 1
    for digit in digits:
        upper = digit.upper or extent
        if digit.scale < 1 or digit.lower % below or upper % digit.lower or extent % upper:
            raise NoRuleError
        below = upper


def values_of(border: Border, digit: Digit) -> int:
    """How many values a digit has."""
    return (digit.upper or border.extents[digit.loop]) // digit.lower
