"""The cache of a user's tuned kernels: a folder with a record file for each task.

    matmul-2f0c61d0a4f4e1bb.jsonl        complete records of a task, by its key
    matmul-2f0c61d0a4f4e1bb.part.jsonl   records of a run that is under way, or was killed
    matmul-2f0c61d0a4f4e1bb.lock         held while the task is tuned
    measuring-HOST.lock                  held by whoever measures on that machine
    cubins/                              what was compiled for GPUs (codegen/cubin_cache.py)
    loops/                               loops that features are computed by (runtime/loop_cache.py)

Record files are used instead of a data base because every command reads them, a damaged line costs
only that line, and a file that is replaced atomically (rename) is read without a lock. Locks are
flock's, which end with the process that holds them.
"""

from __future__ import annotations

import fcntl
import glob
import heapq
import os
import platform
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autosched.cache_folder import VARIABLE
from autosched.errors import CompileError, ConfigError, ScheduleError
from autosched.measure.journal import SUFFIX
from autosched.measure.log_lines import log_lines
from autosched.measure.record_log import RecordLog, RecordsError, is_at
from autosched.measure.records import LogContents, Record, is_head, is_later, read_log
from autosched.measure.standing import dated
from autosched.output_file import replacing, takes_records
from autosched.runtime.origin import Origin
from autosched.session.believed import believed
from autosched.session.load_best import origin_of
from autosched.session.reading import read_records, unused
from autosched.session.this_cpu import best_for_here
from autosched.session.this_gpu import gpu_of
from autosched.task import Task
from autosched.user_warning import Tell
from autosched.words import visible

_SUFFIX = ".jsonl"
_PART = ".part.jsonl"
_LOCK = ".lock"
_NAME = re.compile(r".*-.*(?<!\.part)\.jsonl", re.DOTALL)
"""The names of record files of complete runs."""
_RUN = re.compile(r"\.part\.jsonl$")


@dataclass(frozen=True, slots=True)
class Found:
    """The best record of a task in the cache, and its origin as kernels show it."""

    record: Record
    origin: Origin


@dataclass(frozen=True, slots=True)
class KernelCache:
    """The cache in `folder`, which is made when it is first written to."""

    folder: Path

    def file(self, task: Task) -> Path:
        """The record file of a task, there or not."""
        name = re.sub(r"\W+", "_", task.function_name)[:40]
        return self.folder / f"{name}-{task.key}{_SUFFIX}"

    def files(self, *, begun: bool = False) -> list[Path]:
        """The record files of all tasks; none where there is no folder yet.

        With `begun` also those of tasks whose only run was killed or is under way. Raises
        ConfigError when the folder is a file or cannot be read.
        """
        try:
            paths = sorted(self.folder.iterdir())
        except FileNotFoundError:
            paths = []
        except OSError as error:
            raise self._unreadable(error) from error
        if begun:
            paths = sorted({path.with_name(_RUN.sub(_SUFFIX, path.name)) for path in paths})
        return [path for path in paths if _NAME.fullmatch(path.name)]

    def _unreadable(self, error: OSError) -> ConfigError:
        return ConfigError(
            f"cannot read the cache of kernels {self.folder}: {error.strerror}; set {VARIABLE} "
            "to a folder that you can read"
        )

    def state(self, task: Task) -> tuple[Any, ...] | None:
        """A key of the present version of a task's file; None where there is no file.

        Raises ConfigError when the folder cannot be read.
        """
        path = self.file(task)
        try:
            now = path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unreadable(error) from error
        return path, now.st_ino, now.st_size, now.st_mtime_ns

    def find(
        self, task: Task, warning: Tell, build: Callable[[Found], object] | None = None
    ) -> Found | None:
        """The best record of a task, one of this machine first; None where there is no valid one.

        Damaged records are left out with a warning, and so are those that `build`, if it is given,
        cannot build, because they are of another version or edited.
        """
        path = self.file(task)
        if self.state(task) is None:
            return None
        try:
            contents = read_records(path, warning)
        except ConfigError as error:
            warning(f"{error}; it is left out")
            return None
        mine = (r for r in contents.records if r.task["key"] == task.key and r.result.valid)
        known = believed(path, mine, warning)
        gpu = gpu_of(known[0]) if known else None
        told = False
        while known:
            best = best_for_here(known, contents.environments, gpu)
            assert best is not None
            found = Found(best, origin_of(path, task.name, best, contents.environments, gpu))
            try:
                if build is not None:
                    build(found)
                return found
            except (ScheduleError, CompileError) as error:
                if not told:
                    why = visible(str(error))
                    warning(
                        f"{path}: the best record of {task.name} cannot be built: {why}; it is "
                        "left out, and the next is taken"
                    )
                told = True
            known = [record for record in known if record.steps != best.steps]
        return None

    @contextmanager
    def tuning(self, task: Task, waiting: Callable[[], None]) -> Iterator[None]:
        """A context in which nobody else tunes the task; `waiting` is called if somebody does now.

        Raises ConfigError when the folder cannot be written.
        """
        with _locked(self._beside(task, _LOCK), waiting):
            yield

    @contextmanager
    def measuring(self, waiting: Callable[[], None]) -> Iterator[None]:
        """A context in which no other user of this cache measures on this machine."""
        host = re.sub(r"\W+", "_", platform.node()) or "host"
        with _locked(self.folder / f"measuring-{host}{_LOCK}", waiting):
            yield

    def begin(self, task: Task, warning: Tell) -> Path:
        """Make the file that a run of the task writes to; to be called inside `tuning`.

        It begins with the records of the task, without damaged lines, and with those of a run that
        was killed. Records of a later version stay. A file that holds no records is put aside.
        """
        path, part = self.file(task), self._beside(task, _PART)
        with _writing(self.folder):
            for each in (path, part):
                if each.exists() and not (each.is_file() and takes_records(each)):
                    aside = unused(each.with_name(each.name + ".damaged"))
                    each.replace(aside)
                    warning(f"{each} of the cache holds no records; it was renamed to {aside.name}")
            if path.exists():
                known = read_log(part) if part.exists() else LogContents()
                found = read_log(path)
                _keep(part, _later(path, found), _later(part, known))
                _append(part, _news(known, found, task))
        return part

    def publish(self, task: Task) -> None:
        """Replace the file of a task by that of its run, which is complete."""
        self._beside(task, _PART).replace(self.file(task))

    def add(self, contents: LogContents, task: Task, waiting: Callable[[], None]) -> int:
        """Add the records of a task from another file; returns how many of them are new.

        `waiting` is called if the task is tuned just now.
        """
        path = self.file(task)
        with self.tuning(task, waiting):
            known = read_log(path) if path.exists() else LogContents()
            news = _news(known, contents, task)
            if news.records:
                with _writing(self.folder), replacing(path) as partial:
                    _keep(partial, _later(path, known))
                    _append(partial, _together(known, news))
        return len(news.records)

    def remove(self, path: Path) -> bool:
        """Remove a record file and the files beside it. False, and no change, while it is tuned."""
        stem = path.name.removesuffix(_SUFFIX)
        lock = path.with_name(stem + _LOCK)
        try:
            with _locked(lock, _busy):
                part = path.with_name(stem + _PART)
                journals = path.parent.glob(f"{glob.escape(part.name)}.*{SUFFIX}")
                for each in (path, part, *journals, lock):
                    each.unlink(missing_ok=True)
        except BlockingIOError:
            return False
        return True

    def _beside(self, task: Task, suffix: str) -> Path:
        path = self.file(task)
        return path.with_name(path.name.removesuffix(_SUFFIX) + suffix)


def _news(known: LogContents, contents: LogContents, task: Task) -> LogContents:
    """The records of a task in `contents` that are not in `known`."""
    there = set(map(_identity, known.records))
    mine = [record for record in contents.records if record.task["key"] == task.key]
    return LogContents([r for r in mine if _identity(r) not in there], contents.environments)


def _together(one: LogContents, other: LogContents) -> LogContents:
    """The records of both in the order in which they were measured, so that races stay valid."""
    both = LogContents(environments=dict(one.environments))
    for name, environment in other.environments.items():
        both.add_environment(name, environment)
    others = [replace(r, environment=both.environment_of(r.environment)) for r in other.records]
    merged = heapq.merge(dated(one.records), dated(others), key=lambda each: each[0])
    both.records.extend(record for _, record in merged)
    return both


def _identity(record: Record) -> tuple[Any, ...]:
    return record.environment, record.time, record.steps, record.result.seconds


def _append(path: Path, contents: LogContents) -> None:
    if contents.records:
        log = RecordLog(path)
        log.copy(contents)
        log.close()


def _later(path: Path, contents: LogContents) -> list[str]:
    """The lines of records of a later version, and the head lines that they may name."""
    if not contents.newer:
        return []
    lines = (line for _, line in log_lines(path, []))
    return [f"{line.rstrip()}\n" for line in lines if is_later(line) or is_head(line)]


def _keep(path: Path, lines: Sequence[str], there: Sequence[str] = ()) -> None:
    """Append the lines to a file, without those in `there`."""
    news = [line for line in lines if line not in set(there)]
    if news:
        with path.open("a", encoding="utf-8") as file:
            file.writelines(news)


def _busy() -> None:
    """The `waiting` of a caller that does not wait."""
    raise BlockingIOError


@contextmanager
def _locked(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """A context that holds the lock of a file, also against other threads of this process."""
    file = _acquire(path, waiting)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)  # a child of a fork has the file, too
        os.close(file)


def _acquire(path: Path, waiting: Callable[[], None]) -> int:
    """The open file, locked; closing it, or the end of the process, unlocks it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                _lock(file, waiting)
                if is_at(file, path):  # otherwise whoever held it has removed it
                    held, file = file, -1
                    return held
            finally:
                if file >= 0:
                    os.close(file)
    except BlockingIOError:
        raise
    except OSError as error:
        raise _cannot_write(path.parent, error) from error


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """A context in which files of the cache are written. Raises ConfigError that names it."""
    try:
        yield
    except OSError as error:
        raise _cannot_write(folder, error) from error
    except RecordsError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        raise _cannot_write(folder, error.__cause__) from error


def _cannot_write(folder: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"cannot write to the cache of kernels {folder}: {error.strerror}; set {VARIABLE} to a "
        "folder that you can write to"
    )


def _lock(file: int, waiting: Callable[[], None]) -> None:
    with suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    waiting()
    fcntl.flock(file, fcntl.LOCK_EX)
