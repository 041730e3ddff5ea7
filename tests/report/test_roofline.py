"""The roof is measured for records of this machine's CPU and for no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosched.measure import bandwidth
from autosched.report import roofline as module
from autosched.report.roofline import Roof, measured_roof, roofline
from autosched.report.runs import Run, read_runs

KIB = 2**10


@pytest.fixture
def runs(log: Path, old_log: Path, monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """One of this machine, one of another; caches are small, so that measuring takes no time."""
    monkeypatch.setattr(bandwidth, "cache_sizes", lambda: (16 * KIB, 64 * KIB, 128 * KIB))
    for measured in (module._measured, module._bandwidths):
        measured.cache_clear()
    return read_runs([log, old_log], pytest.fail)[0]


def test_only_this_machine_is_measured(runs: list[Run]) -> None:
    here, elsewhere = runs
    roof = measured_roof(here)
    assert roof is not None and roof.peak is not None and roof.dtype == "float32"
    assert roof.peak > 1e8
    levels = [level.level for level in roof.bandwidths]
    assert levels[0] == "L1" and levels == [x for x in ("L1", "L2", "L3", "memory") if x in levels]
    assert measured_roof(here) is roof
    assert measured_roof(elsewhere) is None


def test_the_best_above_the_peak_is_explained(runs: list[Run]) -> None:
    chart = roofline(runs[0], Roof(1e6, "float32", 1, ()), "")
    assert "The best is above the peak" in chart.caption
    assert "Memory is not measured" in chart.caption
    no_peak = roofline(runs[0], Roof(None, "int32", 1, ()), "")
    assert "no peak is known for int32" in no_peak.caption
