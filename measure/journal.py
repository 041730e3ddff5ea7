"""The journal of a running measurement beside its record file: `mm.jsonl.4711.measuring`.

A batch is measured in turns, so all of its results are complete only at the end. Until then the
journal lists its candidates, so that another run on the same file takes others. It also holds the
partial results after every visit, so that a killed run loses one visit of one candidate. The file
stays locked while its run lives. The next run takes over what a dead run left.
"""

from __future__ import annotations

import fcntl
import json
import os
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from autosched.errors import ConfigError
from autosched.measure.record_log import RecordLog, RecordsError, is_at
from autosched.measure.records import Record, head_lines, line_of, read_log, task_hash
from autosched.measure.whole_lines import write_whole
from autosched.output_file import real_path
from autosched.state.steps import Step, steps_from_json

Steps = tuple[Step, ...]

SUFFIX = ".measuring"
_RUNS = count()  # numbers the logs of this process
_DAMAGED = (ValueError, KeyError, TypeError, RecursionError)  # what reading JSON may raise


class RunLog(RecordLog):
    """The log of a run that measures, with a journal (none where the record file is a device).

    - `seen`: how many bytes of the record file were read before. Call `close` when the run is over.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        place: Path | None = None,
        overwrite: bool = False,
        beside: Mapping[str, Any] | None = None,
        seen: int = 0,
        hosts: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        super().__init__(path, place=place, overwrite=overwrite, beside=beside, hosts=hosts)
        self._start = seen
        self._seen: dict[str, int] = {}  # by task: how far the file was read since the start
        self._file_itself = real_path(self._place)  # runs may know it by several links
        self._journal_path = self._next_name()
        self._journal = -1
        self._noted: set[Steps] = set()  # the candidates of which the journal holds a result
        self._remove: weakref.finalize[..., RunLog] | None = None

    def append(self, records: Sequence[Record] = ()) -> None:
        """Append as `RecordLog.append` does, then clear the journal.

        When it fails and the journal holds the whole batch, nothing is written: the journal stays,
        and the next run takes over what it holds.
        """
        held = bool(records) and self._noted.issuperset(record.steps for record in records)
        try:
            stamped = [self.stamped(record) for record in records]
            self._write(self.environment, stamped, partly=not held)
        except RecordsError as error:
            if self._noted:
                self._leave()
            else:
                self._drop()
            if not held:
                raise
            raise RecordsError(
                f"{error}; {self._journal_path} holds the results of the batch, and the next run "
                f"on {self.path} takes them over"
            ) from error
        if self._journal >= 0:
            self._noted.clear()
            os.ftruncate(self._journal, 0)

    def claim(
        self, task: Mapping[str, Any], states: Sequence[str]
    ) -> tuple[set[str], list[tuple[Steps, str]]]:
        """Begin a batch of candidates of a task, each known by the state of its loop nests.

        Returns the `states` to leave out, because another run measures or has measured them; and
        the (steps, state) pairs that others have recorded since the last call.
        """
        key = task_hash(dict(task))
        with self.locked() as size:
            new = list(self._news(key, size))
            taken = {state for other in self._others() for state in _claims(other, key)}
            taken = (taken | {state for _, state in new}).intersection(states)
            self._begin(key, task, [state for state in states if state not in taken])
        return taken, new

    def note(self, record: Record) -> None:
        """Note the results so far of a candidate of the batch."""
        if self._journal >= 0:
            try:
                write_whole(self._journal, line_of(self.stamped(record).to_json()))
                self._noted.add(record.steps)
            except OSError:  # no room for a second copy: the record file has priority
                self._drop()

    def close(self) -> None:
        """Close the file and remove the journal: the run is over.

        A journal stays for the next run if it holds results of a batch that was never written,
        because a user's error (in an observer or a signal handler) cut the batch short.
        """
        super().close()
        if self._noted:
            self._leave()
        else:
            self._drop()

    def _leave(self) -> None:
        """Release the journal and leave its file as it is."""
        if self._remove is not None and self._remove.detach() is not None:
            os.close(self._journal)
            self._forget()

    def _drop(self) -> None:
        """Remove the journal and go on without one."""
        if self._remove is not None:
            self._remove()
            self._forget()

    def _forget(self) -> None:
        self._remove, self._journal = None, -1
        self._noted.clear()

    def recover(self) -> int:
        """Write what killed runs left to the record file; returns the number of records.

        Journals of a later version stay for that version. Raises RecordsError where there is no
        room.
        """
        found = 0
        for path in self._others():
            with suppress(OSError), path.open("rb+") as file:  # its run lives, or the file is gone
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if is_at(file.fileno(), path):  # otherwise another took it over meanwhile
                    found += self._take_over(path)
        return found

    def _take_over(self, path: Path) -> int:
        contents = read_log(path)
        if contents.newer:
            return 0
        last = {(r.task["key"], r.steps): r for r in contents.records}
        contents.records[:] = [r for r in last.values() if r.result.seconds or r.result.failure]
        if contents.records:
            try:
                self.copy(contents)
            except RecordsError as error:
                raise RecordsError(f"{error}; results of an earlier run stay in {path}") from error
        path.unlink(missing_ok=True)
        return len(contents.records)

    def _next_name(self) -> Path:
        beside = self._file_itself
        return beside.with_name(f"{beside.name}.{os.getpid()}-{next(_RUNS)}{SUFFIX}")

    def _create(self) -> int:
        """Create and lock this log's own journal. Raises OSError where no file can be made.

        A process of another container or machine may have the same number and so the same file
        name.
        """
        while True:
            with suppress(FileExistsError):
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND
                file = os.open(self._journal_path, flags, 0o666)
                fcntl.flock(file, fcntl.LOCK_EX)
                if is_at(file, self._journal_path):
                    return file
                os.close(file)  # a run that looked for dead journals took it for one
            self._journal_path = self._next_name()

    def _begin(self, key: str, task: Mapping[str, Any], states: Sequence[str]) -> None:
        if not self._place.is_file():
            return
        if self._journal < 0:
            try:
                file = self._create()
            except OSError:  # no file can be made beside the record file: go on without
                return
            self._remove = weakref.finalize(self, _remove, file, self._journal_path)
            self._journal = file
        self._noted.clear()
        os.ftruncate(self._journal, 0)
        heads = head_lines(self.environment, {key: task})
        lines = [{"claims": [[key, state] for state in states]}, *heads.values()]
        try:
            write_whole(self._journal, "".join(map(line_of, lines)))
        except OSError:
            self._drop()

    def _others(self) -> Iterator[Path]:
        """The journals of other runs on the same record file."""
        for path in sorted(self._file_itself.parent.glob("*" + SUFFIX)):
            name = path.name.removesuffix(SUFFIX).rpartition(".")[0]
            own = self._journal >= 0 and path == self._journal_path
            if name == self._file_itself.name and not own:
                yield path

    def _news(self, task: str, size: int) -> Iterator[tuple[Steps, str]]:
        """(steps, state) of the task's records in the part of the file that was not read before."""
        start = self._seen.get(task, self._start)
        self._seen[task] = size
        if size <= start or not self._place.is_file():
            return
        with self._place.open("rb") as file:
            file.seek(start)
            lines = file.read(size - start).splitlines()
        for line in lines:
            with suppress(*_DAMAGED, AttributeError, ConfigError):
                data = json.loads(line)
                if data["task"] == task:
                    yield steps_from_json(data["steps"]), str(data["search"].get("state", ""))


def _claims(path: Path, task: str) -> Collection[str]:
    """The states of the task's candidates that the run of the journal `path` measures now."""
    with suppress(OSError, *_DAMAGED):
        with path.open("rb") as file:
            claims = json.loads(file.readline())["claims"]
        return [str(state) for other, state in claims if other == task]
    return []


def _remove(file: int, path: Path) -> None:
    path.unlink(missing_ok=True)
    os.close(file)
