"""Reading of untrusted YAML files; those that would take forever are refused first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    NodeEvent,
    ScalarEvent,
)

from autosched.errors import ConfigError
from autosched.output_file import FileKind, kind_of
from autosched.words import in_shell

MOST_BYTES = 1 << 20
DEEPEST = 32
MOST_VALUES = 20_000
"""Limit for the values of a file, where every alias counts like the values it stands for."""


def read_yaml(path: Path) -> Any:
    """The contents of a file, as ruamel's round-trip values, which know their lines.

    Raises ConfigError with file and line if the file cannot be read, is not YAML, or is too large,
    deep or full of aliases to be a configuration.
    """
    try:
        if path.exists() and not path.is_file():
            pipe = "a device or pipe; write it to a file, which records are called after"
            kind = "a folder" if path.is_dir() else pipe
            raise ConfigError(f"cannot read the configuration file {path}: it is {kind}")
        if kind_of(path) is FileKind.RECORDS:
            raise ConfigError(
                f"{path} is a record file, not a configuration; `autosched replay "
                f"{in_shell(path)}` takes it"
            )
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ConfigError(
                f"cannot read the configuration file {path}: expected at most "
                f"{MOST_BYTES >> 20} MiB, which is more than any configuration needs"
            )
        text = data.decode()
    except FileNotFoundError as error:
        raise ConfigError(f"configuration file {path} does not exist") from error
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"cannot read the configuration file {path}: {why}") from error
    return parse_yaml(text, str(path), lambda line: f"{path}:{line}")


def parse_yaml(text: str, name: str, where: Callable[[int], str]) -> Any:
    """The value of `text`; `name` is its name in messages, `where(line)` the name of a line.

    Raises ConfigError like `read_yaml`.
    """
    try:
        _check_size(where, text)
        return YAML(typ="rt").load(text)
    except ConfigError:
        raise
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = where(mark.line + 1) if mark is not None else name
        problem = getattr(error, "problem", None) or str(error).strip().partition("\n")[0]
        if problem.startswith("but "):  # the rest of a sentence
            problem = f"{getattr(error, 'context', '')}, {problem}"
        raise ConfigError(f"{place}: not valid YAML: {problem:.200}") from error
    except Exception as error:  # for odd numbers, dates, tags and merges ruamel raises many kinds
        said = str(error).strip().partition("\n")[0] or "it cannot be read"
        kind = type(error).__name__
        raise ConfigError(f"{name}: not valid YAML: {said:.200} ({kind})") from error


def _check_size(place: Callable[[int], str], text: str) -> None:
    """Raise ConfigError at the first value beyond the limits, or that contains itself."""
    finished: dict[str, int] = {}  # number of values that an anchor stands for
    open_: list[tuple[str | None, int]] = []  # unfinished anchors, values before
    values = 0
    for event in YAML(typ="rt").parse(text):
        where = place(event.start_mark.line + 1)
        if isinstance(event, AliasEvent):
            if any(anchor == event.anchor for anchor, _ in open_):
                raise ConfigError(
                    f"{where}: the alias *{event.anchor:.40} is inside of what it stands for"
                )
            values += finished.get(event.anchor, 1)
        elif isinstance(event, NodeEvent):
            values += 1
        if values > MOST_VALUES:
            raise ConfigError(
                f"{where}: expected at most {MOST_VALUES} values; an alias counts as all the "
                "values that it stands for"
            )
        if isinstance(event, CollectionStartEvent):
            open_.append((event.anchor, values - 1))
            if len(open_) > DEEPEST:
                raise ConfigError(f"{where}: expected values nested at most {DEEPEST} levels deep")
        elif isinstance(event, CollectionEndEvent):
            anchor, before = open_.pop()
            if anchor is not None:
                finished[anchor] = values - before
        elif isinstance(event, ScalarEvent) and event.anchor is not None:
            finished[event.anchor] = 1
