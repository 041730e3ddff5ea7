"""Rows of operators of one's own that choose with Select: those that guard loads are conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.features.batched.sets import batched_features
from autosched.features.lowering import rows_of_steps
from autosched.features.sets import AUTOSCHED_1
from autosched.search.options import SearchOptions
from autosched.search.rules.protocol import Context
from autosched.search.space import SearchSpace
from autosched.state.dag import ComputeDAG
from autosched.target import HardwareParams, cpu_target

COUNT = 10
TARGET = cpu_target(threads=2)
Choose = Callable[[Any, Any, Any], Any]


def shifted(choose: Choose) -> ComputeDAG:
    """Padded rows, of which every element is doubled."""
    A = te.placeholder((24, 32), name="A")
    P = te.compute(
        (24, 34),
        lambda i, j: choose(te.all(j >= 1, j < 33), A[i, j - 1], te.const(0.0)),
        name="P",
    )
    B = te.compute((24, 34), lambda i, j: P[i, j] * 2.0, name="B")
    return ComputeDAG([A, B])


def asked(choose: Choose) -> ComputeDAG:
    """Elements before others, where what is loaded says that there are any."""
    A, C = (te.placeholder((24, 32), name=name) for name in "AC")
    zero = te.const(0.0)
    B = te.compute((24, 32), lambda i, j: choose(C[i, j] < 0.0, A[i, j - 1], zero), "B")
    return ComputeDAG([A, C, B])


def smaller(choose: Choose) -> ComputeDAG:
    """Elements that are all there."""
    A, C = (te.placeholder((24, 32), name=name) for name in "AC")
    B = te.compute((24, 32), lambda i, j: choose(A[i, j] < 0.0, C[i, j], A[i, j]), "B")
    return ComputeDAG([A, C, B])


@pytest.mark.parametrize(
    ("made", "why"),
    [(shifted, "a Select that guards"), (asked, "a Select that guards"), (smaller, "")],
)
def test_rows_are_those_of_one_by_one(
    made: Callable[[Choose], ComputeDAG], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "autosched.features.batched.autosched_1.batch.WORTH_AT_ONCE"
    monkeypatch.setattr(name, 1)
    dag = made(te.select)
    space = SearchSpace.of(Context(dag, HardwareParams(num_cores=2), False, SearchOptions()))
    found = space.sample(np.random.default_rng(3), COUNT)
    batched = batched_features(dag, TARGET, AUTOSCHED_1)
    rows = batched.rows_of(found)
    for steps, row in zip(found, rows, strict=True):
        one = rows_of_steps(dag, steps, TARGET, AUTOSCHED_1)
        assert row is not None
        assert row.values.tobytes() == one.values.tobytes()
    assert (batched.share.one_by_one > 0) == bool(why), batched.share.reasons
    assert not why or any(reason.startswith(why) for reason in batched.share.reasons)


def test_a_select_that_guards_costs_what_if_then_else_does() -> None:
    chosen, branched = (
        rows_of_steps(shifted(choose), (), TARGET, AUTOSCHED_1)
        for choose in (te.select, te.if_then_else)
    )
    np.testing.assert_array_equal(chosen.values, branched.values)
