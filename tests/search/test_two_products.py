"""Sums that one result reads element by element: gates, recurrent cells, sums of products."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from autosched.referee.check import Verdict, check_candidate
from autosched.search import sketch as sketches_module
from autosched.search.options import SearchOptions
from autosched.search.space import SearchSpace
from autosched.state import queries
from autosched.target import cpu_target, cuda_target
from autosched.task import Task
from kit.sketches import SPACES, Space, assert_right, sketches_of

Shapes = Mapping[str, tuple[int, ...]]

CASES: dict[str, tuple[str, Shapes]] = {
    "gate": (
        "G[i,j] = sum(k, X[i,k]*A[k,j]); U[i,j] = sum(k, X[i,k]*B[k,j]);"
        "Y[i,j] = G[i,j] * sigmoid(G[i,j]) * U[i,j]",
        {"X": (24, 16), "A": (16, 40), "B": (16, 40)},
    ),
    "recurrent cell": (
        "Y[b,h] = tanh(sum(k, X[b,k]*A[k,h]) + sum(j, H[b,j]*B[j,h]) + c[h])",
        {"X": (7, 10), "A": (10, 32), "H": (7, 32), "B": (32, 32), "c": (32,)},
    ),
    "three gates": (
        "z[b,h] = sigmoid(sum(k, X[b,k]*A[k,h])); r[b,h] = sigmoid(sum(k, X[b,k]*B[k,h]));"
        "Y[b,h] = (1 - z[b,h]) * tanh(sum(k, X[b,k]*C[k,h]) * r[b,h]) + z[b,h]",
        {"X": (9, 24), "A": (24, 24), "B": (24, 24), "C": (24, 24)},
    ),
}


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("case", CASES)
def test_each_is_written_back_on_a_gpu(case: str, space: Space) -> None:
    """Only one has the tiles of the result; the others had no stage that writes them."""
    task = Task.from_expression(*CASES[case], target=cuda_target())
    for sketch in sketches_of(task, space, gpu=True):
        tiled = [
            k for k in range(len(sketch.stages)) if queries.needs_multi_level_tiling(sketch, k)
        ]
        assert len(tiled) > 1
        assert all(sketch.attach_map.target_of(k) is not None for k in tiled)


@pytest.mark.parametrize("case", CASES)
def test_candidates_of_a_gpu_compute_it(case: str) -> None:
    task = Task.from_expression(*CASES[case], target=cuda_target())
    found = SearchSpace(task).sample(np.random.default_rng(1), 6)
    assert len(found) >= 6
    for steps in found[:6]:
        assert check_candidate(task, steps).verdict is Verdict.AGREES


def test_each_is_tiled_like_the_first_on_a_cpu() -> None:
    """What blocks a product or packs its operand was passed over for all but one."""
    expr, shapes = CASES["gate"]
    large = {name: tuple(16 * extent for extent in shape) for name, shape in shapes.items()}
    task = Task.from_expression(expr, large, target=cpu_target(threads=2))
    found = []
    for sketch in sketches_of(task, "autosched"):
        stages = {stage.name: stage for stage in sketch.stages}
        packed = {"A.global", "B.global"} & stages.keys()
        found.append((len(stages["G"].iters), len(stages["U"].iters), len(packed)))
    assert (9, 9, 0) in found and (9, 9, 2) in found and (10, 10, 0) in found
    assert all(first == second and packed != 1 for first, second, packed in found)


def test_equal_products_in_a_row_are_tiled_alike() -> None:
    expr = "S[i,j] = sum(k, X[i,k]*A[k,j]); T[i,j] = sum(k, S[i,k]*B[k,j])"
    task = Task.from_expression(
        expr, {"X": (64, 64), "A": (64, 64), "B": (64, 64)}, target=cpu_target(threads=2)
    )
    found = []
    for sketch in sketches_of(task, "autosched"):
        stages = {stage.name: stage for stage in sketch.stages}
        cached = {"S.local", "T.local"} & stages.keys()
        found.append((len(stages["S"].iters), len(stages["T"].iters), len(cached)))
    assert all(first == second or cached == 2 for first, second, cached in found)
    assert {cached for *_, cached in found} == {0, 2}


def test_many_products_have_no_more_sketches_than_two() -> None:
    terms = [f"sum(k, X[i,k]*A{n}[k,j])" for n in range(6)]
    shapes = {"X": (24, 16), **{f"A{n}": (16, 40) for n in range(6)}}
    counts = set()
    for count in (2, 6):
        expr = f"Y[i,j] = {' + '.join(terms[:count])}"
        own = {name: shape for name, shape in shapes.items() if name in expr}
        task = Task.from_expression(expr, own, target=cpu_target(threads=2))
        counts.add(len(sketches_of(task, "autosched")))
    assert len(counts) == 1


@pytest.mark.parametrize("case", CASES)
def test_candidates_of_a_cpu_compute_it(case: str) -> None:
    task = Task.from_expression(*CASES[case], target=cpu_target(threads=2))
    assert_right(task, sketches_of(task, "autosched"), 1)


def blocks(count: int) -> tuple[str, dict[str, list[int]]]:
    """Residual blocks in a row."""
    statements, shapes, read = [], {"X": [8, 16]}, "X"
    for n in range(count):
        shapes |= {f"A{n}": [16, 24], f"B{n}": [24, 16]}
        statements += [
            f"H{n}[i, j] = max(sum(k, {read}[i, k] * A{n}[k, j]), 0)",
            f"Y{n}[i, j] = sum(k, H{n}[i, k] * B{n}[k, j]) + {read}[i, j]",
        ]
        read = f"Y{n}"
    return "; ".join(statements), shapes


def centred(count: int) -> tuple[str, dict[str, list[int]]]:
    """Rows from which their means are taken, again and again."""
    statements, read = [], "X"
    for n in range(count):
        statements += [
            f"m{n}[i] = mean(j, {read}[i, j])",
            f"Y{n}[i, j] = {read}[i, j] - m{n}[i]",
        ]
        read = f"Y{n}"
    return "; ".join(statements), {"X": [8, 16]}


def stencils(count: int) -> tuple[str, dict[str, list[int]]]:
    """A grid whose places are replaced by sums of those around them."""
    size, statements, read = 8 + 2 * count, [], "X"
    shapes = {"X": [size, size]}
    for n in range(count):
        size -= 2
        shapes[f"Y{n}"] = [size, size]
        near = ((0, 1), (1, 0), (1, 1), (1, 2), (2, 1))
        places = [f"{read}[i + {y}, j + {x}]" for y, x in near]
        statements.append(f"Y{n}[i, j] = 0.2 * ({' + '.join(places)})")
        read = f"Y{n}"
    return "; ".join(statements), shapes


@pytest.mark.parametrize("gpu", [False, True])
def test_stencils_are_inlined_until_they_read_too_much(gpu: bool) -> None:
    """All into the last would read 5 to the power of 7 places."""
    task = Task.from_expression(*stencils(7))
    for state in sketches_of(task, "autosched", gpu=gpu):
        assert [stage.is_inlined for stage in state.stages[1:]] == [False, True] * 3 + [False]
    for state in sketches_of(Task.from_expression(*stencils(3)), "ansor", gpu=gpu):
        assert [stage.is_inlined for stage in state.stages[1:]] == [True, True, False]


@pytest.mark.parametrize(("made", "count"), [(blocks, 6), (centred, 7), (stencils, 5)])
def test_deep_computations_have_few_sketches(
    made: Callable[[int], tuple[str, dict[str, list[int]]]], count: int
) -> None:
    """Each stage doubled them, or worse."""
    task = Task.from_expression(*made(count))
    sketches = sketches_of(task, "autosched")
    assert 1 < len(sketches) <= 64
    assert_right(task, sketches[:: max(1, len(sketches) // 2)], 1)


def test_sketches_beyond_the_limit_are_left_out_by_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task.from_expression(*blocks(2))
    ansors = len(sketches_of(task, "ansor"))
    every = [state.to_str() for state in sketches_of(task, "autosched", gpu=True)]
    monkeypatch.setattr(sketches_module, "MOST_SKETCHES", 10)
    monkeypatch.setattr(sketches_module, "DRAWN_SKETCHES", 8)
    some = [state.to_str() for state in sketches_of(task, "autosched", gpu=True)]
    assert len(some) == 8 < len(every) and set(some) < set(every)
    assert some == [state.to_str() for state in sketches_of(task, "autosched", gpu=True)]
    assert len(sketches_of(task, "ansor")) == ansors > 8


def test_ansors_space_has_no_limit_and_says_when_it_has_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task, ansor = Task.from_expression(*blocks(2)), SearchOptions(space="ansor")
    told: list[str] = []
    every = SearchSpace(task, ansor, warning=told.append).sketches
    assert not told
    monkeypatch.setattr(sketches_module, "_MANY_SKETCHES", 10)
    again = SearchSpace(task, ansor, warning=told.append).sketches
    assert [state.to_str() for state in again] == [state.to_str() for state in every]
    (text,) = told
    assert "search.space ansor has 12 sketches so far, with 6 stages to go" in text
    assert "search.space autosched keeps at most 512" in text
    assert SearchSpace(task, warning=told.append).sketches and len(told) == 1
