"""Append whole lines to a file: where room runs out, no partial line stays."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from autosched.words import count, in_shell


def write_whole(file: int, text: str) -> None:
    """Append lines to a file: all of them, or none when that raises OSError."""
    size = os.fstat(file).st_size
    data = _after_torn(file, size) + text.encode()
    try:
        while data:
            data = data[os.write(file, data) :]
    except OSError:
        with suppress(OSError):
            os.ftruncate(file, size)
        raise


def write_fitting(file: int, lines: Sequence[str]) -> tuple[int, str]:
    """Append the lines that fit, each whole. Returns their number, and why there are not more."""
    size = os.fstat(file).st_size
    before = _after_torn(file, size)
    data, written = before + "".join(lines).encode(), 0
    try:
        while written < len(data):
            written += os.write(file, data[written:])
    except OSError as error:
        end = data.rfind(b"\n", 0, written) + 1
        with suppress(OSError):
            os.ftruncate(file, size + end)
        return max(0, data.count(b"\n", 0, end) - len(before)), error.strerror or str(error)
    return len(lines), ""


def kept_elsewhere(
    path: Path, heads: Sequence[str], left: Sequence[str], deleted: str = ""
) -> tuple[str, bool]:
    """Write lines that do not fit the record file `path` to the folder for temporary files.

    `left` are the lines of records, `heads` the lines to which they refer, `deleted` the text that
    the file held when somebody deleted it. Returns a sentence that says where the lines are, or
    that they are lost; and whether they are kept.
    """
    results = f"{count(len(left), 'result')} of the batch" if left else ""
    before = "what the file held before it was deleted" if deleted else ""
    what = " and ".join(filter(None, (before, results)))
    verb = "is" if not results or (not before and len(left) == 1) else "are"
    gap = "" if not deleted or deleted.endswith("\n") else "\n"
    try:
        rest = _new_file("".join((deleted, gap, *heads, *left)))
    except OSError as error:
        why = f"cannot be written to the folder of temporary files either ({error.strerror})"
        return f"{what} {why} and {verb} lost", False
    if deleted:
        return f"{what} {verb} in {rest}, a record file that every command reads", True
    remedy = f"`cat {in_shell(rest)} >> {in_shell(path)}` adds what is there"
    return f"{what} {verb} in {rest}: once there is room, {remedy}", True


def _new_file(text: str) -> Path:
    """Create a temporary file of these lines. Raises OSError, and then leaves no file."""
    file, name = tempfile.mkstemp(prefix="autosched-", suffix=".jsonl")
    path = Path(name)
    try:
        write_whole(file, text)
    except OSError:
        path.unlink()
        raise
    finally:
        os.close(file)
    return path


def _after_torn(file: int, size: int) -> bytes:
    """A newline where the file's last line is torn, so that the next line starts a new one."""
    return b"\n" if size and os.pread(file, 1, size - 1) != b"\n" else b""
