"""Finalists timed in turns: who is left, and when more turns are not worth their time."""

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
SECONDS = 1.0  # of a race, its heat not counted
VISITS = 6  # of each finalist in a turn

_RACING = 4  # that a heat leaves
_HEAT = 3, 3e-3  # visits, and seconds of each
_VISIT_SECONDS = 3e-3
_TURNS = 10  # among which the error of the tests is shared
_REGRET = 1.5e-3  # that is expected of the leader when a race ends
_BEHIND = 0.02  # of one that is no tie
_FEWEST = 12  # visits before a spread says something
_OF_NORMAL = 1.4826 * 1.2533  # median deviation to deviation; and that of a median of n, sqrt(n)


class Heats:
    """The repeats so far of each finalist, and who is left.

    `seconds` are those of the race proper; more than four finalists have heats before it, of which
    the better half goes on. Two are compared by the fastest repeat of each visit.
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
        self.out: list[int] = []  # of the heat

    @property
    def raced(self) -> list[int]:
        """Those that have a time: a finalist that failed is out of it."""
        return [k for k in self.seconds if k in self._last]

    def run(self) -> None:
        """The heats, then turns until one is left, or the leader is known well enough."""
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
        """How many visits of the race it had."""
        return len(self._visits[one])

    def _cost(self, one: int) -> float:
        return lower_quartile(self.seconds[one])

    def _turn(self, visits: int, seconds: float) -> None:
        """Some more visits of those that are left; the ones that have lost then leave."""
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
        """The logarithms of its times over those of the leader, visit by visit."""
        pairs = zip(self._visits[one], self._visits[leader], strict=False)
        return [log(mine / best) for mine, best in pairs]

    def _loses(self, one: int, leader: int) -> bool:
        ratios = self._ratios(one, leader)
        return median(ratios) > 0 and signed_rank(ratios) <= self._level

    def _settled(self) -> bool:
        """Whether little is to be won by knowing better who of those left is the fastest.

        One that lags behind is left to the test, which soon decides.
        """
        leader = self._leader
        ratios = [self._ratios(k, leader) for k in self.left if k != leader]
        return len(self._visits[leader]) >= _FEWEST and all(
            median(each) < _BEHIND and expected_regret(each) < _REGRET for each in ratios
        )

    def result(self, k: int, found: MeasureResult) -> MeasureResult:
        """What a finalist took in the race, or in the heat if it came no further.

        `found` is what was recorded of the same code, which may have been checked.
        """
        raced = replace(self._last[k], seconds=tuple(self.seconds[k]))
        if found.checked and not raced.checked:
            raced = replace(raced, checked=True, seen=found.seen)
        return raced


def of_visits(seconds: Sequence[float], visits: int) -> list[float]:
    """The fastest repeat of each of so many visits, which had about as many repeats each."""
    each = max(1, len(seconds) // visits)
    return [min(seconds[k : k + each]) for k in range(0, len(seconds), each)]


def expected_regret(ratios: Sequence[float]) -> float:
    """What taking the leader is expected to cost, as a share of its time, against one other.

        expected_regret([0.01, 0.012, 0.008] * 8)     # 0.0: one percent slower in all visits
        expected_regret([0.01, -0.01] * 12)           # about 0.002: as fast, within half a percent

    `ratios` are logarithms of the other's times over the leader's, visit by visit. Their median is
    taken to be off by a normal error; a spread of the middle half, for visits are disturbed.
    """
    middle = median(ratios)
    spread = median(abs(ratio - middle) for ratio in ratios)
    error = _OF_NORMAL * spread / sqrt(len(ratios))
    if not error:
        return max(0.0, -middle)
    z = middle / error
    return error * exp(-z * z / 2) / sqrt(2 * pi) - middle * erfc(z / sqrt(2)) / 2
