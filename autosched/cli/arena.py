"""`autosched arena`: compare cost models and searches on recorded candidates."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autosched.arena import Results, Settings, contest, contestant, pools_of, searcher
from autosched.arena.contest import require_different
from autosched.arena.results import TOO_FEW, require_plotly
from autosched.cli.console import plain, print_json, text_width, warn, warning
from autosched.cli.named import tell_unused, workload_keys
from autosched.cli.table import table
from autosched.errors import ConfigError
from autosched.features.sets import feature_set
from autosched.measure.records import Record
from autosched.output_file import replacing, require_apart
from autosched.search.featurize import Helper
from autosched.session.believed import believed
from autosched.session.reading import each_once, read_records
from autosched.words import count

_SUFFIXES = (".csv", ".html")


def run(
    records: Sequence[Path],
    models: Sequence[str],
    searches: Sequence[str],
    settings: Settings,
    features: str,
    output: Path | None,
    workloads: Sequence[str] = (),
    *,
    force: bool = False,
    as_json: bool = False,
) -> None:
    """Print the table; write every run to `output`, or the chart if it ends in .html."""
    feature_set(features)
    players = [contestant(model) for model in models]  # raise before minutes are spent
    searchers = [searcher(search) for search in searches]
    require_different(players, searchers)
    if output is not None:
        _require_free(output, records, force=force)
    keys = workload_keys(workloads)
    known: list[Record] = []
    environments: dict[str, dict[str, Any]] = {}
    for path in each_once(records, warning):
        contents = read_records(path, warning, keys)
        environments |= contents.environments
        known += believed(path, contents.records, warning)
    tell_unused(keys)
    helper = Helper()
    try:
        pools = pools_of(known, warning, features, helper, environments)
    finally:
        helper.close()
    candidates = count(sum(len(pool.programs) for pool in pools), "candidate")
    warn(f"{candidates} of {count(len(pools), 'task')}; nothing is measured")
    results = contest(pools, players, searchers, settings, lambda text: warn(f"  {text}"))
    if output is not None:
        _write(results, output, force=force)
    if as_json:
        print_json({"seeds": results.seeds, "runs": [_plain(row) for row in results.rows()]})
    else:
        plain(_table(results, text_width()))
    for note in results.notes():
        warn(f"note: {note}")


def _table(results: Results, width: int | None) -> str:
    """The table as Markdown or, if that is too wide, laid out like those of other commands.

    The number of candidates is dropped first. Of the other columns, the last regret known for some
    task is kept longest, because models are judged by it.
    """
    head, cells = results.head(), results.cells()
    _, candidates, _, accuracy, recall, *regrets = head
    for left_out in ((), (candidates,)):
        text = results.markdown(left_out)
        if width is None or max(map(len, text.splitlines())) <= width:
            return text
    regrets.sort(key=lambda name: any(row[head.index(name)] != TOO_FEW for row in cells))
    less_telling = (candidates, recall, *regrets[:-1], accuracy)
    return "\n".join(table(head, cells, width, less_telling))


def _plain(row: dict[str, object]) -> dict[str, object]:
    return {key: None if value != value else value for key, value in row.items()}


def _require_free(output: Path, records: Sequence[Path], *, force: bool) -> None:
    if output.suffix not in _SUFFIXES:
        raise ConfigError(f"{output}: expected a file name ending in {' or '.join(_SUFFIXES)}")
    require_apart([("the output", output)], [("a record file", path) for path in records])
    if output.is_dir():
        raise ConfigError(f"cannot write {output}: it is a folder; give another file with -o")
    if output.exists() and not force:
        raise ConfigError(_taken(output))
    if not os.access(output.parent, os.W_OK):
        raise ConfigError(f"cannot write {output}: choose a folder you can write to")
    if output.suffix == ".html":
        require_plotly()


def _taken(output: Path) -> str:
    return f"{output} exists; give another file with -o, or --force to replace it"


def _write(results: Results, output: Path, *, force: bool) -> None:
    try:
        with replacing(output, only_new=not force) as partial:
            if output.suffix == ".html":
                results.plot().write_html(partial, include_plotlyjs=True)
                return
            rows = list(results.rows())
            with partial.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)
    except FileExistsError as error:  # another command created it meanwhile
        raise ConfigError(_taken(output)) from error
    except OSError as error:
        raise ConfigError(f"cannot write {output}: {error.strerror}") from error
