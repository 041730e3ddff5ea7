"""Write record files as a stream, from records of other files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from autosched.errors import ConfigError
from autosched.measure.environment import fingerprint_hash
from autosched.measure.records import LogContents, Record, head_lines, line_of, task_hash
from autosched.output_file import FileKind, replacing, require_apart, require_replaceable

Environments = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Written:
    """What was written: `records` records, of the `read` ones in `files` files.

    `repeated` counts those left out because they are in two files, or twice in one. `cold` counts
    those timed with empty caches, `rewritten` those with `layout_rewrite: insert-transform-stage`.
    """

    records: int
    read: int
    repeated: int = 0
    cold: int = 0
    rewritten: int = 0
    files: int = 1


class RecordWriter:
    """Writes records of other files as they are, with their environments and times.

    Lines of tasks and environments come before the records that name them, once each. Their names
    are hashes of their contents, so that files in which a name means different things can be
    merged. With `once`, records that are equal in everything are written once.
    """

    def __init__(self, file: IO[str], *, once: bool = False) -> None:
        self._file = file
        self._seen: set[bytes] | None = set() if once else None
        self._heads: set[str] = set()
        self._tasks: dict[int, tuple[dict[str, Any], str]] = {}
        self._environments: dict[int, tuple[Mapping[str, Any], str]] = {}
        self.written = 0
        self.repeated = 0

    def add(self, record: Record, environments: Environments) -> None:
        """Write a record; `environments` are those that its file has listed so far."""
        task = self._hash_of_task(record.task)
        environment = environments.get(record.environment)
        data = record.to_json(task)
        if environment is not None:
            data["environment"] = self._hash_of(environment)
        line = line_of(data)
        if self._seen is not None:
            digest = hashlib.blake2b(line.encode(), digest_size=16).digest()
            if digest in self._seen:
                self.repeated += 1
                return
            self._seen.add(digest)
        heads = {} if environment is None else {data["environment"]: environment}
        missing = {task: record.task, **heads}.keys() - self._heads
        if missing:
            for name, head in head_lines(heads, {task: record.task}).items():
                if name in missing:
                    self._file.write(line_of(head))
            self._heads |= missing
        self._file.write(line)
        self.written += 1

    def _hash_of_task(self, task: dict[str, Any]) -> str:
        known = self._tasks.get(id(task))
        if known is None:  # the object is kept, so that no other one gets its identity
            known = self._tasks[id(task)] = task, task_hash(task)
        return known[1]

    def _hash_of(self, environment: Mapping[str, Any]) -> str:
        known = self._environments.get(id(environment))
        if known is None:
            known = environment, fingerprint_hash(dict(environment))
            self._environments[id(environment)] = known
        return known[1]


@contextmanager
def writing(output: Path, sources: Sequence[Path], *, force: bool) -> Iterator[IO[str]]:
    """A context with a text file that becomes `output` when the block succeeds.

    `output` must not exist, or is replaced with `force`; it is never one of the `sources`. Raises
    ConfigError otherwise, or when it cannot be written.
    """
    require_apart([("the output", output)], [("a file that is read", source) for source in sources])
    taken = f"{output} exists; give another name with -o, or --force to replace it"
    if output.is_file() and not force:
        raise ConfigError(taken)
    require_replaceable(output, FileKind.RECORDS, overwrite=force)
    try:
        with (
            replacing(output, only_new=not force) as partial,
            partial.open("w", encoding="utf-8") as file,
        ):
            yield file
    except FileExistsError as error:  # another command made it meanwhile
        raise ConfigError(taken) from error
    except OSError as error:
        raise ConfigError(f"cannot write {output}: {error.strerror}") from error


def require_records(sources: Sequence[Path], contents: Sequence[LogContents], read: int) -> None:
    """Raise ConfigError when no record was read, or a line has a later schema.

    The file that is written would lack that line.
    """
    for each in contents:
        if each.newer:
            raise ConfigError(f"{each.newer}; nothing was written")
    require_any(sources, read)


def require_any(sources: Sequence[Path], read: int) -> None:
    """Raise ConfigError when no record was read from the files."""
    if not read:
        names = ", ".join(map(str, sources))
        raise ConfigError(
            f"{names}: no records; expected a file that `autosched tune` or Ansor v0.6 wrote"
        )
