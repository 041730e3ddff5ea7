"""The findings of `autosched doctor`: one line for each part of the machine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """The state of a part.

    OK works; NOTE works, but results may be worse than they could be; MISSING is not there; BROKEN
    does not work; SKIPPED was not looked at.
    """

    OK = "ok"
    NOTE = "note"
    MISSING = "missing"
    BROKEN = "broken"
    SKIPPED = "-"


@dataclass(frozen=True, slots=True)
class Finding:
    """One part of the machine: its state, what was found, and a remedy if it is not ok."""

    level: Level
    part: str
    text: str
    remedy: str = ""

    def to_json(self) -> dict[str, str]:
        """The finding for --json; the level of a part that was not looked at is `skipped`."""
        level = "skipped" if self.level is Level.SKIPPED else self.level.value
        return {"part": self.part, "level": level, "text": self.text, "remedy": self.remedy}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All findings, a verdict in a few words, and whether something must be repaired.

    `commands` are shell commands for repairs that take more than one line.
    """

    findings: tuple[Finding, ...]
    verdict: str
    failed: bool
    commands: tuple[str, ...] = ()
