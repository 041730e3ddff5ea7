"""State that the parts of benchmarks/gpu.py share: the GPU, the remaining time, the report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autosched.codegen.nvrtc import load_nvrtc
from autosched.target import Target, cuda_target

FAKE = "**The GPU was the fake one of the tests: no figure here says anything.**"


class Budget:
    """The wall time, in seconds, that all parts share."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._start = time.monotonic()

    @property
    def spent(self) -> float:
        return time.monotonic() - self._start

    @property
    def left(self) -> float:
        return self.seconds - self.spent


@dataclass
class Report:
    """The report, which is rewritten after each part, and the list of what was wrong."""

    path: Path
    fake: bool
    text: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def add(self, *lines: str) -> None:
        """Add lines to the report and print them."""
        print(*lines, sep="\n", flush=True)
        self.text += lines
        partial = self.path.with_name(self.path.name + ".part")
        partial.write_text("\n".join([*self._head(), *self.text]) + "\n")
        partial.replace(self.path)

    def fail(self, line: str) -> None:
        """Record that something is wrong."""
        self.wrong.append(line)
        self.add(f"WRONG: {line}")

    def _head(self) -> list[str]:
        found = "all that ran was as it should be" if not self.wrong else "; ".join(self.wrong)
        return ["# autosched on a GPU", "", *([FAKE, ""] if self.fake else []), found, ""]


@dataclass(frozen=True)
class Bench:
    """What a part of the benchmark needs: facts about the GPU, remaining time and the report."""

    facts: dict[str, Any]
    environment: dict[str, Any]
    budget: Budget
    report: Report
    trials: int
    operators: Sequence[tuple[str, dict[str, Any]]]
    fake: bool
    folder: Path | None = None

    @property
    def arch(self) -> str:
        major, minor = self.facts["capability"]
        return f"sm_{major}{minor}"

    @property
    def target(self) -> Target:
        return cuda_target(self.arch)

    def compile(self, source: str, *options: str) -> bytes:
        """Compile a source to a cubin. Raises CompileError."""
        driver = int(self.facts["driver"].partition(".")[0])
        return load_nvrtc(self.arch, driver).compile(source, self.arch, options).cubin
