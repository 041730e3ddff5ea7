"""autosched: fast schedules for tensor operators, found by search with a learned cost model.

import autosched
task = autosched.Task.from_workload("matmul", M=512, N=512, K=512)
result = autosched.tune(task, trials=64, records="mm.jsonl")
kernel = result.best.build()
kernel(a, b, c)
kernel = autosched.load_best("mm.jsonl")  # later: nothing is measured
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from autosched.ansor_names import OF_ANSOR
from autosched.errors import (
    AutoschedError,
    CompileError,
    ConfigError,
    MeasureError,
    ScheduleError,
)
from autosched.words import missing

if TYPE_CHECKING:
    from autosched import records as records
    from autosched import te as te
    from autosched.report.write import write_report as write_report
    from autosched.runtime.memory import empty as empty
    from autosched.session.api import tune as tune
    from autosched.session.kernel import kernel as kernel
    from autosched.session.load_best import load_best as load_best
    from autosched.session.settings import TuneSettings as TuneSettings
    from autosched.target import Target as Target
    from autosched.task import Task as Task
    from autosched.user_file import trusting as trusting
    from autosched.workloads.winograd import winograd_weights as winograd_weights

# Compilers walk expressions recursively, with up to five calls per level. This limit is enough for
# the deepest expression that te.compute accepts (MAX_NESTING in te/operations/compute.py).
sys.setrecursionlimit(max(sys.getrecursionlimit(), 8000))

__version__ = "0.1.0"
__all__ = [
    "AutoschedError",
    "CompileError",
    "ConfigError",
    "MeasureError",
    "ScheduleError",
    "Target",
    "Task",
    "TuneSettings",
    "empty",
    "kernel",
    "load_best",
    "records",
    "te",
    "trusting",
    "tune",
    "winograd_weights",
    "write_report",
]

_LAZY = {
    "Target": "autosched.target",
    "Task": "autosched.task",
    "TuneSettings": "autosched.session.settings",
    "empty": "autosched.runtime.memory",
    "kernel": "autosched.session.kernel",
    "load_best": "autosched.session.load_best",
    "trusting": "autosched.user_file",
    "tune": "autosched.session.api",
    "winograd_weights": "autosched.workloads.winograd",
    "write_report": "autosched.report.write",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, because a worker process needs none of them."""
    if name in ("records", "te", "torch"):
        return importlib.import_module(f"autosched.{name}")
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise missing("module 'autosched'", name, OF_ANSOR)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
