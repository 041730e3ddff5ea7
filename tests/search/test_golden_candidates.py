"""Every candidate that Ansor wrote down begins with one of our sketches, tile sizes aside."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from autosched.measure import ansor_log
from autosched.search.options import SearchOptions
from autosched.search.rules.protocol import Context
from autosched.search.sketch import generate_sketches
from autosched.state.steps import SplitStep, Step, steps_from_json, steps_to_json
from autosched.target import HardwareParams
from autosched.task import Task
from kit.golden_lines import golden_candidates

GOLDEN = Path(__file__).parent.parent / "golden"
STATES = {"ansor_v06.jsonl.gz": 392, "ansor_v06_batch.jsonl.gz": 285, "seed_matmul.jsonl.gz": 2}
LOGS = ("ansor_log_matmul.json", "ansor_log_conv2d.json")


def plain(step: Step) -> list[Any]:
    """The step without the lengths of its pieces."""
    if not isinstance(step, SplitStep):
        (written,) = steps_to_json([step])
        return list(written)
    where = [step.stage_id, step.iter_id, step.extent, step.inner_to_outer]
    return ["SP", *where, len(step.lengths)]


@cache
def sketches(workload: str, kind: str, hardware: str) -> list[list[list[Any]]]:
    data = json.loads(workload)
    task = Task.from_workload(data["op"], **data["args"], target=kind)
    parameters = HardwareParams.from_list(json.loads(hardware))
    options = SearchOptions(space="ansor")
    found = generate_sketches(Context(task.dag, parameters, kind == "cuda", options))
    return [list(map(plain, state.steps)) for state in found]


def begins_with_a_sketch(
    workload: dict[str, Any], kind: str, hardware: list[int], steps: tuple[Step, ...]
) -> bool:
    known = sketches(json.dumps(workload), kind, json.dumps(hardware))
    written = list(map(plain, steps))
    return any(written[: len(sketch)] == sketch for sketch in known)


@pytest.mark.parametrize("name", STATES)
def test_golden_states(name: str) -> None:
    checked = 0
    for line in golden_candidates(name):
        workload = {"op": line["workload"], "args": line["args"]}
        steps = steps_from_json(line["steps"])
        assert begins_with_a_sketch(workload, line["target"], line["hardware"], steps), line
        checked += 1
    assert checked == STATES[name]


@pytest.mark.parametrize("name", LOGS)
def test_logs_of_whole_runs(name: str) -> None:
    lines = (GOLDEN / name).read_text().splitlines()
    assert len(lines) == 64
    for text in lines:
        data = json.loads(text)
        task, steps, _, _ = ansor_log.parse(data)
        hardware = data["i"][0][2]
        assert begins_with_a_sketch(task["workload"], task["target"]["kind"], hardware, steps)
