"""The two worked schedules of seed 002 lower to the nests, regions and indices it prints.

C[32,1000] = A[32,2048] * B[2048,1000] on CUDA. The expected loops, realize regions and indices
are the seed's own (its p0, p1 and T.matmul.nn are A, B and C here, i0 and i1 are i and j).
"""

from typing import Any

import pytest

from autosched import workloads
from autosched.driver import lower_for_features
from autosched.state.dag import ComputeDAG
from autosched.state.steps import steps_from_json
from autosched.target import HardwareParams, Target
from autosched.tir.expr import IterVar
from autosched.tir.function import PrimFunc
from autosched.tir.printer import to_text
from autosched.tir.stmt import AttrStmt, BufferRealize, BufferStore, For
from autosched.tir.walk import stmts
from kit.golden import Golden
from kit.golden_lines import golden_lines
from kit.tir import value_of

FIRST = {
    "threads": [("blockIdx.x", 16), ("vthread", 5), ("threadIdx.x", 100)],
    "loops": [4, 64, 3, 80, 32, 4, 4],
    "stores": [
        (
            "C.local",
            "blockIdx.x // 4 * 8 + threadIdx.x // 50 * 4 + i.c.outer.inner.init",
            "blockIdx.x % 4 * 250 + vthread * 50 + threadIdx.x % 50",
        ),
        (
            "A.shared",
            "blockIdx.x // 4 * 8 + (ax0.ax1.fused.outer.outer * 100 + threadIdx.x) // 32",
            "k.outer.outer * 32 + (ax0.ax1.fused.outer.outer * 4 + threadIdx.x) % 32",
        ),
        (
            "B.shared",
            "k.outer.outer * 32 + (ax0.ax1.fused.outer.outer * 100 + threadIdx.x) // 250",
            "blockIdx.x % 4 * 250 + (ax0.ax1.fused.outer.outer * 100 + threadIdx.x) % 250",
        ),
        (
            "C.local",
            "blockIdx.x // 4 * 8 + threadIdx.x // 50 * 4 + i.c.outer.inner",
            "blockIdx.x % 4 * 250 + vthread * 50 + threadIdx.x % 50",
        ),
        (
            "C",
            "blockIdx.x // 4 * 8 + threadIdx.x // 50 * 4 + i.inner",
            "blockIdx.x % 4 * 250 + vthread * 50 + threadIdx.x % 50",
        ),
    ],
    "realized": {"A.shared": (8, 32), "B.shared": (32, 250), "C.local": (4, 1), "C": (32, 1000)},
}
SECOND = {
    "threads": [("blockIdx.x", 2), ("vthread", 8), ("threadIdx.x", 100)],
    "loops": [5, 4, 128, 6, 80, 4, 5, 4, 4, 4, 5],
    "stores": [
        (
            "C.local",
            "vthread // 2 * 8 + threadIdx.x // 50 * 4 + i.c.inner.init",
            "blockIdx.x * 500 + vthread % 2 * 250 + threadIdx.x % 50 * 5 + j.c.outer.inner.init",
        ),
        (
            "A.shared",
            "(ax0.ax1.fused.outer.outer * 100 + threadIdx.x) // 16",
            "k.outer.outer * 16 + (ax0.ax1.fused.outer.outer * 4 + threadIdx.x) % 16",
        ),
        (
            "B.shared",
            "k.outer.outer * 16 + ax0.ax1.fused.outer.outer // 5",
            "blockIdx.x * 500 + ax0.ax1.fused.outer.outer % 5 * 100 + threadIdx.x",
        ),
        (
            "C.local",
            "vthread // 2 * 8 + threadIdx.x // 50 * 4 + i.c.inner",
            "blockIdx.x * 500 + vthread % 2 * 250 + threadIdx.x % 50 * 5 + j.c.outer.inner",
        ),
        (
            "C",
            "vthread // 2 * 8 + threadIdx.x // 50 * 4 + i.inner",
            "blockIdx.x * 500 + vthread % 2 * 250 + threadIdx.x % 50 * 5 + j.inner",
        ),
    ],
    "realized": {"A.shared": (32, 16), "B.shared": (16, 500), "C.local": (4, 5), "C": (32, 1000)},
}


@pytest.fixture(scope="module", params=["seed-first", "seed-second"])
def case(request: pytest.FixtureRequest) -> tuple[str, PrimFunc, dict[str, Any]]:
    line = next(d for d in golden_lines("seed_matmul.jsonl.gz") if d.get("case") == request.param)
    dag = ComputeDAG(workloads.get(line["workload"]).tensors(**line["args"]))
    target = Target("cuda", HardwareParams.from_list(line["hardware"]))
    func = lower_for_features(dag, steps_from_json(line["steps"]), target)
    return request.param, func, FIRST if request.param == "seed-first" else SECOND


def test_the_whole_text(case: tuple[str, PrimFunc, dict[str, Any]], golden: Golden) -> None:
    name, func, _ = case
    golden.check(f"{name.replace('-', '_')}.tir", to_text(func))


def test_launch_and_loops(case: tuple[str, PrimFunc, dict[str, Any]]) -> None:
    _, func, expected = case
    nodes = list(stmts(func.body))
    threads = [
        (s.node.var.name, value_of(s.value))
        for s in nodes
        if isinstance(s, AttrStmt) and isinstance(s.node, IterVar) and "pragma" not in s.key
    ]
    assert threads[:3] == expected["threads"]
    # the two cooperative fetches share the hundred threads of the block
    assert threads[3:] == [("threadIdx.x", 100)] * 2
    assert [value_of(s.extent) for s in nodes if isinstance(s, For)] == expected["loops"]


def test_indices_of_the_stores(case: tuple[str, PrimFunc, dict[str, Any]]) -> None:
    _, func, expected = case
    found = [
        (s.buffer.name, *map(to_text, s.indices))
        for s in stmts(func.body)
        if isinstance(s, BufferStore)
    ]
    assert found == expected["stores"]


def test_realized_regions(case: tuple[str, PrimFunc, dict[str, Any]]) -> None:
    _, func, expected = case
    found = {
        s.buffer.name: tuple(value_of(r.extent) for r in s.bounds)
        for s in stmts(func.body)
        if isinstance(s, BufferRealize)
    }
    assert found == expected["realized"]
