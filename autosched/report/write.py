"""`autosched.write_report`: write a page of charts about record files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autosched import arguments
from autosched.arguments import PathLike
from autosched.errors import ConfigError
from autosched.measure.workload_keys import WorkloadKeys
from autosched.output_file import FileKind, replacing, require_apart, require_replaceable
from autosched.report.curve import curves
from autosched.report.page import Page, html_of, require_extra
from autosched.report.roofline import measured_roof
from autosched.report.runs import read_runs
from autosched.report.sections import row, section, summary
from autosched.session.reading import record_files
from autosched.user_warning import Tell, warn
from autosched.words import count

_MOST_SECTIONS = 24  # pages stay small; the table has all runs
_MOST_ROWS = 500


def write_report(
    records: PathLike | Sequence[PathLike], path: PathLike = "report.html", *, measure: bool = True
) -> Path:
    """Write a page of charts about record files, which opens in a browser without a network.

        autosched.write_report("mm.jsonl", "report.html")
        autosched.write_report(["before.jsonl", "after.jsonl"])

    Several files, or several tasks of one, are compared. docs/report.md says what the page shows.
    Skipped lines of the files, and times that are not believed, are reported by warnings.

    Args:
        records: a record file, autosched's or Ansor's, or several.
        path: the page; a report is replaced, a file of another kind is refused.
        measure: measure this machine's peak and bandwidths for the roofline of records of this
            machine; takes about a second, and wants free cores.

    Returns:
        The path of the page.

    Raises:
        ConfigError: a file cannot be read or written or holds no records, an argument is wrong, or
            the extra `report` (plotly and jinja2) is not installed.
    """
    paths = record_files("records", records)
    output = arguments.file_path("path", path)
    write(paths, output, warn, measure=arguments.flag("measure", measure))
    return output


def write(
    paths: Sequence[Path],
    output: Path,
    warning: Tell,
    *,
    measure: bool = True,
    keys: WorkloadKeys | None = None,
    overwrite: bool = False,
) -> Page:
    """As `write_report`; returns the contents of the page."""
    require_extra()
    require_apart([("the report", output)], [("a record file", path) for path in paths])
    require_replaceable(output, FileKind.REPORT, overwrite=overwrite)
    page = page_of(paths, warning, measure=measure, keys=keys)
    text = html_of(page)
    try:
        with replacing(output) as partial:
            partial.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write the report {output}: {error.strerror}") from error
    return page


def page_of(
    paths: Sequence[Path],
    warning: Tell,
    *,
    measure: bool = True,
    keys: WorkloadKeys | None = None,
) -> Page:
    """The contents of the page about the files."""
    runs, skipped = read_runs(paths, warning, keys)
    sections = [section(run, measured_roof if measure else None) for run in runs[:_MOST_SECTIONS]]
    notes = [f"{count(skipped, 'line')} of the files could not be read."] if skipped else []
    if len(runs) > _MOST_ROWS:
        notes.append(f"The table has the first {_MOST_ROWS} of {len(runs)} runs.")
    several = len(runs) > 1
    return Page(
        runs[0].name if len({run.entry["key"] for run in runs}) == 1 else "Tuning report",
        summary(runs),
        sections,
        [row(run) for run in runs[:_MOST_ROWS]] if several else (),
        [curves(runs)] if several else (),
        notes,
        len(runs) - len(sections),
    )
