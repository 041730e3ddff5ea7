"""Time finalists in turns, until the losers are known or more turns are not worth their time."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import erfc, exp, log, pi, sqrt
from statistics import median

from autosched.measure.measurer import Measurer
from autosched.measure.rank_test import signed_rank
from autosched.measure.result import MeasureResult, lower_quartile
from autosched.task import Task

CONFIDENCE = 0.95
MOST = 12  # finalists
SECONDS = 1.0  # of a race, without its heats
VISITS = 6  # of each finalist in a turn

_RACING = 4  # finalists that the heats leave
_HEAT = 3, 3e-3  # visits of each finalist, and seconds of a visit
_VISIT_SECONDS = 3e-3
_TURNS = 10  # the most turns; the tests of all of them share the error probability
_REGRET = 1.5e-3  # the race ends when less regret is expected for the leader
_BEHIND = 0.02  # a finalist that lags more is no tie
_FEWEST = 12  # visits before the spread of ratios says something
# For normal errors: the standard deviation over the median absolute deviation, and the standard
# deviation of a median of n values, times sqrt(n), over that of one value.
_OF_NORMAL = 1.4826 * 1.2533


class Heats:
    """A race: the repeats so far of each finalist, and who is `left`.

    More than four finalists have heats first: after each the better half goes on, the others are
    `out`. `seconds` are the repeats of the race proper; for finalists in `out` those of the heats.
    Two finalists are compared by the fastest repeat of each visit.
    """

    def __init__(self, task: Task, measurer: Measurer, artifacts: Mapping[int, bytes]) -> None:
        self._task = task
        self._measurer = measurer
        self._artifacts = artifacts
        self._level = (1 - CONFIDENCE) / (_TURNS * min(_RACING, len(artifacts)))  # Bonferroni's
        self._last: dict[int, MeasureResult] = {}
        self._visits: dict[int, list[float]] = {k: [] for k in artifacts}
        self.seconds: dict[int, list[float]] = {k: [] for k in artifacts}
        self.left = list(artifacts)
        self.out: list[int] = []  # lost in a heat

    @property
    def raced(self) -> list[int]:
        """The finalists that have a time: one that failed has none."""
        return [k for k in self.seconds if k in self._last]

    def run(self) -> None:
        """Run the heats, then turns until one is left or the leader is known well enough."""
        while len(self.left) > _RACING:
            self._turn(*_HEAT)
            ordered = sorted(self.left, key=self._cost)
            half = max(_RACING, len(ordered) // 2)
            self.left, out = sorted(ordered[:half]), ordered[half:]
            self.out += out
            if half == _RACING and len(self.left) > 1:  # otherwise there is no race
                for k in self.left:
                    self.seconds[k], self._visits[k] = [], []
        end = time.perf_counter() + SECONDS
        for _ in range(_TURNS):
            begun = time.perf_counter()
            if len(self.left) > 1:
                self._turn(VISITS, _VISIT_SECONDS)
            now = time.perf_counter()
            if len(self.left) < 2 or 2 * now - begun > end or self._settled():
                return

    @property
    def _leader(self) -> int:
        return min(self.left, key=self._cost)

    def visits(self, one: int) -> int:
        """The number of visits that the finalist `one` had in the race."""
        return len(self._visits[one])

    def _cost(self, one: int) -> float:
        return lower_quartile(self.seconds[one])

    def _turn(self, visits: int, seconds: float) -> None:
        """Time some more visits of those that are left; those that have lost then leave."""
        batch = [self._artifacts[k] for k in self.left]
        results = self._measurer.together(self._task, batch, visits, seconds)
        for k, result in zip(list(self.left), results, strict=True):
            if result.valid:
                self.seconds[k] += result.seconds
                self._visits[k] += of_visits(result.seconds, visits)
                self._last[k] = result
            else:
                self.left.remove(k)
                self._last.pop(k, None)
        if self.left:
            leader = self._leader
            self.left = [k for k in self.left if k == leader or not self._loses(k, leader)]

    def _ratios(self, one: int, leader: int) -> list[float]:
        """The logarithms of the times of `one` over those of the leader, visit by visit."""
        pairs = zip(self._visits[one], self._visits[leader], strict=False)
        return [log(mine / best) for mine, best in pairs]

    def _loses(self, one: int, leader: int) -> bool:
        ratios = self._ratios(one, leader)
        return median(ratios) > 0 and signed_rank(ratios) <= self._level

    def _settled(self) -> bool:
        """Whether little is gained by knowing better which of those left is the fastest.

        While one lags behind, the race goes on: the test decides about it soon.
        """
        leader = self._leader
        ratios = [self._ratios(k, leader) for k in self.left if k != leader]
        return len(self._visits[leader]) >= _FEWEST and all(
            median(each) < _BEHIND and expected_regret(each) < _REGRET for each in ratios
        )

    def result(self, k: int, found: MeasureResult) -> MeasureResult:
        """The result of finalist `k` in the race, or in the heat if it came no further.

        `found` is the recorded result of the same code, which may have been checked.
        """
        raced = replace(self._last[k], seconds=tuple(self.seconds[k]))
        if found.checked and not raced.checked:
            raced = replace(raced, checked=True, seen=found.seen)
        return raced


def of_visits(seconds: Sequence[float], visits: int) -> list[float]:
    """The fastest repeat of each of `visits` visits, which had about as many repeats each."""
    each = max(1, len(seconds) // visits)
    return [min(seconds[k : k + each]) for k in range(0, len(seconds), each)]


def expected_regret(ratios: Sequence[float]) -> float:
    """The expected cost of taking the leader instead of one other, as a share of its time.

        expected_regret([0.01, 0.012, 0.008] * 8)     # 0.0: one percent slower in all visits
        expected_regret([0.01, -0.01] * 12)           # about 0.002: as fast, within half a percent

    `ratios` are logarithms of the other's times over the leader's, visit by visit. The error of
    their median is taken to be normal, with the spread of the middle half, because some visits are
    disturbed.
    """
    middle = median(ratios)
    spread = median(abs(ratio - middle) for ratio in ratios)
    error = _OF_NORMAL * spread / sqrt(len(ratios))
    if not error:
        return max(0.0, -middle)
    z = middle / error
    return error * exp(-z * z / 2) / sqrt(2 * pi) - middle * erfc(z / sqrt(2)) / 2
