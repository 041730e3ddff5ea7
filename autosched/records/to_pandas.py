"""Convert the records of files to a data frame of pandas."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import Any

from autosched.arguments import PathLike
from autosched.display.frame import measured
from autosched.measure.records import LogContents, stream_log
from autosched.measure.standing import is_race
from autosched.measure.workload_keys import WorkloadKeys
from autosched.needed import needed_for
from autosched.records.machine import Machines
from autosched.records.standings import TaskEntry
from autosched.session.reading import each_once, record_files, tell_problems
from autosched.user_warning import Tell, warn

COLUMNS = (
    *("file", "record", "task", "key", "cpu", "here", "time", "round", "race", "cache_flush"),
    *("seconds", "low", "high", "flops_per_second", "valid", "believed", "checked"),
    *("largest_error", "stage", "kind", "message", "policy", "predicted"),
    *("build_seconds", "total_seconds", "steps"),
)
_MOST = 2**63 - 1  # the largest integer that a column holds
_TYPES = {  # also for files without records, and for columns without a known value
    **dict.fromkeys(("here", "race", "valid", "believed", "checked"), bool),
    **dict.fromkeys(("record", "cache_flush", "steps"), "int64"),
    **dict.fromkeys(("seconds", "low", "high", "flops_per_second", "largest_error"), float),
    **dict.fromkeys(("round", "predicted", "build_seconds", "total_seconds"), float),
}


def to_pandas(
    sources: PathLike | Sequence[PathLike],
    *,
    keys: WorkloadKeys | None = None,
    warning: Tell = warn,
) -> Any:
    """A pandas.DataFrame with a row for each record of the files, in their order.

        frame = autosched.records.to_pandas(["monday.jsonl", "tuesday.jsonl"])
        frame[frame.believed].groupby("task").seconds.min()

    `record` is the place in the `file`, as `autosched show --index` takes it; `cpu` the CPU or GPU
    that it was measured on, `here` whether that is this machine; `race` whether it is the second
    record of a candidate, from a race at the end of a run; `cache_flush` the bytes that emptied the
    caches before each call. Times are in seconds: that of a call is from `low` to `high` with 95%
    confidence. Those of failures are NaN, and `stage`, `kind` and `message` say why. A time that no
    kernel can have is `valid` and not `believed`. `predicted` is the score that the cost model
    gave, `policy` the user's search that proposed the candidate (empty for autosched's), `steps`
    the number of its transform steps. Numbers that a record does not tell are NaN.

    Lines that cannot be read are left out, and `warning` is called. Raises ConfigError without
    pandas and when a file cannot be read.
    """
    pandas = needed_for("to_pandas", "pandas", "pandas")
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    entries: dict[str, TaskEntry] = {}
    for path in each_once(record_files("sources", sources), warning):
        contents, machines = LogContents(), Machines()
        for index, record in enumerate(stream_log(path, contents, keys)):
            key = record.task["key"]
            if key not in entries:
                entries[key] = TaskEntry(record.task)
            entry = entries[key]
            machine = machines.of(record, contents.environments)
            row = {
                "file": str(path),
                "record": index,
                "task": entry.name,
                "key": entry.key,
                "cpu": machine.name,
                "here": machine.here,
                "time": record.time,
                "race": is_race(record),
                "cache_flush": min(record.result.cache_flush, _MOST),
                "believed": record.result.valid and record.result.cost >= entry.least_seconds,
                "policy": _text(record.search.get("policy")),
                **measured(record, entry.operations),
                **{name: _number(record.search.get(name)) for name in ("round", "predicted")},
            }
            for name, values in columns.items():
                values.append(row[name])
        tell_problems(path, contents, warning)
    return pandas.DataFrame(columns).astype(_TYPES)


def _text(value: Any) -> str:
    """`value` if it is text, otherwise an empty text: the line of a record may hold anything."""
    return value if isinstance(value, str) else ""


def _number(value: Any) -> float:
    """`value` if it is a number, otherwise NaN: the line of a record may hold anything."""
    try:
        return float(value) if type(value) in (int, float) else nan
    except OverflowError:
        return nan
