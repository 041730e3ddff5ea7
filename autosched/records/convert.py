"""Convert a record file to another format, or to the schema of this program."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from autosched import arguments
from autosched.arguments import PathLike
from autosched.errors import ConfigError
from autosched.layout import LayoutOption
from autosched.measure import ansor_log
from autosched.measure.records import LogContents, Record, stream_log
from autosched.measure.workload_keys import WorkloadKeys
from autosched.records.writing import RecordWriter, Written, require_records, writing
from autosched.session.reading import tell_problems
from autosched.user_warning import Tell, warn

FORMATS = ("autosched", "ansor-v0.6")
_INSERTED = LayoutOption.INSERT_TRANSFORM_STAGE.text


def convert(
    source: PathLike,
    output: PathLike,
    to: str = "autosched",
    *,
    force: bool = False,
    keys: WorkloadKeys | None = None,
    warning: Tell = warn,
) -> Written:
    """Write the records of `source` as `to` (autosched, ansor-v0.6) to `output`, in their order.

        autosched.records.convert("old.jsonl", "new.jsonl")

    Records of older schemas are written in this program's schema. Raises as `merge`, and
    ConfigError for a record that Ansor's format cannot hold.
    """
    path = arguments.file_path("source", source)
    target = arguments.file_path("output", output)
    arguments.one_of("to", to, FORMATS)
    with writing(target, [path], force=force) as file:
        writer = RecordWriter(file)
        contents = LogContents()
        read = cold = rewritten = 0
        for record in stream_log(path, contents, keys):
            cold += bool(record.result.cache_flush)
            rewritten += record.task.get("layout_rewrite") == _INSERTED
            if to == "autosched":
                writer.add(record, contents.environments)
            else:
                file.write(_ansor_line(path, read, record) + "\n")
            read += 1
        tell_problems(path, contents, warning)
        require_records([path], [contents], read)
    return Written(read, read, cold=cold, rewritten=rewritten)


def _ansor_line(path: Path, index: int, record: Record) -> str:
    """The line of record `index` in Ansor's format; ConfigError if that cannot hold the record."""
    try:
        when = int(datetime.fromisoformat(record.time).timestamp()) if record.time else 0
    except (ValueError, OverflowError):  # a file may hold any text
        when = 0
    try:
        return ansor_log.format_line(record.task, record.steps, record.result, when)
    except ConfigError as error:
        raise ConfigError(
            f"{path}: record {index} cannot be converted: {error}; nothing was written"
        ) from error
