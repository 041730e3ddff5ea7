"""Loop states, DAG texts and flop counts against Ansor's own, for every golden line."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from autosched import workloads
from autosched.state.dag import ComputeDAG
from autosched.state.steps import steps_from_json, steps_to_json
from kit.golden_lines import golden_lines


@cache
def lines() -> list[dict[str, Any]]:
    return list(golden_lines())


@cache
def dag_of(name: str, args: tuple[tuple[str, int], ...]) -> ComputeDAG:
    return ComputeDAG(workloads.get(name).tensors(**dict(args)))


def golden_dag(line: dict[str, Any]) -> ComputeDAG:
    return dag_of(line["workload"], tuple(line["args"].items()))


def cases() -> list[tuple[str, str]]:
    found = {(line["workload"], line["target"]) for line in lines() if "workload" in line}
    return sorted(found)


@pytest.mark.parametrize(("workload", "target"), cases())
def test_bound_states(workload: str, target: str) -> None:
    checked = 0
    for line in lines():
        if (line.get("workload"), line.get("target")) != (workload, target):
            continue
        if "bound_state" not in line:
            continue
        steps = steps_from_json(line["steps"])
        assert steps_to_json(steps) == line["steps"]
        assert golden_dag(line).infer_bound_of(steps).to_str() == line["bound_state"]
        checked += 1
    assert checked


def test_dag_texts() -> None:
    found = [(golden_dag(line).print_dag(), line["dag"]) for line in lines() if "dag" in line]
    assert found
    for text, expected in found:
        assert text == expected


def test_flop_counts() -> None:
    found = [(golden_dag(n).flop_count, n["flop_count"]) for n in lines() if "flop_count" in n]
    assert found
    for count, expected in found:
        assert count == expected
