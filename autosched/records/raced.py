"""Rebuild the best candidates of two record files, and time them in turns on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from math import exp, log
from statistics import median
from typing import Any

from autosched import arguments
from autosched.errors import ConfigError, MeasureError
from autosched.measure.measurer import Measurer
from autosched.measure.result import Failure, lower_quartile
from autosched.measure.run_options import RunOptions
from autosched.measure.steady import interval
from autosched.records.diff import Difference, Differences
from autosched.records.top import Found
from autosched.session.heats import VISITS, of_visits
from autosched.session.this_cpu import for_this_cpu
from autosched.session.this_gpu import for_this_gpu
from autosched.task import Task
from autosched.user_warning import Tell, warn
from autosched.words import last_line, seconds_text

_MOST, _FEWEST = 60, 12  # visits of each candidate
_SECONDS = 5.0  # after which the fewest visits are enough
_VISIT_SECONDS = 3e-3


@dataclass(frozen=True, slots=True, repr=False)
class Raced:
    """The times of a task's two best candidates on this machine, taken in turns in one process.

    `seconds` are the times of a's and of b's best. `ratio` is b's over a's, the median of `visits`
    pairs, with 95% confidence within `interval`. If there was no race, `why` says why.
    """

    difference: Difference
    seconds: tuple[float, float] | None = None
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    visits: int = 0
    why: str = ""

    def __repr__(self) -> str:
        return f"<{self.name}: {self.text}>"

    @property
    def name(self) -> str:
        """The name of the task, for people."""
        return self.difference.name

    @property
    def faster(self) -> str:
        """`a` or `b`; empty where the race does not decide, or there was none."""
        if self.interval is None:
            return ""
        low, high = self.interval
        return "b" if high < 1 else "a" if low > 1 else ""

    @property
    def text(self) -> str:
        """The result, as `1.46 ms in a, 1.32 ms in b, ratio 0.90 (0.89 to 0.92), b is faster`."""
        if self.seconds is None or self.interval is None:
            return f"no race: {self.why}"
        a, b = map(seconds_text, self.seconds)
        low, high = self.interval
        end = f"{self.faster} is faster" if self.faster else "neither is faster"
        return f"{a} in a, {b} in b, ratio {self.ratio:.3f} ({low:.3f} to {high:.3f}), {end}"

    def to_json(self) -> dict[str, Any]:
        """The JSON object that --json prints; docs/semantics/records.md explains the keys."""
        return {
            "seconds": None if self.seconds is None else list(self.seconds),
            "ratio": self.ratio,
            "interval": None if self.interval is None else list(self.interval),
            "visits": self.visits,
            "faster": self.faster or None,
            "why": self.why or None,
        }


def race(found: Differences, *, share: bool = False, warning: Tell = warn) -> list[Raced]:
    """Race the two bests of each task: rebuild them, check their results, time them in turns.

        found = autosched.records.diff("monday.jsonl", "tuesday.jsonl")
        for raced in autosched.records.race(found):
            print(raced.name, raced.ratio, raced.interval)

    Other programs and changes of the clock affect both alike: a difference of one percent shows,
    where the recorded times of two runs may differ by ten. Times are of this machine, wherever the
    files come from. `share` allows a GPU on which other processes compute. A task that cannot be
    run here, such as one for a GPU or of a Python file that is not trusted, has no race; its result
    says why.
    """
    arguments.instance("found", found, Differences, 'records.diff("a.jsonl", "b.jsonl")')
    with ExitStack() as opened:

        @cache
        def measurer_for(kind: str, flush: int) -> Measurer:
            options = RunOptions(cache_flush=flush)
            made = Measurer.create(
                workers=1, options=options, target=kind, share=share, warning=warning
            )
            return opened.enter_context(made)

        return [_raced(each, measurer_for) for each in found.tasks]


def _raced(found: Difference, measurer_for: Callable[[str, int], Measurer]) -> Raced:
    a, b = found.a.best, found.b.best
    if a is None or b is None:
        return Raced(found, why="one of them has no valid record")
    if found.same_best:
        return Raced(found, why="the best is the same candidate in both")
    try:
        first, second = (Task.from_json(side.place.record.task) for side in (a, b))
        flush = min(side.place.record.result.cache_flush for side in (a, b))
        measurer = measurer_for(first.target.kind, flush)
        tasks = [_here(task, measurer) for task in (first, second)]
        measurer.require([task.target for task in tasks])
        built = [_built(measurer, task, best) for task, best in zip(tasks, (a, b), strict=True)]
        return _timed(found, measurer, tasks[0], built)
    except ConfigError as error:
        return Raced(found, why=" ".join(str(error).split()))
    except MeasureError as error:
        return Raced(found, why=last_line(str(error)))


def _here(task: Task, measurer: Measurer) -> Task:
    facts = measurer.gpu()
    return for_this_cpu(task) if facts is None else for_this_gpu(task, facts)


def _built(measurer: Measurer, task: Task, best: Found) -> bytes:
    """Build a best candidate and check it against the reference; its code. Raises MeasureError."""
    where = f"record {best.index} of {best.place.path}"
    [artifact] = measurer.build(task, [best.place.record.steps])
    if artifact is None:
        why = "cannot be built here; autosched replay --index says why"
        raise MeasureError(f"{where} {why}", stage="lower")
    seen = measurer.verified(task, artifact)
    if isinstance(seen, Failure):
        raise MeasureError(f"{where}: {last_line(seen.message)}", stage="check", kind=seen.kind)
    return artifact


def _timed(found: Difference, measurer: Measurer, task: Task, built: Sequence[bytes]) -> Raced:
    """Time the two in turns until there are enough visits. Raises MeasureError where one fails."""
    repeats: tuple[list[float], list[float]] = [], []
    visits: tuple[list[float], list[float]] = [], []
    end = time.monotonic() + _SECONDS
    while len(visits[0]) < _MOST and (len(visits[0]) < _FEWEST or time.monotonic() < end):
        results = measurer.together(task, built, VISITS, _VISIT_SECONDS)
        for k, result in enumerate(results):
            if result.failure is not None:
                why = f"the best of {'ab'[k]}: {last_line(result.failure.message)}"
                raise MeasureError(why, stage=result.failure.stage, kind=result.failure.kind)
            repeats[k].extend(result.seconds)
            visits[k].extend(of_visits(result.seconds, VISITS))
    ratios = [log(b / a) for a, b in zip(*visits, strict=False)]
    low, high = interval(ratios, 0.5)
    a, b = map(lower_quartile, repeats)
    return Raced(found, (a, b), exp(median(ratios)), (exp(low), exp(high)), len(ratios))
