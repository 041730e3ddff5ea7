"""Output of commands: results to standard output, messages to standard error."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import IO, Any

from autosched.display.console import lines_only, literal_console, lose, tell
from autosched.errors import ConfigError
from autosched.words import escaped, visible
from autosched.words import rate_text as rate_text
from autosched.words import seconds_text as seconds_text

out = literal_console()
err = literal_console(stderr=True)


def print_json(data: Any) -> None:
    """Print one JSON object, and nothing else, to standard output."""
    try:
        text = json.dumps(data, allow_nan=False)
    except ValueError:  # records may hold values that JSON has no numbers for
        text = json.dumps(json.loads(json.dumps(data), parse_constant=lambda _: None))
    plain(text.replace("\x7f", "\\u007f"))  # the only control character that json.dumps keeps


def plain(text: str) -> None:
    """Print text to standard output without markup or wrapping.

    Characters that the output's encoding lacks, as in a file name, become `\\udcff`, and control
    characters of terminals become `\\x1b`. Exits with status 0 if the reader of a pipe (such as
    `head`) is gone. Raises ConfigError if the output cannot be written, as on a full disk.
    """
    text = lines_only(text if text.endswith("\n") else text + "\n")
    with _written():
        try:
            out.file.write(text)
        except UnicodeEncodeError:
            out.file.write(escaped(text, out.encoding))
        out.file.flush()


class _Prints:
    """Standard output for the user's own code: standard error, where what is printed may be lost.

    `results` is standard output itself, which rich's consoles look for as `rich_proxied_file`.
    """

    def __init__(self, results: IO[str]) -> None:
        self.rich_proxied_file = results

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)

    def write(self, text: str) -> int:
        """Write to standard error, if that is possible."""
        with suppress(OSError):
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush standard error, if that is possible."""
        with suppress(OSError):
            sys.stderr.flush()


def results_alone() -> AbstractContextManager[Any]:
    """Keep what the user's own code prints inside apart from the results on standard output."""
    return redirect_stdout(_Prints(sys.stdout))


def copy(path: Path) -> None:
    """Copy the bytes of a file to standard output. Exits and raises like `plain`."""
    results: Any = out.file
    with _written(), path.open("rb") as file:
        shutil.copyfileobj(file, results.buffer)
        results.flush()


@contextmanager
def _written() -> Iterator[None]:
    """Exit if the reader of standard output is gone; raise ConfigError for other write errors."""
    try:
        yield
    except BrokenPipeError:
        lose(out.file)
        sys.exit(0)
    except OSError as error:
        raise ConfigError(
            f"cannot write to standard output: {error.strerror}; free some space or send the "
            "output elsewhere"
        ) from error


def say(text: str, indent: str = "") -> None:
    """Print a sentence to standard output, wrapped between words to the width of a terminal."""
    plain("\n".join(wrapped(visible(text), text_width(), indent)))


def labelled(label: str, text: str) -> None:
    """Print a line of a report, `best      1.23 ms`, wrapped beside its label on a terminal."""
    head = f"{label:10}"
    plain("\n".join(wrapped(head + visible(text), text_width(), hanging=" " * len(head))))


def wrapped(text: str, width: int | None, indent: str = "", hanging: str = "") -> list[str]:
    """The lines of a text of at most `width` columns; words, such as file names, are never broken.

    All lines start with `indent`, all but the first also with `hanging`.
    """
    if width is None:
        return [indent + text]
    return textwrap.wrap(
        text,
        max(width, 1),  # of a narrow terminal indents may leave nothing
        initial_indent=indent,
        subsequent_indent=indent + hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def warn(text: str) -> None:
    """Print a message to standard error; it is lost if nothing can be written there.

    On a terminal, lines are wrapped between words.
    """
    if err.is_terminal:
        text = "\n".join(
            part for line in text.split("\n") for part in wrapped(line, err.width) or [""]
        )
    tell(err, text)


def warning(text: str) -> None:
    """Print `warning: TEXT` to standard error; one line, except on a narrow terminal."""
    warn(f"warning: {visible(text)}")


def text_width() -> int | None:
    """The columns of the terminal, or COLUMNS; None if lines are not limited."""
    columns = os.environ.get("COLUMNS", "")
    said = columns.isdecimal() and int(columns) > 0
    return out.width if said or out.is_terminal else None


def open_closed_streams() -> None:
    """Open an empty stream for standard output or error if the process started without (`>&-`)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
