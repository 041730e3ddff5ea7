"""Conditions that tell which value an axis or a digit of an index has, or that never hold; regions
that begin at a difference of quotients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.features.batched.sets import batched_features
from autosched.features.batched.value_parts import Border, borders_of
from autosched.features.lowering import rows_of_steps
from autosched.features.sets import ANSOR, AUTOSCHED_1
from autosched.search.space import SearchSpace
from autosched.state.dag import ComputeDAG
from autosched.state.steps import RfactorStep, steps_from_json
from autosched.target import Target, cpu_target, cuda_target
from autosched.task import Task
from autosched.tir.expr import Var
from autosched.tir.op import all_, const, ge, gt, if_then_else, le, lt

CPU, GPU = cpu_target(), cuda_target("sm_90")
_NONE = {"K": 1, "stride": 3, "padding": 1}
_GROUPS: dict[str, Any] = {"N": 1, "H": 14, "W": 14, "CI": 96, "CO": 96, "KH": 3, "KW": 3}
_GROUPS |= {"stride": 1, "padding": 1, "groups": 2}
CASES: list[tuple[str, dict[str, Any], str, Target, int]] = [
    # (f % 8 // 2 * 24 + i * 12 + j * 3 + k) // 48 stays, with two terms it would be f % 8 // 4.
    ("conv2d_nhwc", _GROUPS, ANSOR, CPU, 1),
    ("conv2d_nhwc", _GROUPS, AUTOSCHED_1, CPU, 1),
    # Only the padding is read: l * 3 is neither 1 nor 2, and w is 0.
    ("conv1d_nlc", {"N": 3, "L": 2, "CI": 24, "CO": 24, **_NONE}, AUTOSCHED_1, CPU, 12),
    (
        "conv2d_nhwc",
        {"N": 1, "H": 13, "W": 1, "CI": 4, "CO": 4, "KH": 1, "KW": 1, "stride": 3, "padding": 1},
        *(AUTOSCHED_1, CPU, 21),
    ),
    # blockIdx.x // 2 * 3 + r < 3 says that the quotient is 0.
    (
        "conv2d_nhwc",
        {"N": 2, "H": 10, "W": 1, "CI": 8, "CO": 130, "KH": 2, "KW": 2, "stride": 3, "padding": 2},
        *(ANSOR, GPU, 18),
    ),
    # f // 8 * 3 + r < 3 says that f % 8, in another dimension, is f.
    (
        "conv2d_nchw_bn_relu",
        {"N": 2, "H": 1, "W": 19, "CI": 16, "CO": 8, "K": 2, "stride": 3, "padding": 2},
        *(ANSOR, CPU, 5),
    ),
    # 48 threads fetch one vector: an index keeps threadIdx.x, which a condition says is 0.
    ("transpose_batch_matmul_softmax", {"B": 1, "S": 12, "H": 2, "D": 7}, ANSOR, GPU, 17),
    # w + f % 2 is 1 where X is read: conditions ask for w, which no index has.
    (
        "conv2d_transpose_nhwc",
        {"N": 1, "H": 16, "W": 1, "CI": 1, "CO": 1, "K": 2, "stride": 2, "padding": 0},
        *(AUTOSCHED_1, CPU, 1),
    ),
]


@pytest.mark.parametrize(("name", "args", "features", "target", "seed"), CASES)
def test_rows_are_those_of_each_by_itself(
    name: str, args: dict[str, Any], features: str, target: Target, seed: int
) -> None:
    task = Task.from_workload(name, target=target, **args)
    candidates = SearchSpace(task).sample(np.random.default_rng(seed), 16)[:16]
    batched = batched_features(task.dag, task.target, features, not target.is_gpu)
    for steps, rows in zip(candidates, batched.rows_of(candidates), strict=True):
        one = rows_of_steps(task.dag, steps, task.target, features, not target.is_gpu)
        assert rows is not None
        assert rows.values.tobytes() == one.values.tobytes(), steps


@pytest.mark.parametrize("at", [1, 10])
def test_no_loop_of_a_quotient_is_around_the_part(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All groups of a convolution are read in each part of the padding: its channels are
    co // 3 * 3 + rc with all of co inside, and all of rc or one."""
    monkeypatch.setattr("autosched.features.batched.autosched_1.batch.WORTH_AT_ONCE", 1)
    args = _GROUPS | {"H": 4, "W": 4, "CI": 6, "CO": 6}
    task = Task.from_workload("conv2d_nhwc", target=CPU, **args)
    steps = steps_from_json(
        [
            *(["SP", 3, 0, 1, [1, 1, 1], 1], ["SP", 3, 4, 4, [1, 1, 2], 1]),
            *(["SP", 3, 8, 4, [1, 2, 2], 1], ["SP", 3, 12, 6, [1, 3, 2], 1]),
            *(["SP", 3, 16, 3, [3], 1], ["SP", 3, 18, 3, [1], 1], ["SP", 3, 20, 3, [1], 1]),
            [
                *("RE", 3),
                [0, 4, 8, 12, 1, 5, 9, 13, 16, 18, 20, 2, 6, 10, 14, 17, 19, 21, 3, 7, 11, 15],
            ],
            *(["CA", 1, 3, at], ["FU", 3, [0, 1]], ["AN", 3, 0, 3]),
        ]
    )
    for features in (ANSOR, AUTOSCHED_1):
        batched = batched_features(task.dag, task.target, features)
        (rows,) = batched.rows_of([steps])
        one = rows_of_steps(task.dag, steps, task.target, features)
        assert rows is not None
        assert rows.values.tobytes() == one.values.tobytes()
        assert batched.share.one_by_one == 0, batched.share.reasons


def test_parts_of_a_factored_loop() -> None:
    """What several terms of a partial sum read along rw begins at f // 12 - f // 60 * 5, which is
    f % 60 // 12, though nothing says so."""
    args: dict[str, Any] = {"N": 1, "H": 22, "W": 5, "CI": 24, "CO": 1}
    args |= {"KH": 5, "KW": 5, "stride": 3, "padding": 2}
    task = Task.from_workload("conv2d_nhwc", target=CPU, **args)
    space = SearchSpace(task)
    sketch = next(s for s in space.sketches if any(isinstance(x, RfactorStep) for x in s.steps))
    candidates = space.sample(np.random.default_rng(0), 60, sketch=sketch)[:60]
    batched = batched_features(task.dag, task.target, ANSOR)
    found = batched.rows_of(candidates)
    assert 0 < batched.share.reasons["a region read at a part of a factored loop"] < 10
    for steps, rows in zip(candidates, found, strict=True):
        assert rows is not None
        one = rows_of_steps(task.dag, steps, task.target, ANSOR)
        assert rows.values.tobytes() == one.values.tobytes(), steps


def test_partial_sums_of_one_element_beyond_which_is_padding() -> None:
    A = te.placeholder((5, 5), name="A")
    k, r = te.reduce_axis((0, 5), name="k"), te.reduce_axis((0, 5), name="r")
    total = te.compute((1,), lambda i: te.sum(A[k, r], axis=[k, r]), name="total")
    zero = te.const(0.0)
    padded = te.compute(
        (3,), lambda i: te.if_then_else(te.all(i >= 1, i < 2), total[i - 1], zero), name="padded"
    )
    dag = ComputeDAG([A, padded])
    candidates = [
        steps_from_json(
            [
                ["FU", 1, [1, 2]],
                ["SP", 1, 1, 25, [terms], 1],
                ["RF", 1, part, 1],
                ["CA", 1, 3, 0],
                ["CA", 2, 3, 0],
            ]
        )
        for terms in (1, 5, 25)
        for part in (1, 2)
    ] * 20
    batched = batched_features(dag, CPU, ANSOR)
    found = batched.rows_of(candidates)
    assert batched.share.one_by_one == 0, batched.share.reasons
    for steps, rows in list(zip(candidates, found, strict=True))[:6]:
        assert rows is not None
        one = rows_of_steps(dag, steps, CPU, ANSOR)
        assert rows.values.tobytes() == one.values.tobytes(), steps


def test_what_conditions_compare() -> None:
    i, j = Var("i"), Var("j")

    def borders(*conditions: Any) -> list[Border]:
        return list(borders_of(if_then_else(all_(*conditions), const(1.0), const(0.0))))

    assert borders(le(1, i), lt(i, 9), gt(9, j)) == [Border(i, 1, 9), Border(j, None, 9)]
    assert borders(ge(i, 1), le(i, 8)) == [Border(i, 1, 9)]
    assert borders(gt(i, 0), ge(8, i)) == borders(lt(0, i), lt(i, 9)) == [Border(i, 1, 9)]
    assert borders(lt(i, j)) == []
