"""The sketches of every golden task, in Ansor's order, and user-defined rules."""

from __future__ import annotations

from typing import Any

import pytest

from autosched import te, workloads
from autosched.errors import ScheduleError
from autosched.search.options import SearchOptions
from autosched.search.rules.protocol import Context, Decision, FunctionRule
from autosched.search.sketch import generate_sketches
from autosched.state.dag import ComputeDAG
from autosched.target import HardwareParams
from kit.golden_lines import golden_lines

CASES = [line for line in golden_lines() if "sketch_states" in line]


def name_of(case: dict[str, Any]) -> str:
    return f"{case['workload']}-{case['target']}-{sum(v for v in case['args'].values())}"


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_sketches_are_ansors(case: dict[str, Any]) -> None:
    dag = ComputeDAG(workloads.get(case["workload"]).tensors(**case["args"]))
    hardware = HardwareParams.from_list(case["hardware"])
    options = SearchOptions(space="ansor")
    found = generate_sketches(Context(dag, hardware, case["target"] == "cuda", options))
    assert [state.to_str() for state in found] == case["sketch_states"]


def matmul() -> Context:
    dag = ComputeDAG(workloads.get("matmul").tensors(M=16, N=16, K=16))
    return Context(dag, HardwareParams(8), False, SearchOptions())


@pytest.mark.parametrize("is_gpu", [False, True], ids=["cpu", "gpu"])
def test_a_read_outside_of_a_tensor_is_said(is_gpu: bool) -> None:
    """Every rule with a schedule of its own would be passed over."""
    a, b = (te.placeholder((16, 16), name=name) for name in "ab")
    k = te.reduce_axis((0, 16), name="k")
    c = te.compute((16, 16), lambda i, j: te.sum(a[i + 4, k] * b[k, j], axis=k), name="c")
    context = Context(ComputeDAG([a, b, c]), HardwareParams(8), is_gpu, SearchOptions())
    with pytest.raises(ScheduleError, match=r"c reads a at i \+ 4, elements 4\.\.19"):
        generate_sketches(context)


def test_a_custom_rule_comes_first_and_may_replace_the_rest() -> None:
    def plain(context: Any, state: Any, stage_id: int) -> Decision:
        mine = state.stages[stage_id].name == "C"
        return Decision.APPLY_AND_SKIP_REST if mine else Decision.SKIP

    def untiled(context: Any, state: Any, stage_id: int) -> list[Any]:
        return [(state.parallel(stage_id, state.stages[stage_id].iters[0])[0], stage_id - 1)]

    rule = FunctionRule("Untiled", plain, untiled)
    (sketch,) = generate_sketches(matmul(), [rule])
    assert sketch.to_str().splitlines()[1:] == [
        "parallel i (0,16)",
        "  for j (0,16)",
        "    for k (0,16)",
        "      C = ...",
    ]


def test_a_custom_rule_may_add_to_the_built_in_ones() -> None:
    rule = FunctionRule(
        "Also",
        lambda c, s, i: Decision.SKIP if s.stages[i].is_placeholder else Decision.APPLY,
        lambda c, s, i: [(s, i - 1)],
    )
    built_in = len(generate_sketches(matmul()))
    with_custom = generate_sketches(matmul(), [rule])
    assert len(with_custom) > built_in
    assert any(not state.steps for state in with_custom)
