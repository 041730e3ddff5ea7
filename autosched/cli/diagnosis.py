"""What `autosched doctor` found: a line for each part of the machine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """How a part is; what is MISSING is not there, what is BROKEN does not work."""

    OK = "ok"
    MISSING = "missing"
    BROKEN = "broken"
    SKIPPED = "-"


@dataclass(frozen=True, slots=True)
class Finding:
    """One part of the machine, what was found, and what to do when it is not ok."""

    level: Level
    part: str
    text: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All findings, what they come to in a few words, and whether something must be repaired.

    `commands` are for a shell and repair what takes more than a line.
    """

    findings: tuple[Finding, ...]
    verdict: str
    failed: bool
    commands: tuple[str, ...] = ()
