"""Write datasets of features and times for research: .npz, .csv and .parquet.

A dataset has a row per stored buffer, with named columns, grouped by candidate; failed candidates
are included. A candidate that cannot be lowered has one row of zeros, as in Ansor. The samples are
iterated twice, for times and then for rows, so that memory does not grow with the rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autosched import arguments
from autosched.errors import ConfigError
from autosched.features.datasets.datasheet import datasheet, without_features
from autosched.features.datasets.sample import (
    SPLIT_BY,
    SPLIT_NAMES,
    Index,
    Sample,
    are_shares,
    index_of,
)
from autosched.features.datasets.writers import open_writer
from autosched.features.sets import DEFAULT, Rows, feature_set
from autosched.output_file import FileKind, replacing, require_replaceable
from autosched.words import count, escaped

FORMATS = (".npz", ".csv", ".parquet")


def export(
    samples: Iterable[Sample],
    path: str | os.PathLike[str],
    shares: Sequence[float] | None = None,
    by: str = "workload",
    seed: int = 0,
    *,
    features: str = DEFAULT,
    environments: dict[str, dict[str, Any]] | None = None,
    sources: Sequence[str] = (),
    overwrite: bool = False,
) -> str:
    """Write the dataset in the format of the file's suffix, and a datasheet `<path>.md` beside it.

    `samples` is iterated twice. `environments`, which may be filled in meanwhile, and `sources` are
    for the datasheet. Returns a one-line summary. Raises ConfigError when a file cannot be written,
    when `samples` yields fewer samples the second time (a pipe), and when a file of another kind
    has one of the two names, unless `overwrite` is set, and for a split that makes no sense.
    """
    shares = None if shares is None else _shares(shares)
    arguments.one_of("by", by, SPLIT_BY)
    seed = arguments.integer("seed", seed, 0)
    path = arguments.file_path("path", path)
    if path.suffix not in FORMATS:
        raise ConfigError(f"{path}: expected a file name ending in {', '.join(FORMATS)}")
    require_export(path, overwrite=overwrite)
    chosen = feature_set(features)
    index = index_of(samples, shares, by, seed)
    rows = unlowered = 0
    try:
        with replacing(path) as partial, open_writer(path.suffix, partial, index, chosen) as writer:
            written = 0
            for sample in samples:
                if written == len(index.task):  # the record file grew since the first iteration
                    break
                found = sample.rows()
                unlowered += found is None
                block = found or Rows(np.zeros((1, len(chosen.columns)), np.float32), ("",))
                rows += len(block)
                writer.append(written, sample, block)
                written += 1
            _require_all(written, len(index.task))
        split_by = None if shares is None else by
        name, where = escaped(path.name), environments or {}
        sheet = datasheet(name, index, rows, chosen, where, sources, split_by, unlowered)
        with replacing(page_of(path)) as partial:
            partial.write_text(sheet, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from error
    summary = (
        f"{path}: {count(rows, 'row')}, {count(len(index.task), 'candidate')} "
        f"({int((~index.valid).sum())} failed), {count(len(index.tasks), 'task')}, {chosen.schema}"
    )
    told = without_features(unlowered)
    return summary + (f"; {told}" if told else "") + _empty_splits(index, shares, by)


def _shares(given: Any) -> tuple[float, ...]:
    """The argument `shares`. Raises ConfigError unless it has two or three that add up to 1."""
    listed = given if isinstance(given, Iterable) and not isinstance(given, str) else ()
    shares = tuple(arguments.number("shares", share) for share in listed)
    if not are_shares(shares):
        raise ConfigError(
            "shares: expected two or three numbers that add up to 1, e.g. (0.8, 0.1, 0.1), "
            f"{arguments.found(given)}"
        )
    return shares


def _require_all(written: int, expected: int) -> None:
    """Raise ConfigError when the second iteration yielded fewer samples than the first."""
    if written < expected:
        raise ConfigError(
            f"expected the {expected} candidates of the first reading again, found {written}: "
            "records that come through a pipe, or of a file that became shorter, cannot be read "
            "twice; give a file that stays as it is"
        )


def page_of(path: Path) -> Path:
    """The path of the datasheet of the dataset `path`."""
    return path.parent / f"{path.name}.md"


def require_export(path: Path, remedy: str = "give another file", *, overwrite: bool) -> None:
    """Raise ConfigError, ending with `remedy`, when the dataset or its datasheet would replace a
    file of another kind."""
    require_replaceable(path, FileKind.DATASET, remedy, overwrite=overwrite)
    require_replaceable(page_of(path), FileKind.DATASHEET, remedy, overwrite=overwrite)


def _empty_splits(index: Index, shares: Sequence[float] | None, by: str) -> str:
    if shares is None:
        return ""
    wanted = SPLIT_NAMES if len(shares) == 3 else (SPLIT_NAMES[0], SPLIT_NAMES[2])
    counts = np.bincount(index.split, minlength=len(SPLIT_NAMES))
    asked = [name for name, share in zip(wanted, shares, strict=True) if share > 0]
    empty = [name for name in asked if not counts[SPLIT_NAMES.index(name)]]
    return f"; too few to split by {by}: nothing in {', '.join(empty)}" if empty else ""
