"""Datasets of features and times for research: .npz, .csv and .parquet.

A row per stored buffer with named columns, grouped by candidate; failures are included. A
candidate that cannot be lowered has one row of zeros, as in Ansor.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autosched.errors import ConfigError
from features.extract import FeatureRows
from features.names import FEATURE_NAMES, NUM_FEATURES, SCHEMA, SCHEMA_VERSION

SPLIT_BY = ("workload", "shape", "random")
SPLIT_NAMES = ("train", "valid", "test")
FORMATS = (".npz", ".csv", ".parquet")


@dataclass(frozen=True, slots=True)
class Sample:
    """One candidate: its task entry, feature rows (None: not lowerable), and time.

    `seconds` is nan for a failure, whose `failure` says "stage kind".
    """

    task: dict[str, Any]
    rows: FeatureRows | None
    seconds: float
    failure: str = ""


@dataclass(slots=True)
class Table:
    """All samples as arrays; per row or per candidate as named in spec/interface.md."""

    features: FeatureRows
    row_candidate: np.ndarray[Any, np.dtype[np.int32]]
    seconds: np.ndarray[Any, np.dtype[np.float64]]
    throughput: np.ndarray[Any, np.dtype[np.float32]]
    task: np.ndarray[Any, np.dtype[np.int32]]
    valid: np.ndarray[Any, np.dtype[np.bool_]]
    failure: list[str]
    tasks: list[str]
    split: list[str]


def collect(samples: Iterable[Sample], shares: Sequence[float] | None, by: str, seed: int) -> Table:
    """The samples as one table. Throughput is relative to the fastest of the same task."""
    blocks: list[FeatureRows] = []
    seconds: list[float] = []
    failure: list[str] = []
    task_of: list[int] = []
    tasks: dict[str, int] = {}
    for sample in samples:
        rows = sample.rows
        blocks.append(np.zeros((1, NUM_FEATURES), np.float32) if rows is None else rows)
        seconds.append(sample.seconds)
        failure.append(sample.failure)
        text = json.dumps(sample.task, sort_keys=True)
        task_of.append(tasks.setdefault(text, len(tasks)))
    if not blocks:
        raise ConfigError("there is nothing to export: the files hold no records")
    times, owners = np.array(seconds), np.array(task_of, np.int32)
    throughput = np.zeros(len(times), np.float32)
    for task in range(len(tasks)):
        mine = owners == task
        if np.isfinite(times[mine]).any():
            throughput[mine] = np.nan_to_num(np.nanmin(times[mine]) / times[mine])
    names = list(tasks)
    return Table(
        np.concatenate(blocks),
        np.repeat(np.arange(len(blocks), dtype=np.int32), [len(b) for b in blocks]),
        times,
        throughput,
        owners,
        np.isfinite(times),
        failure,
        names,
        split_names([names[t] for t in task_of], shares, by, seed),
    )


def split_names(
    tasks: Sequence[str], shares: Sequence[float] | None, by: str, seed: int
) -> list[str]:
    """The split of each candidate; all of one workload (or task) fall into the same one."""
    if shares is None:
        return ["train"] * len(tasks)
    groups = [_group(task, by, k) for k, task in enumerate(tasks)]
    distinct = sorted(set(groups))
    order = np.random.default_rng(seed).permutation(len(distinct))
    ends = np.cumsum(shares)
    names = SPLIT_NAMES if len(shares) == 3 else (SPLIT_NAMES[0], SPLIT_NAMES[2])
    split: dict[str, str] = {}
    for rank, index in enumerate(order):
        at = int(np.searchsorted(ends, (rank + 0.5) / len(distinct)))
        split[distinct[index]] = names[min(at, len(names) - 1)]
    return [split[group] for group in groups]


def _group(task: str, by: str, index: int) -> str:
    if by == "random":
        return f"{index:012d}"
    workload = json.loads(task)["workload"]
    if by == "workload" and "op" in workload:
        return str(workload["op"])
    return json.dumps(workload, sort_keys=True)


def export(
    samples: Iterable[Sample], path: Path, shares: Sequence[float] | None, by: str, seed: int
) -> str:
    """Write the dataset in the format of the file's suffix; returns a one-line summary."""
    if path.suffix not in FORMATS:
        raise ConfigError(f"{path}: expected a file name ending in {', '.join(FORMATS)}")
    table = collect(samples, shares, by, seed)
    writer = {".npz": _write_npz, ".csv": _write_csv, ".parquet": _write_parquet}[path.suffix]
    try:
        writer(table, path)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error
    return (
        f"{path}: {len(table.features)} rows, {len(table.seconds)} candidates "
        f"({int((~table.valid).sum())} failed), {len(table.tasks)} tasks"
    )


def _write_npz(table: Table, path: Path) -> None:
    np.savez_compressed(
        path,
        features=table.features,
        row_candidate=table.row_candidate,
        feature_names=np.array(FEATURE_NAMES),
        seconds=table.seconds,
        throughput=table.throughput,
        task=table.task,
        valid=table.valid,
        tasks=np.array(table.tasks),
        failure=np.array(table.failure),
        split=np.array(table.split),
        schema=np.array(f"{SCHEMA}/{SCHEMA_VERSION}"),
    )


_LEADING = ("candidate", "task", "workload", "split", "seconds", "throughput", "valid", "failure")


def _columns(table: Table) -> dict[str, Any]:
    """The leading columns of a flat table, a value per row."""
    at = table.row_candidate
    workload = [json.dumps(json.loads(t)["workload"], sort_keys=True) for t in table.tasks]
    values: tuple[Any, ...] = (
        at,
        table.task[at],
        [workload[t] for t in table.task[at]],
        [table.split[c] for c in at],
        table.seconds[at],
        table.throughput[at],
        table.valid[at],
        [table.failure[c] for c in at],
    )
    return dict(zip(_LEADING, values, strict=True))


def _write_csv(table: Table, path: Path) -> None:
    columns = _columns(table)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*columns, *FEATURE_NAMES])
        for leading, row in zip(zip(*columns.values(), strict=True), table.features, strict=True):
            writer.writerow([*leading, *map(repr, row.tolist())])


def _write_parquet(table: Table, path: Path) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ConfigError(".parquet needs pyarrow: pip install 'autosched[data]'") from error
    columns = _columns(table)
    columns.update((name, table.features[:, k]) for k, name in enumerate(FEATURE_NAMES))
    schema = {"schema": f"{SCHEMA}/{SCHEMA_VERSION}", "tasks": json.dumps(table.tasks)}
    pyarrow.parquet.write_table(pyarrow.table(columns).replace_schema_metadata(schema), path)


def describe(path: Path) -> str:
    """Sizes, tasks, distribution of throughputs and schema version of a dataset, as text."""
    if not path.exists():
        raise ConfigError(f"dataset {path} does not exist")
    if path.suffix != ".npz":
        return _describe_frame(path)
    try:
        data = np.load(path, allow_pickle=False)
        lines = [
            f"{path}: {len(data['features'])} rows, {len(data['seconds'])} candidates, "
            f"{int((~data['valid']).sum())} failed, {len(data['tasks'])} tasks, "
            f"schema {data['schema']}"
        ]
        throughput = data["throughput"][data["valid"]]
        tasks = [json.loads(t)["workload"] for t in data["tasks"]]
        counts = Counter(data["task"].tolist())
        split = Counter(data["split"].tolist())
    except (KeyError, ValueError, OSError) as error:
        raise ConfigError(f"{path} is no autosched dataset: {error}") from error
    lines += [f"    {counts[k]:6} candidates of {json.dumps(t)}" for k, t in enumerate(tasks)]
    return "\n".join([*lines, _quantiles(throughput), _splits(split)])


def _describe_frame(path: Path) -> str:
    import pandas as pd

    if path.suffix not in FORMATS:
        raise ConfigError(f"{path}: expected a file name ending in {', '.join(FORMATS)}")
    try:
        frame = pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
        first = frame.drop_duplicates("candidate")
        lines = [
            f"{path}: {len(frame)} rows, {len(first)} candidates, "
            f"{int((~first['valid'].astype(bool)).sum())} failed, {first['task'].nunique()} tasks"
        ]
        lines += [
            f"    {n:6} candidates of {w}" for w, n in first["workload"].value_counts().items()
        ]
        throughput = first.loc[first["valid"].astype(bool), "throughput"].to_numpy()
        split = Counter(first["split"].tolist())
    except (KeyError, ValueError, OSError) as error:
        raise ConfigError(f"{path} is no autosched dataset: {error}") from error
    return "\n".join([*lines, _quantiles(throughput), _splits(split)])


def _quantiles(throughput: Any) -> str:
    if not len(throughput):
        return "throughput: nothing valid"
    values = np.quantile(throughput, [0, 0.25, 0.5, 0.75, 1])
    return "throughput (min, quartiles, max): " + ", ".join(f"{v:.3f}" for v in values)


def _splits(split: Counter[str]) -> str:
    return "splits: " + ", ".join(f"{name} {n}" for name, n in sorted(split.items()))
