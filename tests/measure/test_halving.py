"""Who goes on in the race of a batch."""

import numpy as np
import pytest

from autosched.measure.halving import fastest, kept
from autosched.measure.result import lower_quartile


def test_half_go_on_after_every_second_visit() -> None:
    assert [kept(16, visits) for visits in range(9)] == [16, 16, 8, 8, 4, 4, 2, 2, 2]
    assert [kept(5, visits) for visits in (1, 2, 4, 6)] == [5, 3, 2, 2]
    assert [kept(number, 8) for number in (0, 1, 2)] == [0, 1, 2]


def test_the_fastest_go_on_in_their_order() -> None:
    costs = {4: 1.0, 7: 1.4, 2: 1.6, 3: 1.1}
    assert fastest(costs, 4, 1.5) == [3, 4, 7]
    assert fastest(costs, 2, 1.5) == [3, 4]
    assert fastest({}, 2, 1.5) == []


@pytest.mark.parametrize("seed", range(3))
def test_noise_of_a_visit_hardly_costs_the_best(seed: int) -> None:
    """Batches of 16 in steps of 1%, noise of 3%: its winner is the best, or the next."""
    rng = np.random.default_rng(seed)
    regret = []
    for _ in range(200):
        truth = 1 + 0.01 * rng.permutation(16)
        left, seconds = list(range(16)), [list[float]() for _ in range(16)]
        for visit in range(8):
            costs = {i: lower_quartile(seconds[i]) for i in left} if visit else {}
            left = fastest(costs, kept(16, visit), 1.5) if visit else left
            for i in left:
                seconds[i] += list(truth[i] * np.exp(0.03 * rng.normal(size=3)))
        regret.append(truth[min(left, key=lambda i: lower_quartile(seconds[i]))] - 1)
    assert np.mean(regret) < 0.005 and np.median(regret) == 0
