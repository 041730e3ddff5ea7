"""Who goes on in the race of a batch: after every second visit the better half.

A look at a candidate costs as much whether it is fast or slow, and most of a batch is not worth a
second one. Of 16 candidates of a matmul, on two cores with 5% of noise a visit, the quartile of two
visits of three calls errs by 3%, that of eight by 1%. Two are enough for the model, and four for
those that may be the best: they race for it at the end of the run.
"""

from __future__ import annotations

from collections.abc import Mapping

_EVERY = 2  # visits between two cuts
_LEAST = 2  # that are left: one alone is compared with nobody


def kept(number: int, visits: int) -> int:
    """How many of `number` candidates go on after so many visits of those that were left.

    [kept(16, visits) for visits in range(8)]     # 16, 16, 8, 8, 4, 4, 2, 2
    """
    half = -(-number // (1 << (visits // _EVERY)))
    return min(number, max(_LEAST, half))


def fastest(costs: Mapping[int, float], most: int, give_up: float) -> list[int]:
    """The `most` fastest candidates, none slower than `give_up` times the fastest, in their order.

    `costs` are times of repeats that were taken in turns, so that drift meets all alike.
    """
    best = min(costs.values(), default=0.0)
    ordered = sorted(costs, key=costs.__getitem__)[:most]
    return sorted(index for index in ordered if costs[index] <= give_up * best)
