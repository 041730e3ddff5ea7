"""Sketches in blocks and with packed operands: where they appear, what they look like."""

import numpy as np
import pytest

from autosched.search.options import SearchOptions
from autosched.search.rules import blocking
from autosched.search.rules.protocol import Context
from autosched.search.space import SearchSpace
from autosched.state.state import State
from autosched.state.steps import CacheReadStep, CacheWriteStep, steps_from_json, steps_to_json
from autosched.task import Task
from kit.sketches import assert_right

MATMUL = "C[i, j] = sum(k, A[i, k] * B[k, j])"


def task_of(expr: str, rows: int = 128) -> Task:
    return Task.from_expression(expr, {"A": [rows, 128], "B": [128, 128]})


def added(task: Task, gpu: bool = False) -> list[State]:
    """The sketches that Ansor's space has not, without those of test_transposing.py."""
    spaces = [
        SearchSpace.of(Context(task.dag, task.target.hardware, gpu, SearchOptions(space=space)))
        for space in ("ansor", "autosched")
    ]
    ansor = {state.to_str() for state in spaces[0].sketches}
    new = [state for state in spaces[1].sketches if state.to_str() not in ansor]
    assert len(new) == len(spaces[1].sketches) - len(spaces[0].sketches)
    return [s for s in new if not any(isinstance(step, CacheWriteStep) for step in s.steps)]


def packs(state: State) -> bool:
    return any(isinstance(step, CacheReadStep) for step in state.steps)


def test_blocks_and_panels() -> None:
    blocked, packed = added(task_of(MATMUL))
    assert (
        packed.to_str()
        == """\
Placeholder: A, B
for i.0 (None)
  for j.0 (None)
    for k.0 (None)
      for j.1.0 (None)
        for ax0 (None)
          for ax1 (None)
            B.global = ...
        for i.1.0 (None)
          for j.1.1 (None)
            for k.1 (None)
              for i.1.1 (None)
                for j.1.2 (None)
                  C = ...
"""
    )
    without = packed.to_str().replace("        for ax0 (None)\n          for ax1 (None)\n", "")
    assert blocked.to_str() == without.replace("            B.global = ...\n", "")


def test_register_tiles_lie_across_the_axes_of_what_vectors_are_loaded_from() -> None:
    shapes = {"W": [64, 32], "X": [32, 20, 24]}
    task = Task.from_expression("Y[c, h, w] = sum(r, W[c, r] * X[r, h, w])", shapes)
    (blocked, packed) = added(task)
    for state in (blocked, packed):
        loops = [it.name for it in state.stages[-1].iters]
        assert loops[:6] == ["c.0", "h.0", "w.0", "r.0", "h.1.0", "w.1.0"]
        assert loops[6:] == ["c.1.0", "h.1.1", "w.1.1", "r.1", "c.1.1", "h.1.2", "w.1.2"]
    assert "X.global" in {stage.name for stage in packed.stages}


def test_inside_the_blocks_of_an_elementwise_consumer() -> None:
    packed = added(task_of(f"{MATMUL}\nD[i, j] = max(C[i, j], 0)"))[-1]
    loops = [line.split()[1] for line in packed.to_str().splitlines() if "for" in line]
    assert loops[:2] == ["i.0", "j.0"] and loops[-2:] == ["i.1", "j.1"]
    assert packs(packed)


@pytest.mark.parametrize(
    ("expr", "rows", "names"),
    [
        (MATMUL, 128, "B.global"),
        ("C[i, j] = sum(k, B[i, k] * A[k, j])", 128, "A.global"),
        ("C[i, j] = sum(k, A[i, k] * B[j, k])", 128, ""),  # no neighbours along j
        (MATMUL, 4, ""),  # read four times
    ],
)
def test_what_is_packed(expr: str, rows: int, names: str) -> None:
    found = [state for state in added(task_of(expr, rows)) if packs(state)]
    stages = {stage.name for state in found for stage in state.stages}
    assert {name for name in stages if "global" in name} == ({names} if names else set())


def test_what_is_read_in_two_roles_is_not_packed() -> None:
    task = task_of("C[i, j] = sum(k, A[k, i] * A[k, j] * B[i, j])", 128)
    assert not any(map(packs, SearchSpace(task).sketches))


ACROSS = "C[i, j] = sum(k, A[k, i] * B[k, j])"


def test_rows_that_are_read_across_are_copied_for_all_panels() -> None:
    _, packed, both = added(Task.from_expression(ACROSS, {"A": [128, 256], "B": [128, 128]}))
    copy = "      for ax0 (None)\n        for ax1 (None)\n          A.global = ...\n"
    panels = "      for j.1.0 (None)\n"
    assert both.to_str() == packed.to_str().replace(panels, copy + panels)


@pytest.mark.parametrize(
    ("expr", "rows", "count"),
    [
        (ACROSS, 256, 1),
        ("C[i, j] = sum(k, B[k, j] * A[k, i])", 256, 1),
        (ACROSS, 255, 0),  # they lie near one another
        ("C[i, j] = sum(k, A[k, i] * A[k, i] * B[k, j])", 256, 0),  # in two roles
    ],
)
def test_which_rows_are_copied(expr: str, rows: int, count: int) -> None:
    task = Task.from_expression(expr, {"A": [128, rows], "B": [128, 128]})
    names = [{stage.name for stage in state.stages} for state in added(task)]
    assert sum({"A.global", "B.global"} <= found for found in names) == count


@pytest.mark.parametrize(
    ("expr", "shapes"),
    [
        (f"{ACROSS}; D[i, j] = max(C[i, j] + s[j], 0)", {"s": [90]}),
        ("R[k, j] = B[k, j] * s[j]; C[i, j] = sum(k, A[k, i] * R[k, j])", {"s": [90]}),
        (
            "R[k, j] = B[k, j] * s[j]; T[k, i] = A[k, i] - t[k]; "
            "C[i, j] = sum(k, T[k, i] * R[k, j])",
            {"s": [90], "t": [100]},
        ),
    ],
)
def test_what_goes_element_by_element_is_computed_into_the_copy(
    expr: str, shapes: dict[str, list[int]]
) -> None:
    task = Task.from_expression(expr, {"A": [100, 260], "B": [100, 90], **shapes})
    copying = [state for state in SearchSpace(task).sketches if packs(state)]
    assert len(copying) == 2
    for state in copying:
        names = {stage.name for stage in state.stages}
        computed = [s for s in state.stages if s.name in "RT" and f"{s.name}.global" in names]
        assert all(stage.is_inlined for stage in computed)
    assert_right(task, copying, 3)


def test_small_operands_are_not_packed() -> None:
    small = Task.from_workload("matmul", M=128, N=64, K=64)
    assert not any(map(packs, added(small)))
    assert small.dag.ops and blocking.LEAST_BYTES >= 64 * 64 * 4


def test_a_gpu_has_neither() -> None:
    assert added(task_of(MATMUL), gpu=True) == []


def test_steps_are_ansors_and_come_back_from_records() -> None:
    task = task_of(MATMUL)
    space = SearchSpace(task)
    sketch = added(task)[-1]
    (steps, *_) = space.sample(np.random.default_rng(0), 1, sketch=sketch)
    assert steps_from_json(steps_to_json(steps)) == steps
    assert {s.code for s in steps} <= {"CHR", "SP", "RE", "CA", "FU", "AN", "PR"}
    assert task.dag.infer_bound_of(steps).stages[2].name == "B.global"
