"""Where output goes: results to standard output, messages to standard error."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from autosched.display.console import lines_only, literal_console, lose, tell
from autosched.errors import ConfigError
from autosched.words import escaped, visible
from autosched.words import rate_text as rate_text
from autosched.words import seconds_text as seconds_text

out = literal_console()
err = literal_console(stderr=True)


def print_json(data: Any) -> None:
    """One JSON object on standard output and nothing else."""
    try:
        text = json.dumps(data, allow_nan=False)
    except ValueError:  # records may hold what JSON has no numbers for
        text = json.dumps(json.loads(json.dumps(data), parse_constant=lambda _: None))
    plain(text.replace("\x7f", "\\u007f"))  # the one such character that JSON leaves as it is


def plain(text: str) -> None:
    """Text on standard output as it is: no markup, no wrapping.

    Characters that the output cannot have, as in the name of a file, become `\\udcff`, those that
    a terminal would obey `\\x1b`. Ends the process, with status 0, when the reader of a pipe (such
    as `head`) went away. Raises ConfigError when the output cannot be written, as on a full disk.
    """
    text = lines_only(text if text.endswith("\n") else text + "\n")
    with _written():
        try:
            sys.stdout.write(text)
        except UnicodeEncodeError:
            sys.stdout.write(escaped(text, sys.stdout.encoding))
        sys.stdout.flush()


def copy(path: Path) -> None:
    """The bytes of a file on standard output as they are. Ends and raises as `plain`."""
    with _written(), path.open("rb") as file:
        shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.flush()


@contextmanager
def _written() -> Iterator[None]:
    """End the process where the reader of standard output went away; say what else is wrong."""
    try:
        yield
    except BrokenPipeError:
        lose(sys.stdout)
        sys.exit(0)
    except OSError as error:
        raise ConfigError(
            f"cannot write to standard output: {error.strerror}; free some space or send the "
            "output elsewhere"
        ) from error


def say(text: str, indent: str = "") -> None:
    """A sentence on standard output, wrapped between words where a terminal is narrow."""
    plain("\n".join(wrapped(visible(text), text_width(), indent)))


def labelled(label: str, text: str) -> None:
    """`best      1.23 ms`: a line of a report, wrapped beside its label on a terminal."""
    head = f"{label:10}"
    plain("\n".join(wrapped(head + visible(text), text_width(), hanging=" " * len(head))))


def wrapped(text: str, width: int | None, indent: str = "", hanging: str = "") -> list[str]:
    """The lines of a text; words, file names among them, are never broken.

    All begin with `indent`, those after the first with `hanging` too.
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
    """A message on standard error, lost where nothing can be written to it.

    On a terminal lines are wrapped between words.
    """
    if err.is_terminal:
        text = "\n".join(
            part for line in text.split("\n") for part in wrapped(line, err.width) or [""]
        )
    tell(err, text)


def warning(text: str) -> None:
    """`warning: TEXT` on standard error, one line but for a narrow terminal."""
    warn(f"warning: {visible(text)}")


def text_width() -> int | None:
    """Columns of the terminal, or what COLUMNS says; None where nothing limits a line."""
    columns = os.environ.get("COLUMNS", "")
    said = columns.isdecimal() and int(columns) > 0
    return out.width if said or out.is_terminal else None


def open_closed_streams() -> None:
    """Give a process that was started without standard output or error (`>&-`) an empty one."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
