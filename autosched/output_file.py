"""Files about to be written: what stands there is replaced only by a file of its own kind.

Everything that writes a file asks here first, so that a slip of the keyboard
(`--save-model matmul.jsonl`) costs a message and not an evening's records.
"""

from __future__ import annotations

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
    """What autosched writes; the value is what messages call it."""

    RECORDS = "record file"
    MODEL = "cost model"
    DATASET = "dataset"
    DATASHEET = "datasheet"
    REPORT = "report"


REPORT_MARK = "autosched report"
"""What a report names as its generator."""


_HEAD = 1 << 20  # bytes that are looked at: a record file's first lines may be torn
_GZIP = 31  # zlib's number for "with the header of gzip"

# How lines of record files begin: an environment, a record, an Ansor v0.6 record.
_RECORD = re.compile(rb'^\{\s*"(environment|task|schema|i|r)"\s*:', re.MULTILINE)
# What such a line has at least.
_KEYS = ({"environment", "hash"}, {"task", "hash"}, {"schema", "steps", "result"}, {"i", "r"})
# Two of the columns of every dataset: a CSV's first line and a Parquet file's end name them.
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

    It may where nothing stands, or an empty file, or a `kind`: a record file is continued, the
    others are replaced. With `overwrite` any file may go, but no folder or device.
    """
    if path.exists() and not path.is_file():
        # Records may go to /dev/null; whatever is replaced as a whole would replace the device.
        if not path.is_dir() and kind is FileKind.RECORDS:
            return
        found = "a folder" if path.is_dir() else "a device or pipe"
        raise ConfigError(f"cannot write the {kind} {path}: it is {found}; give another file")
    found = "" if overwrite else _other_kind(path, kind)
    if found:
        raise ConfigError(f"cannot write the {kind} {path}: {found}; {remedy}")


def is_kind(path: Path, kind: FileKind) -> bool:
    """Whether a `kind` may be written to `path`, a file or nothing yet, without loss."""
    return not _other_kind(path, kind)


def require_apart(
    written: Sequence[tuple[str, Path | None]], read: Sequence[tuple[str, Path]] = ()
) -> None:
    """Raise ConfigError when a file that is to be written is another one of a run too.

    Files have names, such as ("the records", path); None is a file that is not asked for.
    """
    wanted = [(name, path) for name, path in written if path is not None]
    for index, (name, path) in enumerate(wanted):
        for other, earlier in (*wanted[:index], *read):
            if _resolved(path) == _resolved(earlier):
                raise ConfigError(f"{name}: {path} is {other}; give another file")


@contextmanager
def replacing(path: Path, *, only_new: bool = False) -> Iterator[Path]:
    """A name beside `path` to write to; it takes the place of `path` when the block succeeds.

    What a link points to is replaced, not the link; a device is written to as it is. Who may read
    and write what stands there may do so afterwards, and its owner alone meanwhile. With `only_new`
    no file is replaced, not even one that came to be there meanwhile: FileExistsError.
    """
    if path.exists() and not path.is_file():  # /dev/stdout is a link to what has no path
        yield path
        return
    target = _resolved(path) if path.is_symlink() else path
    partial = target.with_name(f"{target.name}.{os.getpid()}.part")
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    try:
        if mode is not None:
            with suppress(OSError):  # who writes to it says what is wrong
                partial.touch(0o600)
        yield partial
        if mode is not None:
            with suppress(OSError):  # a file system without them
                partial.chmod(mode)
        if only_new:
            _require_none(partial, target)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _require_none(partial: Path, target: Path) -> None:
    """Make `target` a second name of `partial`. Raises FileExistsError where it is one already."""
    try:
        target.hardlink_to(partial)
    except FileExistsError:
        raise
    except OSError:  # a file system without second names
        if target.exists():
            raise FileExistsError(EEXIST, os.strerror(EEXIST), str(target)) from None


def _resolved(path: Path) -> Path:
    """What the path leads to. Raises ConfigError for a link that leads to itself."""
    found = real_path(path)
    if found.is_symlink():
        raise ConfigError(f"{path} is a link that leads to itself; give another file")
    return found


def real_path(path: Path) -> Path:
    """The whole path, without links. Raises ConfigError where the current folder is gone."""
    try:
        return Path(os.path.realpath(path))
    except FileNotFoundError as error:
        raise ConfigError(
            f"{path} leads nowhere: the current folder was deleted; change into one that is there, "
            "or give a whole path"
        ) from error


def kind_of(path: Path) -> FileKind | None:
    """What the file is, told from its contents; None for anything that autosched does not write.

    Raises OSError when it cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD)
        file.seek(max(0, file.seek(0, os.SEEK_END) - _HEAD))
        tail = file.read()
    if head.startswith(b"\x1f\x8b"):
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
    """Why the file at `path` may not become a `kind`; an empty text where it may."""
    try:
        if not path.is_file() or path.stat().st_size == 0:
            return ""
        found = kind_of(path)
    except OSError as error:
        return f"the file there cannot be read ({error.strerror})"
    if found is kind:
        return ""
    if found is None:
        return _SUFFIXES.get(path.suffix, f"the file there is no {kind}")
    return f"it is a {found}"


def _has_records(head: bytes) -> bool:
    """Whether a line is one of ours, or the only one is the beginning of one."""
    for match in _RECORD.finditer(head):
        end = head.find(b"\n", match.start())
        line = head[match.start() : None if end < 0 else end]
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):
            if match.start() == 0 and end < 0:  # its writer was ended, or it is very long
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


def _unzipped(data: bytes) -> bytes:
    """The beginning of what was compressed; nothing when it is damaged."""
    try:
        return zlib.decompressobj(_GZIP).decompress(data, _HEAD)
    except zlib.error:
        return b""
