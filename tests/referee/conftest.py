"""Golden CUDA candidates for the referee."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from autosched.state.steps import Step, steps_from_json
from autosched.target import HardwareParams, Target
from autosched.task import Task

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
Candidate = Callable[[str, int], tuple[Task, tuple[Step, ...]]]


@cache
def _lines() -> tuple[dict[str, Any], ...]:
    found = []
    for name in ("ansor_v06.jsonl.gz", "ansor_v06_batch.jsonl.gz"):
        with gzip.open(GOLDEN / name, "rt") as file:
            found += [json.loads(line) for line in file]
    return tuple(x for x in found if x["target"] == "cuda" and "steps" in x)


def candidate(workload: str, number: int) -> tuple[Task, tuple[Step, ...]]:
    """The task and steps of one of a workload's golden candidates."""
    line = [x for x in _lines() if x["workload"] == workload][number]
    target = Target("cuda", HardwareParams.from_list(line["hardware"]))
    task = Task.from_workload(workload, target=target, **line["args"])
    return task, tuple(steps_from_json(line["steps"]))


@pytest.fixture
def golden() -> Candidate:
    return candidate
