"""Long sums of few columns in slices: where the rule applies, what is drawn, results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autosched.search.column_slices import fill_slices
from autosched.search.options import SearchOptions
from autosched.search.space import SearchSpace
from autosched.state.iterator import IterKind
from autosched.state.state import State
from autosched.state.steps import RfactorStep, SplitStep
from autosched.target import Target, cpu_target
from autosched.task import Task
from kit.sketches import assert_right

TARGET = replace(cpu_target(threads=2), vector_bytes=64)
AVX2 = replace(TARGET, cpu="znver3", features="+avx,+avx2,+fma", vector_bytes=32)
SUM = "C[j] = sum(i, A[i, j])"

JOINED = """\
Placeholder: A
for i_o_i (0,2000)
  for i_i@j@ (0,5)
    C.rf.rf = ...
for ax0@ax1@ (0,5)
  C.rf.repl = ...
for ax0 (0,5)
  C.repl = ...
"""
SLICED = """\
Placeholder: A
for i_i (0,4000)
  for j (0,80)
    C.rf = ...
for ax0 (0,80)
  C.repl = ...
"""
OF_IMAGES = """\
Placeholder: A
for n (0,2)
  for h_w_fused_o_i (0,480)
    for h_w_fused_i@c@ (0,3)
      C.rf.rf = ...
for ax0 (0,2)
  for ax1@ax2@ (0,3)
    C.rf.repl = ...
for ax0 (0,2)
  for ax1 (0,3)
    C.repl = ...
"""
PRODUCT = """\
Placeholder: A, B
for i_i.0 (None)
  for j.0 (None)
    for k.0 (None)
      for i_i.1 (None)
        for j.1 (None)
          for k.1 (None)
            C.rf = ...
for ax0 (0,6)
  for ax1 (0,10)
    C.repl = ...
"""


def task_of(expr: str, shapes: dict[str, list[int]], target: Target = TARGET, **args: Any) -> Task:
    return Task.from_expression(expr, shapes, target=target, **args)


def sliced(task: Task, options: SearchOptions | None = None) -> list[State]:
    """The sketches of the rule: slices are split off from the outside."""
    return [
        sketch
        for sketch in SearchSpace(task, options).sketches
        if any(
            isinstance(step, RfactorStep) and step.factor_iter_id == 0 and step.iter_id > 0
            for step in sketch.steps
        )
        and any(isinstance(step, SplitStep) and not step.inner_to_outer for step in sketch.steps)
    ]


@pytest.mark.parametrize(
    ("expr", "shapes", "loops"),
    [
        (SUM, {"A": [2000, 5]}, JOINED),
        (SUM, {"A": [4000, 80]}, SLICED),
        (
            "C[j] = sum(i, A[i, j + 2])",
            {"A": [40000, 9], "C": [7]},
            SLICED.replace("80", "7").replace("4000", "40000"),
        ),
        ("C[n, c] = sum(h, w, A[n, h, w, c])", {"A": [2, 16, 30, 3]}, OF_IMAGES),
    ],
)
def test_there_is_no_other_sketch(expr: str, shapes: dict[str, list[int]], loops: str) -> None:
    task = task_of(expr, shapes)
    (sketch,) = SearchSpace(task).sketches
    assert sketch.to_str() == loops
    assert len(sliced(task)) == 1
    assert sliced(task, SearchOptions(space="ansor")) == []


@pytest.mark.parametrize(("images", "first"), [(2, "RS"), (400, "SR")])
def test_threads_share_the_sums_of_slices_where_there_are_many(images: int, first: str) -> None:
    task = task_of("C[b, j] = sum(i, A[b, i, j])", {"A": [images, 500, 3]})
    (sketch,) = SearchSpace(task).sketches
    for stage in sketch.stages[2:]:
        kinds = "".join("R" if it.kind is IterKind.REDUCTION else "S" for it in stage.iters)
        assert kinds.startswith(first), stage.name


@pytest.mark.parametrize(
    ("expr", "shape"),
    [(SUM, [2000, 80]), (SUM, [2000, 32]), ("C[b, j] = max(i, A[b, i, j])", [40, 500, 32])],
)
def test_small_sums_that_fill_vectors_have_it_beside_others(expr: str, shape: list[int]) -> None:
    """exp(sum) of 256x256 takes 1.46 times as long in slices as otherwise."""
    task = task_of(expr, {"A": shape})
    assert len(sliced(task)) == 1
    assert {s.to_str() for s in SearchSpace(task, SearchOptions(space="ansor")).sketches} < {
        s.to_str() for s in SearchSpace(task).sketches
    }


def test_products_have_it_beside_their_other_sketches() -> None:
    task = task_of("C[j, k] = sum(i, A[i, j] * B[i, k])", {"A": [2000, 6], "B": [2000, 10]})
    (sketch,) = sliced(task)
    assert sketch.to_str() == PRODUCT
    assert len(SearchSpace(task).sketches) > 2


def test_where_terms_have_no_order_the_first_axis_is_cut() -> None:
    """Padding around the rows: an image ends where another one does not begin."""
    expr = "C[c] = sum(n, h, w, A[n, h, w, c])"
    whole = {"A": [4, 30, 40, 5]}
    (sketch,) = sliced(task_of(expr, whole))
    assert "n_h_fused_w_fused" in sketch.to_str()
    (sketch,) = sliced(task_of(expr.replace("w, c]", "w + 1, c]"), whole | {"C": [5]}))
    loops = sketch.to_str().splitlines()
    assert [line.split()[1] for line in loops[1:4]] == ["n_i", "h", "w"]


@pytest.mark.parametrize(
    ("expr", "shapes"),
    [
        (SUM, {"A": [255, 5]}),  # few terms
        (SUM, {"A": [2000, 400]}),  # columns that vector registers do not hold
        ("C[b, j] = sum(i, A[b, i, j])", {"A": [40, 500, 80]}),  # tasks enough, and no short rows
        ("C[i] = sum(j, A[i, j])", {"A": [5, 2000]}),  # terms lie side by side
        ("C[i, x] = sum(r, A[i, x + r])", {"A": [5, 2000], "C": [5, 40]}),  # and so do windows
        ("C[j, k] = sum(i, A[i, j] * B[i, k])", {"A": [1000, 6], "B": [1000, 10]}),
        ("C[j, k] = sum(i, A[i, j] * B[i, k])", {"A": [2000, 60], "B": [2000, 60]}),
        ("C[i, j] = A[i, j] + 1", {"A": [2000, 5]}),
    ],
)
def test_not_for_others(expr: str, shapes: dict[str, list[int]]) -> None:
    assert sliced(task_of(expr, shapes)) == []


@pytest.mark.parametrize(("target", "lanes", "registers"), [(TARGET, 16, 24), (AVX2, 8, 12)])
@pytest.mark.parametrize("columns", [1, 3, 7, 10, 13, 24])
@pytest.mark.parametrize("terms", [2000, 4096, 1009])
def test_rows_fill_vectors(
    target: Target, lanes: int, registers: int, columns: int, terms: int
) -> None:
    task = task_of(SUM, {"A": [terms, columns]}, target)
    space = SearchSpace(task)
    (sketch,) = sliced(task)
    rows, counts, even = set(), set(), 0
    for seed in range(40):
        state = fill_slices(space.context, sketch, np.random.default_rng(seed))
        assert state is not None
        side, slices = (s.lengths[0] or 0 for s in state.steps if isinstance(s, SplitStep))
        rows.add(side)
        counts.add(slices)
        even += terms % side == 0
        left = -(-terms // side)
        assert (slices - 1) * -(-left // slices) < left  # none is empty
    assert max(rows) * columns <= lanes * registers
    assert all(n * columns % lanes == 0 for n in rows) or (lanes, columns) == (8, 13)
    assert {2, 4, 8, 16} <= counts and min(counts) == 2 and max(counts) == 16
    assert even >= 5 or not any(terms % n == 0 for n in rows)


def test_parts_of_products_are_of_their_slice() -> None:
    task = task_of("C[j, k] = sum(i, A[i, j] * A[i, k])", {"A": [1040, 10]})
    space = SearchSpace(task)
    (sketch,) = sliced(task)
    found = set()
    for seed in range(40):
        state = fill_slices(space.context, sketch, np.random.default_rng(seed))
        assert state is not None
        slices, part, *tiles = (s.lengths for s in state.steps if isinstance(s, SplitStep))
        assert slices[0] and part[0] and part[0] <= -(-1040 // slices[0])
        assert tiles == [(None,), (None,)]  # which are drawn as others are
        found.add(part[0])
    assert {64, 65, 128, 130, 256, 260} <= found


def test_other_sketches_and_known_numbers_are_left_alone() -> None:
    task = task_of("C[j, k] = sum(i, A[i, j] * A[i, k])", {"A": [2000, 10]})
    space = SearchSpace(task)
    rng = np.random.default_rng(0)
    (own,) = sliced(task)
    for sketch in space.sketches:
        if sketch.to_str() != own.to_str():
            assert fill_slices(space.context, sketch, rng) is sketch
    known = task.dag.state_of(space.sample(rng, 1, sketch=own)[0])
    assert fill_slices(space.context, known, rng) is known


RIGHT: list[tuple[str, dict[str, list[int]], str]] = [
    (SUM, {"A": [1009, 5]}, "float32"),
    (SUM, {"A": [2000, 80]}, "float64"),
    (SUM, {"A": [600, 1]}, "float32"),
    ("C[j] = max(i, A[i, j])", {"A": [777, 13]}, "float32"),
    ("C[j] = sum(i, (A[i, j] > 0) * 1)", {"A": [512, 10]}, "int32"),
    ("C[j] = sum(i, A[i, j + 2]) + b[j]", {"A": [500, 9], "b": [7]}, "float32"),
    ("C[j] = sum(i, A[2*i, j])", {"A": [2000, 3], "C": [3]}, "float32"),
    ("C[b, j] = sum(i, A[b, i, j])", {"A": [3, 509, 7]}, "float32"),
    ("C[c] = sum(w, n, h, A[n, h, w, c])", {"A": [3, 17, 19, 16]}, "float32"),
    ("m[j] = sum(i, A[i, j]); C[i, j] = A[i, j] - m[j] / 300", {"A": [300, 6]}, "float32"),
    ("C[j] = sum(i, w[i] * A[i, j])", {"A": [1100, 10], "w": [1100]}, "float32"),
    ("C[j, k] = sum(i, A[i, j] * A[i, k])", {"A": [1033, 12]}, "float32"),
    (
        "C[r, c] = sum(n, h, w, A[n, h + r, w, c] * B[n, h, w, c])",
        {"A": [5, 18, 17, 20], "B": [5, 16, 17, 20]},
        "float32",
    ),
]


@pytest.mark.parametrize(("expr", "shapes", "dtype"), RIGHT)
def test_any_numbers_compute_the_reference(
    expr: str, shapes: dict[str, list[int]], dtype: str
) -> None:
    task = task_of(expr, shapes, cpu_target(threads=2), dtype=dtype)
    found = sliced(task)
    assert found
    assert_right(task, found[:2], 2, seed=5)
