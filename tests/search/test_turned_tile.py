"""Tiles that are turned in shared memory: where the rule applies, how memory is met, results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched import te
from autosched.driver import lower_steps
from autosched.referee.check import Verdict, check_candidate
from autosched.referee.device_pipeline import device_function
from autosched.search.options import SearchOptions
from autosched.search.rules.turned_tile import turned_read
from autosched.search.space import SearchSpace
from autosched.state.dag import ComputeDAG
from autosched.state.state import State
from autosched.state.steps import StorageAlignStep
from autosched.target import cuda_target
from autosched.task import Task
from autosched.tir import interp
from autosched.tir.interp_watch import Watch

Shapes = dict[str, list[int]]


def task_of(expr: str, shapes: Shapes, dtype: str = "float32") -> Task:
    return Task.from_expression(expr, shapes, dtype=dtype, target=cuda_target())


def turning(task: Task, options: SearchOptions | None = None) -> list[State]:
    sketches = SearchSpace(task, options).sketches
    return [s for s in sketches if any(isinstance(step, StorageAlignStep) for step in s.steps)]


def test_all_threads_fetch_a_tile_along_its_rows() -> None:
    task = task_of("Y[j, i] = A[i, j]", {"A": [100, 200]})
    (sketch,) = turning(task)
    assert (
        sketch.to_str()
        == """\
Placeholder: A
blockIdx.x j.0@i.0@ (0,28)
  A.shared storage_offset: 1
  for ax0 (None)
    for ax1 (None)
      A.shared = ...
  for j.1.0 (0,4)
    threadIdx.x j.1.1@i.1@ (0,256)
      Y = ...
"""
    )
    assert len(SearchSpace(task).sketches) == 2
    assert turning(task, SearchOptions(space="ansor")) == []


@pytest.mark.parametrize(
    ("expr", "shapes", "fetched"),
    [
        ("Y[h, w, c] = X[c, h, w]", {"X": [16, 9, 20]}, "X"),
        ("R[i, j] = max(A[i, j], 0); Y[j, i] = R[i, j]; Z[j, i] = Y[j, i] * 2", {"A": [9, 8]}, "R"),
        ("Y[j, i] = A[i, j] + B[j, i]", {"A": [9, 9], "B": [9, 9]}, "A"),
        ("Y[i, j] = A[i, j]", {"A": [64, 64]}, ""),  # in the order of memory
        ("Y[j, i] = A[i, j]", {"A": [64, 7]}, ""),  # short rows
        ("Y[j, i] = A[i, j]", {"A": [7, 64]}, ""),
        ("Y[j, i] = A[i, j] + A[j, i]", {"A": [9, 9]}, ""),  # read twice
        ("Y[j, i] = A[i, 2 * j]", {"A": [64, 64]}, ""),
        ("Y[j] = sum(i, A[i, j])", {"A": [64, 64]}, ""),
    ],
)
def test_what_is_fetched(expr: str, shapes: Shapes, fetched: str) -> None:
    stages = [stage.name for s in turning(task_of(expr, shapes)) for stage in s.stages]
    assert [n for n in stages if n.endswith(".shared")] == ([f"{fetched}.shared"] * bool(fetched))


def test_a_single_element_is_not_turned() -> None:
    A = te.placeholder((), name="A")
    dag = ComputeDAG([A, te.compute((), lambda: A() * 2, name="Y")])
    context = replace(SearchSpace(task_of("Y[i] = X[i]", {"X": [8]})).context, dag=dag)
    assert turned_read(context, dag.init_state, 1) is None
    assert len(SearchSpace.of(context).sketches) == 1


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8"])
def test_a_warp_meets_each_sector_and_each_bank_once(dtype: str) -> None:
    task = task_of("Y[j, i] = A[i, j]", {"A": [128, 128]}, dtype)
    (sketch,) = turning(task)
    (steps,) = SearchSpace(task).sample(np.random.default_rng(0), 1, sketch=sketch)
    inputs = task.inputs()
    (expected,) = task.reference(inputs)
    found = np.zeros_like(expected)
    watch = Watch(counting=True)
    function = device_function(lower_steps(task.dag, steps, task.target))
    interp.run(function, [*inputs, found], watch=watch)
    np.testing.assert_array_equal(found, expected)
    bytes_ = expected.dtype.itemsize
    for (_, name, _), count in watch.counts.items():
        if name in ("A", "Y"):
            assert count.sectors_per_request == bytes_  # 32 elements that lie together
        else:
            assert count.conflict_degree <= max(1, bytes_ // 4)  # 8 bytes take two passes


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "float64"])
@pytest.mark.parametrize(
    ("expr", "shapes"),
    [
        ("Y[j, i] = A[i, j]", {"A": [40, 37]}),
        ("Y[j, i] = A[i, j]", {"A": [8, 129]}),
        ("Y[a, b, c, d] = X[d, b, a, c] + R[c, b, a, d]", {"X": [9, 2, 3, 34], "R": [34, 2, 3, 9]}),
        ("R[i, j] = max(A[i, j], 0); Y[j, i] = R[i, j] * 2", {"A": [33, 65]}),
        (
            "C[i, j] = sum(k, A[i, k] * B[k, j]); D[j, i] = E[i, j]",
            {"A": [40, 33], "B": [33, 40], "E": [9, 40]},
        ),
    ],
)
def test_candidates_compute_it(expr: str, shapes: Shapes, dtype: str) -> None:
    task = task_of(expr, shapes, dtype)
    (sketch, *_) = turning(task)
    (steps, *_) = SearchSpace(task).sample(np.random.default_rng(0), 1, sketch=sketch)
    report = check_candidate(task, steps, seconds=30)
    assert report.verdict is Verdict.AGREES, report.message
