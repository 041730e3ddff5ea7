"""`autosched report`: show record files as a page of charts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autosched.cli.console import plain, warn, warning
from autosched.cli.files import called, written_to
from autosched.cli.named import tell_unused, workload_keys
from autosched.report.write import write


def run(
    paths: Sequence[Path],
    output: Path,
    *,
    measure: bool,
    force: bool = False,
    workloads: Sequence[str] = (),
) -> None:
    """Write the page and print a summary of it."""
    keys = workload_keys(workloads)
    with written_to(output, ".html") as file:
        page = write(paths, file, warning, measure=measure, keys=keys, overwrite=force)
        size = file.stat().st_size / 1e6
    tell_unused(keys)
    text = f"{called(output)}: {page.summary}, {size:.1f} MB; open it in a browser"
    (plain if file == output else warn)(text)
