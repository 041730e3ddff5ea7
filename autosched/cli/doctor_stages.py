"""A tiny workload that runs through every stage of tuning, to name the broken stage."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from autosched.candidate import lower_candidate
from autosched.cli import doctor_software
from autosched.cli.console import seconds_text
from autosched.cli.diagnosis import Finding, Level
from autosched.errors import AutoschedError, MeasureError
from autosched.measure.check import Seen
from autosched.measure.measurer import Measurer
from autosched.measure.record_log import RecordLog
from autosched.measure.records import Record, read_log
from autosched.measure.result import Failure, MeasureResult
from autosched.measure.run_options import RunOptions
from autosched.process.worker import Worker
from autosched.search.space import SearchSpace
from autosched.session.this_gpu import for_this_gpu
from autosched.state.steps import Step, steps_to_json
from autosched.target import Target
from autosched.task import Task
from autosched.words import count, last_line

SIZE = 64
SECONDS = {"compile": 60.0, "model": 60.0}  # time limits of stages

_BUG = "this is a bug in autosched: report it with the whole output of doctor"
_REINSTALL = "install autosched again in a new virtual environment"
_REMEDIES = {
    "LLVM": "install llvmlite again (pip install --force-reinstall llvmlite), one for this CPU",
    "CUDA C": "see the lines NVRTC and compile above",
    "worker": "check what limits new processes of Python here (ulimit -a, memory, containers)",
    "measure": "check what limits memory and processes here (ulimit -a, docker --memory)",
    "check": "results would be wrong: install numpy and llvmlite again; on a GPU see nvidia-smi",
    "record": "go to a folder that you can write to, or give tune --records FILE",
    "model": "one of xgboost-cpu and xgboost must be installed, not both: pip uninstall both, then "
    "pip install xgboost-cpu; or tune with --set cost_model.kind=random",
}


@dataclass
class Workload:
    """The tiny workload, with the results that one stage leaves for the next.

    Each method is a stage and returns a text for its finding.
    """

    target: Target
    on_gpu: bool
    process: Callable[[], Worker]
    measurer: Measurer
    task: Task | None = None
    steps: tuple[Step, ...] = ()
    artifact: bytes | None = None
    result: MeasureResult | None = None

    def sketch(self) -> str:
        """Build the search space of a matrix product and draw a candidate from it."""
        self.task = Task.from_workload("matmul", M=SIZE, N=SIZE, K=SIZE, target=self.target)
        space = SearchSpace(self.task)
        drawn = space.sample(np.random.default_rng(0), 4)
        if not drawn:
            raise MeasureError("no candidate could be drawn from the sketches", stage="lower")
        self.steps = drawn[0]
        sketches = count(len(space.sketches), "sketch")
        return f"{self.task.name}: {sketches}, {count(len(drawn), 'candidate')}"

    def lower(self) -> str:
        """Lower the candidate."""
        func = lower_candidate(self._task(), self.steps)
        return f"{count(len(str(func).splitlines()), 'line')} of flat TIR"

    def compile(self) -> str:
        """Compile the candidate to machine code in a separate process."""
        task = self._task()
        request = ("compile", task.to_json(), steps_to_json(self.steps))
        size, seconds = self.process().call(request, SECONDS["compile"], "compile")
        return f"{size / 1024:.0f} KiB in {seconds_text(seconds)}"

    def worker(self) -> str:
        """Start the processes that build and run candidates."""
        self.process()
        task = self._task()
        if not self.target.is_gpu:
            self.measurer.start(task)
        if self.on_gpu:
            self.task = for_this_gpu(task, self.measurer.gpu() or {})
        return "processes start and answer"

    def measure(self) -> str:
        """Build the candidate in one process and time it in another."""
        task = self._task()
        (self.artifact,) = self.measurer.build(task, [self.steps])
        (self.result,) = self.measurer.measure(task, [self.steps])
        failure = self.result.failure
        if failure is not None:
            raise _error(failure)
        rate = task.dag.flop_count / self.result.cost / 1e9
        return f"{seconds_text(self.result.cost)} a call, {rate:.4g} GFLOP/s"

    def check(self) -> str:
        """Compare its outputs with those of NumPy."""
        assert self.result is not None and self.artifact is not None
        if self.measurer.runner.checks_in_run:  # already compared, or there would be a failure
            return self.result.seen.text if self.result.seen else "compared with NumPy"
        task = self._task()
        self.measurer.runner.reference(task)
        found = self.measurer.runner.check(task, self.artifact)
        if isinstance(found, Failure):
            raise _error(found)
        assert isinstance(found, Seen)
        return found.text

    def record(self) -> str:
        """Write, lock and read back a record file in the current folder."""
        missing = Failure("run", "error", "not measured")
        result = self.result or MeasureResult((), missing)
        with tempfile.TemporaryDirectory(prefix=".autosched-doctor-", dir=Path.cwd()) as folder:
            path = Path(folder, "doctor.jsonl")
            log = RecordLog(path)
            log.append([Record(self._task().to_json(), self.steps, result)])
            log.close()
            found = read_log(path)
            if found.problems or [r.result.seconds for r in found.records] != [result.seconds]:
                raise OSError(0, "the record that was read back differs from the one written")
            return f"{path.stat().st_size} bytes written and read back"

    def model(self) -> str:
        """Train a small cost model and let it predict."""
        seconds = self.process().call(("model",), SECONDS["model"], "model")
        return f"trained in {seconds_text(seconds)}"

    def _task(self) -> Task:
        assert self.task is not None
        return self.task


@dataclass
class _Run:
    """Collects the findings; a stage that needs a failed stage is not tried."""

    findings: list[Finding] = field(default_factory=list)

    def stage(self, part: str, act: Callable[[], str], needs: Sequence[str] = ()) -> None:
        missing = [f.part for f in self.findings if f.part in needs and f.level is not Level.OK]
        if missing:
            self.findings.append(Finding(Level.SKIPPED, part, f"not tried without {missing[0]}"))
            return
        try:
            self.findings.append(Finding(Level.OK, part, act()))
        except (AutoschedError, OSError) as error:
            text = last_line(getattr(error, "strerror", None) or str(error))
            remedy = _REMEDIES.get(part, _REINSTALL)
            self.findings.append(Finding(Level.BROKEN, part, text, remedy))
        except Exception as error:  # the other stages are tried after any error
            text = f"{type(error).__name__}: {last_line(str(error))}"
            self.findings.append(Finding(Level.BROKEN, part, text, _BUG))

    def skip(self, parts: Sequence[str], why: str) -> None:
        self.findings += [Finding(Level.SKIPPED, part, why) for part in parts]


def tried(target: Target, *, on_gpu: bool = False) -> list[Finding]:
    """A finding for each stage. With `on_gpu`, candidates of a CUDA target are measured, too."""
    run = _Run()
    code = "CUDA C" if target.is_gpu else "LLVM"
    processes: list[Worker] = []

    def started() -> Worker:
        if not processes:
            processes.append(doctor_software.new_process())
        return processes[0]

    measurer = Measurer.create(
        workers=1,
        options=RunOptions(min_repeat_ms=20.0, visits=2),
        check="all" if on_gpu else "none",  # on a CPU, checking is a stage of its own
        target="cuda" if on_gpu else "cpu",
        share=True,
    )
    work = Workload(target, on_gpu, started, measurer)
    try:
        with measurer:
            run.stage("sketch", work.sketch)
            run.stage("worker", work.worker, ("sketch",))
            run.stage("lower", work.lower, ("sketch",))
            run.stage(code, work.compile, ("lower", "worker"))
            if target.is_gpu and not on_gpu:
                run.skip(("measure", "check"), "not tried without a GPU")
            else:
                run.stage("measure", work.measure, (code, "worker"))
                run.stage("check", work.check, ("measure",))
            run.stage("record", work.record, ("sketch",))
            run.stage("model", work.model, ("worker",))
    finally:
        for process in processes:
            process.stop()
    order = ("sketch", "lower", code, "worker", "measure", "check", "record", "model")
    return sorted(run.findings, key=lambda finding: order.index(finding.part))


def _error(failure: Failure) -> MeasureError:
    where = f"{failure.stage} {failure.kind}: " if failure.stage != "check" else ""
    message = where + last_line(failure.message)
    return MeasureError(message, stage=failure.stage, kind=failure.kind)
