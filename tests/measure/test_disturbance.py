"""A visit is disturbed when a thread waited for a core or was moved."""

from __future__ import annotations

import os

import pytest

from autosched.measure import disturbance
from autosched.measure.disturbance import Moment

MS = 1_000_000


@pytest.mark.parametrize(
    ("waited", "core", "disturbed"),
    [
        ({1: 7 * MS, 2: 0}, 0, False),  # as before
        ({1: 7 * MS, 2: 4 * MS}, 0, False),  # 4% of 100 ms
        ({1: 7 * MS, 2: 6 * MS}, 0, True),
        ({1: 11 * MS, 2: 4 * MS}, 0, False),  # neither of them 5%
        ({1: 7 * MS}, 0, False),  # one ended
        ({1: 7 * MS, 2: 0, 3: 90 * MS}, 0, False),  # one began: when is not known
        ({1: 7 * MS, 2: 0}, 1, True),
        ({}, 0, False),  # a system that does not count
    ],
)
def test_what_disturbs(waited: dict[int, int], core: int, disturbed: bool) -> None:
    before = Moment(5.0, {1: 7 * MS, 2: 0}, 0)
    assert Moment(5.1, waited, core).disturbed_since(before) == disturbed


def test_this_process_is_counted() -> None:
    found = Moment.now()
    assert os.getpid() in found.waited
    assert found.core >= 0
    assert not found.disturbed_since(found)


def test_a_system_without_any_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    disturbance._core_of.cache_clear()
    try:
        assert Moment.now().core == -1
    finally:
        disturbance._core_of.cache_clear()
