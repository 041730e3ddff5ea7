"""Protect files that are about to be written: a file is replaced only by one of its own kind.

Everything that writes a file asks here first. So a typing mistake (`--save-model matmul.jsonl`)
leads to a message instead of the loss of an evening's records.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from errno import EEXIST
from pathlib import Path

from autosched.errors import ConfigError


class FileKind(StrEnum):
    """The kinds of files that autosched writes; the value is the name in messages."""

    RECORDS = "record file"
    MODEL = "cost model"
    DATASET = "dataset"
    DATASHEET = "datasheet"
    REPORT = "report"


REPORT_MARK = "autosched report"
"""The generator that a report's HTML names."""


_HEAD = 1 << 20  # bytes that are read: a record file's first lines may be torn
_GZIP = 31  # zlib's number for a gzip header
_GZIP_MARK = b"\x1f\x8b"

# How lines of record files begin: an environment, a record, an Ansor v0.6 record.
_RECORD = re.compile(rb'^\{\s*"(environment|task|schema|i|r)"\s*:', re.MULTILINE)
# The keys that such a line has at least.
_KEYS = ({"environment", "hash"}, {"task", "hash"}, {"schema", "steps", "result"}, {"i", "r"})
# Two columns of every dataset, named in a CSV's first line and at a Parquet file's end.
_COLUMNS = (b"candidate", b"throughput")
_SUFFIXES = {
    ".yaml": "it is a YAML file",
    ".yml": "it is a YAML file",
    ".py": "it is a Python file",
}


def require_replaceable(
    path: Path, kind: FileKind, remedy: str = "give another file", *, overwrite: bool = False
) -> None:
    """Raise ConfigError, ending with `remedy`, unless a `kind` may be written to `path`.

    That is allowed where nothing exists, or an empty file, or a file of the same `kind`: a record
    file is continued, other files are replaced. With `overwrite`, any file may be replaced, but no
    folder or device.
    """
    if path.exists() and not path.is_file():
        # Records may go to /dev/null, but replacing a file as a whole would replace the device.
        if not path.is_dir() and kind is FileKind.RECORDS:
            return
        found = "a folder" if path.is_dir() else "a device or pipe"
        raise ConfigError(f"cannot write the {kind} {path}: it is {found}; give another file")
    found = "" if overwrite else _other_kind(path, kind)
    if found:
        raise ConfigError(f"cannot write the {kind} {path}: {found}; {remedy}")


def takes_records(path: Path) -> bool:
    """Whether records may be written to `path` (a file, or nothing yet) without loss."""
    return not _other_kind(path, FileKind.RECORDS)


def require_apart(
    written: Sequence[tuple[str, Path | None]], read: Sequence[tuple[str, Path]] = ()
) -> None:
    """Raise ConfigError when a file to be written is also another file of the run.

    Files have names for the message, such as ("the records", path). None is a file that was not
    requested.
    """
    wanted = [(name, path) for name, path in written if path is not None]
    for index, (name, path) in enumerate(wanted):
        for other, earlier in (*wanted[:index], *read):
            if _resolved(path) == _resolved(earlier):
                raise ConfigError(f"{name}: {path} is {other}; give another file")


@contextmanager
def replacing(path: Path, *, only_new: bool = False) -> Iterator[Path]:
    """Yield a path beside `path` to write to; that file replaces `path` when the block succeeds.

    Where `path` is a link, its target is replaced, not the link; a device is written directly. The
    new file gets the permissions of the old one; until it is complete, only its owner may read it.
    With `only_new` no file is replaced, not even one that appeared meanwhile:
    FileExistsError.
    """
    if path.exists() and not path.is_file():  # /dev/stdout is a link to something without a path
        yield path
        return
    target = _resolved(path) if path.is_symlink() else path
    partial = target.with_name(f"{target.name}.{os.getpid()}.part")
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    try:
        if mode is not None:
            with suppress(OSError):  # the writer will report the problem
                partial.touch(0o600)
        yield partial
        if mode is not None:
            with suppress(OSError):  # a file system without permissions
                partial.chmod(mode)
        if only_new:
            _require_none(partial, target)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _require_none(partial: Path, target: Path) -> None:
    """Create `target` as a hard link to `partial`. Raises FileExistsError where it exists."""
    try:
        target.hardlink_to(partial)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if target.exists():
            raise FileExistsError(EEXIST, os.strerror(EEXIST), str(target)) from None


def _resolved(path: Path) -> Path:
    """The path without links. Raises ConfigError for a link that leads to itself."""
    found = real_path(path)
    if found.is_symlink():
        raise ConfigError(f"{path} is a link that leads to itself; give another file")
    return found


def from_here(path: Path) -> Path:
    """The path from the root, for another current folder; as it is where there is none."""
    try:
        return path.absolute()
    except FileNotFoundError:  # the current folder was deleted
        return path


def real_path(path: Path) -> Path:
    """The absolute path without links. ConfigError where the current folder was deleted."""
    try:
        return Path(os.path.realpath(path))
    except FileNotFoundError as error:
        raise ConfigError(
            f"{path} leads nowhere: the current folder was deleted; change into one that exists, "
            "or give an absolute path"
        ) from error


def kind_of(path: Path) -> FileKind | None:
    """The kind of a file, found from its contents; None for a file that autosched does not write.

    Raises OSError when it cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD)
        file.seek(max(0, file.seek(0, os.SEEK_END) - _HEAD))
        tail = file.read()
    if head.startswith(_GZIP_MARK):
        head = _unzipped(head)
    if re.match(rb'\s*\{\s*"learner"', head):
        return FileKind.MODEL if b'"offset"' in head else None
    if _is_dataset(path, head, tail):
        return FileKind.DATASET
    if head.startswith(b"# ") and b"candidate schedule" in head:
        return FileKind.DATASHEET
    if (
        head[:15].lower() == b"<!doctype html>"
        and f'content="{REPORT_MARK}'.encode() in head[:4096]
    ):
        return FileKind.REPORT
    return FileKind.RECORDS if _has_records(head) else None


def _other_kind(path: Path, kind: FileKind) -> str:
    """Why the file at `path` may not become a `kind`; empty where it may."""
    try:
        if not path.is_file() or path.stat().st_size == 0:
            return ""
        found = kind_of(path)
    except OSError as error:
        return f"the file there cannot be read ({error.strerror})"
    if found is kind is FileKind.MODEL and not _is_whole(path):
        return "the cost model there is cut short or damaged"
    if found is kind:
        return ""
    if found is None:
        return _SUFFIXES.get(path.suffix, f"the file there is no {kind}")
    return f"it is a {found}"


def _has_records(head: bytes) -> bool:
    """Whether a line is one of a record file, or the only line is the beginning of one."""
    for match in _RECORD.finditer(head):
        end = head.find(b"\n", match.start())
        line = head[match.start() : None if end < 0 else end]
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):
            if match.start() == 0 and end < 0:  # its writer was ended, or the line is very long
                return True
            continue
        if any(keys <= data.keys() for keys in _KEYS):
            return True
    return False


def _is_dataset(path: Path, head: bytes, tail: bytes) -> bool:
    if set(_COLUMNS) <= set(head.partition(b"\n")[0].split(b",")):
        return True
    if head.startswith(b"PAR1"):
        return all(name in tail for name in _COLUMNS)
    if not head.startswith(b"PK"):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return {"features.npy", "row_candidate.npy"} <= set(archive.namelist())
    except zipfile.BadZipFile:
        return False


def _is_whole(path: Path) -> bool:
    """Whether the JSON of a file, which may be gzip, is complete."""
    data = path.read_bytes()
    try:
        json.loads(gzip.decompress(data) if data.startswith(_GZIP_MARK) else data)
    except (ValueError, RecursionError, EOFError, OSError, zlib.error):
        return False
    return True


def _unzipped(data: bytes) -> bytes:
    """The beginning of gzip data, decompressed; empty when it is damaged."""
    try:
        return zlib.decompressobj(_GZIP).decompress(data, _HEAD)
    except zlib.error:
        return b""
