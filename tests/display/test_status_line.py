"""The line of a running session at every width."""

from __future__ import annotations

import pytest

from autosched.display.status_line import Status, bar, clock, status_line

FULL = Status(
    "build 13/16",
    39,
    64,
    best="1.23 ms",
    rate="122.8 GFLOP/s",
    peak="41% of peak",
    model="model 0.71",
    failures="2 run timeout, 1 compile error",
    name="conv2d_nhwc",
    eta=83.4,
)


@pytest.mark.parametrize("status", [FULL, Status("start", 0, 64)], ids=["full", "start"])
def test_it_fits(status: Status) -> None:
    assert [width for width in range(200) if len(status_line(status, width)) > width] == []


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (24, " 61%  best 1.23 ms"),
        (40, " 61%  39/64  best 1.23 ms  ETA 1:23"),
        (80, "build 13/16   61%  39/64  conv2d_nhwc  best 1.23 ms  122.8 GFLOP/s  ETA 1:23"),
    ],
)
def test_percentage_best_and_eta_stay_longest(width: int, line: str) -> None:
    assert status_line(FULL, width) == line


def test_everything_is_said_where_there_is_room() -> None:
    shown = status_line(FULL, 200)
    for text in ("model 0.71", "2 run timeout, 1 compile error", "41% of peak", "conv2d_nhwc"):
        assert text in shown
    assert "━─" in shown


def test_a_long_name_or_many_failures_do_not_push_out_the_rest() -> None:
    status = Status("run 1/16", 1, 64, "1 us", failures="9 run error, " * 20, name="n" * 90, eta=1)
    shown = status_line(status, 80)
    for text in ("2%", "best 1 us", "ETA 0:01", "1/64"):
        assert text in shown


def test_bars_grow_and_keep_their_width() -> None:
    bars = [bar(k / 40, 10) for k in range(41)]
    assert {len(text) for text in bars} == {10}
    filled = [text.count("━") for text in bars]
    assert filled == sorted(filled)
    assert (filled[0], filled[-1]) == (0, 10)
    assert bar(0.5, 4, ascii_only=True) == "==--"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-:--"), (-3, "0:00"), (59.6, "1:00"), (3599, "59:59"), (3723, "1:02:03")],
)
def test_clock(seconds: float | None, text: str) -> None:
    assert clock(seconds) == text
