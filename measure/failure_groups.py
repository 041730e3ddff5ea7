"""Failures that are alike: of one stage and kind, with messages that differ in details only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from autosched.measure.result import Failure
from autosched.words import last_line

_NUMBER = re.compile(r"((?:signal|exit status) \d+)|0x[0-9a-f]+|-?\d+(?:\.\d+)?(?:e-?\d+)?")


@dataclass(slots=True)
class FailureGroup:
    """The first failure of a group, the `index` of its record, and how many there are."""

    failure: Failure
    index: int
    records: int = 0

    def to_json(self) -> dict[str, Any]:
        """What `autosched failures --json` says."""
        return {**self.failure.to_json(), "records": self.records, "index": self.index}


class FailureGroups:
    """Groups failures as they come."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str, str], FailureGroup] = {}

    def add(self, index: int, failure: Failure) -> None:
        """The failure of record `index`."""
        group = self._groups.setdefault(signature(failure), FailureGroup(failure, index))
        group.records += 1

    @property
    def ordered(self) -> list[FailureGroup]:
        """The groups, the largest first."""
        return sorted(self._groups.values(), key=lambda group: -group.records)


def signature(failure: Failure) -> tuple[str, str, str]:
    """What failures of a group have in common: numbers and quoted names may differ.

    Another signal or exit status is another failure.
    """
    message = _NUMBER.sub(lambda found: found[1] or "N", last_line(failure.message))
    return failure.stage, failure.kind, re.sub(r"'[^']*'|\"[^\"]*\"", "'...'", message)
