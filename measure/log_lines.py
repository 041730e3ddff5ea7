"""Read the lines of record files safely: a pipe or a device may never end."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import TextIO

from autosched.errors import ConfigError

MOST_LETTERS = 1 << 24
"""The most characters of a line that may be a record; `benchmarks/data` has 2,196 at most."""
MOST_SKIPPED = 1 << 28
"""The most characters of one line that are skipped to reach the line after it."""
MOST_PROBLEMS = 1_000_000
"""The most lines without a record; each of them is remembered."""

_FORMATS = {
    b"\x1f\x8b": ("compressed with gzip", "unpack it with gunzip"),
    b"\xfd7zXZ\0": ("compressed with xz", "unpack it with unxz"),
    b"BZh": ("compressed with bzip2", "unpack it with bunzip2"),
    b"(\xb5/\xfd": ("compressed with zstd", "unpack it with unzstd"),
    b"PK\3\4": ("a ZIP archive", "unpack it with unzip"),
    b"\xff\xfe": ("text in UTF-16", "convert it with iconv -f UTF-16 -t UTF-8"),
    b"\xfe\xff": ("text in UTF-16", "convert it with iconv -f UTF-16 -t UTF-8"),
}
"""First bytes of files in other formats: the format, and how to turn the file into lines."""


def log_lines(path: Path, problems: list[str]) -> Iterator[tuple[int, str]]:
    """The lines of a record file that are not comments, with their line numbers from 1.

    A line too long to be a record is left out, and `problems` gains a sentence about it; at most
    `MOST_LETTERS` of it are in memory. Raises ConfigError when the file cannot be read, is
    compressed or UTF-16, has more than `MOST_PROBLEMS` problems, or has a line of more than
    `MOST_SKIPPED` characters.
    """
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            _require_text(path, file)
            part = partial(file.readline, MOST_LETTERS + 1)
            for number, line in enumerate(iter(part, ""), 1):
                if len(problems) > MOST_PROBLEMS:
                    raise ConfigError(
                        f"{path}: more than {MOST_PROBLEMS:,} lines that hold no record; expected "
                        "a file that `autosched tune` or Ansor v0.6 wrote"
                    )
                if len(line) > MOST_LETTERS and not line.endswith("\n"):
                    problems.append(_passed(f"{path}:{number}", iter(part, "")))
                elif line.strip() and not line.startswith(("#", " ")):
                    yield number, line.removeprefix("\ufeff")  # where files were concatenated
    except FileNotFoundError as error:
        raise ConfigError(f"record file {path} does not exist") from error
    except OSError as error:
        raise ConfigError(f"cannot read the record file {path}: {error.strerror}") from error


def _require_text(path: Path, file: TextIO) -> None:
    """Raise ConfigError where the file begins like a file of another format."""
    start = file.buffer.peek(6)[:6] if isinstance(file.buffer, BufferedReader) else b""
    for magic, (name, remedy) in _FORMATS.items():
        if start.startswith(magic):
            raise ConfigError(f"{path} is {name}, expected lines of JSON in UTF-8; {remedy}")


def _passed(where: str, rest: Iterator[str]) -> str:
    """Skip the rest of a line that is too long; returns the sentence about it.

    Raises ConfigError when the line is longer than `MOST_SKIPPED`.
    """
    letters = MOST_LETTERS + 1
    for part in rest:
        letters += len(part)
        if part.endswith("\n"):
            break
        if letters > MOST_SKIPPED:
            raise ConfigError(
                f"{where}: a line of more than {MOST_SKIPPED:,} letters; expected a file that "
                "`autosched tune` or Ansor v0.6 wrote"
            )
    return f"{where}: a line of {letters:,} letters, at most {MOST_LETTERS:,} are read; skipped"
