"""What `autosched doctor` found: a line for each part of the machine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """How a part is; what is MISSING is not there, what is BROKEN does not work.

    What has a NOTE works, but results may be worse than they could be.
    """

    OK = "ok"
    NOTE = "note"
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

    def to_json(self) -> dict[str, str]:
        """What --json says of it; a part that was not looked at is `skipped`."""
        level = "skipped" if self.level is Level.SKIPPED else self.level.value
        return {"part": self.part, "level": level, "text": self.text, "remedy": self.remedy}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All findings, what they come to in a few words, and whether something must be repaired.

    `commands` are for a shell and repair what takes more than a line.
    """

    findings: tuple[Finding, ...]
    verdict: str
    failed: bool
    commands: tuple[str, ...] = ()
