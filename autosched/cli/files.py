"""Checks of the files given to a command, and output to a file or to standard output.

Files are named in messages as in the command's help.
"""

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
    """Raise ConfigError if a file, such as ("RECORDS", path), is a folder or not accessible."""
    for name, path in files:
        arguments.file_path(name, path)


def require_records(*sources: Path) -> None:
    """`require_files` for the record files of an argument RECORDS."""
    require_files(*(("RECORDS", path) for path in sources))


def require_named(*files: tuple[str, Path | None]) -> None:
    """Raise ConfigError if a file to write, such as ("--output", path), is `-`.

    This is for output that cannot go to standard output: a folder; a file that is continued, that
    has a second file beside it, or whose format depends on its name; or a file beside results that
    the command prints.
    """
    for name, path in files:
        if path == _STANDARD_OUTPUT:
            raise ConfigError(
                f"{name} -: this is not written to standard output; give the name of a file or "
                "folder"
            )


@contextmanager
def written_to(output: Path, suffix: str) -> Iterator[Path]:
    """The file to write: `output`, or for `-` a temporary file that is printed afterwards.

    Nothing is printed if the block fails.
    """
    if output != _STANDARD_OUTPUT:
        yield output
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"output{suffix}"
        yield path
        copy(path)


def called(output: Path) -> str:
    """The name of the file in messages."""
    return "standard output" if output == _STANDARD_OUTPUT else str(output)
