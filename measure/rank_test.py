"""Whether one of two candidates, timed in turns, is faster: Wilcoxon's signed-rank test."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def signed_rank(differences: Sequence[float]) -> float:
    """The two-sided p-value of paired differences being symmetric around zero, exactly.

        signed_rank([0.1, 0.2, 0.3, 0.4, 0.5])     # 0.0625: of 32 choices of signs two

    One outlier weighs no more than any other. Differences of zero say nothing and are left out
    (p is 1 without others); equal ones share their ranks. Wilcoxon, Individual comparisons by
    ranking methods, 1945; the distribution is counted over all choices of signs, ties included.
    """
    values = np.asarray([d for d in differences if d], float)
    if not len(values):
        return 1.0
    sizes = np.abs(values)
    below = (sizes[:, None] > sizes).sum(axis=1)
    ranks = 2 * below + (sizes[:, None] == sizes).sum(axis=1) + 1  # twice the mean rank: integers
    counts = np.ones(1)
    for rank in ranks:
        both = np.zeros(len(counts) + int(rank))
        both[: len(counts)] += counts / 2
        both[int(rank) :] += counts / 2
        counts = both
    reached = int(ranks[values > 0].sum())
    low, high = counts[: reached + 1].sum(), counts[reached:].sum()
    return float(min(1.0, 2 * min(low, high)))
