"""Several equal GPUs that share a task: each batch is split into one part per GPU.

    candidates  0 1 2 3 4 5 6 7
    GPU 0       0   2   4   6          each part is a batch of its own: its candidates are timed in
    GPU 1         1   3   5   7        turns on one chip, and compared there

A GPU that is lost leaves the pool. Those of its candidates that had not failed go to the others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, TypeVar

from autosched.errors import ConfigError
from autosched.measure.check import Seen
from autosched.measure.gpu_environment import gpu_environment
from autosched.measure.gpu_runner import GpuRunner
from autosched.measure.interrupt import RunInterrupted, RunLostError
from autosched.measure.nvml import Nvml
from autosched.measure.result import Failure, RunResult
from autosched.measure.run_options import RunOptions, race_options
from autosched.task import Task

T = TypeVar("T")
ALL = "all"
_POLL_SECONDS = 0.1
_ALIKE = ("name", "memory", "capability")


@dataclass(slots=True)
class _Member:
    """A GPU of the pool and the one thread in which all calls to its runner are made.

    The GPU's process dies with the thread that started it, so the thread lives as long as the pool.
    """

    name: str
    runner: GpuRunner
    thread: ThreadPoolExecutor
    done: int = 0  # finished work of the batch under way, counted in candidates


class GpuPool:
    """Measure on the GPUs that `devices` name (numbers or UUIDs), or on all.

    `make` creates the runner of a GPU from its value of CUDA_VISIBLE_DEVICES; all runners share
    `nvml`. `warning` is called with a message when a GPU is lost.
    """

    def __init__(
        self,
        options: RunOptions,
        devices: Sequence[int | str] | str,
        make: Callable[[str], GpuRunner],
        nvml: Nvml,
        warning: Callable[[str], None],
    ) -> None:
        self.options = options
        self.on_result: Callable[[int, RunResult], None] | None = None
        self._devices = devices
        self._make = make
        self._nvml = nvml
        self._warning = warning
        self._members: list[_Member] = []
        self._last = ""  # the message about the GPU that was lost last
        self._places: dict[int, tuple[GpuRunner, int]] = {}
        self._alone: _Member | None = None  # the GPU of a race

    @property
    def facts(self) -> dict[str, Any] | None:
        """The DeviceFacts of the first GPU (all are alike) as a dictionary; None before `open`."""
        return self._members[0].runner.facts if self._members else None

    def open(self) -> dict[str, Any]:
        """Start the GPUs; returns the facts of the first.

        Raises ConfigError when a GPU is missing or differs from the others.
        """
        if not self._members:
            self._members = [self._member(name) for name in self._names()]
            try:
                found = self._each(lambda member: member.runner.open())
                require_alike([(m.name, f) for m, f in zip(self._members, found, strict=True)])
            except ConfigError:
                self.close()
                raise
        facts = self.facts
        assert facts is not None
        return facts

    def environment(self) -> dict[str, Any]:
        """The GPUs' entries in a record file's environment: see gpu_environment. After `open`."""
        facts = [m.runner.facts for m in self._members if m.runner.facts is not None]
        return gpu_environment(facts, self._nvml)

    @property
    def checks_in_run(self) -> bool:
        """See `GpuRunner.checks_in_run`."""
        return not self._members or self._members[0].runner.checks_in_run

    def known_of(self, index: int) -> tuple[Seen | None, dict[str, Any] | None]:
        """See `GpuRunner.known_of`."""
        if index not in self._places:
            return None, None
        runner, place = self._places[index]
        return runner.known_of(place)

    def disturbed(self, index: int) -> int:
        """See `GpuRunner.disturbed`."""
        return 0

    def host_of(self, index: int) -> str:
        """Empty: candidates are measured here."""
        return ""

    def peak(self, task: Task) -> float | None:
        """None: no peak of a GPU is measured."""
        return None

    def close(self) -> None:
        """End all processes and threads."""
        members, self._members = self._members, []
        self._stop(members, [m.thread.submit(m.runner.close) for m in members])
        for member in members:
            member.thread.shutdown()
        self._nvml.close()

    def launch(self, task: Task) -> None:
        """The same as `start`, so that a missing or busy GPU is reported before the search."""
        self.start(task)

    def start(self, task: Task) -> None:
        """Prepare all GPUs for the task. Raises RunLostError when none can be prepared."""
        self.open()
        for member in self._alive():
            try:
                member.thread.submit(member.runner.start, task).result()
            except RunLostError as lost:
                self._leaves(str(lost))
        self._alive()

    def reference(self, task: Task) -> None:
        """See `Runner.reference`: one GPU's process computes it, and every GPU gets the result."""
        self.start(task)
        for member in self._alive():
            try:
                member.thread.submit(member.runner.reference, task).result()
            except ConfigError:
                if not member.runner.lost:
                    raise
                self._leaves(member.runner.lost)
                continue
            expected = member.runner.expected
            others = [m for m in self._alive() if m is not member]
            for future in [m.thread.submit(m.runner.expect, task, expected) for m in others]:
                self._or_lost(future)
            return
        self._alive()

    def check(self, task: Task, artifact: bytes) -> Failure | Seen:
        """See `GpuRunner.check`; runs on one of the GPUs."""
        member = self._alive()[0]
        return member.thread.submit(member.runner.check, task, artifact).result()

    def run(
        self,
        task: Task,
        artifacts: Sequence[bytes | None],
        best: float = float("inf"),
        on_done: Callable[[int], None] | None = None,
    ) -> list[RunResult]:
        """See `Runner.run`. RunLostError, with the results so far, when all GPUs are lost."""
        self._places.clear()
        results: list[RunResult] = [([], None) for _ in artifacts]
        todo = [index for index, artifact in enumerate(artifacts) if artifact is not None]
        if self.checks_in_run:
            self.reference(task)
        while todo:
            try:
                members = self._racing() or self._alive()[: len(todo)]
            except RunLostError as lost:
                raise RunLostError(str(lost), results) from None
            parts = [(m, todo[k :: len(members)]) for k, m in enumerate(members)]
            todo = self._run_parts(task, artifacts, best, parts, results, on_done)
        return results

    def together(
        self, task: Task, artifacts: Sequence[bytes], visits: int, seconds: float
    ) -> list[RunResult]:
        """See `Runner.together`; all candidates run on one GPU, because no two are equally fast."""
        member = self._alive()[0]
        before = member.runner.options
        member.runner.options = race_options(before, visits, seconds)
        self._alone = member
        try:
            return self.run(task, artifacts)
        finally:
            member.runner.options, self._alone = before, None

    def _racing(self) -> list[_Member]:
        """The GPU of the race under way, or an empty list. Raises RunLostError when it is lost."""
        if self._alone is not None and self._alone.runner.lost:
            raise RunLostError(self._alone.runner.lost)
        return [] if self._alone is None else [self._alone]

    def _run_parts(
        self,
        task: Task,
        artifacts: Sequence[bytes | None],
        best: float,
        parts: Sequence[tuple[_Member, list[int]]],
        results: list[RunResult],
        on_done: Callable[[int], None] | None,
    ) -> list[int]:
        """Run the parts and fill in `results`. Returns candidates that must go to another GPU."""
        before = len(artifacts) - sum(len(indices) for _, indices in parts)
        futures = []
        for member, indices in parts:
            member.done = 0
            batch = [artifacts[index] for index in indices]
            futures.append(member.thread.submit(_run, member, task, batch, best))
        interrupted = False
        try:
            self._wait(futures, parts, before, on_done)
        except KeyboardInterrupt:
            interrupted = True
            self._stop([member for member, _ in parts], futures)
        again: list[int] = []
        for (member, indices), future in zip(parts, futures, strict=True):
            try:
                found: Sequence[RunResult] = future.result()
            except RunInterrupted as stop:
                interrupted, found = True, stop.results
            except RunLostError as lost:
                self._leaves(str(lost))
                found = _blamed(lost, len(indices))
                again += [i for i, (_, failure) in zip(indices, found, strict=True) if not failure]
            for place, (index, result) in enumerate(zip(indices, found, strict=True)):
                self._places[index] = member.runner, place
                results[index] = ([], None) if index in again else result
        if interrupted:
            raise RunInterrupted(results)
        return again

    def _wait(
        self,
        futures: Sequence[Future[list[RunResult]]],
        parts: Sequence[tuple[_Member, list[int]]],
        before: int,
        on_done: Callable[[int], None] | None,
    ) -> None:
        """Wait for all parts; tell `on_done` how many candidates' worth of work is done."""
        told, pending = -1, set(futures)
        while pending:
            _, pending = wait(pending, _POLL_SECONDS)
            done = before + sum(member.done for member, _ in parts)
            if on_done is not None and done != told:
                on_done(done)
                told = done

    def _stop(self, members: Sequence[_Member], futures: Sequence[Future[Any]]) -> None:
        """Let each GPU end the request under way, or kill its process; wait until all calls end."""
        for member in members:
            member.runner.interrupt()
        grace = max((m.runner.grace_seconds for m in members), default=0.0)
        _, late = wait(futures, grace)
        for member, future in zip(members, futures, strict=True):
            if future in late:
                member.runner.interrupt(kill=True)
        wait(futures)

    def _alive(self) -> list[_Member]:
        """The GPUs that are not lost. Raises RunLostError when there is none."""
        found = [member for member in self._members if not member.runner.lost]
        if self._members and not found:
            raise RunLostError(self._last)
        return found

    def _leaves(self, why: str) -> None:
        """Note and report that a GPU was lost."""
        self._last = why
        self._warning(why)

    def _each(self, call: Callable[[_Member], T]) -> list[T]:
        """Run `call` for all members at the same time.

        Once all are done, returns the results, or raises the first error.
        """
        futures = [member.thread.submit(call, member) for member in self._members]
        wait(futures)
        return [future.result() for future in futures]

    def _or_lost(self, future: Future[None]) -> None:
        try:
            future.result()
        except RunLostError as lost:
            self._leaves(str(lost))

    def _names(self) -> list[str]:
        """The value of CUDA_VISIBLE_DEVICES for each GPU. Raises ConfigError."""
        if self._devices != ALL:
            return [visible(device, os.environ) for device in self._devices]
        probe = self._member("")
        try:
            return probe.thread.submit(probe.runner.devices).result()
        finally:
            probe.thread.submit(probe.runner.close).result()
            probe.thread.shutdown()

    def _member(self, name: str) -> _Member:
        return _Member(name, self._make(name), ThreadPoolExecutor(1, f"GPU {name}"))


def _run(
    member: _Member, task: Task, batch: Sequence[bytes | None], best: float
) -> list[RunResult]:
    """Run a part of the batch, in the GPU's thread."""

    def on_done(done: int) -> None:
        member.done = done

    return member.runner.run(task, batch, best, on_done)


def _blamed(lost: RunLostError, number: int) -> list[RunResult]:
    """The results of a part; the candidate under way fails and is not sent to another GPU."""
    found = list(lost.results) or [([], None) for _ in range(number)]
    if lost.index is not None and found[lost.index][1] is None:
        failure = Failure("run", "lost", f"its GPU was lost while it ran: {lost}")
        found[lost.index] = found[lost.index][0], failure
    return found


def visible(device: int | str, environ: Mapping[str, str]) -> str:
    """The name of a GPU for CUDA_VISIBLE_DEVICES.

    A number is an index into the GPUs that the present CUDA_VISIBLE_DEVICES leaves. Raises
    ConfigError for a number beyond them.
    """
    given = [part.strip() for part in environ.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    given = [part for part in given if part]
    if not isinstance(device, int) or not given:
        return str(device)
    if device >= len(given):
        raise ConfigError(
            f"measure.devices: there is no GPU {device}: CUDA_VISIBLE_DEVICES leaves {len(given)}"
        )
    return given[device]


def require_alike(gpus: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Raise ConfigError unless all GPUs (name and facts) are alike and none occurs twice."""
    (first, expected), *others = gpus
    uuids = {expected["uuid"]}
    for name, found in others:
        for key in _ALIKE:
            if found[key] != expected[key]:
                raise ConfigError(
                    f"measure.devices: {first} and {name} differ ({key}: {expected[key]} and "
                    f"{found[key]}); only equal GPUs share a task: run once for each kind"
                )
        if found["uuid"] in uuids:
            raise ConfigError(f"measure.devices: {name} is a GPU that was named before")
        uuids.add(found["uuid"])


def gpu_runner(
    options: RunOptions,
    *,
    checks: bool,
    devices: Sequence[int | str] | str,
    share: bool = False,
    warning: Callable[[str], None] = lambda _: None,
) -> GpuRunner | GpuPool:
    """Create the runner of one GPU, or of several where `devices` names more than one."""
    nvml = Nvml()
    if devices == ALL or len(devices) > 1:

        def make(name: str) -> GpuRunner:
            return GpuRunner(
                options, device=name, checks=checks, share=share, nvml=nvml, owns_nvml=False
            )

        return GpuPool(options, devices, make, nvml, warning)
    name = visible(devices[0], os.environ) if devices else ""
    return GpuRunner(options, device=name, checks=checks, share=share, nvml=nvml)
