"""Record files as people handle them: merge, trim, convert, top, best, diff, to_pandas.

autosched.records.merge(["monday.jsonl", "tuesday.jsonl"], "week.jsonl")
autosched.records.trim("week.jsonl", "small.jsonl", best=10)
for found in autosched.records.best("week.jsonl"):
    print(found.name, found.seconds)

All of them read files as streams. What is skipped is a Python warning.
"""

from __future__ import annotations

from autosched.records.convert import convert
from autosched.records.diff import Difference, Differences, diff
from autosched.records.merge import merge
from autosched.records.to_pandas import to_pandas
from autosched.records.top import Found, best, top
from autosched.records.trim import trim
from autosched.records.writing import Written

__all__ = [
    "Difference",
    "Differences",
    "Found",
    "Written",
    "best",
    "convert",
    "diff",
    "merge",
    "to_pandas",
    "top",
    "trim",
]
