"""Write datasets one candidate at a time, so that memory does not grow with the rows."""

from __future__ import annotations

import csv
import io
import json
import shutil
import tempfile
import zipfile
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from autosched.features.datasets.sample import LEADING, ORIGIN, SPLIT_NAMES, Index, Sample
from autosched.features.sets import FeatureSet, Rows
from autosched.needed import needed_for

ROW_GROUP = 16384  # rows held at a time, about 11 MB


class Writer(Protocol):
    """Takes the rows of candidates 0, 1, ... in order."""

    def append(self, candidate: int, sample: Sample, rows: Rows) -> None:
        """Write the rows of `sample`, the next candidate."""

    def close(self) -> None:
        """Write the rows still held back and finish the file."""


@contextmanager
def open_writer(suffix: str, path: Path, index: Index, features: FeatureSet) -> Iterator[Writer]:
    """A writer in the format `suffix` to `path`, finished when the block ends without an error."""
    make: dict[str, Callable[[Path, Index, FeatureSet], Writer]] = {
        ".npz": _Npz,
        ".csv": _Csv,
        ".parquet": _Parquet,
    }
    writer = make[suffix](path, index, features)
    yield writer
    writer.close()


class _Leading:
    """The values of the leading columns of each candidate."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._workloads = [index.workload(k) for k in range(len(index.tasks))]
        self._valid = index.valid

    def of(self, candidate: int) -> tuple[Any, ...]:
        """The values of one candidate in the order of LEADING."""
        index, task = self._index, int(self._index.task[candidate])
        return (
            candidate,
            task,
            self._workloads[task],
            SPLIT_NAMES[index.split[candidate]],
            float(index.seconds[candidate]),
            float(index.throughput[candidate]),
            bool(self._valid[candidate]),
            index.failures[index.failure[candidate]],
        )


def _origins(sample: Sample, rows: Rows) -> list[tuple[Any, ...]]:
    """The values of each row in the order of ORIGIN."""
    steps = sample.steps()
    return [(sample.source, sample.record, steps, buffer) for buffer in rows.buffers]


class _Numbered:
    """Names numbered in the order of first appearance, and the number of each entry's name."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self.numbers = array("i")

    @property
    def names(self) -> list[str]:
        """The names in the order of their numbers."""
        return list(self._known)

    def extend(self, names: Sequence[str]) -> None:
        """Append entries with these names."""
        known = self._known
        self.numbers.extend(known.setdefault(name, len(known)) for name in names)


class _Csv:
    def __init__(self, path: Path, index: Index, features: FeatureSet) -> None:
        self._file = path.open("w", newline="", encoding="utf-8")
        self._leading = _Leading(index)
        self._writer = csv.writer(self._file)
        self._writer.writerow([*LEADING, *ORIGIN, *features.columns])

    def append(self, candidate: int, sample: Sample, rows: Rows) -> None:
        leading = self._leading.of(candidate)
        # The shortest text that reads back as the same float32.
        self._writer.writerows(
            [*leading, *origin, *map(str, row)]
            for origin, row in zip(_origins(sample, rows), rows.values, strict=True)
        )

    def close(self) -> None:
        self._file.close()


class _Parquet:
    """Writes row groups of about ROW_GROUP rows; text columns are dictionary-encoded."""

    def __init__(self, path: Path, index: Index, features: FeatureSet) -> None:
        parquet = needed_for("a .parquet file", "pyarrow.parquet", "autosched[data]")
        pyarrow = needed_for("a .parquet file", "pyarrow", "autosched[data]")
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
            "source": text,
            "record": pyarrow.int32(),
            "steps": text,
            "buffer": text,
            **dict.fromkeys(self._columns, pyarrow.float32()),
        }
        metadata = {"schema": features.schema, "tasks": json.dumps(index.tasks)}
        self._schema = pyarrow.schema(types.items(), metadata)
        self._file = path.open("wb")  # pyarrow refuses a file name that is not text
        self._writer = parquet.ParquetWriter(self._file, self._schema)
        self._candidates: list[int] = []
        self._origins: list[tuple[Any, ...]] = []
        self._blocks: list[Rows] = []

    def append(self, candidate: int, sample: Sample, rows: Rows) -> None:
        self._candidates += [candidate] * len(rows)
        self._origins += _origins(sample, rows)
        self._blocks.append(rows)
        if len(self._candidates) >= ROW_GROUP:
            self._flush()

    def _flush(self) -> None:
        if not self._blocks:
            return
        known = {c: self._leading.of(c) for c in set(self._candidates)}
        columns: list[Any] = list(zip(*(known[c] for c in self._candidates), strict=True))
        columns += zip(*self._origins, strict=True)
        values = np.concatenate([block.values for block in self._blocks])
        columns.extend(np.ascontiguousarray(values.T))
        arrays = [
            self._arrow.array(values, kind)
            for values, kind in zip(columns, self._schema.types, strict=True)
        ]
        self._writer.write_table(self._arrow.Table.from_arrays(arrays, schema=self._schema))
        self._candidates, self._origins, self._blocks = [], [], []

    def close(self) -> None:
        self._flush()
        self._writer.close()
        self._file.close()


class _Npz:
    """Writes features and steps to temporary files, then into the archive when their sizes are
    known."""

    def __init__(self, path: Path, index: Index, features: FeatureSet) -> None:
        self._path = path
        self._index = index
        self._features = features
        self._counts = array("i")
        self._buffers = _Numbered()
        self._sources = _Numbered()
        self._records = array("i")
        # Deleted by the system however the program ends.
        self._rows = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115  # open until close
        self._steps = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115  # open until close

    def append(self, candidate: int, sample: Sample, rows: Rows) -> None:
        self._counts.append(len(rows))
        self._buffers.extend(rows.buffers)
        self._sources.extend([sample.source])
        self._records.append(sample.record)
        self._rows.write(np.ascontiguousarray(rows.values, dtype="<f4").tobytes())
        self._steps.write(f"{sample.steps()}\n".encode())

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
            "split": np.array(SPLIT_NAMES)[index.split],
            "schema": np.array(self._features.schema),
            "row_buffer": np.array(self._buffers.numbers),
            "buffers": np.array(self._buffers.names),
            "source": np.array(self._sources.numbers),
            "sources": np.array(self._sources.names),
            "record": np.array(self._records),
        }
        shape = int(counts.sum()), len(self._features.columns)
        with (
            self._rows as rows,
            self._steps as steps,
            zipfile.ZipFile(self._path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        ):
            with archive.open("features.npy", "w", force_zip64=True) as member:
                member.write(_header(shape))
                rows.seek(0)
                shutil.copyfileobj(rows, member, 1 << 20)
            with archive.open("steps.jsonl", "w", force_zip64=True) as member:
                steps.seek(0)
                shutil.copyfileobj(steps, member, 1 << 20)
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
