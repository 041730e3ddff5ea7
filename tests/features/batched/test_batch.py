"""Rows of many candidates at once are those of each by itself, bit for bit."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
import pytest

from autosched import te
from autosched.features.batched import batch
from autosched.features.batched.batch import BatchedFeatures
from autosched.features.batched.sets import batched_features
from autosched.features.lowering import rows_of_steps
from autosched.runtime.compiled_loops import Compiled, NoCodeError
from autosched.search.options import SearchOptions, SpaceName
from autosched.search.space import SearchSpace
from autosched.state.dag import ComputeDAG
from autosched.state.steps import (
    CacheWriteStep,
    ComputeAtStep,
    ComputeInlineStep,
    ComputeRootStep,
    FuseStep,
    PragmaStep,
    SplitStep,
    Step,
)
from autosched.target import Target, cpu_target, cuda_target
from autosched.task import Task
from autosched.tir.expr import Expr
from autosched.tir.op import all_, if_then_else
from kit.one_by_one import bits, rows_of_one

_IMAGE: dict[str, Any] = {"N": 1, "H": 12, "W": 10, "K": 3, "stride": 1, "padding": 1}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("matmul", {"M": 60, "N": 24, "K": 36}),
    ("dense_bias_relu", {"M": 16, "N": 100, "K": 32}),
    ("conv2d_nchw_bn_relu", {**_IMAGE, "CI": 6, "CO": 8}),
    ("depthwise_conv2d_nhwc", {**_IMAGE, "C": 9, "stride": 2}),
    ("conv2d_transpose_nhwc", {**_IMAGE, "H": 6, "W": 4, "K": 4, "CI": 4, "CO": 6, "stride": 2}),
    ("conv2d_winograd_nhwc", {"N": 1, "H": 8, "W": 4, "CI": 6, "CO": 8, "tile": 2}),
    # Rows of the result in fours, of which the last has 2: rows % 4 and rows // 4 of transforms.
    ("conv2d_winograd_nhwc", {"N": 1, "H": 14, "W": 5, "CI": 6, "CO": 8, "tile": 4}),
    ("max_pool2d_nchw", {**_IMAGE, "C": 4}),
    ("norm_bmn", {"B": 2, "M": 6, "N": 7}),
    ("softmax", {"M": 12, "N": 50}),
    ("layer_norm", {"M": 16, "N": 48}),
    ("transpose_batch_matmul_softmax", {"B": 2, "S": 6, "H": 3, "D": 10}),
]
COUNT = 8


@pytest.mark.parametrize(
    ("name", "args"), CASES, ids=[name + str(args.get("tile", "")) for name, args in CASES]
)
@pytest.mark.parametrize("space", get_args(SpaceName))
def test_rows_are_those_of_one_by_one(name: str, args: dict[str, Any], space: SpaceName) -> None:
    task = Task.from_workload(name, target=cpu_target(threads=2), **args)
    found = SearchSpace(task, SearchOptions(space=space)).sample(np.random.default_rng(3), COUNT)
    batched = BatchedFeatures(task.dag, task.target)
    rows = batched.rows_of(found)
    assert batched.share.candidates == len(found)
    assert batched.share.one_by_one <= 0.02 * len(found), batched.share.reasons
    assert [bits(r) for r in rows] == [
        bits(rows_of_one(task, steps, "ansor-0.19")) for steps in found
    ]


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("matmul", {"M": 16, "N": 18, "K": 20}),
        ("dense_bias_relu", {"M": 16, "N": 30, "K": 32}),
        ("conv1d_nlc", {"N": 1, "L": 9, "CI": 4, "CO": 6, "K": 3, "stride": 1, "padding": 1}),
        ("norm_bmn", {"B": 1, "M": 6, "N": 7}),
    ],
)
def test_splits_that_do_not_divide(name: str, args: dict[str, Any]) -> None:
    """Loops that reach beyond what they split, parts longer than the whole, factored ones too."""
    task = Task.from_workload(name, target=cpu_target(threads=2), **args)
    _assert_oddly_split(task, range(1, 8), COUNT)


def _assert_oddly_split(task: Task, lengths: Sequence[int], count: int) -> None:
    """Candidates split by some of these lengths are as one by one, to which hardly any is left."""
    options = SearchOptions(space="ansor")
    rng = np.random.default_rng(3)
    odd = [
        tuple(
            SplitStep(s.stage_id, s.iter_id, s.extent, tuple(rng.choice(lengths, len(s.lengths))))
            if isinstance(s, SplitStep)
            else s
            for s in steps
        )
        for steps in SearchSpace(task, options).sample(rng, count)
    ]
    batched = BatchedFeatures(task.dag, task.target)
    rows = batched.rows_of(odd)
    assert batched.share.one_by_one <= 0.1 * len(odd), batched.share.reasons
    assert [bits(r) for r in rows] == [bits(rows_of_one(task, s, "ansor-0.19")) for s in odd]


def test_quotients_of_axes_that_loops_reach_beyond() -> None:
    """i // 4 of 9 is at most 2, also where two loops of 8 reach to 15: 3 of 7 columns are read."""
    expr = "T[j, i] = sum(k, X[j, k, i]); Y[j, i, l] = T[j, i // 4] * A[i, l]"
    shapes = {"X": [6, 5, 7], "A": [9, 4], "T": [6, 7], "Y": [6, 9, 4]}
    task = Task.from_json_workload({"expr": expr, "shapes": shapes}, cpu_target(threads=2))
    _assert_oddly_split(task, (4, 8), 24)


def test_what_the_arrays_have_no_rule_for_is_worked_out_one_by_one() -> None:
    """It is never guessed, and its reason is counted."""
    task = Task.from_workload("matmul", target=cpu_target(threads=2), M=16, N=16, K=16)
    twice = tuple(PragmaStep(2, k, "auto_unroll_max_step$16") for k in range(2))
    batched = BatchedFeatures(task.dag, task.target)
    rows = batched.rows_of([(), twice])
    assert batched.share.one_by_one == 1
    assert batched.share.reasons == {"two unroll limits": 1}
    assert [bits(r) for r in rows] == [
        bits(rows_of_one(task, s, "ansor-0.19")) for s in ((), twice)
    ]


@pytest.mark.parametrize("features", ["ansor-0.19", "autosched-1"])
def test_sums_that_do_not_begin_at_0_are_worked_out_one_by_one(features: str) -> None:
    target = cpu_target(threads=2)
    A, B = te.placeholder((8, 6), name="A"), te.placeholder((6, 8), name="B")
    k = te.reduce_axis((1, 7), "k")
    C = te.compute((8, 8), lambda i, j: te.sum(A[i, k - 1] * B[k - 1, j], axis=k), name="C")
    dag = ComputeDAG([A, B, C])
    found: Sequence[tuple[Step, ...]] = [(), *((SplitStep(2, 2, 6, (n,)),) for n in (2, 3))]
    rows = batched_features(dag, target, features).rows_of(found)
    assert [bits(r) for r in rows] == [
        bits(rows_of_steps(dag, steps, target, features)) for steps in found
    ]


@pytest.mark.parametrize("last", [ComputeRootStep(1), ComputeAtStep(1, 2, 0)])
def test_a_stage_may_be_inlined_and_then_computed_after_all(last: Step) -> None:
    target = cpu_target(threads=2)
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    dag = ComputeDAG([A, te.compute((8,), lambda i: B[i] * 2.0, name="C")])
    found: Sequence[tuple[Step, ...]] = [(ComputeInlineStep(1),), (ComputeInlineStep(1), last)]
    rows = BatchedFeatures(dag, target).rows_of(found)
    assert [bits(r) for r in rows] == [
        bits(rows_of_steps(dag, steps, target, "ansor-0.19")) for steps in found
    ]


def test_no_steps_and_illegal_steps() -> None:
    task = Task.from_workload("matmul", target=cpu_target(threads=2), M=4, N=4, K=4)
    illegal = (SplitStep(99, 0, 4, (2,)),)
    rows = BatchedFeatures(task.dag, task.target).rows_of([(), illegal, ()])
    assert rows[1] is None
    assert bits(rows[0]) == bits(rows[2]) == bits(rows_of_one(task, (), "ansor-0.19"))


_LIMITED = PragmaStep(2, 0, "auto_unroll_max_step$16")
_SPLIT = SplitStep(2, 0, 16, (4,))


@pytest.mark.parametrize(
    "steps",
    [
        (_LIMITED, _SPLIT),  # legal: the limit is of a loop that is gone
        (_LIMITED, CacheWriteStep(2, "local")),  # legal: the limit stays with the copy
        (ComputeInlineStep(2),),  # a reduction
        (ComputeInlineStep(0),),  # an input
        (FuseStep(2, (0, 2**40)),),
        (CacheWriteStep(2, "local"), ComputeAtStep(2, 3, 0), ComputeAtStep(3, 2, 0)),
        (CacheWriteStep(2, "local"), ComputeAtStep(2, 2, 0)),
    ],
)
@pytest.mark.parametrize("target", [cpu_target(threads=2), cuda_target("sm_80")])
def test_steps_that_no_search_draws_do_no_harm_to_others(
    steps: tuple[Step, ...], target: Target
) -> None:
    task = Task.from_workload("matmul", target=target, M=16, N=16, K=16)
    drawn = SearchSpace(task).sample(np.random.default_rng(0), 4)
    odd = [steps, (*steps, *drawn[0]), (*drawn[0], *steps)]
    batched = BatchedFeatures(task.dag, task.target)
    assert not any(batched.refused(odd))
    found = [bits(rows) for rows in batched.rows_of([*drawn, *odd])]
    assert found == [bits(rows_of_one(task, s, "ansor-0.19")) for s in (*drawn, *odd)]


@pytest.mark.parametrize("factor", [2, 4])
def test_padding_is_simplified_as_it_was_written(factor: int) -> None:
    """i * 2 + j - 2 >= 0 is i - 1 >= 0 with j // 2, but 2 <= i * 2 + j stays."""
    data = te.placeholder((56,), name="X")

    def padded(h: Expr) -> Expr:
        return if_then_else(all_(h - 2 >= 0, h - 2 < 56), data[h - 2], 0.0)

    dag, target = ComputeDAG([data, te.compute((60,), padded, name="P")]), cpu_target(threads=2)
    steps = (SplitStep(1, 0, 60, (factor,)),)
    batched = BatchedFeatures(dag, target)
    assert bits(batched.rows_of([steps])[0]) == bits(
        rows_of_steps(dag, steps, target, "ansor-0.19")
    )
    assert not batched.share.one_by_one


@pytest.mark.parametrize("features", ["ansor-0.19", "autosched-1"])
def test_a_single_element_is_a_stage_although_it_has_no_loops(features: str) -> None:
    target = cpu_target(threads=2)
    A = te.placeholder((6,), name="A")
    e = te.compute((), lambda: A[2] * 2, name="e")
    D = te.compute((6,), lambda i: A[i] * e(), name="D")
    dag = ComputeDAG([A, D])
    found: Sequence[tuple[Step, ...]] = [(SplitStep(2, 0, 6, (n,)),) for n in (1, 2, 3, 6)] * 10
    rows = batched_features(dag, target, features).rows_of(found)
    assert [bits(r) for r in rows] == [
        bits(rows_of_steps(dag, steps, target, features)) for steps in found
    ]
    assert all(r is not None and sorted(r.buffers) == ["D", "e"] for r in rows)


@pytest.mark.parametrize("target", [cpu_target(threads=2), cuda_target()], ids=["cpu", "cuda"])
def test_where_loops_cannot_be_compiled_all_rows_are_worked_out_one_by_one(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_code(*_: object) -> None:
        raise NoCodeError("_count: source code not available")

    task = Task.from_workload("matmul", target=target, M=60, N=24, K=36)
    space = SearchSpace(task, SearchOptions(space="autosched"))
    candidates = space.sample(np.random.default_rng(0), 12)
    expected = batched_features(task.dag, target, "autosched-1")(candidates)
    monkeypatch.setattr(Compiled, "__call__", no_code)
    batch._warn.cache_clear()
    batched = batched_features(task.dag, target, "autosched-1")
    with pytest.warns(UserWarning, match=r"one by one.*\(_count: source code not available\)"):
        found = batched(candidates)
    with warnings.catch_warnings(action="error"):
        again = batched(candidates)
        batched_features(task.dag, target, "autosched-1").at_once(candidates)
    for rows in (found, again):
        for ours, theirs in zip(rows, expected, strict=True):
            assert (ours is None) == (theirs is None)
            assert ours is None or theirs is None or ours.tobytes() == theirs.tobytes()
    assert batched.share.one_by_one == batched.share.candidates == 24
    assert batched.share.reasons[batch.WITHOUT_CODE] == 24
