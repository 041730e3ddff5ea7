"""The findings of `autosched doctor` about the machine: CPU, timer, clock, load, peak."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from statistics import quantiles

from autosched.cache_folder import cache_folder
from autosched.cli.console import seconds_text
from autosched.cli.diagnosis import Finding, Level
from autosched.control_groups import cpu_quota
from autosched.cpu_cores import physical_cores
from autosched.errors import ConfigError, MeasureError
from autosched.measure.bandwidth import free_bytes
from autosched.measure.environment import fingerprint
from autosched.measure.steady import two_speeds
from autosched.process.worker import Worker
from autosched.session.kernel_cache import KernelCache
from autosched.target import Target
from autosched.words import count, last_line

_LIMIT = 60.0  # seconds to wait for an answer
_COARSE = 1e-6  # seconds; coarser timers distort the times of short kernels
_UNSTEADY = 1.05  # upper over lower quartile of the times of equal work
_LEAST_FREE = 1 << 30
_QUIET = "times are too long: wait until other programs end"


def hardware(target: Target) -> list[Finding]:
    """The findings about CPU, caches and memory, as autosched sees them."""
    cores = count(physical_cores(), "core")
    width = target.vector_bytes * 8
    text = f"{fingerprint()['cpu']} ({target.cpu}), {cores}, {width}-bit vectors"
    sizes = ", ".join(
        f"L{level} {size / 1024:.0f} KiB" if size < 1 << 20 else f"L{level} {size / 2**20:.4g} MiB"
        for level, size in enumerate(target.caches, 1)
    )
    free, all_bytes = free_bytes(), fingerprint()["memory_bytes"]
    memory = f"{free / 2**30:.1f} GiB of {all_bytes / 2**30:.1f} GiB are free"
    found = Finding(Level.OK, "memory", memory)
    if free < _LEAST_FREE:
        found = Finding(
            Level.NOTE, "memory", memory, "large operators may not fit: free some memory"
        )
    return [
        Finding(Level.OK, "CPU", text),
        Finding(Level.OK, "caches", sizes),
        found,
        *_quota(physical_cores(), cpu_quota()),
        _folders(),
    ]


def _folders() -> Finding:
    """The folders of temporary files and of the kernels of `autosched.kernel`."""
    temporary = f"temporary files in {tempfile.gettempdir()}"
    try:
        folder = cache_folder()
        kept = count(len(KernelCache(folder).files()), "task")
    except ConfigError as error:
        return Finding(Level.NOTE, "folders", f"{temporary}; {error}")
    there = next(path for path in (folder, *folder.parents) if path.exists())
    text = f"{temporary}; kernels of {kept} in {folder}"
    if there.is_dir() and os.access(there, os.W_OK):
        return Finding(Level.OK, "folders", text)
    remedy = "this folder cannot be written: set AUTOSCHED_CACHE to one that can"
    return Finding(Level.NOTE, "folders", text, remedy)


def _quota(cores: int, quota: float) -> list[Finding]:
    """A finding if a container may use less than all cores, else none."""
    if quota >= cores:
        return []
    text = f"this container may use {quota:.3g} of {count(cores, 'core')}"
    if quota < 1:
        remedy = "raise its limit: even one thread is paused again and again, so times vary"
        return [Finding(Level.NOTE, "quota", text, remedy)]
    return [Finding(Level.OK, "quota", f"{text}: kernels have {count(int(quota), 'thread')}")]


def steadiness(process: Worker) -> list[Finding]:
    """The findings about timer, load, clock and peak, which tell how reliable times are."""
    parts: tuple[tuple[str, Callable[[Worker], Finding]], ...] = (
        ("timer", _timer),
        ("load", _load),
        ("clock", _clock),
        ("peak", _peak),
    )
    found = []
    for part, look in parts:
        try:
            found.append(look(process))
        except MeasureError as error:
            remedy = "see the stage LLVM below"
            found.append(Finding(Level.BROKEN, part, last_line(str(error)), remedy))
    return found


def _timer(process: Worker) -> Finding:
    step, cost = process.call(("timer",), _LIMIT, "timer")
    text = f"resolution {seconds_text(step)}, {seconds_text(cost)} per reading"
    if step > _COARSE:
        return Finding(
            Level.NOTE,
            "timer",
            text,
            "short kernels are timed badly: check the system's clocksource",
        )
    return Finding(Level.OK, "timer", text)


def _load(_: Worker) -> Finding:
    load, cores = os.getloadavg()[0], physical_cores()
    text = f"{load:.2f} in the last minute on {count(cores, 'core')}"
    if load > 0.5:
        return Finding(Level.NOTE, "load", text, _QUIET)
    return Finding(Level.OK, "load", text)


def _clock(process: Worker) -> Finding:
    seconds = process.call(("clock",), _LIMIT, "clock")
    low, _, high = quantiles(seconds, n=4)
    worst = max(seconds) / low
    text = f"equal work takes {high / low:.2f}x the time now and then, {worst:.2f}x at worst"
    speeds = two_speeds(seconds)
    if speeds is not None:
        text = f"equal work has two speeds, {speeds[1] / speeds[0]:.2f}x apart"
    if high / low > _UNSTEADY or speeds is not None:
        remedy = f"{_QUIET}, or fix the clock (governor performance)"
        return Finding(Level.NOTE, "clock", text, remedy)
    return Finding(Level.OK, "clock", text)


def _peak(process: Worker) -> Finding:
    flops, bandwidth = process.call(("peak",), _LIMIT, "peak")
    memory = f", {bandwidth / 1e9:.4g} GB/s from memory" if bandwidth else ""
    return Finding(Level.OK, "peak", f"{flops / 1e9:.4g} GFLOP/s of float32 measured{memory}")
