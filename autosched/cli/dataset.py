"""`autosched dataset`: export features and times as a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autosched.cli.console import plain, text_width, warn, warning, wrapped
from autosched.cli.files import require_named
from autosched.cli.named import tell_unused, workload_keys
from autosched.cli.samples import RecordSamples
from autosched.errors import ConfigError
from autosched.features.datasets import dataset
from autosched.features.datasets.dataset_info import describe
from autosched.features.datasets.sample import SPLIT_BY, are_shares
from autosched.output_file import require_apart
from autosched.session.reading import each_once
from autosched.words import escaped

_REPLACE = "give another file with -o, or --force to replace it"


def export(
    records: list[Path],
    output: Path,
    split: str | None,
    by: str,
    seed: int,
    features: str,
    *,
    force: bool = False,
    workloads: Sequence[str] = (),
) -> None:
    """Write the dataset of all record files to `output`, and a datasheet beside it.

    With `force` they replace files of other kinds, but never the record files.
    """
    if by not in SPLIT_BY:
        raise ConfigError(f"--by {by!r}: expected one of {', '.join(SPLIT_BY)}")
    require_named(("--output", output))
    read = [("a record file of the dataset", path) for path in records]
    require_apart([("the dataset", output), ("the datasheet", dataset.page_of(output))], read)
    dataset.require_export(output, _REPLACE, overwrite=force)
    shares = None if split is None else _shares(split)
    keys = workload_keys(workloads)
    records = each_once(records, warning)
    samples = RecordSamples(records, features, keys)
    summary = dataset.export(
        samples,
        output,
        shares,
        by,
        seed,
        features=features,
        environments=samples.environments,
        sources=[escaped(path.name) for path in records],
        overwrite=force,
    )
    tell_unused(keys)
    warn(summary)


def info(file: Path) -> None:
    """Print sizes, tasks, throughputs and schema of a dataset."""
    width, lines = text_width(), describe(file).split("\n")
    plain("\n".join(part for line in lines for part in wrapped(line, width, hanging="    ")))


def _shares(text: str) -> tuple[float, ...]:
    try:
        shares = tuple(float(part) for part in text.split("/"))
    except ValueError:
        shares = ()
    if not are_shares(shares):
        raise ConfigError(
            f"--split {text!r}: expected two or three shares that add up to 1, e.g. 0.8/0.1/0.1"
        )
    return shares
