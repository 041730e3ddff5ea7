"""Files that a command is given, under the names that its help has for them."""

from __future__ import annotations

from pathlib import Path

from autosched import arguments


def require_files(*files: tuple[str, Path]) -> None:
    """Raise ConfigError where one, such as ("RECORDS", path), is a folder or closed to us."""
    for name, path in files:
        arguments.file_path(name, path)


def require_records(*sources: Path) -> None:
    """As `require_files`, for the record files of an argument RECORDS."""
    require_files(*(("RECORDS", path) for path in sources))
