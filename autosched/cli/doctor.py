"""`autosched doctor`: what this machine can do for a target, a line for each part."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterable

from autosched.cli import doctor_cuda
from autosched.cli.console import out, plain
from autosched.cli.diagnosis import Diagnosis, Finding
from autosched.errors import ConfigError

EXIT_BROKEN = 1
_LEAST_WIDTH = 60


def run(target: str, arch: str) -> None:
    """Print the diagnosis for `target`. Exits with 1 when something must be repaired."""
    diagnose = TARGETS.get(target)
    if diagnose is None:
        raise ConfigError(f"--target {target!r}: doctor knows {', '.join(TARGETS)} only")
    found = diagnose(arch)
    for line in lines_of(found.findings, max(out.width, _LEAST_WIDTH)):
        plain(line)
    plain(found.verdict)
    if found.commands:
        plain("\nPyCUDA is built so (GCC is needed):")
        for line in found.commands:
            plain(line)
    if found.failed:
        sys.exit(EXIT_BROKEN)


def lines_of(findings: Iterable[Finding], width: int) -> list[str]:
    """The findings as text of at most `width` columns; file names are not broken."""
    lines: list[str] = []
    for finding in findings:
        head = f"{finding.level.value:8}{finding.part:15}"
        text = f"{finding.text}; {finding.remedy}" if finding.remedy else finding.text
        lines += textwrap.wrap(
            text,
            width,
            initial_indent=head,
            subsequent_indent=" " * len(head),
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines


TARGETS: dict[str, Callable[[str], Diagnosis]] = {"cuda": doctor_cuda.diagnose}
