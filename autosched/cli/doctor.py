"""`autosched doctor`: what this machine can do for a target, a line for each part."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

from autosched.cli import doctor_cpu, doctor_cuda
from autosched.cli.console import out, plain, print_json, wrapped
from autosched.cli.diagnosis import Diagnosis, Finding
from autosched.errors import ConfigError

EXIT_BROKEN = 1
_NARROW = 60  # columns, below which a part has lines of its own


def run(target: str, arch: str, *, as_json: bool = False) -> None:
    """Print the diagnosis for `target`. Exits with 1 when something must be repaired."""
    diagnose = TARGETS.get(target)
    if diagnose is None:
        raise ConfigError(f"--target {target!r}: expected {' or '.join(TARGETS)}")
    found = diagnose(arch)
    if as_json:
        print_json(
            {
                "target": target,
                "ok": not found.failed,
                "verdict": found.verdict,
                "findings": [finding.to_json() for finding in found.findings],
                "commands": list(found.commands),
            }
        )
    else:
        _show(found)
    if found.failed:
        sys.exit(EXIT_BROKEN)


def _show(found: Diagnosis) -> None:
    for line in lines_of(found.findings, out.width):
        plain(line)
    for line in wrapped(found.verdict, out.width):
        plain(line)
    if found.commands:
        plain("\nPyCUDA is built so (GCC is needed):")
        for line in found.commands:
            plain(line)


def lines_of(findings: Iterable[Finding], width: int) -> list[str]:
    """The findings as text of at most `width` columns; file names are not broken."""
    lines: list[str] = []
    for finding in findings:
        text = f"{finding.text}; {finding.remedy}" if finding.remedy else finding.text
        head = f"{finding.level.value:8}{finding.part:15}"
        if width < _NARROW:
            lines += [head.rstrip(), *wrapped(text, width, "    ")]
            continue
        first, *others = wrapped(text, width, " " * len(head))
        lines += [head + first.strip(), *others]
    return lines


TARGETS: dict[str, Callable[[str], Diagnosis]] = {
    "cpu": doctor_cpu.diagnose,
    "cuda": doctor_cuda.diagnose,
}
