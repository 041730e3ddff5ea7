"""Measure a batch: build it, run it, then check candidates that may become the best."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autosched import arguments
from autosched.measure.build import Builder, BuildResult
from autosched.measure.check import Seen
from autosched.measure.cluster.builder import ClusterBuilder
from autosched.measure.cluster.connect import connect
from autosched.measure.cluster.members import Cluster
from autosched.measure.cluster.runner import ClusterRunner
from autosched.measure.cpu_runner import CpuRunner, output_type
from autosched.measure.gpu_pool import GpuPool, gpu_runner
from autosched.measure.gpu_runner import GpuRunner, require_gpu
from autosched.measure.interrupt import (
    MeasureInterrupted,
    MeasureLostError,
    RunInterrupted,
    RunLostError,
)
from autosched.measure.result import Failure, MeasureResult, RunResult
from autosched.measure.run_options import RunOptions
from autosched.measure.runner import Runner
from autosched.measure.workers import default_workers
from autosched.state.steps import Step
from autosched.target import KINDS, Target
from autosched.task import Task

CHECKS = ("best", "all", "none")

_MOST_KEPT = 32  # artifacts kept per task; some 10 KB each

# Called with "build" or "run", the work done (counted in candidates) and the total.
Progress = Callable[[str, int, int], None]


@dataclass(slots=True)
class Measurer:
    """The build and run processes of one tuning run; a context manager that ends them.

    - `check`: one of CHECKS, see `create`.
    - `on_known`: called with a candidate's index and its result so far, while a batch is measured.
    """

    builder: Builder = field(default_factory=Builder)
    runner: Runner = field(default_factory=CpuRunner)
    check: str = "best"
    on_known: Callable[[int, MeasureResult], None] | None = None
    _peaks: dict[tuple[int, str], float | None] = field(default_factory=dict)
    _kept: dict[str, dict[tuple[Step, ...], tuple[float, bytes]]] = field(default_factory=dict)

    @classmethod
    def create(
        cls,
        *,
        workers: int | None = None,
        build_timeout: float = 15.0,
        options: RunOptions | None = None,
        check: str = "best",
        target: str = "cpu",
        devices: Sequence[int | str] | str = (),
        share: bool = False,
        warning: Callable[[str], None] = lambda _: None,
        hosts: str = "",
    ) -> Measurer:
        """Create a measurer for a target.

        - `workers`: processes that build (on a cluster: on each node); None for as many as suit
          `target`.
        - `build_timeout`: seconds for each build.
        - `check`: `best` compares each new best with the reference, `all` every candidate, `none`
          nothing. With `target` cuda all are compared, unless it is `none`.
        - `devices`: numbers or UUIDs of GPUs, or "all"; if empty, CUDA's first GPU is taken.
        - `share`: accept GPUs on which other processes compute, which are otherwise refused.
        - `warning`: called with a message when one of several GPUs is lost.
        - `hosts`: the address of a Ray cluster whose nodes build and measure; `require` starts a
          process on each node.
        """
        options = options or RunOptions()
        arguments.one_of("check", check, CHECKS)
        arguments.one_of("target", target, KINDS)
        arguments.positive("build_timeout", build_timeout)
        if workers is None:
            workers = default_workers(target)
        arguments.integer("workers", workers, 1)
        if hosts:
            cluster = Cluster(connect(hosts), workers, build_timeout, warning)
            return cls(ClusterBuilder(cluster), ClusterRunner(options, cluster), check)
        runner: Runner = CpuRunner(options)
        if target == "cuda":
            runner = gpu_runner(
                options, checks=check != "none", devices=devices, share=share, warning=warning
            )
        return cls(Builder(workers, build_timeout), runner, check)

    def __enter__(self) -> Measurer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def require(self, targets: Sequence[Target]) -> None:
        """Raise ConfigError, saying what is missing, when code for a target cannot be run here.

        For a GPU this starts its process and looks for NVRTC. On a cluster it starts a process on
        each node. For this machine's CPU it does nothing.
        """
        cluster = self.cluster
        if cluster is not None:
            cluster.open(targets)
            return
        facts = self.gpu()
        if facts is not None:
            for target in targets:
                require_gpu(target, facts)

    @property
    def cluster(self) -> Cluster | None:
        """The cluster on whose nodes candidates are built and measured; None without one."""
        return self.runner.cluster if isinstance(self.runner, ClusterRunner) else None

    def gpu(self) -> dict[str, Any] | None:
        """The GPU's facts (DeviceFacts as a dictionary); None when candidates run on the CPU.

        Starts the GPU's process. Raises ConfigError, saying what is missing, where there is no GPU.
        """
        if not isinstance(self.runner, GpuRunner | GpuPool):
            return None
        return self.runner.facts or self.runner.open()

    def environment(self) -> dict[str, Any]:
        """The GPUs' entries in the environment of record files; empty for a CPU.

        Only after `require`.
        """
        runner = self.runner
        return runner.environment() if isinstance(runner, GpuRunner | GpuPool) else {}

    def start(self, task: Task) -> None:
        """Start processes ahead of the first batch; on a CPU without waiting for them."""
        self.builder.start()
        self.runner.launch(task)

    def reference(self, task: Task) -> None:
        """Compute the reference for the checks, unless `check` is `none`.

        Raises ConfigError when the reference fails or does not fit the task.
        """
        if self.check != "none":
            self.runner.reference(task)

    def begin(self, task: Task, batch: Sequence[tuple[Step, ...]] = ()) -> None:
        """Start to build candidates that the next `measure` asks for; see `Builder.begin`.

        Raises MeasureLostError as `measure` does.
        """
        try:
            self.builder.begin(task, batch)
        except RunLostError as stop:
            raise MeasureLostError(str(stop), ()) from None

    def close(self) -> None:
        """End all processes."""
        self.builder.close()
        self.runner.close()

    def peak(self, task: Task, reached: float = 0.0) -> float | None:
        """The measured peak of this machine in operations per second, in the task's output type.

        It is the rate of all threads of the task's target. Measured once (30 ms), and once more
        when a kernel `reached` a higher rate; the higher peak counts. None where there is no such
        rate.
        """
        key = (task.target.threads, output_type(task))
        if key not in self._peaks:
            self._peaks[key] = self.runner.peak(task)
        known = self._peaks[key]
        if known is not None and reached > known:
            self._peaks[key] = max(known, self.runner.peak(task) or 0.0)
        return self._peaks[key]

    def compare_with_numpy(
        self, task: Task, artifact: bytes, plain: bytes | None = None
    ) -> tuple[Sequence[float], Sequence[float]]:
        """See `CpuRunner.compare_with_numpy`; for tasks of CPUs only."""
        assert isinstance(self.runner, CpuRunner | ClusterRunner)
        return self.runner.compare_with_numpy(task, artifact, plain)

    def measure(
        self,
        task: Task,
        batch: Sequence[tuple[Step, ...]],
        best: float = float("inf"),
        progress: Progress | None = None,
    ) -> list[MeasureResult]:
        """Measure a batch: one result per candidate, in order.

        `best` is the best cost so far, in seconds. Building and running are separate phases,
        because a compiler on another core makes times two to five times longer. Raises
        MeasureInterrupted on Ctrl-C once candidates run, and MeasureLostError when no process can
        be started any more that builds or runs candidates.
        """
        total = len(batch)
        on_built = None if progress is None else lambda k: progress("build", k, total)
        try:
            built = self.builder.build(task, batch, on_built)
        except RunLostError as stop:
            raise MeasureLostError(str(stop), [None] * total) from None
        start = time.perf_counter()
        ran, ended = self._run(task, built, best, progress)
        share = (time.perf_counter() - start) / max(1, total)
        results = [
            self._with_known(index, self._result(index, built[index], each, share))
            for index, each in enumerate(ran)
        ]
        if ended is not None:
            known = [r if r.seconds or r.failure else None for r in results]
            if isinstance(ended, RunLostError):
                raise MeasureLostError(str(ended), known)
            raise MeasureInterrupted(known)
        artifacts = [made.artifact for made in built]
        try:
            self._check(task, artifacts, results, best)
        except KeyboardInterrupt:  # the results are measured, though not checked
            raise MeasureInterrupted(results) from None
        except RunLostError as stop:
            raise MeasureLostError(str(stop), results) from None
        self._keep(task, batch, artifacts, results)
        return results

    def _run(
        self, task: Task, built: Sequence[BuildResult], best: float, progress: Progress | None
    ) -> tuple[Sequence[RunResult], RunInterrupted | RunLostError | None]:
        """Run what was built, and tell `on_known`. Returns the results, and what cut them short."""

        def tell(index: int, ran: RunResult) -> None:
            if self.on_known is not None:
                self.on_known(index, self._result(index, built[index], ran, 0.0))

        for index, made in enumerate(built):
            if made.failure is not None:
                tell(index, ([], None))
        artifacts, total = [made.artifact for made in built], len(built)
        on_done = None if progress is None else lambda k: progress("run", k, total)
        self.runner.on_result = tell
        try:
            return self.runner.run(task, artifacts, best, on_done), None
        except (RunInterrupted, RunLostError) as stop:
            return stop.results, stop
        finally:
            self.runner.on_result = None

    def _result(
        self, index: int, built: BuildResult, ran: RunResult, seconds: float
    ) -> MeasureResult:
        """The result of a candidate; `seconds` were spent on it besides building."""
        times, failure = ran
        return MeasureResult(
            tuple(times),
            built.failure or failure,
            built.seconds,
            round(built.seconds + seconds, 6),
            cache_flush=self.runner.options.flush_bytes,
            host=self.runner.host_of(index) or built.host,
        )

    def _keep(
        self,
        task: Task,
        batch: Sequence[tuple[Step, ...]],
        artifacts: Sequence[bytes | None],
        results: Sequence[MeasureResult],
    ) -> None:
        """Keep the artifacts of a task's fastest candidates, which the race at the end needs."""
        kept = self._kept.setdefault(task.key, {})
        for steps, artifact, result in zip(batch, artifacts, results, strict=True):
            if artifact is not None and result.valid:
                kept[steps] = result.cost, artifact
        for steps in sorted(kept, key=lambda s: kept[s][0])[_MOST_KEPT:]:
            del kept[steps]

    def again(self, task: Task, steps: tuple[Step, ...]) -> MeasureResult:
        """Build and time one candidate by itself, without a check."""
        (built,) = self._built(task, [steps])
        ((seconds, failure),) = self.runner.run(task, [built.artifact])
        flush = self.runner.options.flush_bytes
        failed = built.failure or failure
        result = MeasureResult(tuple(seconds), failed, built.seconds, cache_flush=flush)
        return self._with_known(0, result)

    def _built(self, task: Task, batch: Sequence[tuple[Step, ...]]) -> list[BuildResult]:
        """See `Builder.build`; artifacts that `_keep` kept are not built again."""
        kept = self._kept.get(task.key, {})
        new = [steps for steps in batch if steps not in kept]
        found = dict(zip(new, self.builder.build(task, new) if new else [], strict=True))
        return [found.get(s) or BuildResult(kept[s][1], 0.0) for s in batch]

    def build(self, task: Task, batch: Sequence[tuple[Step, ...]]) -> list[bytes | None]:
        """The artifact of each candidate; None where it cannot be built."""
        return [built.artifact for built in self._built(task, batch)]

    def verified(self, task: Task, artifact: bytes) -> Failure | Seen | None:
        """Compare an artifact with the reference: the failure, or what the comparison saw.

        None where results are not checked, or where every run checks them.
        """
        if self.check == "none" or self.runner.checks_in_run:
            return None
        return self.runner.check(task, artifact)

    def together(
        self, task: Task, artifacts: Sequence[bytes], visits: int, seconds: float
    ) -> list[MeasureResult]:
        """Time candidates in turns, in `visits` visits of about `seconds` each.

        A visit times up to three repeats of a candidate. No candidate is left out for being slow.
        """
        flush = self.runner.options.flush_bytes
        ran = self.runner.together(task, artifacts, visits, seconds)
        results = [MeasureResult(tuple(s), failure, cache_flush=flush) for s, failure in ran]
        return [self._with_known(index, result) for index, result in enumerate(results)]

    def _with_known(self, index: int, result: MeasureResult) -> MeasureResult:
        """Add what the runner knows apart from the times: check, device, host and disturbance."""
        seen, device = self.runner.known_of(index)
        checked = seen is not None and result.valid
        result = replace(result, checked=checked, seen=seen if checked else None, device=device)
        host = self.runner.host_of(index) or result.host
        return replace(result, disturbed=self.runner.disturbed(index), host=host)

    def _check(
        self,
        task: Task,
        artifacts: Sequence[bytes | None],
        results: list[MeasureResult],
        best: float,
    ) -> None:
        """Check candidates from the fastest on, until the one that becomes the best is right."""
        if self.check == "none" or self.runner.checks_in_run:
            return
        for index in sorted(range(len(results)), key=lambda i: results[i].cost):
            result, artifact = results[index], artifacts[index]
            if not result.valid or artifact is None:
                break
            if self.check == "best" and result.cost >= best:
                break
            found = self.runner.check(task, artifact)
            if isinstance(found, Failure):
                results[index] = result.failed(found)
            else:
                results[index] = replace(result, checked=True, seen=found)
                best = min(best, result.cost)
