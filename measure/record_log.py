"""Append to a record file safely: other writers, a full disk, a file that somebody deletes."""

from __future__ import annotations

import fcntl
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from autosched.errors import ConfigError
from autosched.measure.environment import fingerprint, fingerprint_hash
from autosched.measure.records import LogContents, Record, head_lines, line_of, task_hash
from autosched.measure.whole_lines import kept_elsewhere, write_fitting, write_whole
from autosched.output_file import FileKind, from_here, require_replaceable, takes_records
from autosched.state.steps import Step


class RecordsError(ConfigError):
    """Results cannot be written."""


class RecordLog:
    """Appends records to `path`; each line is written whole, under a lock.

    A file that exists and holds no records is not touched; with `overwrite` it is replaced. If the
    file is deleted meanwhile, all that it held is written again. If another file takes its place,
    that one gets what this log wrote.

    - `place`: where the file is, whatever the current folder; default: where `path` leads now.
    - `beside`: what the environment says of the GPUs, in addition to this machine's fingerprint.
    - `hosts`: the fingerprints of a cluster's nodes, by the names in `MeasureResult.host`. A record
      then belongs to the environment of its node. The mapping may grow meanwhile.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        place: Path | None = None,
        overwrite: bool = False,
        beside: Mapping[str, Any] | None = None,
        hosts: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.path = Path(path)  # as messages call it
        self._place = place or from_here(self.path)
        self._beside = dict(beside or {})
        self._hosts = hosts or {}
        self._overwrite = overwrite
        self._file = -1  # kept open, so that a deleted file can still be read
        self._close: weakref.finalize[..., RecordLog] | None = None
        self._first = 0  # byte offset of the first line that this log wrote
        self._heads: set[str] = set()  # hashes of the environments and tasks that this log wrote

    def append(self, records: Sequence[Record] = ()) -> None:
        """Write the records, stamped with this run's environment and the time.

        Without records it writes the environment alone, so that a file that cannot be written is
        found before anything is measured.

        Raises ConfigError when the file cannot be written or is of another kind. On a full disk the
        records that fit are kept, and the message says where the others are.
        """
        self._write(self.environment, [self.stamped(r) for r in records], partly=True)

    def close(self) -> None:
        """Close the file; a later write opens it again."""
        self._let_go()

    def _let_go(self) -> None:
        if self._close is not None:
            self._close()
            self._close, self._file = None, -1

    @property
    def environment(self) -> dict[str, dict[str, Any]]:
        """This run's environments by hash: this machine's, or those of a cluster's nodes."""
        if not self._hosts:
            return self._own
        return {fingerprint_hash(each): each for each in map(dict, self._hosts.values())}

    @cached_property
    def _own(self) -> dict[str, dict[str, Any]]:
        environment = {**fingerprint(), **self._beside}
        return {fingerprint_hash(environment): environment}

    def stamped(self, record: Record) -> Record:
        """The record with the present time and the environment in which it was measured."""
        node = self._hosts.get(record.result.host)
        environment = next(iter(self.environment)) if node is None else fingerprint_hash(dict(node))
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return replace(record, environment=environment, time=now)

    @contextmanager
    def locked(
        self,
        environments: Mapping[str, Mapping[str, Any]] | None = None,
        records: Sequence[Record] = (),
    ) -> Iterator[int]:
        """Lock the file against other writers; yields its size in bytes.

        Raises RecordsError when the file cannot be written. If it was deleted, its contents are
        then written elsewhere, together with `records` and their `environments`.
        """
        try:
            self._open()
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                yield os.lseek(self._file, 0, os.SEEK_END)
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)
        except OSError as error:
            problem = f"cannot write the record file {self.path}: {error.strerror}"
            kept = self._deleted_kept(environments or {}, records)
            raise RecordsError("; ".join(filter(None, (problem, kept)))) from error
        except ConfigError as error:
            kept = self._deleted_kept(environments or {}, records)
            raise RecordsError("; ".join(filter(None, (str(error), kept)))) from None

    def claim(
        self, task: Mapping[str, Any], states: Sequence[str]
    ) -> tuple[set[str], list[tuple[tuple[Step, ...], str]]]:
        """States that others measure, and what they recorded; here nothing, see `RunLog.claim`."""
        return set(), []

    def note(self, record: Record) -> None:
        """Note the results so far of a candidate; does nothing here, see `RunLog.note`."""

    def copy(self, contents: LogContents) -> None:
        """Write records of other files unchanged, with their environments and times.

        Raises ConfigError when the file cannot be written or is of another kind.
        """
        self._write(contents.environments, contents.records)

    def _write(
        self,
        environments: Mapping[str, Mapping[str, Any]],
        records: Sequence[Record],
        *,
        partly: bool = False,
    ) -> None:
        """Append records as whole lines: all of them, or none on an error.

        Environments and tasks that this log has written before are left out. With `partly`, the
        lines that fit stay. Raises RecordsError when the file cannot be written.
        """
        with self.locked(environments, records if partly else ()) as size:
            self._write_at(size, environments, records, partly)

    def _write_at(
        self,
        size: int,
        environments: Mapping[str, Mapping[str, Any]],
        records: Sequence[Record],
        partly: bool,
    ) -> None:
        """Do the work of `_write` on the open file of `size` bytes."""
        if size <= self._first:  # a new file, or an emptied one
            self._heads.clear()
        if not self._heads:
            self._first = size
        heads, lines = _lines(environments, records)
        new = [head for head in heads if head not in self._heads]
        texts = [*(heads[head] for head in new), *lines]
        written, problem = len(texts), ""
        if partly:
            written, problem = write_fitting(self._file, texts)
        else:
            write_whole(self._file, "".join(texts))
        self._heads.update(new[:written])
        if problem:
            left = lines[max(0, written - len(new)) :]
            kept = kept_elsewhere(self.path, list(heads.values()), left)[0] if left else ""
            where = f"cannot write the record file {self.path}"
            raise RecordsError("; ".join(filter(None, (f"{where}: {problem}", kept))))

    def _deleted(self) -> bool:
        """Whether the open file no longer has the name `path`."""
        try:
            return self._file >= 0 and not is_at(self._file, self._place)
        except OSError:
            return False

    def _deleted_kept(
        self, environments: Mapping[str, Mapping[str, Any]], records: Sequence[Record]
    ) -> str:
        """Write what the deleted file held, and `records`, elsewhere; returns a sentence about it.

        The text is empty where the file was not deleted.
        """
        if not self._deleted():
            return ""
        place = self._place
        taken = place.is_file() and place.stat().st_size > 0  # another file is in its place
        held = _text_from(self._file, self._first if taken else 0)
        heads, lines = _lines(environments, records)
        if not held and not lines:
            return ""
        sentence, kept = kept_elsewhere(self.path, list(heads.values()), lines, held)
        if kept:
            self._let_go()
            self._heads.clear()
        return sentence

    def _open(self) -> None:
        """Open the file of that name; a new file gets what would be lost with the one before."""
        before = self._file
        if before >= 0 and is_at(before, self._place):
            return
        overwrite = self._overwrite and before < 0
        require_replaceable(self._place, FileKind.RECORDS, overwrite=overwrite)
        if overwrite and not takes_records(self._place):
            self._place.unlink()
        file = os.open(self._place, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            self._first = self._first if before < 0 else self._carried_over(before, file)
        except BaseException:
            os.close(file)  # the file before still has everything
            raise
        self._let_go()
        self._file, self._close = file, weakref.finalize(self, os.close, file)

    def _carried_over(self, before: int, file: int) -> int:
        """Copy lines of a deleted file to the file that is at its place now.

        An empty file gets all of them, any other file those that this log wrote. Returns the byte
        offset at which they begin.
        """
        fcntl.flock(file, fcntl.LOCK_EX)
        size = os.fstat(file).st_size
        write_whole(file, _text_from(before, self._first if size else 0))
        return size


def _lines(
    environments: Mapping[str, Mapping[str, Any]], records: Sequence[Record]
) -> tuple[dict[str, str], list[str]]:
    """The lines of environments and tasks, by their hashes, and the lines of the records."""
    tasks = {id(record.task): record.task for record in records}
    hashes = {key: task_hash(task) for key, task in tasks.items()}
    heads = head_lines(environments, {hashes[key]: task for key, task in tasks.items()})
    lines = [line_of(record.to_json(hashes[id(record.task)])) for record in records]
    return {head: line_of(line) for head, line in heads.items()}, lines


def _text_from(file: int, start: int) -> str:
    """The text of an open file from byte `start` on."""
    os.lseek(file, start, os.SEEK_SET)
    with open(file, encoding="utf-8", errors="replace", closefd=False) as held:
        return held.read()


def is_at(file: int, path: Path) -> bool:
    """Whether the open file is the one at `path`."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False
