"""The findings of `autosched doctor` about required packages, before it loads them itself.

This file and the files that it imports need none of them.
"""

from __future__ import annotations

import platform

from autosched import __version__
from autosched.cli import doctor_process
from autosched.cli.diagnosis import Finding, Level
from autosched.errors import MeasureError
from autosched.needed import mended
from autosched.process.worker import Worker
from autosched.words import last_line

FACTORY = "autosched.cli.doctor_process:make_handler"  # handler of what may crash
SECONDS = 60.0  # to wait for an answer
OPTIONAL = ("xgboost",)  # the other parts can be tried without these


def findings() -> list[Finding]:
    """A line of versions, and a finding for each package that cannot be imported."""
    try:
        process = new_process()
    except (MeasureError, OSError) as error:
        why = f"not known: no process starts ({last_line(str(error))})"
        return [Finding(Level.SKIPPED, "versions", why)]
    try:
        return _packages(process)
    finally:
        process.stop()


def new_process() -> Worker:
    """Start a process for trying things. Raises MeasureError or OSError."""
    process = Worker(FACTORY)
    try:
        process.call(("ready",), SECONDS, "start")
    except MeasureError:
        process.stop()
        raise
    return process


def _packages(process: Worker) -> list[Finding]:
    versions: list[str] = []
    broken: list[Finding] = []
    for name in doctor_process.packages():
        try:
            versions.append(f"{name} {process.call(('package', name), SECONDS, 'import')}")
        except MeasureError as error:
            text = f"cannot be imported: {last_line(str(error))}"
            remedy = f"pip install --force-reinstall {name}"
            if name == "xgboost":
                remedy = "pip uninstall xgboost xgboost-cpu, then pip install xgboost-cpu"
            broken.append(Finding(Level.BROKEN, name, text, mended(remedy)))
    own = f"autosched {__version__}, Python {platform.python_version()}"
    system = f"{platform.system()} {platform.release()}"
    return [Finding(Level.OK, "versions", ", ".join([own, *versions, system])), *broken]
