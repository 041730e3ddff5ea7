"""Appending to a record file: beside other programs, on a full disk, where somebody deletes it."""

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
from autosched.output_file import FileKind, is_kind, require_replaceable
from autosched.state.steps import Step


class RecordsError(ConfigError):
    """What was measured cannot be written."""


class RecordLog:
    """Appends records to `path`; each line is written whole, under a lock.

    A file that is there and holds no records is not touched, or with `overwrite` begun anew. One
    that is deleted meanwhile is written again; one that another took the place of gets what this
    log wrote. `beside` is what its environment says beside this machine's fingerprint: of GPUs.
    `hosts` are the fingerprints of nodes of a cluster, by the names that results have: records then
    belong to the environment of their node. It may grow meanwhile.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        overwrite: bool = False,
        beside: Mapping[str, Any] | None = None,
        hosts: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.path = Path(path)
        self._beside = dict(beside or {})
        self._hosts = hosts or {}
        self._overwrite = overwrite
        self._file = -1  # kept open: what is deleted can be read as long as it is
        self._close: weakref.finalize[..., RecordLog] | None = None
        self._first = 0  # where the first line of this log begins
        self._heads: set[str] = set()  # of the environments and tasks that this log wrote

    def append(self, records: Sequence[Record] = ()) -> None:
        """Write the records, stamped with this run's environment and time.

        Without records it writes the environment alone, so that a file that cannot be written is
        known before anything is measured.

        Raises ConfigError when the file cannot be written or is one of another kind. On a full
        disk it keeps the records that fit, and the message says where the others are.
        """
        self._write(self.environment, [self.stamped(r) for r in records], partly=True)

    def close(self) -> None:
        """Let go of the file; who writes again opens it again."""
        self._let_go()

    def _let_go(self) -> None:
        if self._close is not None:
            self._close()
            self._close, self._file = None, -1

    @property
    def environment(self) -> dict[str, dict[str, Any]]:
        """Those of this run, each under its hash: this machine's, or those of a cluster's nodes."""
        if not self._hosts:
            return self._own
        return {fingerprint_hash(each): each for each in map(dict, self._hosts.values())}

    @cached_property
    def _own(self) -> dict[str, dict[str, Any]]:
        environment = {**fingerprint(), **self._beside}
        return {fingerprint_hash(environment): environment}

    def stamped(self, record: Record) -> Record:
        """The record with the time and the environment of where it was measured."""
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
        """Inside, no other program writes to the file; its size in bytes.

        Raises RecordsError when the file cannot be written. Where it was deleted, what it held is
        then written elsewhere, and these records, which belong to the environments, too.
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
        """What others measure or have measured; of a log that asks nobody, nothing (RunLog)."""
        return set(), []

    def note(self, record: Record) -> None:
        """What is known of a candidate while its batch is measured; not kept here (RunLog)."""

    def copy(self, contents: LogContents) -> None:
        """Write records of other files as they are, with their environments and times.

        Raises ConfigError when the file cannot be written or is one of another kind.
        """
        self._write(contents.environments, contents.records)

    def _write(
        self,
        environments: Mapping[str, Mapping[str, Any]],
        records: Sequence[Record],
        *,
        partly: bool = False,
    ) -> None:
        """Write what is new to the file, as whole lines: all, or none on an error.

        With `partly` those that fit stay. Raises RecordsError when the file cannot be written.
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
        """As `_write`, to the open file, which has that size."""
        if size <= self._first:  # a new file, or somebody emptied it
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
        """Whether the open file no longer has the name."""
        try:
            return self._file >= 0 and not is_at(self._file, self.path)
        except OSError:
            return False

    def _deleted_kept(
        self, environments: Mapping[str, Mapping[str, Any]], records: Sequence[Record]
    ) -> str:
        """Write what the deleted file held, and the records, elsewhere; a sentence about that.

        An empty text where nobody deleted it.
        """
        if not self._deleted():
            return ""
        taken = self.path.is_file() and self.path.stat().st_size > 0  # its place, by another
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
        """Open the file that has the name now; a new one gets what is lost with the one before."""
        before = self._file
        if before >= 0 and is_at(before, self.path):
            return
        overwrite = self._overwrite and before < 0
        require_replaceable(self.path, FileKind.RECORDS, overwrite=overwrite)
        if overwrite and not is_kind(self.path, FileKind.RECORDS):
            self.path.unlink()
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            self._first = self._first if before < 0 else self._carried_over(before, file)
        except BaseException:
            os.close(file)  # the one before still has all
            raise
        self._let_go()
        self._file, self._close = file, weakref.finalize(self, os.close, file)

    def _carried_over(self, before: int, file: int) -> int:
        """Write all of a file that was deleted to a new one, to another one what this log wrote.

        Returns where that begins.
        """
        fcntl.flock(file, fcntl.LOCK_EX)
        size = os.fstat(file).st_size
        write_whole(file, _text_from(before, self._first if size else 0))
        return size


def _lines(
    environments: Mapping[str, Mapping[str, Any]], records: Sequence[Record]
) -> tuple[dict[str, str], list[str]]:
    """The lines that records name, by their hashes, and those of the records."""
    tasks = {id(record.task): record.task for record in records}
    hashes = {key: task_hash(task) for key, task in tasks.items()}
    heads = head_lines(environments, {hashes[key]: task for key, task in tasks.items()})
    lines = [line_of(record.to_json(hashes[id(record.task)])) for record in records]
    return {head: line_of(line) for head, line in heads.items()}, lines


def _text_from(file: int, start: int) -> str:
    """What an open file holds from that byte on."""
    os.lseek(file, start, os.SEEK_SET)
    with open(file, encoding="utf-8", errors="replace", closefd=False) as held:
        return held.read()


def is_at(file: int, path: Path) -> bool:
    """Whether the open file still is the one that has the name."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False
