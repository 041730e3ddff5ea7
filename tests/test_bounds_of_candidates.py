"""What bounds and features promise, on sampled candidates of shapes without a golden line.

Batches, groups, dilation, strides that leave a rest, several consumers, clamped reads: the program
of a candidate, not lowered yet, runs in the interpreter, which checks every access against the
region inferred for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched.errors import ScheduleError
from autosched.features.lowering import features_of_steps
from autosched.features.sets import FEATURE_SETS
from autosched.measure.check import compare
from autosched.search.space import SearchSpace
from autosched.state.steps import steps_from_json, steps_to_json
from autosched.target import Target, cpu_target, cuda_target
from autosched.task import Task
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.tir import interp
from kit.tir import value_of

BUILT_IN: list[tuple[str, dict[str, Any]]] = [
    ("conv1d_nlc", {"N": 3, "L": 10, "CI": 4, "CO": 32, "K": 3, "stride": 2, "padding": 1}),
    (
        "conv2d_nhwc",
        {"N": 2, "H": 7, "W": 4, "CI": 4, "CO": 24, "KH": 3, "KW": 2}
        | {"stride": 2, "padding": 2, "dilation": 2, "groups": 2},
    ),
    ("depthwise_conv2d_nhwc", {"N": 2, "H": 5, "W": 6, "C": 32, "K": 3, "stride": 2, "padding": 1}),
    (
        "conv2d_transpose_nhwc",
        {"N": 2, "H": 3, "W": 2, "CI": 2, "CO": 32, "K": 4, "stride": 2, "padding": 1},
    ),
    ("transpose_batch_matmul_softmax", {"B": 2, "S": 8, "H": 2, "D": 8}),
    ("max_pool2d_nchw", {"N": 2, "C": 4, "H": 6, "W": 7, "K": 2, "stride": 2, "padding": 0}),
]
EXPRESSIONS: list[tuple[str, dict[str, list[int]]]] = [
    (
        "P[n,i] = X[n,i-1] if 1 <= i and i < 11 else 0.0; C[n,i,c] = sum(r, P[n,2*i+r]*W[r,c]);"
        "D[n,i,c] = C[n,i,c] + P[n,2*i+1]; E[n,c] = sum(i, D[n,i,c])",
        {"X": [3, 10], "W": [3, 4], "P": [3, 12]},
    ),
    (
        "G[b,g,i,o] = sum(k, X[b,g,i,k]*W[g,k,o]); H[b,g,i,o] = G[b,g,i,o] + C[g,o];"
        "M[b,g] = sum(i, o, H[b,g,i,o]); Y[b,g,i,o] = H[b,g,i,o] - M[b,g]",
        {"X": [2, 3, 4, 4], "W": [3, 4, 16], "C": [3, 16]},
    ),
    (
        "T[i,j] = exp(A[i//2,j]); D[i] = sum(k, T[min(i,5),min(k,4)]*Z[k])",
        {"A": [4, 6], "Z": [6], "T": [8, 6], "D": [8]},
    ),
    ("Q[n,i] = sum(k, A[n,3*i+2*k]*W[k]); O[n,i] = Q[n,i]*Q[n,i]", {"A": [4, 17], "W": [3]}),
]
NAMES = [op for op, _ in BUILT_IN] + [expr.partition(";")[0] for expr, _ in EXPRESSIONS]


def task_of(number: int, target: Target) -> Task:
    if number < len(BUILT_IN):
        op, args = BUILT_IN[number]
        return Task.from_workload(op, **args, target=target)
    expr, shapes = EXPRESSIONS[number - len(BUILT_IN)]
    return Task.from_expression(expr, shapes, target=target)


def check_features(task: Task, steps: Any) -> int:
    """How many feature sets the candidate has rows in; a GPU may be too small for it."""
    extracted = 0
    for name, features in FEATURE_SETS.items():
        try:
            rows = features_of_steps(task.dag, steps, task.target, name)
        except ScheduleError as error:
            assert task.target.is_gpu, error
            continue
        assert np.isfinite(rows).all()
        assert rows.shape == (len(rows), len(features.columns))
        extracted += 1
    return extracted


@pytest.mark.parametrize(("kind", "count"), [("cpu", 2), ("cuda", 1)])
@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_every_access_is_in_its_region(number: int, kind: str, count: int) -> None:
    task = task_of(number, cpu_target(threads=2) if kind == "cpu" else cuda_target())
    outputs = task.tensors[-task.num_outputs :]
    expected = task.reference(task.inputs(seed=0))
    found = SearchSpace(task).sample(np.random.default_rng(5), count)[:count]
    assert found
    extracted = 0
    for steps in found:
        assert steps_from_json(steps_to_json(steps)) == tuple(steps)
        assert "None" not in task.dag.infer_bound_of(steps).to_str()
        schedule, tensors = task.dag.apply_steps(steps)
        func = schedule_to_prim_func(schedule.normalize_for_feature_extraction(), tensors)
        empty = [np.full([value_of(e) for e in t.shape], 77, t.dtype.numpy) for t in outputs]
        arrays = [*task.inputs(seed=0), *empty]
        interp.run(func, arrays, check_races=False)
        for tensor, got, want in zip(outputs, arrays[-len(outputs) :], expected, strict=True):
            assert compare(tensor.name, got, want) is None, steps_to_json(steps)
        extracted += check_features(task, steps)
    assert extracted
