"""The candidates of a run as rows, and as a data frame of pandas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, nan
from typing import Any

from autosched.measure.records import Record
from autosched.measure.steady import interval
from autosched.needed import needed_for
from autosched.task import Task

COLUMNS = (
    *("task", "key", "trial", "round", "seconds", "low", "high", "flops_per_second"),
    *("best_seconds", "valid", "checked", "largest_error", "stage", "kind", "message", "predicted"),
    *("build_seconds", "total_seconds", "steps"),
)


def rows_of(task: Task, records: Sequence[Record]) -> Iterator[dict[str, Any]]:
    """Yield a row for each record of a task, in the order of measuring.

    The time is from `low` to `high` with 95% confidence; `best_seconds` is the best of the run
    until then. Times of failures are NaN, and their `stage`, `kind` and `message` say why.
    """
    best, operations = inf, task.dag.flop_count
    for trial, record in enumerate(records):
        best = min(best, record.result.cost)
        yield {
            "task": task.name,
            "key": task.key,
            "trial": trial,
            "round": record.search.get("round"),
            "best_seconds": nan if best == inf else best,
            **measured(record, operations),
        }


def measured(record: Record, operations: float) -> dict[str, Any]:
    """The columns about a record's candidate; `operations` are those of a call (0: not counted)."""
    result, failure = record.result, record.result.failure
    seconds = result.cost if result.valid else nan
    low, high = interval(result.seconds) if result.valid else (nan, nan)
    return {
        "seconds": seconds,
        "low": low,
        "high": high,
        "flops_per_second": operations / seconds if operations > 0 else nan,
        "valid": result.valid,
        "checked": result.checked,
        "largest_error": nan if result.accuracy is None else result.accuracy,
        "stage": None if failure is None else failure.stage,
        "kind": None if failure is None else failure.kind,
        "message": None if failure is None else failure.message,
        "predicted": record.search.get("predicted"),
        "build_seconds": result.build_seconds,
        "total_seconds": result.total_seconds,
        "steps": len(record.steps),
    }


def frame_of(rows: Sequence[dict[str, Any]]) -> Any:
    """The rows as a pandas.DataFrame. Raises ConfigError without pandas."""
    pandas = needed_for("to_pandas", "pandas", "pandas")
    return pandas.DataFrame(list(rows), columns=list(COLUMNS))
