"""Group failures that have the same stage and kind and messages that differ only in details."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from autosched.measure.result import Failure
from autosched.words import last_line

_NUMBER = re.compile(r"((?:signal|exit status) \d+)|0x[0-9a-f]+|-?\d+(?:\.\d+)?(?:e-?\d+)?")


@dataclass(slots=True)
class FailureGroup:
    """A group of failures: the first one, the `index` of its record, and the number of records."""

    failure: Failure
    index: int
    records: int = 0

    def to_json(self) -> dict[str, Any]:
        """The entry of `autosched failures --json`."""
        return {**self.failure.to_json(), "records": self.records, "index": self.index}


class FailureGroups:
    """Group failures as they are added."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str, str], FailureGroup] = {}

    def add(self, index: int, failure: Failure) -> None:
        """Add the failure of record `index`."""
        group = self._groups.setdefault(signature(failure), FailureGroup(failure, index))
        group.records += 1

    @property
    def ordered(self) -> list[FailureGroup]:
        """The groups, largest first."""
        return sorted(self._groups.values(), key=lambda group: -group.records)


def signature(failure: Failure) -> tuple[str, str, str]:
    """The key of a failure's group: stage, kind and message without its numbers and quoted names.

    The numbers of signals and exit statuses stay: another one is another failure.
    """
    message = _NUMBER.sub(lambda found: found[1] or "N", last_line(failure.message))
    return failure.stage, failure.kind, re.sub(r"'[^']*'|\"[^\"]*\"", "'...'", message)
