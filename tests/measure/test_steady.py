"""Repeats of two speeds and noise are told from steady ones."""

import time

import numpy as np
import pytest

from autosched.measure.steady import DISTURBED, interval, scatter, two_speeds


@pytest.mark.parametrize("count", [6, 24, 72])
@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
def test_two_speeds(count: int, share: float) -> None:
    slow = round(share * count)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        repeats = np.where(np.arange(count) < slow, 1.5, 1.0) * rng.normal(1, 0.01, count)
        found = two_speeds(list(rng.permutation(repeats)))
        assert found is not None, seed
        assert found == pytest.approx((1.0, 1.5), rel=0.03), seed


@pytest.mark.parametrize("noise", [0.001, 0.01, 0.03])
def test_steady_repeats_have_one(noise: float) -> None:
    for seed in range(20):
        repeats = list(np.random.default_rng(seed).normal(1, noise, 24))
        assert two_speeds(repeats) is None, seed
        assert two_speeds([*repeats, 2.0]) is None, seed  # one repeat that was disturbed
        assert scatter(repeats) < DISTURBED, seed


def test_repeats_all_over_the_place_are_noise() -> None:
    repeats = list(np.linspace(1, 2, 24))
    assert two_speeds(repeats) is None
    assert scatter(repeats) > DISTURBED


@pytest.mark.parametrize("repeats", [[1.0], [1.0, 2.0], [1.0, 1.0, 2.0]])
def test_few_repeats_say_nothing(repeats: list[float]) -> None:
    assert two_speeds(repeats) is None


@pytest.mark.parametrize(
    ("number", "ranks"),
    [
        *[(1, (0, 0)), (2, (0, 1)), (8, (0, 5)), (24, (1, 10)), (200, (37, 62))],
        *[(1500, (341, 408)), (20000, (4879, 5120))],
    ],
)
def test_the_interval_is_between_two_repeats(number: int, ranks: tuple[int, int]) -> None:
    """The ranks that tables of the binomial distribution give for the lower quartile."""
    assert interval([float(k) for k in reversed(range(number))]) == ranks


def test_the_interval_holds_the_quartile_of_any_distribution() -> None:
    draws = np.random.default_rng(0).exponential(size=(1000, 24))
    intervals = [interval(row) for row in draws.tolist()]
    assert sum(low <= -np.log(0.75) <= high for low, high in intervals) >= 950


def test_many_repeats_take_no_time() -> None:
    """The medians of both groups were sorted anew for each place to cut: 18 s for so many."""
    repeats = [1.0 + 1e-6 * k for k in range(20_000)] + [1.5 + 1e-6 * k for k in range(20_001)]
    start = time.perf_counter()
    assert two_speeds(repeats) == pytest.approx((1.0099995, 1.51))
    assert time.perf_counter() - start < 5
