"""Halving in the race of a batch: after every second visit the better half stays.

A visit to a candidate costs the same whether it is fast or slow, and most of a batch is not worth a
second visit. Of 16 candidates of a matmul, on two cores with 5% of noise a visit, the quartile of
two visits of three calls errs by 3%, that of eight by 1%. Two visits are enough for the cost model,
and four for candidates that may be the best, because they race at the end of the run.
"""

from __future__ import annotations

from collections.abc import Mapping

_EVERY = 2  # visits between two halvings
_LEAST = 2  # candidates that are always left, so that each is compared with another


def kept(number: int, visits: int) -> int:
    """How many of `number` candidates are left after `visits` visits of each.

    [kept(16, visits) for visits in range(8)]     # 16, 16, 8, 8, 4, 4, 2, 2
    """
    half = -(-number // (1 << (visits // _EVERY)))
    return min(number, max(_LEAST, half))


def fastest(costs: Mapping[int, float], most: int, give_up: float) -> list[int]:
    """The indices of the `most` fastest candidates, in ascending order.

    Candidates that take more than `give_up` times the fastest are left out. `costs` (seconds by
    index) come from repeats taken in turns, so that drift affects all alike.
    """
    best = min(costs.values(), default=0.0)
    ordered = sorted(costs, key=costs.__getitem__)[:most]
    return sorted(index for index in ordered if costs[index] <= give_up * best)
