"""The results that `autosched.tune` returns."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autosched.arguments import found
from autosched.candidate import build_candidate, build_cuda_candidate
from autosched.codegen.cubin_cache import cubin_cache
from autosched.display.frame import frame_of, rows_of
from autosched.display.plot import tuning_curve
from autosched.display.results import Found, results_html
from autosched.errors import ConfigError, MeasureError
from autosched.measure.environment import fingerprint, fingerprint_hash
from autosched.measure.records import Record
from autosched.measure.steady import interval
from autosched.runtime.cpu import CpuKernel, load
from autosched.runtime.cuda_kernel import load_cuda, open_driver
from autosched.runtime.cuda_loader import GpuKernel
from autosched.runtime.origin import Origin
from autosched.search.progress import TuneResult
from autosched.search.task_scheduler import ScheduleResult
from autosched.session.again import Again
from autosched.session.export import ExportOptions, export
from autosched.session.peer import Peer
from autosched.session.race import Final, Race
from autosched.session.this_cpu import for_this_cpu
from autosched.session.yardsticks import Yardsticks
from autosched.state.steps import Step
from autosched.target import arch_of
from autosched.task import Task
from autosched.user_warning import warn
from autosched.words import last_line, rate_text, seconds_text


@dataclass(frozen=True, slots=True, repr=False)
class TunedKernel:
    """The best candidate of a task; `origin` is known if it comes from a record file."""

    task: Task
    record: Record
    origin: Origin | None = None

    def __repr__(self) -> str:
        low, high = map(seconds_text, self.interval)
        checked = "checked" if self.record.result.checked else "not checked"
        time = f"{seconds_text(self.seconds)} ({low} to {high}), {checked}"
        return f"<best of {self.task.name} on {self.task.target}: {time}>"

    @property
    def seconds(self) -> float:
        """Seconds per call: the lower quartile of the repeats."""
        return self.record.result.cost

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% confidence interval of `seconds`, from the repeats."""
        return interval(self.record.result.seconds)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The transform steps: the candidate itself."""
        return self.record.steps

    def build(self) -> CpuKernel | GpuKernel:
        """The kernel, callable on arrays: inputs, then outputs (written in place, or returned).

        For a CPU it is built for this machine's, whatever the task's target, and takes arrays in
        host memory; with a layout rewrite for pre-transformed inputs, `kernel.prepare` stores those
        as the kernel expects them. For CUDA it is compiled for the first GPU of this machine, once
        for all processes (`cubin_cache`), and takes arrays of NumPy, CuPy, PyTorch, Numba and
        PyCUDA.

        Raises CompileError when code generation refuses the candidate; for CUDA MeasureError
        without a driver, ConfigError without NVRTC.
        """
        task = self.task
        kernel: CpuKernel | GpuKernel
        if not task.target.is_gpu:
            task = for_this_cpu(task)  # this CPU may lack instructions of the recorded one
            kernel = load(build_candidate(task, self.record.steps))
            kernel.origin = self.origin
            return kernel
        driver = open_driver()
        target = replace(task.target, arch=arch_of(driver.capability(0)))
        artifact = build_cuda_candidate(task, self.record.steps, target, cubin_cache())
        kernel = load_cuda(artifact, task.function_name, driver)
        kernel.origin = self.origin
        return kernel

    def export(
        self, folder: str | os.PathLike[str], options: ExportOptions | None = None
    ) -> list[Path]:
        """Write the kernel for users without autosched (docs/export.md); returns the files.

        For a CPU these are a shared library with a header, and a module that needs NumPy only; for
        CUDA source, cubin, PTX and a module. Notes for the user are Python warnings. Raises
        ConfigError, CompileError or ScheduleError.
        """
        if not isinstance(folder, str | os.PathLike):
            raise ConfigError(f"folder: expected the path of a folder, {found(folder)}")
        environment = fingerprint()
        key = fingerprint_hash(environment)
        record = replace(self.record, environment=self.record.environment or key)
        done = export([record], Path(folder), options, {key: environment})
        for note in done.notes:
            warn(note)
        return list(done.files)


@dataclass(frozen=True, slots=True, repr=False)
class TunedTask:
    """The results of a run for one task.

    `records` are those of the run, in the order of measuring; `failures` counts the failed ones by
    stage and kind. `again` is the best timed once more at the end of the run, None where that was
    interrupted or failed: its `remark` says why the best's time is unreliable. `race` is the race
    of the best against those that may have been as fast, None where there were none. `known` holds
    the comparisons of the best, where `compare` asked for them.
    """

    task: Task
    records: list[Record]
    failures: Counter[str]
    _result: TuneResult
    again: Again | None = None
    race: Race | None = None
    known: Yardsticks = field(default_factory=Yardsticks)

    @classmethod
    def of(
        cls, result: TuneResult, final: Final | None = None, known: Yardsticks | None = None
    ) -> TunedTask:
        """Make the results of a task from those of a tuner or the task scheduler, and its race."""
        again, race = (None, None) if final is None else (final.again, final.race)
        failures = result.progress.failures
        known = known or Yardsticks()
        return cls(result.task, result.records, failures, result, again, race, known)

    @property
    def peer(self) -> Peer | None:
        """The best timed in turns with NumPy, where `compare` asked for it and NumPy can."""
        return self.known.peer

    @property
    def peak(self) -> float | None:
        """This machine's measured peak in operations a second, where `compare` asked for it."""
        return self.known.peak

    @property
    def found(self) -> bool:
        """Whether a valid candidate is known, so that there is a best one."""
        return self._result.best is not None

    @property
    def best(self) -> TunedKernel:
        """The winner of the race, or the fastest valid candidate, earlier runs' included.

        Raises MeasureError without one.
        """
        if self._result.best is None:
            raise MeasureError(self.problem, stage="run")
        return TunedKernel(self.task, self._result.best)

    @property
    def problem(self) -> str:
        """Why there is no best candidate; an empty text when there is one."""
        return "" if self.found else f"{self.task.name}: {self._why_none()}"

    def __repr__(self) -> str:
        best = f"{self.best.seconds * 1e6:.4g} us" if self.found else "no valid candidate"
        if self.race is not None:
            best += f", {self.race.text}"
        if self.again is not None and self.again.remark:
            best += f" ({self.again.remark})"
        return f"<{self.task.name}: {best}, {len(self.records)} measured>"

    def rows(self) -> list[dict[str, Any]]:
        """A row for each measured candidate, as `Tuned.to_pandas` has them."""
        return list(rows_of(self.task, self.records))

    def summary(self) -> Found:
        """The texts and the curve that a notebook shows."""
        low, high = map(seconds_text, self.best.interval) if self.found else ("", "")
        progress = self._result.progress
        rate = rate_text(progress.flops_per_second(self._result.best), self.peak)
        remarks = [f"{number} x {kind}" for kind, number in self.failures.most_common()]
        remarks.append("" if self.race is None else self.race.text)
        remarks.append("" if self.again is None else self.again.remark)
        remarks.append("" if self.peer is None else self.peer.text)
        return Found(
            task=self.task.name,
            best=seconds_text(self.best.seconds) if self.found else self._why_none(),
            interval=f"{low} to {high}" if self.found else "",
            rate=rate if self.found else "",
            trials=len(self.records),
            valid=sum(record.result.valid for record in self.records),
            remarks=remarks,
            curve=[row["best_seconds"] for row in self.rows()],
        )

    def _repr_html_(self) -> str:
        return results_html([self.summary()], self._result.reason)

    def _why_none(self) -> str:
        if self._result.interrupted:
            return "interrupted before a candidate was measured successfully"
        if not self.failures:
            return f"nothing was measured: {self._result.reason}"
        counts = "; ".join(f"{number} x {kind}" for kind, number in self.failures.most_common())
        messages = [r.result.failure.message for r in self.records if r.result.failure]
        return f"no candidate was valid: {counts}; for example: {last_line(messages[0])}"


@dataclass(frozen=True, slots=True, repr=False)
class Tuned:
    """The results of a run: an entry for each task, in their order.

    For a single task, `best` and `records` are the entry's. `reason` says why the run ended;
    `interrupted` is True when that was Ctrl-C. `file` is the file that records were written to.
    """

    tasks: tuple[TunedTask, ...]
    reason: str
    interrupted: bool
    _objective: float
    file: Path | None = None

    @classmethod
    def of(
        cls,
        result: ScheduleResult,
        file: Path | None = None,
        *,
        interrupted: bool = False,
        finals: Mapping[str, Final | None] | None = None,
        known: Mapping[str, Yardsticks] | None = None,
    ) -> Tuned:
        """Make the results from those of a session.

        `interrupted` says that Ctrl-C came after the session had run. `finals` are the races of the
        tasks, by their keys, and `known` their comparisons.
        """
        raced, compared = finals or {}, known or {}
        tasks = tuple(
            TunedTask.of(each, raced.get(each.task.key), compared.get(each.task.key))
            for each in result.tasks
        )
        interrupted = interrupted or result.interrupted
        return cls(tasks, result.reason, interrupted, result.objective, file)

    @property
    def best(self) -> TunedKernel:
        """The best kernel of the only task.

        Raises MeasureError when no candidate was valid, ConfigError when there are several tasks.
        """
        if len(self.tasks) != 1:
            raise ConfigError(
                f"best: {len(self.tasks)} tasks were tuned; take it from one of them, e.g. "
                "result[0].best"
            )
        return self.tasks[0].best

    @property
    def records(self) -> list[Record]:
        """The records of the run, task after task, in the order of measuring."""
        return [record for task in self.tasks for record in task.records]

    @property
    def objective(self) -> float | None:
        """The value that the run minimised, by default the weighted sum of best times in seconds.

        None while a task has no valid candidate.
        """
        return self._objective if all(task.found for task in self.tasks) else None

    def to_pandas(self) -> Any:
        """A pandas.DataFrame with a row for each measured candidate, in the order of measuring.

        Columns: `task`, `key`, `trial`, `round`, `seconds` (NaN for a failure), `low` and `high`
        (its 95% interval), `flops_per_second`, `best_seconds` (until then), `valid`, `checked`,
        `stage`, `kind` and `message` of a failure, `predicted` (by the cost model), `build_seconds`
        and `total_seconds` spent on it, `steps` (their number).

        Raises ConfigError without pandas.
        """
        return frame_of([row for task in self.tasks for row in task.rows()])

    def plot(self) -> Any:
        """The best time over the trials, and every trial, as a plotly.graph_objects.Figure.

        A notebook shows it; elsewhere `figure.show()` or `figure.write_html("curve.html")`. Raises
        ConfigError without plotly.
        """
        return tuning_curve([row for task in self.tasks for row in task.rows()])

    def _repr_html_(self) -> str:
        return results_html([task.summary() for task in self.tasks], self.reason)

    def __repr__(self) -> str:
        return f"Tuned({', '.join(map(repr, self.tasks))}; {self.reason})"

    def __len__(self) -> int:
        return len(self.tasks)

    def __iter__(self) -> Iterator[TunedTask]:
        return iter(self.tasks)

    def __getitem__(self, index: int) -> TunedTask:
        return self.tasks[index]
