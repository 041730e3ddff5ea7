"""Shell completion: values of options, and operators."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Complete = Callable[[str], list[str]]


def choices(*values: str) -> Complete:
    """A completion for fixed values."""

    def complete(incomplete: str) -> list[str]:
        return [value for value in values if value.startswith(incomplete)]

    return complete


def operators(incomplete: str) -> list[str]:
    """The built-in operators that start with `incomplete`."""
    from autosched import workloads

    return [name for name in workloads.WORKLOADS if name.startswith(incomplete)]


def operators_and_files(incomplete: str) -> list[str]:
    """The built-in operators, and the YAML files in the folder typed so far."""
    found = operators(incomplete)
    folder = Path(incomplete) if incomplete.endswith("/") else Path(incomplete).parent
    begins = incomplete[: incomplete.rfind("/") + 1]
    try:
        entries = sorted(folder.iterdir()) if found or folder.is_dir() else []
    except OSError:
        entries = []
    for entry in entries:
        name = begins + entry.name
        if name.startswith(incomplete) and entry.suffix in (".yaml", ".yml"):
            found.append(name)
    return found
