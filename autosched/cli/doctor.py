"""`autosched doctor`: a diagnosis of this machine for a target, one line for each part."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from dataclasses import replace

from autosched.cli import doctor_software
from autosched.cli.console import out, plain, print_json, wrapped
from autosched.cli.diagnosis import Diagnosis, Finding, Level
from autosched.errors import ConfigError

EXIT_BROKEN = 1
_NARROW = 60  # columns; below that, parts get lines of their own


def run(target: str, arch: str, *, as_json: bool = False) -> None:
    """Print the diagnosis for `target`. Exits with 1 if something must be repaired."""
    if target not in TARGETS:
        raise ConfigError(f"--target {target!r}: expected {' or '.join(TARGETS)}")
    found = _diagnosis(target, arch)
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


def _diagnosis(target: str, arch: str) -> Diagnosis:
    """The complete diagnosis, or only that of the packages if a required one is broken."""
    software = doctor_software.findings()
    broken = [finding.part for finding in software if finding.level is Level.BROKEN]
    if set(broken) - set(doctor_software.OPTIONAL):
        return Diagnosis(
            tuple(software), f"cannot do anything: {' and '.join(broken)} broken", True
        )
    module = importlib.import_module(TARGETS[target])  # loads packages found above
    found: Diagnosis = module.diagnose(arch)
    return replace(
        found, findings=(*software, *found.findings), failed=found.failed or bool(broken)
    )


def _show(found: Diagnosis) -> None:
    for line in lines_of(found.findings, out.width):
        plain(line)
    for line in wrapped(found.verdict, out.width):
        plain(line)
    if found.commands:
        plain("\nBuild PyCUDA like this (GCC is needed):")
        for line in found.commands:
            plain(line)


def lines_of(findings: Iterable[Finding], width: int) -> list[str]:
    """The findings as lines of at most `width` columns; file names are not broken."""
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


TARGETS = {"cpu": "autosched.cli.doctor_cpu", "cuda": "autosched.cli.doctor_cuda"}
