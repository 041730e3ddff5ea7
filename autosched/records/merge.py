"""Merge several record files into one."""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from autosched import arguments
from autosched.arguments import PathLike
from autosched.measure.records import LogContents, Record, stream_log
from autosched.measure.standing import dated
from autosched.measure.workload_keys import WorkloadKeys
from autosched.records.writing import (
    RecordWriter,
    Written,
    require_records,
    writing,
)
from autosched.session.reading import each_once, record_files, tell_problems
from autosched.user_warning import Tell, warn

_AT_ONCE = 200  # files that are open at once; many systems allow 1024

_Timed = tuple[tuple[str, bool], LogContents, Record]
"""A key to merge by, what the record's file has listed so far, and the record."""


def merge(
    sources: Sequence[PathLike],
    output: PathLike,
    *,
    force: bool = False,
    keys: WorkloadKeys | None = None,
    warning: Tell = warn,
) -> Written:
    """Write the records of all `sources` to one file, as if their runs had shared it.

        autosched.records.merge(["monday.jsonl", "tuesday.jsonl"], "week.jsonl")

    Records come in the order in which they were measured, and those of a file in its order, so that
    races stay behind the records of their candidates. A record that is in two files is written
    once. Lines that cannot be read are left out, and `warning` is called. Records of any task and
    machine may be together. Memory holds 16 bytes for each record. More than 200 files go through
    files in the folder for temporary files.

    Raises ConfigError when a file cannot be read or holds records of a later schema, when `output`
    exists (unless `force`) or is one of the sources, or when there are no records.
    """
    paths = each_once(record_files("sources", sources), warning)
    target = arguments.file_path("output", output)
    with writing(target, paths, force=force) as file:
        writer = RecordWriter(file, once=True)
        read = 0
        contents = [LogContents() for _ in paths]
        streams = [_timed(path, seen, keys) for path, seen in zip(paths, contents, strict=True)]
        for _, seen, record in _merged(streams):
            writer.add(record, seen.environments)
            read += 1
        for path, seen in zip(paths, contents, strict=True):
            tell_problems(path, seen, warning)
        require_records(paths, contents, read)
    return Written(writer.written, read, writer.repeated, files=len(paths))


def _merged(streams: Sequence[Iterator[_Timed]]) -> Iterator[_Timed]:
    """Merge streams by their keys; of too many at once, parts are first merged to files."""
    if len(streams) <= _AT_ONCE:
        yield from heapq.merge(*streams, key=lambda each: each[0])
        return
    with tempfile.TemporaryDirectory(prefix="autosched-") as folder:
        parts = []
        for start in range(0, len(streams), _AT_ONCE):
            path = Path(folder, f"{start}.jsonl")
            with path.open("w", encoding="utf-8") as file:
                writer = RecordWriter(file)
                for _, seen, record in _merged(streams[start : start + _AT_ONCE]):
                    writer.add(record, seen.environments)
            parts.append(_timed(path, LogContents(), None))
        yield from _merged(parts)


def _timed(path: Path, contents: LogContents, keys: WorkloadKeys | None) -> Iterator[_Timed]:
    """Yield the records of a file, whose `contents` grow meanwhile, each with its key."""
    for key, record in dated(stream_log(path, contents, keys)):
        yield key, contents, record
