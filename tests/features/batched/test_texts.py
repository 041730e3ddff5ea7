"""Accesses whose indices are texts: their dimensions are simplified and read together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from autosched.features.batched.autosched_1.batch import BatchedTuningFeatures
from autosched.features.batched.autosched_1.texts import _moves, extents
from autosched.features.lowering import rows_of_steps
from autosched.search.options import SearchOptions
from autosched.search.space import SearchSpace
from autosched.task import Task
from autosched.tir.expr import Var
from autosched.tir.op import add, floordiv, floormod, mul
from kit.cpus import CPUS


def test_digits_of_two_dimensions_join() -> None:
    i, j = Var("i"), Var("j")
    place = add(mul(i, 5), j)
    moves = _moves((floordiv(place, 49), floormod(place, 49)), [30, 49], [(1, i, 294), (3, j, 5)])
    assert moves.along == {1: (5, 5, 0, 1), 3: (1, 1, 0, 1)}
    assert moves.ends == {1: [(0, 29), (0, 48)], 3: [(0, 0), (0, 4)]}


def test_digits_that_do_not_join_move_in_blocks() -> None:
    i, j = Var("i"), Var("j")
    place = add(mul(i, 7), j)
    moves = _moves((floordiv(place, 49), floormod(place, 49)), [30, 50], [(0, i, 210), (1, j, 7)])
    assert moves.along == {0: (7, 0, 1, 1), 1: (1, 1, 7, 1)}
    assert moves.ends == {0: [(0, 29), (0, 48)], 1: [(0, 0), (0, 6)]}


def test_several_places_are_one_element_while_nothing_runs() -> None:
    """Two candidates: the inner loop is there, and is not."""
    outer = SimpleNamespace(present=np.array([True, True]))
    store: Any = SimpleNamespace(loops=[outer, SimpleNamespace(present=np.array([True, False]))])
    ends = np.array([[[0, 0], [9, 9]], [[0, 0], [4, 0]], [[0, 0], [0, 0]]])
    assert extents(store, [ends]).tolist() == [[10, 10], [5, 1], [1, 1]]
    assert extents(store, [ends, ends + 2]).tolist() == [[12, 12], [7, 1], [1, 1]]


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize(
    "sizes", [{"B": 1, "M": 30, "N": 49}, {"B": 3, "M": 35, "N": 77}, {"B": 2, "M": 31, "N": 37}]
)
def test_rows_are_those_of_one_by_one(
    sizes: dict[str, Any], cpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autosched.features.batched.autosched_1.batch.WORTH_AT_ONCE", 1)
    task = Task.from_workload("norm_bmn", target=CPUS[cpu], **sizes)
    found = SearchSpace(task, SearchOptions(space="autosched")).sample(np.random.default_rng(3), 12)
    batched = BatchedTuningFeatures(task.dag, task.target)
    for rows, steps in zip(batched.rows_of(found), found, strict=True):
        one = rows_of_steps(task.dag, steps, task.target, "autosched-1")
        assert rows is not None
        assert rows.values.tobytes() == one.values.tobytes()
        assert rows.buffers == one.buffers
    assert batched.share.one_by_one == 0, batched.share.reasons
