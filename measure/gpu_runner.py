"""Measure a batch on a GPU: the round-robin of `process_runner.py`, and a process may be lost.

The parent makes no call to CUDA. It keeps every deadline, ends a process that misses one, and goes
on with a new process, which gets the candidates that had not failed. A candidate that cost a
process is never run again. A GPU is lost when its process cannot be ended or a new process does not
work. The run then ends and keeps what was measured.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy.typing as npt

from autosched.codegen.nvrtc import load_nvrtc, nearest_arch
from autosched.errors import ConfigError, DeviceError, MeasureError
from autosched.measure import gpu_worker
from autosched.measure.check import Seen
from autosched.measure.clocks import Clocks, Sampler, to_json
from autosched.measure.gpu_environment import gpu_environment, gpu_id, shared_by_mps
from autosched.measure.gpu_worker import GpuWorker
from autosched.measure.interrupt import RunLostError
from autosched.measure.nvml import Nvml
from autosched.measure.process_runner import Batch, ProcessRunner
from autosched.measure.result import Failure
from autosched.process.worker import NoProcessError, Worker
from autosched.runtime.device_errors import IMAGE_CODES
from autosched.target import Target, arch_of
from autosched.task import Task

_START_SECONDS = 60.0  # for imports, the context and the inputs of the task
_PROBE_SECONDS = 10.0  # for one kernel of 256 threads
_PAUSE_SECONDS = 2.0  # until a GPU whose clocks are held down cools
_MOST_PAUSES = 2  # per batch
_MOST_IMAGES = 3  # cubins in a row that fail to load: driver and compiler do not fit
FACTORY = "autosched.measure.gpu_run:make_handler"
_ENVIRONMENT = {
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    "CUDA_MODULE_LOADING": "EAGER",
    "CUDA_CACHE_DISABLE": "1",
}


@dataclass(slots=True)
class GpuRunner(ProcessRunner):
    """Owns the one process of a GPU.

    - `device`: its number or UUID, as CUDA_VISIBLE_DEVICES takes it; empty leaves the choice to the
      environment.
    - `checks`: compare every candidate with the reference.
    - `share`: accept a GPU on which other processes compute, which is otherwise refused.
    - `factory`: the entry point of the process.
    - `kill_seconds`: how long the process may take to end once it is killed.
    - `grace_seconds`: how long it may answer late, or take to end, before it is killed.
    - `nvml`: reads the clocks. It is closed with the runner if `owns_nvml`.
    - `pause`: waits so many seconds for a GPU that is hot.
    - `lost`: why the GPU is not used any more; empty while it is used.

    Where `options` ask for empty caches, the L2 cache is overwritten before each timed call,
    whatever size they name.
    """

    device: str = ""
    checks: bool = True
    share: bool = False
    factory: str = field(default_factory=lambda: FACTORY)
    kill_seconds: float = 20.0
    grace_seconds: float = field(default_factory=lambda: gpu_worker.GRACE_SECONDS)
    nvml: Nvml = field(default_factory=Nvml)
    owns_nvml: bool = True
    pause: Callable[[float], None] = time.sleep
    facts: dict[str, Any] | None = None
    _expected: list[npt.NDArray[Any]] | None = None
    _prepared: str = ""
    _warm: bool = False
    lost: str = ""
    _stopped: bool = False
    _images: int = 0
    _seen: dict[int, Seen] = field(default_factory=dict)
    _uses: dict[int, dict[str, Any]] = field(default_factory=dict)
    _sampler: Sampler | None = None
    _clocks: dict[int, list[Clocks]] = field(default_factory=dict)
    _pauses: int = 0
    _order: random.Random = field(default_factory=lambda: random.Random(0))

    def open(self) -> dict[str, Any]:
        """Start the process and return the GPU's facts.

        Raises ConfigError, which says what is missing, when there is no GPU or others compute on
        it.
        """
        before = {} if self._worker else self.nvml.processes()
        self._worker = self._worker or self._new_worker()
        try:
            self._meet()
        except MeasureError as error:
            self.close()
            raise ConfigError(self._named(str(error))) from None
        assert self.facts is not None
        others = [pid for pid in before.get(self.facts["uuid"], ()) if pid != os.getpid()]
        if others and not self.share:
            self.close()
            raise ConfigError(
                self._named(
                    f"other processes compute on {self.facts['name']} (process "
                    f"{', '.join(map(str, others))}), which makes times wrong: wait for them, take "
                    "another GPU (measure.devices), or measure all the same (--share)"
                )
            )
        return self.facts

    def devices(self) -> list[str]:
        """The UUIDs of all GPUs that CUDA finds. Raises ConfigError when it finds none."""
        self._worker = self._worker or self._new_worker()
        try:
            found: list[str] = self._worker.call(("devices",), _START_SECONDS, "load")
        except MeasureError as error:
            raise ConfigError(str(error)) from None
        return found

    def _named(self, text: str) -> str:
        return f"measure.devices: GPU {self.device}: {text}" if self.device else text

    def environment(self) -> dict[str, Any]:
        """The GPU's entries in a record file's environment: see gpu_environment. After `open`."""
        assert self.facts is not None
        return gpu_environment([self.facts], self.nvml)

    @property
    def checks_in_run(self) -> bool:
        """Whether `run` compares every candidate with the reference."""
        return self.checks

    def known_of(self, index: int) -> tuple[Seen | None, dict[str, Any] | None]:
        """What the check saw of a candidate of the last `run`, and its result's `device` entry."""
        uses = self._uses.get(index)
        if uses is None:
            return self._seen.get(index), None
        visits = self._clocks.get(index, [])
        throttled = sum(visit.throttled for visit in visits)
        clocks = {"clocks": to_json(visits)} if visits else {}
        marked = {"throttled": throttled} if throttled else {}
        gpu = {} if self.facts is None else {"gpu": gpu_id(self.facts["uuid"])}
        return self._seen.get(index), {"kernels": uses, **gpu, **clocks, **marked}

    def disturbed(self, index: int) -> int:
        """0: another process on the GPU is refused, or accepted by `share`."""
        return 0

    def host_of(self, index: int) -> str:
        """Empty: candidates are measured here."""
        return ""

    def peak(self, task: Task) -> float | None:
        """None: no peak of a GPU is measured."""
        return None

    def close(self) -> None:
        """End the process, if it can be ended."""
        if self._sampler is not None:
            self._sampler.close()
            self._sampler = None
        if self.owns_nvml:
            self.nvml.close()
        if self._worker is not None:
            self._worker.stop()
            self._worker = None
            self._task = None  # a new process is prepared anew

    def check(self, task: Task, artifact: bytes) -> Failure | Seen:
        """Run once and compare the outputs with the reference: the failure, or what was seen."""
        self.start(task)
        try:
            for request in (("drop",), ("load", 0, artifact), ("first", 0)):
                self._call(request, "run")
            return Seen.from_json(self._call(("check", 0), "check", _START_SECONDS))
        except MeasureError as error:
            return Failure(error.stage, error.kind, str(error))

    def outputs(self, task: Task, artifact: bytes) -> list[npt.NDArray[Any]]:
        """The outputs of one run of an artifact. Raises MeasureError."""
        self.start(task)
        for request in (("drop",), ("load", 0, artifact), ("first", 0)):
            self._call(request, "run")
        found: list[npt.NDArray[Any]] = self._call(("outputs",), "check", _START_SECONDS)
        return found

    def _begin(self, task: Task) -> None:
        self._seen.clear()
        self._uses.clear()
        self._clocks.clear()
        self._pauses = 0
        self._warm = False
        self._stopped = False
        if self.checks:
            self.reference(task)

    def launch(self, task: Task) -> None:
        """The same as `start`, so that a missing or busy GPU is reported before the search."""
        self.start(task)

    def start(self, task: Task) -> None:
        """See `ProcessRunner.start`. Raises RunLostError when the GPU was lost before."""
        if self.lost:
            raise RunLostError(self.lost)
        ProcessRunner.start(self, task)

    @property
    def expected(self) -> list[npt.NDArray[Any]]:
        """The task's reference outputs, after `reference`."""
        assert self._expected is not None
        return self._expected

    def expect(self, task: Task, expected: list[npt.NDArray[Any]]) -> None:
        """Take reference outputs that another process computed."""
        self.start(task)
        if self._expected is None:
            self._call(("expected", expected), "load", _START_SECONDS)
            self._expected = expected

    def interrupt(self, *, kill: bool = False) -> None:
        """Make `run` in another thread end as on Ctrl-C, after the request under way.

        With `kill`, end that request and its process, too.
        """
        self._stopped = True
        if kill and self._worker is not None:
            self._worker.kill()

    def _reference(self) -> None:
        if self._expected is None:
            found = self._call(("reference",), "check", self.options.reference_limit)
            self._call(("expected", found), "load", _START_SECONDS)
            self._expected = found

    def _after_first(self, batch: Batch, index: int) -> None:
        uses = batch.ask(index, ("uses", index), self.options.timeout)
        if uses is None:
            return
        self._uses[index] = uses
        if self.checks:
            seen = batch.ask(index, ("check", index), self.options.timeout)
            if seen is not None:
                self._seen[index] = Seen.from_json(seen)

    def _visit(self, batch: Batch, index: int, request: tuple[Any, ...]) -> list[float] | None:
        """See `ProcessRunner._visit`. After a pause, repeats a visit whose clocks were held down.

        At most twice in a batch: later ones are kept and marked in the record.
        """
        while True:
            begun = self._sampler.begin() if self._sampler else 0.0
            times = ProcessRunner._visit(self, batch, index, request)
            if self._sampler is None or times is None:
                return times
            clocks = self._sampler.end(begun)
            if clocks.throttled and self._pauses < _MOST_PAUSES:
                self._pauses += 1
                self.pause(_PAUSE_SECONDS)
                continue
            self._clocks.setdefault(index, []).append(clocks)
            return times

    def _in_turn(self, batch: Batch, indices: list[int]) -> list[int]:
        """A new random order each round, because clocks and temperature drift within a round."""
        if indices and not self._warm:
            batch.ask(indices[0], ("warm", indices[0]), self.options.timeout)
            self._warm = True
        kept = [i for i in indices if not batch.failures[i]]
        self._order.shuffle(kept)
        return kept

    def _after_last(self, batch: Batch) -> None:
        """Compare once more, because a kernel may be right on its first run only."""
        if self.checks:
            for index in batch.valid:
                batch.ask(index, ("again", index), self.options.timeout)

    def _new_worker(self) -> Worker:
        environment = dict(_ENVIRONMENT)
        if self.device:
            environment["CUDA_VISIBLE_DEVICES"] = self.device
        return GpuWorker(
            self.factory,
            environment=environment,
            kill_seconds=self.kill_seconds,
            grace_seconds=self.grace_seconds,
            gentle=shared_by_mps(),  # killing one MPS client may hurt the others
        )

    def _meet(self) -> None:
        """Get the GPU's facts from the process, probe it, and sample its clocks from now on."""
        assert self._worker is not None
        self.facts = self._worker.call(("facts",), _START_SECONDS, "load")
        self._worker.call(("probe",), _PROBE_SECONDS, "run")
        assert self.facts is not None
        handle = None if self._sampler else self.nvml.find(self.facts["uuid"])
        if handle is not None:
            self._sampler = Sampler(lambda: self.nvml.state(handle))

    def _prepare(self) -> None:
        assert self._worker is not None and self._task is not None
        if self._task["key"] != self._prepared:
            self._expected, self._prepared = None, self._task["key"]
        self._meet()
        self._worker.call(
            ("task", self._task, bool(self.options.flush_bytes)), self._ready_seconds, "load"
        )
        if self._expected is not None:
            self._worker.call(("expected", self._expected), _START_SECONDS, "load")

    def _call(self, request: tuple[Any, ...], stage: str, timeout: float | None = None) -> Any:
        """Send one request. RunLostError when the GPU is lost, MeasureError otherwise."""
        if self.lost:
            raise RunLostError(self.lost)
        if self._stopped:
            raise KeyboardInterrupt
        assert self._worker is not None
        try:
            reply = self._worker.call(request, timeout or self.options.timeout, stage)
        except MeasureError as error:
            if self._stopped:
                self.close()
                raise KeyboardInterrupt from None
            self._recover(error)
            raise
        except BaseException:  # Ctrl-C: a late answer must not be taken for another request's
            self.close()
            raise
        if request[0] == "load":
            self._images = 0
        return reply

    def _recover(self, error: MeasureError) -> None:
        """After a failure, replace the process if necessary; RunLostError if the GPU is lost."""
        assert self._worker is not None
        if self._worker.stuck:
            self._lose(
                f"the process did not end within {self.kill_seconds:g} s of being killed", error
            )
        if isinstance(error, NoProcessError):
            before = error.__cause__
            self._lose(str(error), before if isinstance(before, MeasureError) else error)
        if isinstance(error, DeviceError) and error.code in IMAGE_CODES:
            self._images += 1
            if self._images == _MOST_IMAGES:
                self._lose(f"the driver refused {_MOST_IMAGES} kernels in a row ({error})", error)
        if self._replaced(error):
            try:
                self._prepare()
            except MeasureError as again:
                self._lose(f"a new process does not work either: {again}; before: {error}", error)

    def _replaced(self, error: MeasureError) -> bool:
        if isinstance(error, DeviceError):
            return error.worker_ends or error.kind == "memory"
        return ProcessRunner._replaced(self, error)

    def _lose(self, why: str, error: MeasureError) -> NoReturn:
        """Give the GPU up and raise RunLostError.

        Its cause is the candidate's error, unless the GPU failed by itself.
        """
        which = f"GPU {self.device}" if self.device else "the GPU"
        self.lost = (
            f"{which} is lost: {why}; what was measured is kept. See whether nvidia-smi works"
            f"{self._versions()}, then continue the run"
        )
        self.close()
        if error.kind in ("lost", "error"):
            raise RunLostError(self.lost)
        raise RunLostError(self.lost) from error

    def _versions(self) -> str:
        if self.facts is None:
            return ""
        return f" (driver {self.facts['driver']}, {self.facts['runtime']})"


def require_gpu(target: Target, facts: dict[str, Any]) -> None:
    """Raise ConfigError unless code for `target` can be compiled, and run on the GPU of `facts`."""
    here = arch_of(facts["capability"])
    number = target.arch.removeprefix("sm_")
    made = [int(number)] if number.isdigit() else []
    if target.arch != here and nearest_arch(here, made) is None:
        raise ConfigError(
            f"target.arch: {target.arch} does not run on {facts['name']}, which is {here}; set "
            f"target.arch to {here}"
        )
    load_nvrtc(target.arch, int(facts["driver"].partition(".")[0]))
