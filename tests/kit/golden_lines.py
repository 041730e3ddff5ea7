"""The golden files of candidates: a JSON line for each, with what Ansor makes of it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autosched.state.steps import Step, steps_from_json
from autosched.target import HardwareParams, Target
from autosched.task import Task
from kit.golden import FOLDER

FILES = ("ansor_v06.jsonl.gz", "ansor_v06_batch.jsonl.gz", "seed_matmul.jsonl.gz")


def golden_lines(*names: str | Path) -> Iterator[dict[str, Any]]:
    """The lines of the golden files `names`, or of all FILES."""
    for name in names or FILES:
        with gzip.open(FOLDER / name, "rt") as file:
            yield from map(json.loads, file)


def golden_candidates(*names: str | Path, target: str = "") -> Iterator[dict[str, Any]]:
    """The lines with the steps of a candidate, if `target` is given only those for cpu or cuda."""
    for line in golden_lines(*names):
        if "steps" in line and target in ("", line["target"]):
            yield line


def candidate_of(line: dict[str, Any], **types: str) -> tuple[Task, tuple[Step, ...]]:
    """The task and the steps of a line; `types` replace types of the workload."""
    target = Target(line["target"], HardwareParams.from_list(line["hardware"]))
    task = Task.from_workload(line["workload"], target=target, **{**line["args"], **types})
    return task, tuple(steps_from_json(line["steps"]))
