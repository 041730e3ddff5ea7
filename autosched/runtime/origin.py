"""The record that a kernel was built from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autosched.words import seconds_text


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a kernel comes from: the record file, and what the record says.

    - `task`: what it computes.
    - `seconds`: its time per call.
    - `cpu`: the CPU or GPU on which it was measured; `here` says whether that is this machine's.
    - `version`: the version of autosched that measured it; empty where the record does not say.
    - `time`: when it was measured; empty where the record does not say.
    - `checked`: whether its outputs were compared with NumPy's.
    """

    file: Path
    task: str
    seconds: float
    cpu: str
    here: bool
    version: str
    time: str
    checked: bool

    def __str__(self) -> str:
        when = f" on {self.time[:16].replace('T', ' ')}" if self.time else ""
        by = f" by autosched {self.version}" if self.version else ""
        place = "here" if self.here else f"on another machine, {self.cpu},"
        checked = "" if self.checked else ", never compared with NumPy"
        time = f"{seconds_text(self.seconds)} measured {place}{when}{by}{checked}"
        return f"{self.task}: {time}; {self.file}"
