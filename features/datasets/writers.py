"""Writers of datasets, a candidate at a time: memory does not grow with the rows."""

from __future__ import annotations

import csv
import io
import json
import shutil
import tempfile
import zipfile
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from autosched.errors import ConfigError
from autosched.features.ansor.rows import FeatureRows
from autosched.features.datasets.sample import LEADING, Index
from autosched.features.sets import FeatureSet

ROW_GROUP = 16384  # rows held at a time, about 11 MB


class Writer(Protocol):
    """Takes the rows of candidates 0, 1, ... in order."""

    def append(self, candidate: int, rows: FeatureRows) -> None:
        """Write the rows of the next candidate."""

    def close(self) -> None:
        """Write what is still held back and finish the file."""


@contextmanager
def open_writer(suffix: str, path: Path, index: Index, features: FeatureSet) -> Iterator[Writer]:
    """A writer of `suffix`'s format to `path`, finished when the block ends without an error."""
    make: dict[str, Callable[[Path, Index, FeatureSet], Writer]] = {
        ".npz": _Npz,
        ".csv": _Csv,
        ".parquet": _Parquet,
    }
    writer = make[suffix](path, index, features)
    yield writer
    writer.close()


class _Leading:
    """The columns before the features: a value per candidate."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._workloads = [index.workload(k) for k in range(len(index.tasks))]
        self._valid = index.valid

    def of(self, candidate: int) -> tuple[Any, ...]:
        """The values in the order of LEADING."""
        index, task = self._index, int(self._index.task[candidate])
        return (
            candidate,
            task,
            self._workloads[task],
            index.splits[index.split[candidate]],
            float(index.seconds[candidate]),
            float(index.throughput[candidate]),
            bool(self._valid[candidate]),
            index.failures[index.failure[candidate]],
        )


class _Csv:
    def __init__(self, path: Path, index: Index, features: FeatureSet) -> None:
        self._file = path.open("w", newline="", encoding="utf-8")
        self._leading = _Leading(index)
        self._writer = csv.writer(self._file)
        self._writer.writerow([*LEADING, *features.columns])

    def append(self, candidate: int, rows: FeatureRows) -> None:
        leading = self._leading.of(candidate)
        # The shortest text that reads back as the same float32.
        self._writer.writerows([*leading, *map(str, row)] for row in rows)

    def close(self) -> None:
        self._file.close()


class _Parquet:
    """Row groups of about ROW_GROUP rows; workloads, splits and failures as dictionaries."""

    def __init__(self, path: Path, index: Index, features: FeatureSet) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            raise ConfigError(".parquet needs pyarrow: pip install 'autosched[data]'") from error
        self._arrow = pyarrow
        self._leading = _Leading(index)
        self._columns = features.columns
        text = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
        types = {
            "candidate": pyarrow.int32(),
            "task": pyarrow.int32(),
            "workload": text,
            "split": text,
            "seconds": pyarrow.float64(),
            "throughput": pyarrow.float32(),
            "valid": pyarrow.bool_(),
            "failure": text,
            **dict.fromkeys(self._columns, pyarrow.float32()),
        }
        metadata = {"schema": features.schema, "tasks": json.dumps(index.tasks)}
        self._schema = pyarrow.schema(types.items(), metadata)
        self._writer = pyarrow.parquet.ParquetWriter(path, self._schema)
        self._candidates: list[int] = []
        self._blocks: list[FeatureRows] = []

    def append(self, candidate: int, rows: FeatureRows) -> None:
        self._candidates += [candidate] * len(rows)
        self._blocks.append(rows)
        if len(self._candidates) >= ROW_GROUP:
            self._flush()

    def _flush(self) -> None:
        if not self._blocks:
            return
        known = {c: self._leading.of(c) for c in set(self._candidates)}
        columns: list[Any] = list(zip(*(known[c] for c in self._candidates), strict=True))
        columns.extend(np.ascontiguousarray(np.concatenate(self._blocks).T))
        arrays = [
            self._arrow.array(values, kind)
            for values, kind in zip(columns, self._schema.types, strict=True)
        ]
        self._writer.write_table(self._arrow.Table.from_arrays(arrays, schema=self._schema))
        self._candidates, self._blocks = [], []

    def close(self) -> None:
        self._flush()
        self._writer.close()


class _Npz:
    """Features go to a temporary file, whose length the archive's header needs, and then in."""

    def __init__(self, path: Path, index: Index, features: FeatureSet) -> None:
        self._path = path
        self._index = index
        self._features = features
        self._counts = array("i")
        # Deleted by the system however the program ends.
        self._rows = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115  # open until close

    def append(self, candidate: int, rows: FeatureRows) -> None:
        self._counts.append(len(rows))
        self._rows.write(np.ascontiguousarray(rows, dtype="<f4").tobytes())

    def close(self) -> None:
        index = self._index
        counts = np.array(self._counts)
        arrays: dict[str, Any] = {
            "row_candidate": np.repeat(np.arange(len(counts), dtype=np.int32), counts),
            "feature_names": np.array(self._features.columns),
            "seconds": index.seconds,
            "throughput": index.throughput,
            "task": index.task,
            "valid": index.valid,
            "tasks": np.array(index.tasks),
            "failure": np.array(index.failures)[index.failure],
            "split": np.array(index.splits)[index.split],
            "schema": np.array(self._features.schema),
        }
        shape = int(counts.sum()), len(self._features.columns)
        with (
            self._rows as rows,
            zipfile.ZipFile(self._path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        ):
            with archive.open("features.npy", "w", force_zip64=True) as member:
                member.write(_header(shape))
                rows.seek(0)
                shutil.copyfileobj(rows, member, 1 << 20)
            for name, values in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    _save(member, values)


def _header(shape: tuple[int, int]) -> bytes:
    buffer = io.BytesIO()
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, header)
    return buffer.getvalue()


def _save(file: IO[bytes], values: Any) -> None:
    np.lib.format.write_array(file, np.asanyarray(values), allow_pickle=False)
