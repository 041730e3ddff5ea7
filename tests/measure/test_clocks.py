"""Clocks of a visit, summed up."""

from __future__ import annotations

import itertools
import threading
import time

import pytest

from autosched.measure.clocks import Clocks, Sampler, reason_names, to_json
from autosched.measure.nvml import GpuState


def state(sm: int | None, reasons: int | None = None, celsius: int | None = None) -> GpuState:
    return GpuState(0.0, sm, None, celsius, None, reasons)


def test_the_lowest_and_the_mean_clock_and_all_reasons() -> None:
    found = Clocks.of([state(1900, 1, 40), state(1500, 4, 44), state(None)])
    assert found == Clocks(1500, 1700.0, None, 44, None, 5)
    assert Clocks.of([state(None)]) == Clocks()


@pytest.mark.parametrize(
    ("reasons", "throttled"),
    [(None, False), (0, False), (7, False), (8, True), (0x20, True), (0x44, True), (0x80, True)],
)
def test_a_power_cap_is_no_throttling(reasons: int | None, throttled: bool) -> None:
    assert Clocks(reasons=reasons).throttled == throttled


def test_only_what_was_told_is_recorded() -> None:
    assert to_json([Clocks(1, 1.0), Clocks(2, 2.0, celsius=40)]) == {
        "sm_mhz_min": [1, 2],
        "sm_mhz_mean": [1.0, 2.0],
        "celsius": [None, 40],
    }
    assert reason_names(0x44) == ["power cap", "hardware thermal slowdown"]


def test_a_visit_has_the_states_that_were_read_while_it_lasted() -> None:
    numbers, twice = itertools.count(1), threading.Semaphore(0)

    def read() -> GpuState:
        found = GpuState(time.monotonic(), next(numbers))
        twice.release()
        return found

    sampler = Sampler(read)
    try:
        begun = sampler.begin()
        for _ in range(3):  # of which the first two have been taken in
            twice.acquire()
        first = sampler.end(begun)
        assert first.sm_mhz_min == 1 and (first.sm_mhz_mean or 0) >= 1.5
        begun = time.monotonic()  # a visit so short that the thread saw nothing
        assert (sampler.end(begun).sm_mhz_min or 0) > 2
    finally:
        sampler.close()
    assert not sampler._thread.is_alive()
