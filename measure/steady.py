"""Tell whether a candidate's repeats agree, or show other programs or clock changes."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, lgamma, log, log1p

import numpy as np

# Upper over lower quartile of the repeats. On two cores, 21 comparisons of three kernels: 1.36 to
# 2.23 with both cores taken by others, at most 1.32 with one or none. A core that is taken all the
# time is not noticed: it makes all repeats equally slower.
DISTURBED = 1.3

_APART = 1.2  # ratio of the medians of two speeds; steady repeats stay within a few percent
_SHARE = 0.2  # of the repeats, at least, in each of the two groups

_MISSED = 0.025  # chance that the time lies beyond one end of its interval; 95% lie inside


def interval(seconds: Sequence[float], quantile: float = 0.25) -> tuple[float, float]:
    """A 95% confidence interval of a candidate's time; both ends are repeats.

        interval([1.0, 1.01, ..., 1.23])     # of 24 repeats the second and the eleventh

    The time is the lower quartile, or another `quantile`. The number of n independent repeats below
    it is binomial (n, 1/4), whatever their distribution. With few repeats the ends are the smallest
    and the largest repeat. Repeats of one visit are not quite independent, so the interval of a
    disturbed candidate is too short.
    """
    ordered = sorted(seconds)
    number = len(ordered)
    below, low, high = 0.0, 0, number - 1
    for rank in range(number):  # `below`: chance that fewer than `rank` repeats are below
        if below <= _MISSED:
            low = max(0, rank - 1)
        if below >= 1 - _MISSED:
            high = rank - 1
            break
        others = number - rank
        below += exp(_log_comb(number, rank) + rank * log(quantile) + others * log1p(-quantile))
    return ordered[low], ordered[high]


def _log_comb(number: int, chosen: int) -> float:
    """The logarithm of a binomial coefficient, which for 1500 exceeds every float."""
    return lgamma(number + 1) - lgamma(chosen + 1) - lgamma(number - chosen + 1)


def scatter(seconds: Sequence[float]) -> float:
    """The upper over the lower quartile of the repeats; 1 is perfectly steady."""
    lower, upper = np.quantile(seconds, [0.25, 0.75])
    return float(upper / lower)


def two_speeds(seconds: Sequence[float]) -> tuple[float, float] | None:
    """The medians of the two groups into which the repeats fall; None where there is one group.

        two_speeds([1.0, 1.01, 1.02, 1.5, 1.51, 1.52])     # (1.01, 1.51)

    The medians of two groups differ by at least a fifth, most of that is a gap without repeats, and
    each group has a fifth of the repeats, but at least two.
    """
    ordered = sorted(seconds)
    least = max(2, round(_SHARE * len(ordered)))
    for cut in range(least, len(ordered) - least + 1):
        low, high = _median(ordered, 0, cut), _median(ordered, cut, len(ordered))
        if high >= _APART * low and 2 * log(ordered[cut] / ordered[cut - 1]) >= log(high / low):
            return low, high
    return None


def _median(ordered: Sequence[float], start: int, end: int) -> float:
    """The median of a part of sorted numbers."""
    return (ordered[(start + end - 1) // 2] + ordered[(start + end) // 2]) / 2
