"""The checks of `autosched doctor` for a CPU: the machine, then every stage of a run."""

from __future__ import annotations

import contextlib

from autosched.cli import doctor_machine, doctor_software, doctor_stages
from autosched.cli.diagnosis import Diagnosis, Finding, Level
from autosched.errors import MeasureError
from autosched.target import cpu_target


def diagnose(_: str) -> Diagnosis:
    """The findings about hardware, steadiness of times, and the stages, in this order."""
    target = cpu_target()
    machine = doctor_machine.hardware(target)
    with contextlib.suppress(MeasureError, OSError):  # the stage worker reports it
        process = doctor_software.new_process()
        try:
            machine += doctor_machine.steadiness(process)
        finally:
            process.stop()
    return _of(machine, doctor_stages.tried(target))


def _of(machine: list[Finding], stages: list[Finding]) -> Diagnosis:
    """Combine the findings with a verdict."""
    broken = [finding.part for finding in stages if finding.level is Level.BROKEN]
    noted = [finding.part for finding in machine if finding.level is Level.NOTE]
    failed = any(finding.level is Level.BROKEN for finding in (*machine, *stages))
    if broken:
        verdict = f"cannot tune: {' and '.join(broken)} broken"
    elif noted:
        verdict = f"can tune; look at {' and '.join(noted)}"
    else:
        verdict = "can tune"
    return Diagnosis((*machine, *stages), verdict, failed)
