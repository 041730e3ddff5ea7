"""The accumulators of every reduction are registers in the optimised code.

Random candidates of all built-in workloads, in sizes whose staged inputs fill the stack, and the
candidates of Ansor's own tuning logs.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.codegen import llvm, llvm_parallel, llvm_storage
from autosched.codegen.llvm_builder import FunctionBuilder
from autosched.codegen.llvm_compile import optimized
from autosched.driver import lower_steps
from autosched.measure.records import read_log
from autosched.search.options import SearchOptions, SpaceName
from autosched.search.space import SearchSpace
from autosched.state.steps import Step, steps_to_json
from autosched.target import cpu_target
from autosched.task import Task
from autosched.tir.stmt import Allocate, Stmt
from autosched.tir.walk import stmts
from autosched.workloads import WORKLOADS

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
TARGET = cpu_target(threads=2)
CANDIDATES = 2
IMAGE = {"N": 1, "H": 14, "W": 14, "stride": 1, "padding": 1}
ARGS: dict[str, dict[str, Any]] = {
    "matmul": {"M": 500, "N": 512, "K": 333},
    "batch_matmul": {"B": 4, "M": 64, "N": 96, "K": 64},
    "dense_bias_relu": {"M": 32, "N": 1000, "K": 256},
    "conv1d_nlc": {"N": 1, "L": 256, "CI": 64, "CO": 128, "K": 3, "stride": 1, "padding": 1},
    "conv2d_nhwc": {**IMAGE, "CI": 256, "CO": 64, "KH": 3, "KW": 3},
    "conv3d_ndhwc": {**IMAGE, "D": 16, "CI": 16, "CO": 32, "K": 3},
    "depthwise_conv2d_nhwc": {**IMAGE, "H": 56, "C": 48, "K": 3},
    "conv2d_transpose_nhwc": {**IMAGE, "CI": 64, "CO": 28, "K": 4, "stride": 2},
    "conv2d_capsule_nhwijc": {**IMAGE, "CI": 16, "CO": 16, "K": 3},
    "norm_bmn": {"B": 4, "M": 64, "N": 130},
    "conv2d_winograd_nhwc": {"N": 1, "H": 14, "W": 14, "CI": 64, "CO": 48},
    "conv2d_nchw_bn_relu": {**IMAGE, "CI": 128, "CO": 56, "K": 3},
    "dense_requantised": {"M": 32, "N": 500, "K": 256},
    "conv2d_nhwc_requantised": {**IMAGE, "CI": 64, "CO": 64, "KH": 3, "KW": 3},
    "softmax": {"M": 64, "N": 500},
    "transpose_batch_matmul_softmax": {"B": 1, "S": 64, "H": 4, "D": 32},
    "max_pool2d_nchw": {**IMAGE, "H": 56, "C": 96, "K": 3, "stride": 2},
    "layer_norm": {"M": 30, "N": 768},
}


@pytest.fixture
def tiles(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Emits code in which pointers to register tiles begin with `%tile`; lists them."""
    original = llvm_storage.prologue
    found: list[str] = []

    def prologue(b: FunctionBuilder, body: Stmt) -> None:
        known = set(b.pointers)
        original(b, body)
        for var in [v for v in b.pointers if v not in known and v.name.endswith(".acc")]:
            old = b.pointers[var]
            new = b.pointers[var] = old.replace("%", "%tile.")
            b.allocas[:] = [line.replace(f"{old} = ", f"{new} = ") for line in b.allocas]
            found.append(old)

    for module in (llvm, llvm_parallel):
        monkeypatch.setattr(module, "prologue", prologue)
    return found


def problem_of(task: Task, steps: tuple[Step, ...], tiles: list[str]) -> str | None:
    """Why accumulators of the candidate are in memory, or None."""
    tiles.clear()
    func = lower_steps(task.dag, steps, TARGET)
    text = llvm.emit_llvm(func, TARGET)
    assert len(tiles) == sum(is_tile(s) for s in stmts(func.body))
    heap = [name for name in tiles if not name.startswith("%stack")]
    if heap:
        return f"{len(heap)} tiles on the heap"
    left = re.findall(r"%tile[\w.]+ = alloca .*", optimized(text, TARGET))
    return f"not promoted: {left}" if left else None


def is_tile(s: Stmt) -> bool:
    return isinstance(s, Allocate) and s.buffer_var.name.endswith(".acc")


def check(task: Task, candidates: Sequence[tuple[Step, ...]], tiles: list[str]) -> int:
    total = 0
    for steps in candidates:
        problem = problem_of(task, steps, tiles)
        assert problem is None, f"{task.name}: {problem}\n{json.dumps(steps_to_json(steps))}"
        total += len(tiles)
    return total


@pytest.mark.parametrize("op", [name for name in WORKLOADS if name != "add_relu"])
def test_accumulators_of_random_candidates_are_registers(op: str, tiles: list[str]) -> None:
    task = Task.from_workload(op, target=TARGET, **ARGS[op])
    rng = np.random.default_rng(len(op))
    # Tensor instructions have accumulators of their own.
    space: SpaceName = "ansor" if "requantised" in op else "autosched"
    found = SearchSpace(task, SearchOptions(space)).sample(rng, CANDIDATES)[:CANDIDATES]
    assert check(task, found, tiles) >= len(found) / 2


@pytest.mark.parametrize("name", ["conv2d", "matmul"])
def test_accumulators_of_ansors_candidates_are_registers(name: str, tiles: list[str]) -> None:
    """In the best convolution they were on the heap: its padded input took all the stack.

    The eight fastest; all 64 take eight times as long.
    """
    records = read_log(GOLDEN / f"ansor_log_{name}.json").records
    assert len(records) == 64
    task = Task.from_json(records[0].task)
    fastest = sorted(records, key=lambda record: record.result.cost)[:8]
    found = [record.steps for record in fastest]
    assert check(task, found, tiles) >= len(found)
