"""The cores and the time that this process may use."""

from __future__ import annotations

import math

import pytest

from autosched import cpu_cores
from autosched.cpu_cores import usable_cores, usable_threads
from autosched.runtime.parallel import default_threads
from autosched.target import HardwareParams, cpu_target


@pytest.mark.parametrize("limit, cores", [(0.5, 1), (1.9, 1), (2.0, 2), (5.7, 5), (math.inf, 8)])
def test_the_quota_bounds_threads(
    monkeypatch: pytest.MonkeyPatch, limit: float, cores: int
) -> None:
    monkeypatch.delenv("AUTOSCHED_NUM_THREADS", raising=False)
    monkeypatch.setattr(cpu_cores, "_quota", lambda: limit)
    monkeypatch.setattr(cpu_cores, "physical_cores", lambda: 8)
    monkeypatch.setattr(cpu_cores, "hardware_threads", lambda: 16)
    assert usable_cores() == default_threads() == cpu_target().threads == cores
    assert HardwareParams.default("cpu").num_cores == cores
    assert usable_threads() == (16 if limit == math.inf else cores)
