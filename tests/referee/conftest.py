"""Golden CUDA candidates for the referee."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from autosched.state.steps import Step
from autosched.task import Task
from kit.golden_lines import candidate_of, golden_candidates

Candidate = Callable[[str, int], tuple[Task, tuple[Step, ...]]]


@cache
def _lines() -> tuple[dict[str, Any], ...]:
    names = ("ansor_v06.jsonl.gz", "ansor_v06_batch.jsonl.gz")
    return tuple(golden_candidates(*names, target="cuda"))


def candidate(workload: str, number: int) -> tuple[Task, tuple[Step, ...]]:
    """The task and steps of one of a workload's golden candidates."""
    line = [x for x in _lines() if x["workload"] == workload][number]
    return candidate_of(line)


@pytest.fixture
def golden() -> Candidate:
    return candidate
