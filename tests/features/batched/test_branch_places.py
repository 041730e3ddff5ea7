"""Indices that branches simplify: those of the text of one candidate, as forms of many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched.errors import ScheduleError
from autosched.features.batched.autosched_1.batch import BatchedTuningFeatures
from autosched.features.batched.autosched_1.borders import NO_RULE
from autosched.features.batched.autosched_1.branch_places import place_of, replaced
from autosched.features.batched.forms import WHOLE, Form, Ints, Term
from autosched.features.lowering import rows_of_steps
from autosched.search.options import SearchOptions
from autosched.search.space import SearchSpace
from autosched.target import HardwareParams, Target
from autosched.task import Task
from autosched.tir.expr import Var
from autosched.tir.op import add, floordiv, floormod, mul

_AVX2 = "+avx,+avx2,+fma"
TARGETS = {
    cpu: Target(
        "cpu",
        HardwareParams.default("cpu", threads=2),
        2,
        cpu,
        features,
        "x86_64-unknown-linux-gnu",
        width,
        caches=(32 << 10, 512 << 10, 32 << 20),
    )
    for cpu, features, width in [
        ("haswell", _AVX2, 32),
        ("skylake-avx512", f"{_AVX2},+avx512f,+avx512vl,+avx512bw,+avx512dq", 64),
    ]
}


def test_indices_are_sums_of_digits() -> None:
    i, j = Var("i"), Var("j")
    part = floordiv(floormod(i, 12), 3)
    assert place_of([add(mul(floordiv(i, 5), 4), j), add(mul(part, 2), 7)]) == (
        (0, (("i", 5, WHOLE, 4), ("j", 1, WHOLE, 1))),
        (7, (("i", 3, 12, 2),)),
    )
    assert place_of([floordiv(add(i, j), 2)]) is None


def test_places_take_the_place_of_forms() -> None:
    def ints(*values: int) -> Ints:
        return np.array(values, np.int64)

    # Candidates 0 and 1 keep index // 4 * 3 + 5; in a branch of 2 and 3 it is the loop itself.
    form = Form(
        {0: (Term(ints(4, 4, 4, 4), ints(*[WHOLE] * 4), ints(3, 3, 3, 3)),)}, ints(*[5] * 4)
    )
    where = np.array([False, False, True, True])
    which = np.array([0, 0, 1, 1])
    (found,) = replaced(
        [form],
        where,
        [(), ((6, (("i", 1, WHOLE, 1), ("i", 8, 16, 2))),)],
        [{}, {"i": 0}],
        lambda values: np.array(values, np.int64)[which],
    )
    assert found.base.tolist() == [5, 5, 6, 6]
    assert [term.scale.tolist() for term in found.terms[0]] == [
        [3, 3, 0, 0],
        [0, 0, 1, 1],
        [0, 0, 2, 2],
    ]
    assert [term.lower.tolist()[2:] for term in found.terms[0][1:]] == [[1, 1], [8, 8]]
    assert [term.upper.tolist()[2:] for term in found.terms[0][1:]] == [[WHOLE] * 2, [16, 16]]


@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("conv2d_nhwc", {"CI": 12, "CO": 8, "KH": 3, "KW": 3}),
        ("depthwise_conv2d_nhwc", {"C": 12, "K": 3}),
    ],
)
def test_rows_are_those_of_one_by_one(
    name: str, sizes: dict[str, Any], cpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autosched.features.batched.autosched_1.batch.WORTH_AT_ONCE", 1)
    placed: list[bool] = []

    def noted(*args: Any) -> list[Form]:
        placed.append(bool(args[1].any()))
        return replaced(*args)

    monkeypatch.setattr("autosched.features.batched.autosched_1.borders.replaced", noted)
    image: dict[str, Any] = {"N": 1, "H": 14, "W": 14, "stride": 2, "padding": 1}
    task = Task.from_workload(name, target=TARGETS[cpu], **image, **sizes)
    found = SearchSpace(task, SearchOptions(space="autosched")).sample(np.random.default_rng(1), 24)
    batched = BatchedTuningFeatures(task.dag, task.target)
    for rows, steps in zip(batched.at_once(found)[0], found, strict=True):
        if rows is None:
            continue
        try:
            one = rows_of_steps(task.dag, steps, task.target, "autosched-1").values
        except ScheduleError:
            continue
        assert rows.tobytes() == one.tobytes()
    assert any(placed)
    assert not batched.share.reasons[NO_RULE]
