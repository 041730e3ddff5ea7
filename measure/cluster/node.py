"""The node's side: a builder and a runner, as on one machine, that answer a remote tuner.

A node builds or measures, never both: it holds the lock of its cores, shared for building and
exclusive for measuring. So several tuners on one cluster do not disturb each other's times, nor do
two nodes on the same cores of one machine.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from autosched.cpu_cores import usable_threads
from autosched.errors import AutoschedError, ConfigError, MeasureError
from autosched.measure.build import Builder
from autosched.measure.check import Seen
from autosched.measure.cluster.facts import facts_here
from autosched.measure.cpu_runner import FACTORY, CpuRunner
from autosched.measure.interrupt import RunLostError
from autosched.measure.result import Failure, RunResult
from autosched.measure.run_options import RunOptions
from autosched.process.worker import Worker
from autosched.state.steps import steps_from_json
from autosched.task import Task

# What `NodeWorker.do` returns: the kind of outcome, and the value or the data of the error.
Answer = tuple[str, Any]

_TASKS = 64  # most tasks that are kept


class NodeRunner(CpuRunner):
    """The runner of a node. Ray gives NumPy one thread in its processes; here it has all."""

    def _new_worker(self) -> Worker:
        return Worker(FACTORY, environment={"OMP_NUM_THREADS": str(usable_threads())})


class NodeWorker:
    """The object that the tuner calls: `do` for one request after the other, `news` meanwhile.

    All requests run in one thread, because the processes that they start end with their thread.
    """

    def __init__(self, workers: int, build_timeout: float) -> None:
        self._builder = Builder(workers, build_timeout)
        self._runner = NodeRunner()
        self._runner.on_result = self._tell
        self._lock = lock_file()
        self._thread = ThreadPoolExecutor(1, "node")
        self._tasks: dict[str, Task] = {}
        self._news: list[tuple[int, list[float], dict[str, str] | None]] = []
        self._done = 0

    def facts(self) -> dict[str, Any]:
        """The node's facts: NodeFacts as a dictionary."""
        return facts_here(os.getpid()).to_json()

    def news(self, known: int) -> tuple[int, list[Any]]:
        """The work done of the batch under way, and its results after the first `known`."""
        return self._done, self._news[known:]

    def do(self, request: tuple[Any, ...]) -> Answer:
        """The answer to a request. Errors are answers, too, as plain data."""
        return self._thread.submit(self._do, request).result()

    def close(self) -> None:
        """End the processes. Ray ends them together with the node's process."""
        self._thread.submit(self._builder.close).result()
        self._thread.submit(self._runner.close).result()
        self._thread.shutdown()

    def _do(self, request: tuple[Any, ...]) -> Answer:
        self._news, self._done = [], 0
        try:
            with self._held(fcntl.LOCK_SH if request[0] == "build" else fcntl.LOCK_EX):
                return "ok", self._reply(request)
        except RunLostError as error:
            return "lost", (str(error), _plain(error.results), error.index)
        except MeasureError as error:
            return "failed", (error.stage, error.kind, str(error))
        except ConfigError as error:
            return "config", str(error)
        except (AutoschedError, OSError) as error:
            return "failed", ("run", "error", str(error))
        except Exception:  # a bug: reported with its traceback, never swallowed
            return "failed", ("run", "error", traceback.format_exc())

    def _reply(self, request: tuple[Any, ...]) -> Any:
        runner = self._runner
        match request:
            case ("build", task, batch):
                built = self._builder.build(self._task(task), list(map(steps_from_json, batch)))
                return [(b.artifact, b.seconds, _failure(b.failure)) for b in built]
            case ("start", task, options):
                runner.options = RunOptions(**options)
                runner.start(self._task(task))
            case ("reference", task):
                runner.reference(self._task(task))
            case ("run", task, artifacts, best):
                return self._ran(runner.run(self._task(task), artifacts, best, self._count))
            case ("together", task, artifacts, visits, seconds):
                return self._ran(runner.together(self._task(task), artifacts, visits, seconds))
            case ("check", task, artifact):
                found = runner.check(self._task(task), artifact)
                if isinstance(found, Failure):
                    return {"failure": found.to_json()}
                return {"seen": found.to_json()}
            case ("peak", task):
                return runner.peak(self._task(task))
            case ("numpy", task, artifact, plain):
                theirs, ours = runner.compare_with_numpy(self._task(task), artifact, plain)
                return list(theirs), list(ours)
            case _:
                raise ConfigError(f"a node was asked for {request[0]!r}, which it does not know")
        return None

    def _ran(self, results: Sequence[RunResult]) -> tuple[list[Any], list[int]]:
        """The results of a batch, and the number of disturbed visits of each."""
        return _plain(results), [self._runner.disturbed(index) for index in range(len(results))]

    def _task(self, entry: Mapping[str, Any]) -> Task:
        """The task of an entry; the last _TASKS tasks are kept."""
        found = self._tasks.pop(entry["key"], None)
        if found is None:
            found = Task.from_json(entry, trust=True)
            found.lowering.require()
        self._tasks[entry["key"]] = found  # least recently used first
        if len(self._tasks) > _TASKS:
            self._tasks.pop(next(iter(self._tasks)))
        return found

    def _tell(self, index: int, result: RunResult) -> None:
        seconds, failure = result
        self._news.append((index, list(seconds), _failure(failure)))

    def _count(self, done: int) -> None:
        self._done = done

    @contextmanager
    def _held(self, kind: int) -> Iterator[None]:
        """Hold the lock of the cores: exclusive (LOCK_EX) or shared (LOCK_SH)."""
        file = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, kind)
            yield
        finally:
            os.close(file)


def lock_file() -> Path:
    """The lock file of all processes that use the same cores of this machine."""
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    name = hashlib.sha256(cores.encode()).hexdigest()[:8]
    return Path(tempfile.gettempdir()) / f"autosched-{os.getuid()}-{name}.lock"


def run_options(options: RunOptions) -> dict[str, Any]:
    """The options as a request holds them; `cache_flush` is the size for the tuner's own caches."""
    return {**asdict(options), "cache_flush": options.flush_bytes}


def _failure(failure: Failure | None) -> dict[str, str] | None:
    return None if failure is None else failure.to_json()


def _plain(results: Sequence[RunResult]) -> list[tuple[list[float], dict[str, str] | None]]:
    return [(list(seconds), _failure(failure)) for seconds, failure in results]


def failure_of(data: Mapping[str, str] | None) -> Failure | None:
    """The failure in an answer."""
    return None if data is None else Failure.from_json(data)


def results_of(data: Sequence[Any]) -> list[RunResult]:
    """The results of a batch from an answer."""
    return [(list(seconds), failure_of(failure)) for seconds, failure in data]


def seen_of(data: Mapping[str, Any]) -> Failure | Seen:
    """The outcome of a check from an answer."""
    if "failure" in data:
        return Failure.from_json(data["failure"])
    return Seen.from_json(data["seen"])
