"""Files that a command is given, under the names that its help has for them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autosched import arguments
from autosched.cli.console import copy
from autosched.errors import ConfigError

_STANDARD_OUTPUT = Path("-")


def require_files(*files: tuple[str, Path]) -> None:
    """Raise ConfigError where one, such as ("RECORDS", path), is a folder or closed to us."""
    for name, path in files:
        arguments.file_path(name, path)


def require_records(*sources: Path) -> None:
    """As `require_files`, for the record files of an argument RECORDS."""
    require_files(*(("RECORDS", path) for path in sources))


def require_named(*files: tuple[str, Path | None]) -> None:
    """Raise ConfigError where one that is written, such as ("--output", path), is `-`.

    For what cannot go to standard output: a folder, a file that is continued or has a second one
    beside it, whose form is that of its name, or beside which the command prints results.
    """
    for name, path in files:
        if path == _STANDARD_OUTPUT:
            raise ConfigError(
                f"{name} -: this is not written to standard output; give the name of a file or "
                "folder"
            )


@contextmanager
def written_to(output: Path, suffix: str) -> Iterator[Path]:
    """Where to write a file: `output`, or for `-` one that then goes to standard output.

    Nothing is printed where the block fails.
    """
    if output != _STANDARD_OUTPUT:
        yield output
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"output{suffix}"
        yield path
        copy(path)


def called(output: Path) -> str:
    """What messages call the file."""
    return "standard output" if output == _STANDARD_OUTPUT else str(output)
