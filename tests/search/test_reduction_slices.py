"""Long sums in slices on GPUs: where the rule applies, what the loops are, results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched.referee.check import Verdict, check_candidate
from autosched.search.options import SearchOptions
from autosched.search.rules import tiling
from autosched.search.space import SearchSpace
from autosched.state.queries import sliced_products
from autosched.state.state import State
from autosched.state.steps import RfactorStep, SplitStep
from autosched.target import cuda_target
from autosched.task import Task

SUM = "S[i] = sum(k, A[i, k])"
COLUMNS = "S[j] = sum(k, A[k, j])"


def task_of(expr: str, shapes: dict[str, list[int]], **args: Any) -> Task:
    return Task.from_expression(expr, shapes, target=cuda_target(), **args)


def slices(task: Task, options: SearchOptions | None = None) -> list[State]:
    sketches = SearchSpace(task, options).sketches
    return [s for s in sketches if any(isinstance(step, RfactorStep) for step in s.steps)]


def test_slices_are_summed_by_blocks_and_by_warps() -> None:
    task = task_of(SUM, {"A": [4, 4096]})
    plain, *crossing = sorted(slices(task), key=lambda sketch: "threadIdx.x" in sketch.to_str())
    assert (
        plain.to_str()
        == """\
Placeholder: A
for k_o (0,2)
  for i (0,4)
    for k_i (0,2048)
      S.rf = ...
for ax0 (0,4)
  for k_o_v (0,2)
    S.repl = ...
"""
    )
    lanes = [f"threadIdx.x k_i.1 (0,{threads})" for threads in (32, 128, 256)]
    assert [lane in each.to_str() for each, lane in zip(crossing, lanes, strict=True)] == [True] * 3
    assert len(SearchSpace(task).sketches) == 8
    found = SearchSpace(task).sample(np.random.default_rng(0), 40, sketch=plain)
    splits = {steps[0].lengths for steps in found if isinstance(steps[0], SplitStep)}
    assert splits == {(2**n,) for n in range(7)}  # how many slices is drawn
    assert slices(task, SearchOptions(space="ansor")) == []


@pytest.mark.parametrize(
    ("expr", "shape", "number"),
    [
        (SUM, [64, 1024], 3),
        (SUM, [65, 1024], 0),  # a warp for each row
        (SUM, [64, 1023], 0),
        (SUM, [4, 1031], 0),  # prime
        (COLUMNS, [1024, 4096], 3),
        (COLUMNS, [1024, 4097], 0),  # a thread for each column
    ],
)
def test_what_is_sliced(expr: str, shape: list[int], number: int) -> None:
    assert len(slices(task_of(expr, {"A": shape}))) == number


def test_loops_of_more_terms_than_64_bits_can_count() -> None:
    """Their number is no product of primes that could be found in time."""
    most = 2**31 - 1
    terms = ", ".join(f"{k} < {most}" for k in "jkl")
    sketches = slices(task_of(f"S[i] = sum({terms}, A[i] + j)", {"A": [2]}))
    assert sketches == []  # one axis alone can be a loop of its own, and its length is prime


def test_what_is_tiled_is_not_sliced() -> None:
    product = "C[i, j] = sum(k, A[i, k] * B[k, j])"
    found = slices(task_of(product, {"A": [32, 4096], "B": [4096, 64]}))
    assert found == [s for s in found if sliced_products(s.steps)]  # by SliceProduct


def test_every_sketch_of_two_sums_can_be_bound() -> None:
    """Slices that all read M[i] would count as a product to be tiled, which has no way to end."""
    task = task_of("M[i] = mean(k, A[i, k]); V[i] = mean(k, (A[i, k] - M[i])**2)", {"A": [4, 1024]})
    found = slices(task)
    assert {sum(isinstance(step, RfactorStep) for step in s.steps) for s in found} == {1, 2}
    for sketch in found:
        assert SearchSpace(task).sample(np.random.default_rng(0), 1, sketch=sketch)


@pytest.mark.parametrize(
    ("expr", "shapes", "dtype"),
    [
        ("S[o] = sum(i, A[i] * B[i])", {"A": [2002], "B": [2002], "S": [1]}, "float32"),
        ("S[o] = max(i, j, A[i, j])", {"A": [50, 50], "S": [1]}, "float32"),
        (COLUMNS, {"A": [1030, 7]}, "float16"),
        (SUM, {"A": [5, 1100]}, {"A": "int8", "S": "int32"}),
        ("S[i] = sum(k, A[i, k]); D[i, k] = A[i, k] / S[i]", {"A": [3, 1050]}, "float32"),
    ],
)
def test_candidates_compute_it(expr: str, shapes: dict[str, list[int]], dtype: Any) -> None:
    task = task_of(expr, shapes, dtype=dtype)
    found = slices(task)
    assert found
    for sketch in found:
        (steps, *_) = SearchSpace(task).sample(np.random.default_rng(0), 1, sketch=sketch)
        report = check_candidate(task, steps, seconds=30)
        assert report.verdict is Verdict.AGREES, report.message


def test_of_terms_that_are_not_all_in_one_loop_a_prime_number_is_not_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tiling, "MOST_ITERATIONS", 1000)
    shapes = {"X": [60, 2], "Y": [997, 2]}
    task = task_of("D[i] = sum(k, l, X[k, i] * Y[l, i])", shapes)
    assert not slices(task)
    assert SearchSpace(task).sketches
    shapes["Y"] = [996, 2]
    assert slices(task_of("D[i] = sum(k, l, X[k, i] * Y[l, i])", shapes))
