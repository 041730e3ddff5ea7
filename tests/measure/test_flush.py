"""Emptying the caches before each call: a buffer is written, and every time is of one call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched.cpu_caches import cache_sizes
from autosched.driver import build_steps
from autosched.errors import ConfigError
from autosched.measure import run
from autosched.measure.disturbance import Moment
from autosched.measure.flush import Flush, all_caches, flush_text, parse_flush
from autosched.measure.measurer import Measurer
from autosched.measure.memory_needed import require_memory
from autosched.measure.result import MeasureResult
from autosched.measure.run_options import RunOptions
from autosched.target import cpu_target
from autosched.task import Task
from kit.measurer import PATIENT

TARGET = cpu_target(threads=2)
TASK = Task.from_workload("matmul", M=8, N=8, K=8, target=TARGET)


@pytest.mark.parametrize("size", [1, 4096, 4097, 10**6])
@pytest.mark.parametrize("threads", [1, 2])
def test_every_line_of_the_buffer_is_written_once_a_time(size: int, threads: int) -> None:
    flush = Flush(size, threads)
    assert flush.words.nbytes >= size
    for time in (1, 2, 3):
        flush()
        lines = flush.words.reshape(-1, 8)
        assert (lines[:, 0] == time).all()
        assert not lines[:, 1:].any()


class Runs:
    """A runner without a process that counts what happens between calls."""

    def __init__(self, flush: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[str] = []
        self.handler = run.make_handler()
        self.handler(("task", TASK.to_json()))
        if flush:
            self.handler(("flush", flush))
        artifact = build_steps(TASK.dag, (), TARGET).to_bytes()
        for index in (0, 1):
            self.handler(("load", index, artifact))
        written = Flush.__call__

        def flushed(flush: Flush) -> None:
            self.events.append("flush")
            written(flush)

        def timed(kernel: Any, *args: Any) -> Any:
            def nanoseconds(calls: int) -> int:
                self.events.append(f"{calls}")
                return 1000 * calls

            return nanoseconds

        # A visit is repeated where other programs had the cores.
        monkeypatch.setattr(Moment, "disturbed_since", lambda self, before: False)
        monkeypatch.setattr(Flush, "__call__", flushed)
        monkeypatch.setattr("autosched.runtime.cpu.CpuKernel.timer", timed)


REQUESTS: list[tuple[Any, ...]] = [
    ("first", 0),
    ("time", 0, 1e-3, 3),
    ("time", 0, 0.0, 3),
    ("numpy", 0, 1, 1e-3, 3, 10.0),
]


@pytest.mark.parametrize("request_", REQUESTS)
def test_each_call_is_alone_behind_a_flush(
    request_: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = Runs(4096, monkeypatch)
    answer = runs.handler(request_)
    calls = len(runs.events) // 2
    assert calls >= 1
    assert runs.events == ["flush", "1"] * calls
    times = np.ravel(answer)
    assert len(times) == calls  # each a repeat of its own
    assert times == pytest.approx(1e-6)


@pytest.mark.parametrize("request_", REQUESTS)
def test_nothing_is_flushed_unless_asked(
    request_: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = Runs(None, monkeypatch)
    runs.handler(request_)
    assert runs.events
    assert "flush" not in runs.events


def test_numpy_is_timed_in_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs(4096, monkeypatch)
    theirs, ours = runs.handler(("numpy", 0, None, 1e-3, 3, 10.0))
    assert len(theirs) == len(ours) == 3
    assert runs.events == ["flush", "flush", "1"] * 3  # NumPy's call is between the two


def test_results_say_what_was_written() -> None:
    options = RunOptions(PATIENT, min_repeat_ms=1.0, visits=1, cache_flush=2**20)
    with Measurer.create(workers=1, build_timeout=PATIENT, options=options) as measurer:
        (result,) = measurer.measure(TASK, [()])
        again = measurer.again(TASK, ())
        (built,) = measurer.build(TASK, [()])
        assert built is not None
        first, second = measurer.together(TASK, [built, built], 5, 1e-3)
        assert measurer.runner.options == options
    assert len(first.seconds) == len(second.seconds) == 5  # a visit is a call
    for each in (result, again, first):
        assert each.valid, each.failure
        assert each.cache_flush == 2**20
        assert MeasureResult.from_json(each.to_json()).cache_flush == 2**20


def test_without_flushing_a_record_is_what_it_was() -> None:
    assert "cache_flush" not in MeasureResult((1.0,)).to_json()
    for wrong in (-1, 1.5, True, "64 MiB"):
        with pytest.raises(ConfigError, match="cache_flush: expected bytes from 0 on, found"):
            MeasureResult.from_json({**MeasureResult((1.0,)).to_json(), "cache_flush": wrong})


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (True, True),
        (False, False),
        (0, False),
        (4096, 4096),
        ("100 B", 100),
        ("64 MiB", 2**26),
        ("64MiB", 2**26),
        ("1 GiB", 2**30),
        ("3 KiB", 3072),
        ("0 B", False),
    ],
)
def test_what_a_configuration_may_say(value: Any, found: bool | int) -> None:
    assert repr(parse_flush(value)) == repr(found)
    assert RunOptions(cache_flush=value).flush_bytes == (all_caches() if found is True else found)


def test_true_is_more_than_all_caches_hold() -> None:
    _, second, third = cache_sizes()
    assert all_caches() >= 2 * (second + third)


def test_more_than_the_memory_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"measure.cache_flush: 1.049e\+06 GiB and .* exceed"):
        require_memory(TASK, 2**50)


@pytest.mark.parametrize(
    ("size", "text"), [(100, "100 bytes"), (2**26, "64 MiB"), (3 * 2**29, "1.5 GiB")]
)
def test_sizes_are_read_easily(size: int, text: str) -> None:
    assert flush_text(size) == text
