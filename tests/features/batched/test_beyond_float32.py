"""Products and sums that single precision rounds: rows at once are those of one by one."""

from __future__ import annotations

from typing import Any

import pytest

from autosched.features.ansor.rows import FeatureRows
from autosched.features.batched.sets import batched_features
from autosched.features.sets import Rows
from autosched.target import cpu_target, cuda_target
from autosched.task import Task
from kit.one_by_one import SETS, rows_of_both
from kit.relatives import with_relatives

CONV = {"N": 7, "H": 111, "W": 99, "K": 3, "padding": 1}
CASES: list[tuple[str, str, dict[str, Any], int]] = [
    # Loops whose product is divided again when they are left, and is another one then.
    ("cuda", "matmul", {"M": 3000, "N": 1000, "K": 333}, 3),
    ("cpu", "softmax", {"M": 3000, "N": 5000}, 3),
    ("cpu", "matmul", {"M": 4999, "N": 4001, "K": 3}, 3),  # of a start, too
    # Storage that ends with a loop that runs once, and the order of what a store touches.
    ("cpu", "depthwise_conv2d_nhwc", {**CONV, "C": 93, "stride": 1}, 9),
    ("cpu", "conv2d_nchw_bn_relu", {**CONV, "CI": 51, "CO": 70, "stride": 2}, 9),
    # The tenth point of a curve, beyond the operations of all loops.
    ("cpu", "layer_norm", {"M": 5001, "N": 3001}, 3),
    ("cuda", "softmax", {"M": 3000, "N": 5000}, 3),
]
COUNT = 24


@pytest.mark.parametrize(
    ("kind", "name", "args", "seed"), CASES, ids=[f"{c[1]}-{c[0]}" for c in CASES]
)
def test_rows_are_those_of_one_by_one(
    kind: str, name: str, args: dict[str, Any], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for where in ("batch", "device.batch"):
        monkeypatch.setattr(f"autosched.features.batched.autosched_1.{where}.WORTH_AT_ONCE", 1)
    task = Task.from_workload(
        name, target=cuda_target() if kind == "cuda" else cpu_target(threads=2), **args
    )
    candidates = with_relatives(task, seed, COUNT, 1)
    one = [rows_of_both(task, steps) for steps in candidates]
    for features in SETS:
        batched = batched_features(task.dag, task.target, features)
        rows, rest = batched.at_once(candidates)
        assert len(rest) <= len(candidates) / 8, (features, batched.share.reasons)
        for n, (own, found) in enumerate(zip(one, rows, strict=True)):
            if n not in rest:
                assert _bits(found) == _bits(own[features]), (features, n)


def _bits(rows: Rows | FeatureRows | None) -> bytes | None:
    values = rows.values if isinstance(rows, Rows) else rows
    return None if values is None else values.tobytes()
