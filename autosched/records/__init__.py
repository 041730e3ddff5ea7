"""Functions on record files: merge, trim, convert, top, best, diff, race, to_pandas.

autosched.records.merge(["monday.jsonl", "tuesday.jsonl"], "week.jsonl")
autosched.records.trim("week.jsonl", "small.jsonl", best=10)
for found in autosched.records.best("week.jsonl"):
    print(found.name, found.seconds)

All of them read files as streams. Skipped lines are reported by Python warnings.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from autosched.records.convert import convert
from autosched.records.diff import Difference, Differences, diff
from autosched.records.merge import merge
from autosched.records.to_pandas import to_pandas
from autosched.records.top import Found, best, top
from autosched.records.trim import trim
from autosched.records.writing import Written

if TYPE_CHECKING:
    from autosched.records.raced import Raced, race

__all__ = [
    "Difference",
    "Differences",
    "Found",
    "Raced",
    "Written",
    "best",
    "convert",
    "diff",
    "merge",
    "race",
    "to_pandas",
    "top",
    "trim",
]


def __getattr__(name: str) -> Any:
    """Import `race` at its first use: it measures, and others should read files within a second."""
    if name in ("Raced", "race"):
        return getattr(importlib.import_module("autosched.records.raced"), name)
    raise AttributeError(f"module 'autosched.records' has no attribute {name!r}")
