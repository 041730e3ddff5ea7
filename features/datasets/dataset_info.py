"""What a dataset file holds, without reading its features."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from autosched.errors import ConfigError
from autosched.features.datasets.dataset import FORMATS
from autosched.features.datasets.sample import LEADING
from autosched.features.sets import FEATURE_SETS


def describe(path: Path) -> str:
    """Sizes, tasks, distribution of throughputs and schema version of a dataset, as text.

    Raises ConfigError when `path` is no dataset.
    """
    if not path.exists():
        raise ConfigError(f"dataset {path} does not exist")
    if path.suffix not in FORMATS:
        raise ConfigError(f"{path}: expected a file name ending in {', '.join(FORMATS)}")
    try:
        return _npz(path) if path.suffix == ".npz" else _frame(path)
    except (KeyError, ValueError, OSError, zipfile.BadZipFile) as error:
        raise ConfigError(f"{path} is no autosched dataset: {error}") from error


def _npz(path: Path) -> str:
    with zipfile.ZipFile(path) as archive, archive.open("features.npy") as member:
        np.lib.format.read_magic(member)
        shape, _, _ = np.lib.format.read_array_header_1_0(member)
    data = np.load(path, allow_pickle=False)
    valid, task = data["valid"], data["task"]
    workloads = [json.dumps(json.loads(t)["workload"], sort_keys=True) for t in data["tasks"]]
    return _text(
        path,
        shape[0],
        str(data["schema"]),
        [workloads[t] for t in task],
        len(workloads),
        valid,
        data["throughput"],
        data["failure"],
        data["split"],
    )


def _frame(path: Path) -> str:
    """Of a flat table, going through the leading columns a part at a time."""
    parts = _csv_parts(path) if path.suffix == ".csv" else _parquet_parts(path)
    schema, rows, last = "", 0, -1
    firsts = []
    for schema, part in parts:  # noqa: B007  # the same for every part
        rows += len(part)
        first = part.drop_duplicates("candidate")
        firsts.append(first[first["candidate"] > last])
        last = int(part["candidate"].iloc[-1])
    import pandas as pd

    frame = pd.concat(firsts)
    return _text(
        path,
        rows,
        schema,
        frame["workload"].astype(str),
        frame["task"].nunique(),
        frame["valid"].astype(bool).to_numpy(),
        frame["throughput"].to_numpy(),
        frame["failure"].astype("object").fillna(""),
        frame["split"].astype(str),
    )


def _csv_parts(path: Path) -> Iterable[tuple[str, Any]]:
    import pandas as pd

    names = tuple(pd.read_csv(path, nrows=0).columns)[len(LEADING) :]
    known = [s.schema for s in FEATURE_SETS.values() if s.columns == names]
    schema = known[0] if known else "unknown columns"
    for part in pd.read_csv(path, usecols=list(LEADING), chunksize=100_000):
        yield schema, part


def _parquet_parts(path: Path) -> Iterable[tuple[str, Any]]:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ConfigError(".parquet needs pyarrow: pip install 'autosched[data]'") from error
    with pyarrow.parquet.ParquetFile(path) as file:
        metadata = file.schema_arrow.metadata or {}
        if b"schema" not in metadata:
            raise ConfigError(f"{path} is no autosched dataset: it names no feature set")
        schema = metadata[b"schema"].decode()
        for batch in file.iter_batches(100_000, columns=list(LEADING)):
            yield schema, batch.to_pandas()


def _text(
    path: Path,
    rows: int,
    schema: str,
    workloads: Iterable[str],
    tasks: int,
    valid: Any,
    throughput: Any,
    failure: Iterable[str],
    split: Iterable[str],
) -> str:
    lines = [
        f"{path}: {rows} rows, {len(valid)} candidates, {int((~valid).sum())} failed, "
        f"{tasks} tasks, schema {schema}"
    ]
    counts = Counter(workloads)
    lines += [f"    {n:6} candidates of {workload}" for workload, n in counts.items()]
    reasons = Counter(str(reason) for reason in failure if reason)
    if reasons:
        lines.append("failures: " + ", ".join(f"{k} {n}" for k, n in sorted(reasons.items())))
    lines.append(_quantiles(throughput[valid]))
    splits = Counter(str(name) for name in split)
    lines.append("splits: " + ", ".join(f"{name} {n}" for name, n in sorted(splits.items())))
    return "\n".join(lines)


def _quantiles(throughput: Any) -> str:
    if not len(throughput):
        return "throughput: nothing valid"
    values = np.quantile(throughput, [0, 0.25, 0.5, 0.75, 1])
    return "throughput (min, quartiles, max): " + ", ".join(f"{v:.3f}" for v in values)
