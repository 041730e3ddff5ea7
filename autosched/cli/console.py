"""Where output goes: results to standard output, messages to standard error."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import textwrap
from pathlib import Path
from typing import IO, Any

from rich.console import Console

from autosched.errors import ConfigError


class _Console(Console):
    """A console whose reader may go away, as `head` does: what it prints is lost from then on."""

    def on_broken_pipe(self) -> None:
        """In place of ending the process, which has more to do than to print."""
        _lose(self.file)


def _lose(stream: IO[str]) -> None:
    """What is written to the stream goes nowhere from now on."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def literal_console(**options: Any) -> Console:
    """A console that shows text as it is: file names may hold `[red]` or `:x:`.

    It respects NO_COLOR and drops colours where the stream is not a terminal.
    """
    return _Console(soft_wrap=True, highlight=False, markup=False, emoji=False, **options)


out = literal_console()
err = literal_console(stderr=True)


def print_json(data: Any) -> None:
    """One JSON object on standard output and nothing else."""
    try:
        text = json.dumps(data, allow_nan=False)
    except ValueError:  # records may hold what JSON has no numbers for
        text = json.dumps(json.loads(json.dumps(data), parse_constant=lambda _: None))
    plain(text)


def plain(text: str) -> None:
    """Text on standard output exactly as it is: no markup, no wrapping.

    Ends the process, with status 0, when the reader of a pipe (such as `head`) went away. Raises
    ConfigError when the output cannot be written, as on a full disk.
    """
    try:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        _lose(sys.stdout)
        sys.exit(0)
    except OSError as error:
        raise ConfigError(
            f"cannot write to standard output: {error.strerror}; free some space or send the "
            "output elsewhere"
        ) from error


def say(text: str, indent: str = "") -> None:
    """A sentence on standard output, wrapped between words where a terminal is narrow."""
    plain("\n".join(wrapped(text, text_width(), indent)))


def wrapped(text: str, width: int | None, indent: str = "") -> list[str]:
    """The lines of a text; words, file names among them, are never broken."""
    if width is None:
        return [indent + text]
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def warn(text: str) -> None:
    """A message on standard error, lost where nothing can be written to it."""
    with contextlib.suppress(OSError):
        err.print(text)


def warning(text: str) -> None:
    """`warning: TEXT` on standard error."""
    warn(f"warning: {text}")


def text_width() -> int | None:
    """Columns of the terminal, or what COLUMNS says; None where nothing limits a line."""
    return out.width if out.is_terminal or "COLUMNS" in os.environ else None


def open_closed_streams() -> None:
    """Give a process that was started without standard output or error (`>&-`) an empty one."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115


def seconds_text(seconds: float) -> str:
    """`1.23 ms` and the like."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def rate_text(flops: float, peak: float | None = None) -> str:
    """`12.3 GFLOP/s (34% of peak)`, or an empty text when the operations are not counted.

    The peak is measured: more than all of it says so.
    """
    if flops <= 0:
        return ""
    text = f"{flops / 1e9:.4g} GFLOP/s"
    if not peak:
        return text
    share = flops / peak
    if share > 1:
        return f"{text} ({share:.0%} of peak, measured too low or operations are saved)"
    return f"{text} ({f'{share:.0%}' if share >= 0.01 else '<1%'} of peak)"
