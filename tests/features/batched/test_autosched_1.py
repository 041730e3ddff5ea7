"""Rows of `autosched-1` at once are those of each candidate by itself, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched.features.autosched_1.rows import passes_followed
from autosched.features.batched.autosched_1.batch import BatchedTuningFeatures
from autosched.search.options import SearchOptions
from autosched.search.space import SearchSpace
from autosched.state.steps import JsonStep, steps_from_json
from autosched.target import cpu_target
from autosched.task import Task
from kit.one_by_one import bits, rows_of_one

CASES: list[tuple[str, dict[str, Any], float]] = [
    ("matmul", {"M": 64, "N": 50, "K": 36}, 0.0),
    ("dense_bias_relu", {"M": 16, "N": 100, "K": 32}, 0.0),
    (
        "conv2d_nchw_bn_relu",
        {"N": 1, "H": 8, "W": 8, "K": 3, "stride": 1, "padding": 1, "CI": 4, "CO": 16},
        0.4,
    ),
    ("max_pool2d_nchw", {"N": 1, "H": 8, "W": 8, "K": 3, "stride": 2, "padding": 1, "C": 4}, 0.1),
    (
        "depthwise_conv2d_nhwc",
        {"N": 1, "H": 14, "W": 9, "C": 6, "K": 5, "stride": 2, "padding": 2},
        0.1,
    ),
    (
        "conv2d_transpose_nhwc",
        {"N": 1, "H": 6, "W": 5, "CI": 8, "CO": 12, "K": 4, "stride": 2, "padding": 1},
        0.2,
    ),
    ("conv2d_winograd_nhwc", {"N": 1, "H": 8, "W": 4, "CI": 8, "CO": 16, "tile": 2}, 0.1),
    ("conv2d_winograd_nhwc", {"N": 1, "H": 14, "W": 5, "CI": 8, "CO": 16, "tile": 4}, 0.1),
    ("softmax", {"M": 12, "N": 48}, 0.1),
    ("transpose_batch_matmul_softmax", {"B": 1, "S": 16, "H": 4, "D": 8}, 0.5),
]
"""With the largest share of candidates that may be worked out one by one."""
COUNT = 8


PINNED: dict[str, tuple[str, dict[str, Any], list[JsonStep]]] = {
    # Packs a tile of B for each 4 of a row's 12 columns, of which the second twelve has 2.
    "a packed tile beyond the last column": (
        "matmul",
        {"M": 4, "N": 14, "K": 3},
        [
            *(["CHR", 1, "global", [2]], ["SP", 3, 0, 4, [4], 1], ["SP", 3, 1, 4, [2], 1]),
            *(["SP", 3, 3, 14, [12], 1], ["SP", 3, 4, 12, [1, 4], 1], ["SP", 3, 7, 3, [3], 1]),
            *(["RE", 3, [0, 3, 7, 4, 1, 5, 8, 2, 6]], ["CA", 2, 3, 3]),
        ],
    ),
    # The copy with inserted zeros is made in a loop over channels, of 33 in two times 17.
    "inserted zeros in a loop with a remainder": (
        "conv2d_transpose_nhwc",
        {"N": 2, "H": 9, "W": 5, "CI": 33, "CO": 17, "K": 4, "stride": 2, "padding": 1},
        [
            *(["SP", 3, 0, 2, [1], 1], ["SP", 3, 1, 1, [1], 1], ["SP", 3, 3, 18, [6], 1]),
            *(["SP", 3, 4, 6, [1], 1], ["SP", 3, 6, 10, [10], 1], ["SP", 3, 7, 10, [10], 1]),
            *(["SP", 3, 9, 17, [17], 1], ["SP", 3, 10, 17, [1, 17], 1], ["SP", 3, 13, 4, [1], 1]),
            *(["SP", 3, 15, 4, [4], 1], ["SP", 3, 17, 33, [17], 1]),
            ["RE", 3, [0, 3, 6, 9, 13, 15, 17, 10, 1, 4, 7, 11, 14, 16, 18, 2, 5, 8, 12]],
            *(["CA", 1, 3, 6], ["FU", 3, [0, 1, 2]], ["AN", 3, 0, 3]),
            ["PR", 3, 0, "auto_unroll_max_step$0"],
        ],
    ),
    # Both sums leave the loop over j.1: that of squares first, whose loop was further out.
    "two sums that leave a loop": (
        "layer_norm",
        {"M": 4, "N": 48},
        [
            *(["SP", 7, 0, 4, [4, 1, 1], 1], ["SP", 7, 4, 48, [2, 3, 4], 1]),
            *(["RE", 7, [0, 4, 1, 5, 2, 6, 3, 7]], ["CI", 4], ["CI", 2], ["CA", 3, 7, 3]),
            *(["CA", 1, 7, 6], ["FU", 7, [0, 1]], ["AN", 7, 0, 3]),
            *(["PR", 1, 0, "auto_unroll_max_step$512"], ["AN", 7, 6, 2]),
        ],
    ),
    # A thread computes a row of exponentials and its sum for each element: none of the output's
    # loops goes through the row, which is not kept in it.
    "a row for an element": (
        "softmax",
        {"M": 4, "N": 12},
        [["CA", 3, 4, 1], ["CA", 2, 4, 1], ["FU", 4, [0, 1]], ["AN", 4, 0, 3]],
    ),
}
"""Candidates that differed, or that no longer would be told apart if a check were left out."""


@pytest.mark.parametrize(("name", "args", "most"), CASES)
def test_rows_are_those_of_one_by_one(
    name: str, args: dict[str, Any], most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autosched.features.batched.autosched_1.batch.WORTH_AT_ONCE", 1)
    task = Task.from_workload(name, target=cpu_target(threads=2), **args)
    space = SearchSpace(task, SearchOptions(space="autosched"))
    found = space.sample(np.random.default_rng(5), COUNT)
    batched = BatchedTuningFeatures(task.dag, task.target)
    rows = batched.rows_of(found)
    assert batched.share.candidates == len(found)
    assert batched.share.one_by_one <= most * len(found), batched.share.reasons
    assert [bits(r) for r in rows] == [
        bits(rows_of_one(task, steps, "autosched-1")) for steps in found
    ]


@pytest.mark.parametrize("line", [32, 100, 128, 8192], ids="line{}".format)
def test_rows_of_other_cache_lines(line: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.features.batched.autosched_1.batch.WORTH_AT_ONCE", 1)
    target = cpu_target(threads=2, cache_line_bytes=line)
    task = Task.from_workload("matmul", target=target, M=130, N=1025, K=136)
    found = SearchSpace(task).sample(np.random.default_rng(line), COUNT)
    rows = BatchedTuningFeatures(task.dag, task.target).rows_of(found)
    assert [bits(r) for r in rows] == [
        bits(rows_of_one(task, steps, "autosched-1")) for steps in found
    ]


DILATED: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    "the last dimension is not taken apart": (
        "P[c, i, j] = X[c, i//2, j//2] if i % 2 == 0 and j % 2 == 0 else 0;"
        "Y[k, h, w] = sum(c, r, s, P[c, h + r, w + s] * W[k, c, r, s])",
        {"P": (4, 14, 14), "X": (4, 7, 7), "W": (6, 4, 4, 4)},
    ),
    "no product": (
        "P[i, c] = X[i//2, c] if i % 2 == 0 else 0; S[c] = sum(i, P[i, c])",
        {"P": (40, 12), "X": (20, 12)},
    ),
    "both factors": (
        "P[i, c] = X[i//2, c] if i % 2 == 0 else 0; Q[j, c] = V[j//2, c] if j % 2 == 1 else 0;"
        "S[a, b] = sum(c, r, P[a + r, c] * Q[b + r, c])",
        {"P": (20, 12), "X": (10, 12), "Q": (20, 12), "V": (10, 12), "S": (17, 18)},
    ),
    "every third, of one axis": (
        "P[i, c] = X[(i - 1)//3, c] if 1 <= i and i < 39 and (i - 1) % 3 == 0 else 0;"
        "Y[h, k] = sum(r, c, P[h * 2 + r, c] * W[r, c, k])",
        {"P": (42, 6), "X": (13, 6), "W": (3, 6, 24)},
    ),
}


@pytest.mark.parametrize("case", DILATED)
def test_rows_of_sums_of_inserted_zeros(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.features.batched.autosched_1.batch.WORTH_AT_ONCE", 1)
    text, shapes = DILATED[case]
    task = Task.from_expression(text, shapes, target=cpu_target(threads=2))
    found = SearchSpace(task, SearchOptions(space="autosched")).sample(np.random.default_rng(3), 48)
    batched = BatchedTuningFeatures(task.dag, task.target)
    rows = batched.rows_of(found)
    assert batched.share.one_by_one < len(found) / 2, batched.share.reasons
    assert [bits(r) for r in rows] == [
        bits(rows_of_one(task, steps, "autosched-1")) for steps in found
    ]


@pytest.mark.parametrize("case", PINNED)
def test_rows_of_rare_candidates(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.features.batched.autosched_1.batch.WORTH_AT_ONCE", 1)
    name, args, written = PINNED[case]
    task = Task.from_workload(name, target=cpu_target(threads=2), **args)
    steps = steps_from_json(written)
    batched = BatchedTuningFeatures(task.dag, task.target)
    (rows,) = batched.rows_of([steps])
    assert batched.share.one_by_one == 0, batched.share.reasons
    assert bits(rows) == bits(rows_of_one(task, steps, "autosched-1"))


@pytest.mark.parametrize("zeros", [False, True])
def test_arrays_follow_every_pass(zeros: bool) -> None:
    """A pass that changes loops makes arrays differ silently where no candidate here meets it."""
    assert [p.name for p in passes_followed(zeros)] == [
        "HoistInvariants",
        *([] if zeros else ["SinkInit"]),
        "ShareOutput",
    ], (
        "the passes that rows of autosched-1 come after have changed: give the new one a rule in "
        "features/batched/autosched_1, or refuse what it has none for, compare several hundred "
        "random candidates of each workload with the one-by-one path, and name it here"
    )
