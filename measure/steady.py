"""Whether the repeats of a candidate agree, or other programs and the clock show in them."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, lgamma, log, log1p
from statistics import median

import numpy as np

# Upper over lower quartile of the repeats. On two cores, 21 comparisons of three kernels: 1.36 to
# 2.23 with both cores taken by others, at most 1.32 with one or none. One that is taken all the
# time is not noticed: it makes every repeat slower alike.
DISTURBED = 1.3

_APART = 1.2  # of the medians of two speeds; steady repeats stay within a few percent
_SHARE = 0.2  # of the repeats that each of two speeds has at least

_MISSED = 0.025  # how often the interval of a time lies to one side of it: 95% lie inside


def interval(seconds: Sequence[float], quantile: float = 0.25) -> tuple[float, float]:
    """Where the time of a candidate lies with 95% confidence: two of its repeats.

        interval([1.0, 1.01, ..., 1.23])     # of 24 repeats the second and the eleventh

    The time is the lower quartile, or another `quantile`. How many of n independent repeats are
    below it is binomial (n, 1/4), whatever their distribution; of few repeats it is the smallest or
    the largest one. Repeats of one visit are not quite independent: of a disturbed candidate it is
    too short.
    """
    ordered = sorted(seconds)
    number = len(ordered)
    below, low, high = 0.0, 0, number - 1
    for rank in range(number):  # `below`: the chance that less than `rank` repeats are below
        if below <= _MISSED:
            low = max(0, rank - 1)
        if below >= 1 - _MISSED:
            high = rank - 1
            break
        others = number - rank
        below += exp(_log_comb(number, rank) + rank * log(quantile) + others * log1p(-quantile))
    return ordered[low], ordered[high]


def _log_comb(number: int, chosen: int) -> float:
    """The logarithm of the number of ways to choose: of 1500 no float holds the number itself."""
    return lgamma(number + 1) - lgamma(chosen + 1) - lgamma(number - chosen + 1)


def scatter(seconds: Sequence[float]) -> float:
    """The upper over the lower quartile of the repeats; 1 is perfectly steady."""
    lower, upper = np.quantile(seconds, [0.25, 0.75])
    return float(upper / lower)


def two_speeds(seconds: Sequence[float]) -> tuple[float, float] | None:
    """The medians of the two groups that repeats fall into; None where they are one group.

        two_speeds([1.0, 1.01, 1.02, 1.5, 1.51, 1.52])     # (1.01, 1.51)

    Two groups lie at least a fifth apart, most of that is a gap without a repeat, and each has a
    fifth of the repeats, two at least.
    """
    ordered = sorted(seconds)
    least = max(2, round(_SHARE * len(ordered)))
    for cut in range(least, len(ordered) - least + 1):
        low, high = median(ordered[:cut]), median(ordered[cut:])
        if high >= _APART * low and 2 * log(ordered[cut] / ordered[cut - 1]) >= log(high / low):
            return low, high
    return None
