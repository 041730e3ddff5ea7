"""Find candidates that took far longer than the cost model expected.

    python benchmarks/suite.py --all --records DIR; python benchmarks/surprises.py DIR
    python benchmarks/surprises.py matmul.jsonl --most 5

For each recorded candidate that was chosen for its score, the surprise is its time over the best of
its task, times that score: 1 where the model was right. The largest are shown with the code that
LLVM gets for them. Most of those of 4 and more were defects of the code generator; noise makes 2.
`autosched show FILE --index N --as tir` shows a candidate.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from autosched.codegen.llvm import emit_llvm
from autosched.codegen.llvm_compile import is_explicit
from autosched.driver import lower_steps
from autosched.measure.records import Record, read_log
from autosched.task import Task


class Surprise(NamedTuple):
    """A record with its time over the expected time, its time over the best, and its place."""

    times: float
    of_best: float
    file: Path
    number: int
    record: Record


def surprises(file: Path) -> Iterator[Surprise]:
    """All candidates of a file that were chosen for a score."""
    records = read_log(file).records
    best: dict[str, float] = defaultdict(lambda: math.inf)
    for record in records:
        best[record.task["key"]] = min(best[record.task["key"]], record.result.cost)
    for number, record in enumerate(records):
        expected = (record.search or {}).get("predicted")
        if expected and record.result.valid:
            of_best = record.result.cost / best[record.task["key"]]
            yield Surprise(of_best * expected, of_best, file, number, record)


def code_of(record: Record) -> str:
    """The size of the code that LLVM gets, and whether its innermost loops are all vectors."""
    task = Task.from_json(record.task)
    func = lower_steps(task.dag, record.steps, task.target, layout=task.layout)
    text = emit_llvm(func, task.target)
    return f"{text.count(chr(10))} lines{'' if is_explicit(text) else ', loops of scalars'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("records", nargs="+", type=Path, help="record files, or folders of them")
    parser.add_argument("--most", type=int, default=20, help="candidates that are shown")
    options = parser.parse_args()
    files = [
        file
        for path in options.records
        for file in (sorted(path.rglob("*.jsonl")) if path.is_dir() else [path])
    ]
    found = [surprise for file in files for surprise in surprises(file)]
    found.sort(key=lambda surprise: -surprise.times)
    if not found:
        parser.error("no candidate in these files was chosen for a score")
    times = [surprise.times for surprise in found]
    median, high, highest = np.quantile(times, [0.5, 0.95, 0.99])
    print(f"{len(found)} candidates: median {median:.2f}, 95% {high:.2f}, 99% {highest:.2f}")
    for one in found[: options.most]:
        print(
            f"{one.times:6.2f} times as slow as expected, {one.of_best:.2f} of the best: "
            f"{one.file.name} --index {one.number}, {code_of(one.record)}"
        )


if __name__ == "__main__":
    main()
