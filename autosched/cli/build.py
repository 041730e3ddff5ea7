"""`autosched build`: export recorded kernels as files for users without autosched."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autosched.cli.chosen import chosen_of
from autosched.cli.console import plain, print_json, warn, warning
from autosched.cli.files import require_named
from autosched.cli.named import tell_unused, workload_keys
from autosched.errors import ConfigError
from autosched.measure.records import Record
from autosched.session.export import ExportOptions, export
from autosched.session.reading import read_records


def run(
    paths: Sequence[Path],
    output: Path,
    choice: int | str,
    options: ExportOptions,
    *,
    as_json: bool,
    workloads: Sequence[str] = (),
) -> None:
    """Export the chosen record (by default each task's best one) of every file."""
    require_named(("--output", output))
    keys = workload_keys(workloads)
    records: list[Record] = []
    environments = {}
    for path in paths:
        contents = read_records(path, warning, keys)
        records += chosen_of(path, contents, choice)
        environments.update(contents.environments)
    tell_unused(keys)
    done = export(_best(records), output, options, environments)
    for note in done.notes:
        warn(f"note: {note}")
    if as_json:
        print_json({"folder": str(output), "files": [path.name for path in done.files]})
        return
    for path in done.files:
        plain(str(path))


def _best(records: Sequence[Record]) -> list[Record]:
    """The fastest record of each task, if several files have records of it."""
    found: dict[str, Record] = {}
    for record in records:
        key = str(record.task["key"])
        other = found.get(key)
        if other is None or record.result.cost < other.result.cost:
            found[key] = record
    return list(found.values())


def sizes(text: str) -> dict[str, int]:
    """Parse `M=100,N=64` into a mapping. Raises ConfigError."""
    found: dict[str, int] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if not name.strip().isidentifier() or not value.strip().isdecimal():
            raise ConfigError(f"--also {text}: expected sizes such as M=100,N=64, found {part!r}")
        if name.strip() in found:
            raise ConfigError(f"--also {text}: {name.strip()} is given twice; repeat --also")
        found[name.strip()] = int(value)
    return found
