"""Time and peak memory of exporting a million rows.

    python benchmarks/dataset_export.py records/matmul.jsonl --rows 1000000 --format parquet

The candidates of the record file, their features, and every step of the export are real: the log is
read twice, record by record; each record is decoded; its rows go through the writers and the split
of `autosched dataset export`. Made up is the repetition: the log repeats the candidates, with times
that vary by a tenth, until there are enough rows. The features of a candidate are computed only at
its first appearance, because for a million rows that would take an hour (some 8 ms a candidate).
Each format runs in a process of its own, so that each peak is its own.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from autosched.cli.samples import RecordSamples
from autosched.features.datasets import dataset
from autosched.features.datasets.sample import Sample
from autosched.features.sets import Rows


class RepeatedSamples:
    """The samples of a log that repeats `count` records over and over."""

    def __init__(self, log: Path, features: str, count: int) -> None:
        self._samples = RecordSamples([log], features)
        self._count = count
        self._known: dict[int, Rows | None] = {}

    def __iter__(self) -> Iterator[Sample]:
        for k, sample in enumerate(self._samples):
            yield replace(sample, rows=partial(self._rows, k % self._count, sample))

    def _rows(self, candidate: int, sample: Sample) -> Rows | None:
        if candidate not in self._known:
            self._known[candidate] = sample.rows()
        return self._known[candidate]


def repeat(records: Path, copies: int, log: Path) -> None:
    """Write `copies` copies of all records of a file, with varied times."""
    rng = np.random.default_rng(0)
    lines = [json.loads(line) for line in records.open() if '"steps"' in line]
    with log.open("w") as file:
        for _ in range(copies):
            for line in lines:
                factor = 1 + 0.1 * rng.random()
                seconds = [s * factor for s in line["result"]["seconds"]]
                again = {**line, "result": {**line["result"], "seconds": seconds}}
                file.write(json.dumps(again, separators=(",", ":")) + "\n")


def export(log: Path, output: Path, features: str, count: int) -> None:
    """Export the log; print the time and the peak memory."""
    start = time.perf_counter()
    summary = dataset.export(
        RepeatedSamples(log, features, count), output, (0.8, 0.1, 0.1), "random", features=features
    )
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = output.stat().st_size / 2**20
    print(summary.partition(": ")[2])
    print(f"{output.suffix} {seconds:.0f} s, peak {peak:.0f} MiB, file {size:.0f} MiB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("records", type=Path, help="an autosched log")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--format", nargs="+", default=["parquet"])
    parser.add_argument("--features", default="ansor-0.19")
    options = parser.parse_args()
    found = [sample.rows() for sample in RecordSamples([options.records], options.features)]
    rows = sum(1 if block is None else len(block) for block in found)
    copies = -(-options.rows // rows)
    print(f"{len(found)} records with {rows} rows, {copies} times")
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "repeated.jsonl"
        repeat(options.records, copies, log)
        print(f"log: {log.stat().st_size / 2**20:.0f} MiB")
        for suffix in options.format:
            output = Path(folder) / f"dataset.{suffix}"
            context = multiprocessing.get_context("spawn")
            arguments = (log, output, options.features, len(found))
            process = context.Process(target=export, args=arguments)
            process.start()
            process.join()
            output.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
