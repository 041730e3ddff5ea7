"""Rows and refusals of many CUDA candidates at once are those of each by itself."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import pytest

from autosched.features.batched.batch import BatchedFeatures
from autosched.features.batched.sets import batched_features
from autosched.features.sets import ANSOR, AUTOSCHED_1
from autosched.search.options import SearchOptions, SpaceName
from autosched.search.space import SearchSpace
from autosched.state.queries import sliced_products
from autosched.state.steps import MatrixTilesStep, Step, steps_from_json
from autosched.target import cuda_target
from autosched.task import Task
from kit.one_by_one import SETS, bits, rows_of_both, rows_of_one
from kit.relatives import with_relatives

CASES: list[tuple[str, dict[str, Any]]] = [
    ("matmul", {"M": 500, "N": 96, "K": 64}),
    (
        "conv2d_nchw_bn_relu",
        {"N": 1, "H": 14, "W": 10, "K": 3, "CI": 6, "CO": 8, "stride": 1, "padding": 1},
    ),
    ("softmax", {"M": 48, "N": 50}),
    ("norm_bmn", {"B": 2, "M": 40, "N": 48}),  # slices, of which warps have a part each
    # Products in slices, and a second kernel whose loops are no axes around what adds them up.
    ("dense_bias_relu", {"M": 64, "N": 40, "K": 8192}),
    ("add_relu", {"M": 60, "N": 52}),  # vectors, blocks of several sizes
    # A window beside axes that threads share, with conditions and a sum of its own.
    ("max_pool2d_nchw", {"N": 1, "C": 5, "H": 14, "W": 14, "K": 3, "stride": 1, "padding": 1}),
    (
        "conv2d_transpose_nhwc",
        {"N": 1, "H": 4, "W": 4, "K": 4, "CI": 8, "CO": 28, "stride": 2, "padding": 1},
    ),
]
MOST = {"conv2d_transpose_nhwc": 5}
"""So many are worked out one by one in `autosched-1`: remainders that simplification knows."""
WIDE = {"matmul": 1}
"""Mutation made vectors of so many candidates wider than 16 bytes, or loops of them."""
COUNT = 8


@pytest.mark.parametrize(("name", "args"), CASES, ids=[name for name, _ in CASES])
def test_rows_and_refusals(
    name: str, args: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autosched.features.batched.autosched_1.device.batch.WORTH_AT_ONCE", 1)
    task = Task.from_workload(name, target=cuda_target(), **args)
    found = with_relatives(task, 5, COUNT, 3)
    one = [rows_of_both(task, steps) for steps in found]
    for features in SETS:
        batched = batched_features(task.dag, task.target, features)
        rows = batched.rows_of(found)
        most = WIDE.get(name, 0) + (0 if features == ANSOR else MOST.get(name, 0))
        assert batched.share.one_by_one <= most, (features, batched.share.reasons)
        assert [bits(r) for r in rows] == [bits(own[features]) for own in one], features


HALVES = {"in_dtype": "float16", "acc_dtype": "float32"}
NARROW: list[tuple[str, dict[str, Any], int]] = [
    ("matmul", {"M": 37, "N": 52, "K": 28, "in_dtype": "int8", "acc_dtype": "int32"}, 3),
    ("batch_matmul", {"B": 2, "M": 12, "N": 20, "K": 24, **HALVES}, 0),
    (
        "conv2d_nchw_bn_relu",
        {"N": 1, "H": 14, "W": 14, "K": 3, "CI": 12, "CO": 20, "stride": 1, "padding": 1} | HALVES,
        1,
    ),
]


@pytest.mark.parametrize(("name", "args", "seed"), NARROW, ids=[name for name, *_ in NARROW])
def test_vectors_of_narrow_types(name: str, args: dict[str, Any], seed: int) -> None:
    """Five and more elements fit a vector, but not their index where they lie apart."""
    task = Task.from_workload(name, target=cuda_target(), **args)
    found = [
        steps
        for steps in with_relatives(task, seed, 20, 3)
        if not any(isinstance(step, MatrixTilesStep) for step in steps)
    ]
    one = [rows_of_both(task, steps) for steps in found]
    for features in SETS:
        batched = batched_features(task.dag, task.target, features)
        rows = batched.rows_of(found)
        reasons = batched.share.reasons
        assert reasons["a vector that may exceed the limit"] <= 1, (features, reasons)
        assert [bits(r) for r in rows] == [bits(own[features]) for own in one], features


@pytest.mark.parametrize(
    ("height", "width", "channels", "seed", "count"),
    [(7, 10, 6, 1, 4), (12, 12, 48, 0, 10), (16, 16, 48, 1, 14)],
)
def test_stages_in_threads_of_a_fused_stage(
    height: int,
    width: int,
    channels: int,
    seed: int,
    count: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Threads of a transform pad what they read, at th * 4 + rh, where th is no sum of digits of
    blocks and threads, and is written more simply there than where the thread stores."""
    monkeypatch.setattr("autosched.features.batched.autosched_1.device.batch.WORTH_AT_ONCE", 1)
    args: dict[str, Any] = {"N": 1, "H": height, "W": width, "CI": channels, "CO": 8, "tile": 4}
    task = Task.from_workload("conv2d_winograd_nhwc", target=cuda_target(), **args)
    found = SearchSpace(task).sample(np.random.default_rng(seed), count)
    one = [rows_of_both(task, steps) for steps in found]
    for features in SETS:
        batched = batched_features(task.dag, task.target, features)
        rows = batched.rows_of(found)
        assert batched.share.one_by_one == 0, batched.share.reasons
        assert [bits(r) for r in rows] == [bits(own[features]) for own in one], features


DIGITS = "digits that a condition tells"
"""t // 7 < 1 makes t % 7 a t where it holds: reads of one tensor at two places, one by one."""
EXPRESSIONS: dict[str, tuple[str, dict[str, list[int]]]] = {
    "prefix sums": ("C[i, j] = sum(k, A[i, k] if k <= j else 0)", {"A": [10, 100], "C": [10, 100]}),
    "one of two tensors": (
        "C[i] = A[i] if i < 10 else B[i - 10]",
        {"A": [10], "B": [20], "C": [30]},
    ),
    "triangle": (
        "Y[i, j] = sum(k, A[i, k] * B[k, j] if k <= i else 0)",
        {"A": [32, 32], "B": [32, 32]},
    ),
    "padded window": (
        "P[i, j] = X[i - 1, j - 1] if 1 <= i and i < 9 and 1 <= j and j < 9 else 0\n"
        "Y[i, j] = max(r, s, P[i + r, j + s]) * 2",
        {"X": [8, 8], "P": [10, 10], "Y": [8, 8]},
    ),
    DIGITS: (
        "C[i, j] = min(k, tanh(b[j] if i < 3 else b[j]) + 0 * A[i, k]) + 0 * (B[0, j] + A[i, 0])",
        {"A": [6, 1], "B": [1, 7], "b": [7]},
    ),
    "a border inside a product": (
        "Y[i] = max(r, (X[2 * i + r - 1] if 2 * i + r >= 1 else -1000.0) * W[r])",
        {"X": [101], "W": [3], "Y": [50]},
    ),
}
"""Values with conditions that are no choice by axes. Of the last one the tile in shared memory
begins before the tensor: a vector of all of it asks for its lanes, and is a loop."""


@pytest.mark.parametrize("space", ["autosched", "ansor"])
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_values_with_conditions(name: str, space: SpaceName) -> None:
    expr, shapes = EXPRESSIONS[name]
    task = Task.from_json_workload({"expr": expr, "shapes": shapes}, cuda_target("sm_90"))
    rng = np.random.default_rng(1)
    candidates = SearchSpace(task, SearchOptions(space=space)).sample(rng, 8)[:12]
    left = {"an index that is a text"} if name == DIGITS else {"a vector that may exceed the limit"}
    one = [rows_of_both(task, steps) for steps in candidates]
    for features in SETS:
        batched = batched_features(task.dag, task.target, features)
        batched_rows = batched.rows_of([*candidates, *candidates])
        assert set(batched.share.reasons) <= left, (features, batched.share.reasons)
        assert name == DIGITS or batched.share.one_by_one < len(candidates), features
        expected = [bits(own[features]) for own in one]
        assert [bits(rows) for rows in batched_rows] == [*expected, *expected], features


@pytest.mark.parametrize(("rows", "left"), [(2, 0), (1, 4)])
def test_sums_of_slices_where_threads_are_more_than_results(rows: int, left: int) -> None:
    """What adds slices up compares the axis that loops reach beyond with its end. Where that is 0
    by this condition alone candidates are worked out one by one."""
    task = Task.from_workload("dense_bias_relu", target=cuda_target("sm_90"), M=rows, N=521, K=1024)
    space = SearchSpace(task)
    sketch = next(s for s in space.sketches if sliced_products(s.steps))
    candidates = space.sample(np.random.default_rng(0), 4, sketch=sketch)[:4]
    for features in SETS:
        batched = batched_features(task.dag, task.target, features, ansor_limits=False)
        found = batched.rows_of(candidates)
        assert batched.share.one_by_one == left, (features, batched.share.reasons)
        one = [rows_of_one(task, steps, features, False) for steps in candidates]
        assert None not in one
        assert [bits(rows) for rows in found] == [bits(rows) for rows in one], features


def test_padding_says_that_an_index_is_0() -> None:
    """Of three rows that threads fetch, whose loops mix axes, one is read: there are no more."""
    args: dict[str, Any] = {"N": 4, "H": 1, "W": 4, "CI": 8, "CO": 33}
    args |= {"K": 3, "stride": 1, "padding": 1}
    task = Task.from_workload("conv2d_nchw_bn_relu", target=cuda_target("sm_90"), **args)
    candidates = SearchSpace(task).sample(np.random.default_rng(0), 12)[:12]
    batched = batched_features(task.dag, task.target, AUTOSCHED_1, ansor_limits=False)
    found = batched.rows_of(candidates)
    assert batched.share.one_by_one <= len(candidates) // 2, batched.share.reasons
    one = [rows_of_one(task, steps, AUTOSCHED_1, False) for steps in candidates]
    assert [bits(rows) for rows in found] == [bits(rows) for rows in one]


def test_a_vector_that_begins_before_its_tensor_is_not_too_wide() -> None:
    """1 <= blockIdx.x * 20 + lane asks for the lane, so that there is a loop and no vector."""
    expr, shapes = EXPRESSIONS["a border inside a product"]
    task = Task.from_json_workload({"expr": expr, "shapes": shapes}, cuda_target("sm_90"))
    data: list[Any] = [["CHW", 2, "local"], ["SP", 2, 0, 50, [1, 1, 2, 5], 1]]
    data += [["SP", 2, 5, 3, [1, 3], 1], ["RE", 2, [0, 1, 2, 5, 6, 3, 7, 4]]]
    data += [["FSP", 3, 0, 1, 3], ["CA", 2, 3, 2], ["CHR", 1, "shared", [2]], ["CA", 2, 3, 3]]
    data += [["CHR", 0, "shared", [3]], ["CA", 1, 4, 3]]
    data += [["FU", 5, [0]], ["AN", 5, 0, 5], ["FU", 5, [1]], ["AN", 5, 1, 4]]
    data += [["FU", 5, [2]], ["AN", 5, 2, 6]]
    for stage, extent, vector in ((3, 3, 1), (1, 21, 21)):
        data += [["FU", stage, [0]], ["SP", stage, 0, extent, [vector], 1]]
        data += [["AN", stage, 1, 2], ["FFSP", stage, 0, [1], 1, 1], ["AN", stage, 1, 6]]
    candidate = steps_from_json(data)
    for features in SETS:
        (rows, _) = batched_features(task.dag, task.target, features).rows_of([candidate] * 2)
        assert rows is not None
        assert bits(rows) == bits(rows_of_one(task, candidate, features, True))


def _one_dimensional(
    tiles: Sequence[Sequence[int]], sizes: dict[str, Any], weights: tuple[int, int], lanes: int
) -> tuple[Task, tuple[Step, ...]]:
    """A convolution and a candidate with its splits by `tiles`, whose threads fetch so many
    `weights` in vectors, and 16 elements of its input in vectors of `lanes`."""
    task = Task.from_workload("conv1d_nlc", target=cuda_target(), **sizes)
    places = ((0, "N"), (5, "L"), (10, "CO"), (15, "K"), (18, "CI"))
    space = [0, 5, 10, 1, 6, 11, 2, 7, 12]
    steps: list[Any] = [["CHW", 3, "local"]]
    for (at, name), tile in zip(places, tiles, strict=True):
        steps.append(["SP", 3, at, sizes[name], tile, 1])
    steps += [["RE", 3, [*space, 15, 18, 16, 19, 3, 8, 13, 17, 20, 4, 9, 14]]]
    steps += [["FSP", 4, at, n, 3] for at, n in ((0, 1), (4, 2), (8, 3))]
    steps += [["RE", 4, [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]], ["CA", 3, 4, 8]]
    steps += [["CHR", 2, "shared", [3]], ["CA", 3, 4, 10], ["CHR", 1, "shared", [4]]]
    steps += [["CA", 2, 5, 10], ["CI", 1]]
    for k, kind in enumerate((5, 4, 6)):
        steps += [["FU", 6, [k, k + 1, k + 2]], ["AN", 6, k, kind]]
    for stage, extent, vector in ((4, *weights), (2, 16, lanes)):
        steps += [["FU", stage, [0, 1, 2]], ["SP", stage, 0, extent, [vector], 1]]
        steps += [["AN", stage, 1, 2], ["FFSP", stage, 0, [3, 2, 1], 1, 1], ["AN", stage, 1, 6]]
    return task, steps_from_json(steps)


@pytest.mark.parametrize(("lanes", "fits"), [(4, True), (8, True), (16, False)])
def test_vectors_that_a_border_makes_loops_are_not_too_wide(lanes: int, fits: bool) -> None:
    """The border asks for the lane: 1 <= (t * 8 + lane) // 16, whose axis is t // 2 alone."""
    sizes: dict[str, Any] = {"N": 2, "L": 13, "CI": 32, "CO": 48, "K": 3, "stride": 1, "padding": 1}
    tiles = [[1, 2, 1, 1], [1, 13, 1, 1], [1, 6, 8, 1], [1, 3], [2, 8]]
    task, candidate = _one_dimensional(tiles, sizes, (128, 1), lanes)
    (rows,) = BatchedFeatures(task.dag, task.target).rows_of([candidate])
    assert (rows is not None) == fits
    assert bits(rows) == bits(rows_of_one(task, candidate, ANSOR, True))


def test_vectors_beyond_an_axis_of_one_element_are_not_too_wide() -> None:
    """Ten threads fetch 26 vectors of 40 weights: (o * 50 + t * 5 + lane // 8) // 130 + k < 3 asks
    for the lane, whose axis is 0 by o * 10 + t < 26 alone."""
    sizes: dict[str, Any] = {"N": 1, "L": 10, "CI": 130, "CO": 8, "K": 3, "stride": 1, "padding": 1}
    tiles = [[1, 1, 1, 1], [1, 10, 1, 1], [1, 1, 8, 1], [1, 1], [130, 1]]
    task, candidate = _one_dimensional(tiles, sizes, (1040, 40), 1)
    for features in SETS:
        batched = batched_features(task.dag, task.target, features, ansor_limits=False)
        (rows, _) = batched.rows_of([candidate] * 2)
        assert rows is not None
        assert bits(rows) == bits(rows_of_one(task, candidate, features, False))


# A vector of 3 padded elements, 15 threads along rows of 12: the border asks for lanes of a row.
_OUTER = (0, 5, 10, 15, 1, 6, 11, 16, 2, 7, 12, 17)
MASKED: list[Any] = [
    *(["CI", 9], ["CI", 7], ["CI", 5], ["SP", 3, 0, 1, [1, 1, 1, 1], 1]),
    *(["SP", 3, 5, 8, [8, 1, 1, 1], 1], ["SP", 3, 10, 14, [1, 7, 2, 1], 1]),
    *(["SP", 3, 15, 10, [1, 5, 1, 1], 1], ["SP", 3, 20, 6, [3, 1], 1]),
    *(["SP", 3, 23, 3, [1, 1], 1], ["SP", 3, 26, 3, [1, 1], 1]),
    ["RE", 3, [*_OUTER, 20, 23, 26, 21, 24, 27, 3, 8, 13, 18, 22, 25, 28, 4, 9, 14, 19]],
    *(["FSP", 10, 0, 3, 3], ["FSP", 10, 4, 4, 3], ["FSP", 10, 8, 5, 3], ["FSP", 10, 12, 6, 3]),
    ["RE", 10, [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15]],
    *(["CA", 3, 10, 11], ["CHR", 2, "shared", [3]], ["CA", 3, 4, 14]),
    *(["CHR", 1, "shared", [4]], ["CA", 2, 5, 14], ["CI", 1]),
    *(["FU", 12, [0, 1, 2, 3]], ["AN", 12, 0, 5], ["FU", 12, [1, 2, 3, 4]], ["AN", 12, 1, 4]),
    *(["FU", 12, [2, 3, 4, 5]], ["AN", 12, 2, 6], ["FU", 4, [0, 1, 2, 3]]),
    *(["SP", 4, 0, 3, [3], 1], ["AN", 4, 1, 2], ["FFSP", 4, 0, [6, 5, 4, 3], 1, 1]),
    *(["AN", 4, 1, 6], ["FU", 2, [0, 1, 2, 3]], ["SP", 2, 0, 6, [2], 1], ["AN", 2, 1, 2]),
    *(["FFSP", 2, 0, [6, 5, 4, 3], 1, 1], ["AN", 2, 1, 6]),
    ["PR", 5, 0, "auto_unroll_max_step$1024"],
]


def test_a_border_asks_for_lanes_that_are_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.features.batched.autosched_1.device.batch.WORTH_AT_ONCE", 1)
    name, args = CASES[1]
    task = Task.from_workload(name, target=cuda_target(), **args)
    candidate = steps_from_json(MASKED)
    batched = batched_features(task.dag, task.target, AUTOSCHED_1)
    (rows,) = batched.rows_of([candidate])
    assert batched.share.one_by_one == 0, batched.share.reasons
    assert bits(rows) == bits(rows_of_one(task, candidate, AUTOSCHED_1, False))


# Threads fetch 3 x 5 x 30 elements of the transposed K in vectors of 3, 12 at a time: 13 rounds.
BEYOND: list[Any] = [
    *(["CI", 6], ["CHW", 4, "local"], ["SP", 4, 0, 6, [1, 1, 3, 1], 1]),
    *(["SP", 4, 5, 30, [1, 2, 1, 15], 1], ["SP", 4, 10, 30, [1, 6, 1, 5], 1]),
    ["SP", 4, 15, 10, [1, 5], 1],
    ["RE", 4, [0, 5, 10, 1, 6, 11, 2, 7, 12, 15, 16, 3, 8, 13, 17, 4, 9, 14]],
    *(["FSP", 5, 0, 2, 3], ["FSP", 5, 4, 3, 3], ["FSP", 5, 8, 4, 3]),
    *(["RE", 5, [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]], ["CA", 4, 5, 8]),
    *(["CHR", 3, "shared", [4]], ["CA", 4, 5, 9], ["CI", 3], ["CHR", 1, "shared", [5]]),
    *(["CA", 2, 6, 9], ["CI", 1], ["FU", 11, [0, 1, 2]], ["SP", 11, 0, 5400, [32], 1]),
    *(["AN", 11, 0, 5], ["AN", 11, 1, 6], ["FU", 10, [0, 1]], ["SP", 10, 0, 180, [32], 1]),
    *(["AN", 10, 0, 5], ["AN", 10, 1, 6], ["FU", 8, [0, 1]], ["SP", 8, 0, 180, [32], 1]),
    *(["AN", 8, 0, 5], ["AN", 8, 1, 6], ["FU", 7, [0, 1, 2]], ["AN", 7, 0, 5]),
    *(["FU", 7, [1, 2, 3]], ["AN", 7, 1, 4], ["FU", 7, [2, 3, 4]], ["AN", 7, 2, 6]),
    *(["FU", 5, [0, 1, 2]], ["SP", 5, 0, 75, [3], 1], ["AN", 5, 1, 2]),
    *(["FFSP", 5, 0, [4, 3, 2], 1, 1], ["AN", 5, 1, 6], ["FU", 2, [0, 1, 2]]),
    *(["SP", 2, 0, 15, [1], 1], ["AN", 2, 1, 2], ["FFSP", 2, 0, [4, 3, 2], 1, 1]),
    ["AN", 2, 1, 6],
]


def test_the_last_vectors_of_a_tile_may_lie_beyond_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What (block * 3 + element // 150) // 3 is, no condition on vectors decides."""
    monkeypatch.setattr("autosched.features.batched.autosched_1.device.batch.WORTH_AT_ONCE", 1)
    task = Task.from_workload(
        "transpose_batch_matmul_softmax", target=cuda_target(), B=2, S=30, H=3, D=10
    )
    candidate = steps_from_json(BEYOND)
    for features in SETS:
        (rows,) = batched_features(task.dag, task.target, features).rows_of([candidate])
        assert rows is not None and bits(rows) == bits(rows_of_one(task, candidate, features, True))


@pytest.mark.parametrize("columns", [1, 3])
def test_threads_that_run_once_are_not_around_an_unrolled_loop(columns: int) -> None:
    """The unrolled loop is the outermost one of the reduction, whatever the single block is."""
    text = "Y[j] = sum(k, l, X[k, l, j])"
    shapes = {"X": [7, 5, columns], "Y": [columns]}
    task = Task.from_json_workload({"expr": text, "shapes": shapes}, cuda_target())
    steps: list[Any] = [["SP", 1, 0, columns, [1, 4], 1], ["AN", 1, 0, 5], ["AN", 1, 1, 4]]
    candidate = steps_from_json([*steps, ["AN", 1, 2, 6], ["AN", 1, 3, 1]])
    for features in SETS:
        (rows, _) = batched_features(task.dag, task.target, features).rows_of([candidate] * 2)
        assert rows is not None and bits(rows) == bits(rows_of_one(task, candidate, features, True))


_THREADS: list[Any] = [["SP", 3, 0, 8, [2], 1], ["AN", 3, 0, 5], ["AN", 3, 1, 6]]
ODD: dict[str, list[Any]] = {
    "threads fill memory of their own": [["CHR", 1, "local", [2]], ["AN", 2, 0, 6], *_THREADS],
    "threads fill global memory": [["CHR", 0, "global", [2]], *_THREADS, ["CA", 1, 3, 1]],
    "nothing is bound after a kernel": [["CHR", 0, "global", [2]], ["AN", 1, 0, 6]],
    "nothing is bound before a kernel": [["CHR", 0, "global", [2]], *_THREADS],
}
"""Steps of a product that te refuses, or that leave a stage to the host: no search draws them."""


@pytest.mark.parametrize("case", ODD)
def test_stages_outside_of_threads_and_memory_that_they_cannot_fill(case: str) -> None:
    task = Task.from_workload("matmul", target=cuda_target(), M=8, N=8, K=8)
    candidate = steps_from_json(ODD[case])
    for features in SETS:
        (rows, _) = batched_features(task.dag, task.target, features).rows_of([candidate] * 2)
        assert bits(rows) == bits(rows_of_both(task, candidate)[features])


@pytest.mark.parametrize("limit", [1024, 8192])
def test_what_is_refused_is_illegal(limit: int) -> None:
    """Shared memory by Ansor's count and by what merging it leaves, and too many threads."""
    target = cuda_target(max_shared_memory_per_block=limit, max_threads_per_block=64)
    task = Task.from_workload("matmul", target=target, M=64, N=64, K=64)
    found = with_relatives(task, 5, COUNT, 3)
    for ansor_limits in (True, False):
        batched = BatchedFeatures(task.dag, target, ansor_limits)
        refused = batched.refused(found)
        wanted = [rows_of_one(task, steps, ANSOR, ansor_limits) for steps in found]
        assert any(refused)
        assert all(own is None for own, no in zip(wanted, refused, strict=True) if no)
        assert [bits(r) for r in batched.rows_of(found)] == [bits(own) for own in wanted]


def _tiled(i: list[int], j: list[int]) -> tuple[Step, ...]:
    """A matmul of 1024 whose result is cut by these lengths."""
    steps: list[Any] = [["CHW", 2, "local"]]
    for place, own in ((0, i), (5, j), (10, [1, 8])):
        steps.append(["SP", 2, place, 1024, own, 1])
    steps += [["RE", 2, [0, 5, 1, 6, 2, 7, 10, 11, 3, 8, 12, 4, 9]], ["FSP", 3, 0, 1, 3]]
    steps += [["FSP", 3, 4, 2, 3], ["RE", 3, [0, 4, 1, 5, 2, 6, 3, 7]], ["CA", 2, 3, 5]]
    steps += [["CHR", 1, "shared", [2]], ["CA", 2, 3, 6], ["CHR", 0, "shared", [3]]]
    steps += [["CA", 1, 4, 6], ["FU", 5, [0, 1]], ["AN", 5, 0, 5], ["FU", 5, [1, 2]]]
    steps += [["AN", 5, 1, 4], ["FU", 5, [2, 3]], ["AN", 5, 2, 6]]
    for stage, own in ((3, j), (1, i)):
        steps += [["FU", stage, [0, 1]], ["SP", stage, 0, prod(own) * 8, [1], 1]]
        steps += [["AN", stage, 1, 2], ["FFSP", stage, 0, [2, 1], 1, 1], ["AN", stage, 1, 6]]
    return steps_from_json([*steps, ["PR", 4, 0, "auto_unroll_max_step$64"]])


@pytest.mark.parametrize("features", SETS)
def test_arrays_that_registers_have_no_room_for(features: str) -> None:
    """The space `autosched` refuses those of 1,024 bytes, with virtual threads or without."""
    task = Task.from_workload("matmul", target=cuda_target(), M=1024, N=1024, K=1024)
    candidates = [
        _tiled([2, 16, 1, 4], [2, 16, 1, 4]),
        _tiled([2, 16, 1, 8], [1, 16, 1, 8]),
        _tiled([1, 16, 4, 4], [1, 16, 4, 4]),
        _tiled([2, 16, 1, 8], [2, 16, 1, 8]),
        _tiled([1, 1, 16, 16], [1, 64, 1, 16]),
    ]
    for ansor_limits, fits in ((True, 5), (False, 2)):
        batched = batched_features(task.dag, task.target, features, ansor_limits)
        rows = batched.rows_of(candidates)
        assert [row is not None for row in rows] == [n < fits for n in range(5)]
        assert batched.share.one_by_one == 0
        assert batched.refused(candidates) == [n >= fits for n in range(5)]
        one = [rows_of_one(task, steps, features, ansor_limits) for steps in candidates]
        assert [bits(r) for r in rows] == [bits(r) for r in one]


PART_OF_A_PRODUCT: dict[str, Any] = {
    "expr": "C[i, j] = sum(k, A[i, k] * B[k, j])\nD[i, j] = C[2 * i + 1, 3 * j + 1]",
    "shapes": {"A": [8, 33], "B": [33, 24], "C": [8, 24], "D": [3, 7]},
}


def _tiles_of_a_part() -> tuple[Step, ...]:
    """8 x (4 * 6) threads for 5 x 19 results, beside each other in rows, and tiles of A and B."""
    data: list[Any] = [["CHW", 2, "local"], ["SP", 2, 0, 8, [1, 8, 1, 1], 1]]
    data += [["SP", 2, 5, 24, [4, 6, 1, 1], 1], ["SP", 2, 10, 33, [1, 1], 1]]
    data += [["RE", 2, [0, 5, 1, 6, 2, 7, 10, 11, 3, 8, 12, 4, 9]]]
    data += [["FSP", 3, 0, 1, 3], ["FSP", 3, 4, 2, 3], ["RE", 3, [0, 4, 1, 5, 2, 6, 3, 7]]]
    data += [["CA", 2, 3, 5], ["CHR", 1, "shared", [2]], ["CA", 2, 3, 6]]
    data += [["CHR", 0, "shared", [3]], ["CA", 1, 4, 6], ["FU", 6, [0, 1]], ["AN", 6, 0, 6]]
    data += [["FU", 5, [0, 1]], ["AN", 5, 0, 5], ["FU", 5, [1, 2]], ["AN", 5, 1, 4]]
    data += [["FU", 5, [2, 3]], ["AN", 5, 2, 6]]
    for stage in (3, 1):
        data += [["FU", stage, [0, 1]], ["SP", stage, 0, 1, [1], 1], ["AN", stage, 1, 2]]
        data += [["FFSP", stage, 0, [2, 1], 1, 1], ["AN", stage, 1, 6]]
    return steps_from_json(data)


def test_threads_reach_beyond_the_part_that_is_read() -> None:
    """Tiles have what all threads would read: 24 columns."""
    task = Task.from_json_workload(PART_OF_A_PRODUCT, cuda_target())
    candidate = _tiles_of_a_part()
    one = rows_of_both(task, candidate)
    for features in SETS:
        batched = batched_features(task.dag, task.target, features)
        rows = batched.rows_of([candidate] * 2)
        assert [bits(r) for r in rows] == [bits(one[features])] * 2, features
        assert set(+batched.share.reasons) == {"a region of an axis whose loops reach beyond it"}


def test_loops_of_a_tile_are_not_those_of_the_stage_around_it() -> None:
    """Where vectors have 4 bytes each loop of a tile is asked for."""
    task = Task.from_json_workload(PART_OF_A_PRODUCT, cuda_target(vector_unit_bytes=4))
    candidate = _tiles_of_a_part()
    one = rows_of_one(task, candidate, ANSOR, True)
    assert one is not None
    rows = batched_features(task.dag, task.target, ANSOR).rows_of([candidate] * 2)
    assert [bits(r) for r in rows] == [bits(one)] * 2
