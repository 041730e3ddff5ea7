"""Describe a dataset file without reading its features."""

from __future__ import annotations

import csv
import json
import math
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from autosched.errors import ConfigError
from autosched.features.datasets.dataset import FORMATS
from autosched.features.datasets.sample import LEADING, ORIGIN
from autosched.features.sets import FEATURE_SETS
from autosched.needed import needed_for
from autosched.words import count, visible

_MOST_LETTERS = 1 << 22  # of a line; Python's csv.reader allows 131,072 in each field


def describe(path: Path) -> str:
    """Describe sizes, tasks, distribution of throughputs and schema version of a dataset as text.

    Raises ConfigError when `path` is not a dataset.
    """
    if not path.exists():
        raise ConfigError(f"dataset {path} does not exist")
    if path.suffix not in FORMATS:
        raise ConfigError(f"{path}: expected a file name ending in {', '.join(FORMATS)}")
    if not path.is_file():
        raise ConfigError(f"{path} is not an autosched dataset: it is a folder, device or pipe")
    try:
        return _npz(path) if path.suffix == ".npz" else _flat(path)
    except ConfigError:
        raise
    except KeyError as error:
        said = str(error.args[0])  # the missing name, or a sentence of zipfile's
        missing = said if " " in said else f"it has no {said!r}"
        raise ConfigError(f"{path} is not an autosched dataset: {missing}") from error
    except Exception as error:  # zipfile, NumPy and pyarrow raise many kinds for damaged files
        said = str(error).strip().partition("\n")[0] or "it is damaged"
        raise ConfigError(
            f"{path} is not an autosched dataset: {said:.300} ({type(error).__name__})"
        ) from error


_NPZ = {"valid": "b", "task": "i", "tasks": "U", "throughput": "f", "failure": "U", "split": "U"}
"""The arrays that are read, with NumPy's letter for the kind of their type."""


def _npz(path: Path) -> str:
    with zipfile.ZipFile(path) as archive:
        features = _header(archive, "features", "f", 2)
        sizes = {name: _header(archive, name, kind, 1)[0] for name, kind in _NPZ.items()}
        _header(archive, "schema", "U", 0)
    tasks = sizes.pop("tasks")
    for name, size in sizes.items():
        if size != sizes["valid"]:
            raise ValueError(f"{name} has {size} values for {sizes['valid']} candidates")
    data = np.load(path, allow_pickle=False)
    task = data["task"]
    if task.size and not 0 <= task.min() <= task.max() < tasks:
        raise ValueError(f"task: expected 0 to {tasks - 1}, found {task.min()} to {task.max()}")
    workloads = [json.dumps(json.loads(t)["workload"], sort_keys=True) for t in data["tasks"]]
    return _text(
        path,
        features[0],
        str(data["schema"]),
        [workloads[t] for t in task],
        len(workloads),
        data["valid"],
        data["throughput"],
        data["failure"],
        data["split"],
    )


def _header(archive: zipfile.ZipFile, name: str, kind: str, dimensions: int) -> tuple[int, ...]:
    """The shape of an array. Raises ValueError when it has another kind, number of dimensions or
    size in the file."""
    member = archive.getinfo(f"{name}.npy")
    with archive.open(member) as file:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError(f"{name} is not in version 1.0 of the .npy format")
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        header = file.tell()
    if dtype.kind != kind or len(shape) != dimensions:
        raise ValueError(
            f"{name}: expected {dimensions} dimensions of kind {kind!r}, "
            f"found {len(shape)} of {dtype}"
        )
    if math.prod(shape) * dtype.itemsize + header != member.file_size:
        raise ValueError(f"{name} is incomplete")
    return tuple(shape)


@dataclass(slots=True)
class _Heads:
    """The head of a flat table: its feature schema, its number of rows, and the leading columns
    once per candidate."""

    schema: str
    rows: int = 0
    candidates: list[dict[str, Any]] = field(default_factory=list)


def _flat(path: Path) -> str:
    heads = _csv(path) if path.suffix == ".csv" else _parquet(path)
    known = heads.candidates
    return _text(
        path,
        heads.rows,
        heads.schema,
        [row["workload"] for row in known],
        len({row["task"] for row in known}),
        np.array([row["valid"] for row in known], np.bool_),
        np.array([row["throughput"] for row in known], np.float32),
        [row["failure"] for row in known],
        [row["split"] for row in known],
    )


def _lines(file: TextIO) -> Iterator[str]:
    """The lines of a CSV file. Raises ValueError for one that is too long to be held."""
    for number, line in enumerate(iter(partial(file.readline, _MOST_LETTERS), ""), 1):
        if len(line) == _MOST_LETTERS:
            raise ValueError(f"line {number} has {_MOST_LETTERS:,} letters or more")
        yield line


def _csv(path: Path) -> _Heads:
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.reader(_lines(file))
        names = tuple(next(reader, ()))
        if names[: len(LEADING)] != LEADING:
            raise ValueError(f"its columns do not begin with {', '.join(LEADING)}")
        columns = names[len(LEADING) :]
        if columns[: len(ORIGIN)] == ORIGIN:  # the first datasets have no such columns
            columns = columns[len(ORIGIN) :]
        known = [s.schema for s in FEATURE_SETS.values() if s.columns == columns]
        heads = _Heads(known[0] if known else "unknown columns")
        last = ""
        for row in reader:
            heads.rows += 1
            if len(row) != len(names):
                raise ValueError(
                    f"row {heads.rows} has {count(len(row), 'column')}, expected {len(names)}: the "
                    "file was cut short"
                )
            if row[:1] != [last]:
                last = row[0]
                head: dict[str, Any] = dict(zip(LEADING, row, strict=False))
                head["valid"] = head["valid"] == "True"
                heads.candidates.append(head)
    return heads


def _parquet(path: Path) -> _Heads:
    parquet = needed_for("a .parquet file", "pyarrow.parquet", "autosched[data]")
    with path.open("rb") as data, parquet.ParquetFile(data) as file:
        metadata = file.schema_arrow.metadata or {}
        if b"schema" not in metadata:
            raise ConfigError(f"{path} is not an autosched dataset: it names no feature set")
        heads = _Heads(metadata[b"schema"].decode())
        last = -1
        for batch in file.iter_batches(100_000, columns=list(LEADING)):
            candidates = batch.column("candidate").to_numpy()
            firsts = np.flatnonzero(np.diff(candidates, prepend=last))
            heads.rows += len(candidates)
            heads.candidates += batch.take(firsts).to_pylist()
            last = candidates[-1]
    return heads


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
        f"{path}: {count(rows, 'row')}, {count(len(valid), 'candidate')}, "
        f"{int((~valid).sum())} failed, {count(tasks, 'task')}, schema {schema}"
    ]
    counts = Counter(workloads)
    lines += [f"    {count(n, 'candidate'):>17} of {workload}" for workload, n in counts.items()]
    reasons = Counter(str(reason) for reason in failure if reason)
    if reasons:
        lines.append("failures: " + ", ".join(f"{k} {n}" for k, n in sorted(reasons.items())))
    lines.append(_quantiles(throughput[valid]))
    splits = Counter(str(name) for name in split)
    lines.append("splits: " + ", ".join(f"{name} {n}" for name, n in sorted(splits.items())))
    return "\n".join(map(visible, lines))


def _quantiles(throughput: Any) -> str:
    if not len(throughput):
        return "throughput: nothing valid"
    values = np.quantile(throughput, [0, 0.25, 0.5, 0.75, 1])
    return "throughput (min, quartiles, max): " + ", ".join(f"{v:.3f}" for v in values)
