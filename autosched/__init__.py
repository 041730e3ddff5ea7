"""autosched: fast schedules for tensor operators, found by search with a learned cost model.

import autosched
task = autosched.Task.from_workload("matmul", M=512, N=512, K=512)
result = autosched.tune(task, trials=64, records="mm.jsonl")
kernel = result.best.build()
kernel(a, b, c)
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autosched.cli.api import tune as tune
    from autosched.task import Task as Task

__version__ = "0.1.0"
__all__ = ["Task", "tune"]

_LAZY = {"Task": "autosched.task", "tune": "autosched.cli.api"}


def __getattr__(name: str) -> Any:
    """Import the public names when they are first used: a worker process needs none of them."""
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'autosched' has no attribute {name!r}")


def _check_companions() -> None:
    """Refuse to run with a `features`, `measure` or `search` that is somebody else's."""
    home = Path(__file__).resolve().parent.parent
    for name in ("features", "measure", "search"):
        spec = importlib.util.find_spec(name)
        found = None if spec is None or spec.origin is None else Path(spec.origin).resolve()
        if found != home / name / "__init__.py":
            raise ImportError(
                f"autosched needs its own package {name!r} beside it in {home}, but Python finds "
                f"{found or 'none'}; rename that file or folder, or run from another folder"
            )


_check_companions()
