"""Sketches whose vectors lie along an axis that no operand has innermost."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.driver import build_steps
from autosched.runtime.cpu import load
from autosched.search.options import SearchOptions
from autosched.search.space import SearchSpace
from autosched.state.state import State
from autosched.state.steps import steps_from_json, steps_to_json
from autosched.task import Task
from kit.sketches import assert_right

DENSE = "T[i, j] = sum(k, A[i, k] * W[j, k])\nD[i, j] = max(T[i, j] + b[j], 0)"
GRAM = "C[i, j] = sum(k, A[i, k] * A[j, k])"
DISTANCES = "D[i, j] = sum(k, (A[i, k] - A[j, k]) ** 2)"
SCORES = (
    "S[h, i, j] = sum(d, Q[h, i, d] * K[h, j, d]); m[h, i] = max(j, S[h, i, j]); "
    "P[h, i, j] = S[h, i, j] - m[h, i]"
)
CONVOLUTION = "Y[c, h, w] = sum(r, s, X[r, h, w + s] * K[c, r, s])"


def transposed(task: Task, options: SearchOptions | None = None) -> list[State]:
    sketches = SearchSpace(task, options).sketches
    return [s for s in sketches if any(stage.name.endswith(".global.global") for stage in s.stages)]


def dense(rows: int, columns: int, steps: int) -> Task:
    return Task.from_expression(DENSE, {"A": [rows, steps], "W": [columns, steps], "b": [columns]})


def test_sums_have_the_axis_of_vectors_innermost_until_they_are_complete() -> None:
    (sketch,) = transposed(dense(64, 100, 96))
    assert (
        sketch.to_str()
        == """\
Placeholder: A, W, b
for ax1_c (0,96)
  for ax0_c (0,64)
    A.global.global = ...
for i.0 (None)
  for j.0 (None)
    for j_c.0 (None)
      for i_c.0 (None)
        for k.0 (None)
          for i_c.1.0 (None)
            for j_c.1.0 (None)
              for i_c.1.1 (None)
                for k.1 (None)
                  for j_c.1.1 (None)
                    for i_c.1.2 (None)
                      T.global = ...
    for i.1 (None)
      for j.1 (None)
        D = ...
"""
    )
    assert transposed(dense(64, 100, 96), SearchOptions(space="ansor")) == []


def test_results_that_go_on_are_made_of_vectors_along_their_last_axis() -> None:
    """The scores of an attention, which are neither an output nor read by one element alone."""
    shape = [3, 32, 20]
    task = Task.from_expression(SCORES, {"Q": shape, "K": shape})
    sketches = transposed(task)
    assert sketches
    for sketch in sketches:
        assert [s.name for s in sketch.stages if s.name.endswith(".global.global")] == [
            "K.global.global"
        ]
        (sums,) = [stage for stage in sketch.stages if stage.name == "S.global"]
        assert sums.iters[-1].name.startswith("j_c")
    assert_right(task, sketches, 4)


@pytest.mark.parametrize(
    ("expr", "shapes", "copied"),
    [
        (DENSE, {"A": [64, 32], "W": [128, 32], "b": [128]}, "A"),  # read 128 times, W 64 times
        (DENSE, {"A": [64, 32], "W": [32, 32], "b": [32]}, "W"),
        (DENSE, {"A": [7, 32], "W": [7, 32], "b": [7]}, ""),  # less than a vector
        (DENSE, {"A": [64, 32768], "W": [4, 32768], "b": [4]}, ""),  # too large, too short
        (DENSE, {"A": [64, 8192], "W": [128, 8192], "b": [128]}, "A"),  # large, read often enough
        (DENSE, {"A": [64, 8192], "W": [127, 8192], "b": [127]}, ""),
        (DENSE, {"A": [64, 2**17], "W": [128, 2**17], "b": [128]}, "A"),
        (DENSE, {"A": [64, 2**17 + 1], "W": [128, 2**17 + 1], "b": [128]}, ""),  # beyond 32 MiB
        ("C[i, j] = sum(k, A[i, k] * B[k, j])", {"A": [64, 64], "B": [64, 64]}, ""),
        (GRAM, {"A": [64, 64]}, "A"),  # both of its roles read the copy
        ("C[i, j] = sum(k, A[i, k] * A[k, j])", {"A": [64, 64]}, ""),
        (CONVOLUTION, {"X": [32, 5, 30], "K": [64, 32, 3]}, "K"),  # 28 columns
        (CONVOLUTION, {"X": [32, 5, 34], "K": [64, 32, 3]}, ""),  # 32 columns: whole vectors
        (CONVOLUTION, {"X": [32, 5, 30], "K": [20, 32, 3]}, ""),  # 20 channels fill no more
    ],
)
def test_what_is_copied(expr: str, shapes: dict[str, list[int]], copied: str) -> None:
    found = transposed(Task.from_expression(expr, shapes))
    stages = [stage.name for state in found for stage in state.stages]
    names = [name for name in stages if name.endswith(".global.global")]
    assert names == ([f"{copied}.global.global"] if copied else [])


@pytest.mark.parametrize(
    ("rows", "dtype", "loops"),
    [
        (64, "float32", ["ax0_c.0 (0,4)", "ax1_c (0,8192)", "ax0_c.1 (0,16)"]),
        (40, "float32", ["ax0_c.0 (0,5)", "ax1_c (0,8192)", "ax0_c.1 (0,8)"]),  # half a line
        (36, "float32", ["ax1_c (0,8192)", "ax0_c (0,36)"]),
        (64, "float64", ["ax0_c.0 (0,8)", "ax1_c (0,8192)", "ax0_c.1 (0,8)"]),
        (16, "float64", ["ax0_c.0 (0,2)", "ax1_c (0,16384)", "ax0_c.1 (0,8)"]),
        (16, "float32", ["ax1_c (0,32768)", "ax0_c (0,16)"]),  # one line is all
    ],
)
def test_large_copies_read_as_many_rows_as_fill_a_cache_line(
    rows: int, dtype: str, loops: list[str]
) -> None:
    steps = int(loops[-2].removesuffix(")").split(",")[1])
    task = Task.from_expression(
        DENSE, {"A": [rows, steps], "W": [128, steps], "b": [128]}, dtype=dtype
    )
    (sketch,) = transposed(task)
    (copy,) = (stage for stage in sketch.stages if stage.name == "A.global.global")
    lines = sketch.to_str().splitlines()
    end = next(n for n, line in enumerate(lines) if line.strip().startswith(copy.name))
    found = [line.strip().removeprefix("for ") for line in lines[end - len(loops) : end]]
    assert found == loops


@pytest.mark.parametrize(
    ("expr", "shapes"),
    [
        (DENSE, {"A": [32, 8200], "W": [128, 8200], "b": [128]}),
        (DENSE, {"A": [40, 24], "W": [53, 24], "b": [53]}),
        (CONVOLUTION, {"X": [9, 5, 15], "K": [32, 9, 3]}),
        (GRAM, {"A": [48, 40]}),
        (DISTANCES, {"A": [53, 24]}),
    ],
)
def test_candidates_compute_it(expr: str, shapes: dict[str, list[int]]) -> None:
    task = Task.from_expression(expr, shapes)
    (sketch,) = transposed(task)
    (steps, *_) = SearchSpace(task).sample(np.random.default_rng(0), 1, sketch=sketch)
    assert steps_from_json(steps_to_json(steps)) == steps
    inputs = task.inputs()
    (expected,) = task.reference(inputs)
    output = np.zeros_like(expected)
    load(build_steps(task.dag, steps, task.target)).bind(*inputs, output).run()
    np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-5)
