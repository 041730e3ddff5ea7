"""Test whether one of two candidates, timed in turns, is faster: Wilcoxon's signed-rank test."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def signed_rank(differences: Sequence[float]) -> float:
    """The exact two-sided p-value of the hypothesis that differences are symmetric around zero.

        signed_rank([0.1, 0.2, 0.3, 0.4, 0.5])     # 0.0625: 2 of 32 choices of signs

    `differences` are those of pairs. An outlier weighs no more than any other difference.
    Differences of zero are left out (p is 1 if no others exist); equal differences share their
    ranks. Wilcoxon, Individual comparisons by ranking methods, 1945; the distribution is counted
    over all choices of signs, ties included.
    """
    values = np.asarray([d for d in differences if d], float)
    if not len(values):
        return 1.0
    sizes = np.abs(values)
    below = (sizes[:, None] > sizes).sum(axis=1)
    ranks = 2 * below + (sizes[:, None] == sizes).sum(axis=1) + 1  # twice the mean rank, an integer
    counts = np.ones(1)
    for rank in ranks:
        both = np.zeros(len(counts) + int(rank))
        both[: len(counts)] += counts / 2
        both[int(rank) :] += counts / 2
        counts = both
    reached = int(ranks[values > 0].sum())
    low, high = counts[: reached + 1].sum(), counts[reached:].sum()
    return float(min(1.0, 2 * min(low, high)))
