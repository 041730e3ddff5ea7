"""Rows of candidates that use a tensor instruction of a CPU are those of each by itself."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest

from autosched.errors import ScheduleError
from autosched.features.batched.autosched_1 import batch
from autosched.features.batched.sets import batched_features
from autosched.features.lowering import rows_of_steps
from autosched.features.sets import FeatureSetName, Rows
from autosched.search.evolution import mutated
from autosched.search.mutation import restructured
from autosched.search.options import SearchOptions
from autosched.search.population import Structures
from autosched.search.space import SearchSpace
from autosched.state.steps import InstructionStep, JsonStep, Step, steps_from_json
from autosched.target import HardwareParams, Target
from autosched.task import Task

_X86, _ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
_HARDWARE = HardwareParams.default("cpu", threads=2)
_AVX512 = "+sse2,+avx2,+fma,+f16c,+avx512f,+avx512bw"
TARGETS = {
    name: Target("cpu", _HARDWARE, 2, name, features, triple, width)
    for name, features, triple, width in (
        ("vnni", f"{_AVX512},+avx512vnni,+avx512bf16", _X86, 64),
        ("amx", f"{_AVX512},+avx512vnni,+avx512bf16,+amx-tile,+amx-int8,+amx-bf16", _X86, 64),
        ("avx2", "+sse2,+avx2,+fma,+f16c", _X86, 32),
        ("sse", "+sse2", _X86, 16),
        ("arm", "+neon,+dotprod,+i8mm,+bf16", _ARM, 16),
    )
}
_BYTES = {"in_dtype": "int8", "acc_dtype": "int32"}
_UNSIGNED = {"in_dtype": "uint8", "weight_dtype": "int8", "acc_dtype": "int32"}
_BFLOAT = {"in_dtype": "bfloat16", "acc_dtype": "float32"}
_HALF = {"in_dtype": "float16", "acc_dtype": "float32"}
_IMAGE: dict[str, Any] = {"N": 1, "H": 9, "W": 7, "KH": 3, "KW": 3, "stride": 1, "padding": 1}
_UNEVEN: dict[str, Any] = {"M": 50, "N": 100, "K": 33}
_EVEN: dict[str, Any] = {"M": 64, "N": 64, "K": 64}
CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("vnni", "matmul", {**_UNEVEN, **_BYTES}),
    ("vnni", "matmul", {**_EVEN, **_BFLOAT}),
    ("vnni", "matmul", {"M": 31, "N": 37, "K": 1, **_UNSIGNED}),
    ("vnni", "dense_bias_relu", {"M": 8, "N": 40, "K": 36, **_HALF}),
    ("vnni", "conv2d_nhwc", {**_IMAGE, "CI": 12, "CO": 24, "stride": 2, **_UNSIGNED}),
    ("vnni", "conv2d_nhwc", {**_IMAGE, "N": 2, "CI": 8, "CO": 16, **_BYTES}),
    ("vnni", "transpose_batch_matmul_softmax", {"B": 1, "S": 24, "H": 3, "D": 16, **_BFLOAT}),
    ("amx", "matmul", {**_UNEVEN, **_BFLOAT}),
    ("amx", "matmul", {**_EVEN, **_BYTES}),
    ("amx", "conv2d_nhwc", {**_IMAGE, "CI": 12, "CO": 40, **_BYTES}),
    ("amx", "conv2d_nhwc", {**_IMAGE, "H": 16, "CI": 16, "CO": 32, **_UNSIGNED}),
    ("avx2", "matmul", {**_UNEVEN, **_UNSIGNED}),
    ("avx2", "batch_matmul", {"B": 3, "M": 20, "N": 24, "K": 17, **_BFLOAT}),
    ("sse", "dense_requantised", {"M": 16, "N": 20, "K": 24, "in_dtype": "int8"}),
    ("arm", "matmul", {**_UNEVEN, **_BYTES}),
    ("arm", "conv2d_nhwc_requantised", {**_IMAGE, "CI": 8, "CO": 13, "in_dtype": "uint8"}),
]
COUNT = 6

_LIMIT = "auto_unroll_max_step$512"
_AMX_TILES: list[JsonStep] = [
    *(["TI", 2, "amx.tdpbssd", 1, 2, 1, 0], ["SA", 2, 0, 128, 64]),
    *(["SP", 6, 0, 128, [16], 1], ["SP", 6, 2, 128, [32], 1], ["AN", 4, 2, 11], ["AN", 3, 4, 11]),
    *(["SP", 6, 0, 8, [4], 1], ["SP", 6, 3, 4, [1], 1], ["RE", 6, [0, 3, 1, 4, 2, 5]], ["CI", 5]),
    *(["AN", 6, 4, 11], ["CA", 4, 6, 3]),
]
PINNED: dict[str, list[JsonStep]] = {
    # A.pack has aligned rows: HoistInvariants leaves it in the loop j.0, which does not move it.
    "aligned storage in a loop that does not move it": [*_AMX_TILES, ["CA", 2, 6, 1]],
    # Nor does B.pack leave i.1, of which it is made in each iteration after A.pack.
    "a stage behind aligned storage": [*_AMX_TILES, ["CA", 3, 6, 2], ["CA", 2, 6, 2]],
    # Copies are never unrolled, whatever the limit of the tiles that they are computed in.
    "a copy in a loop with a limit": [*_AMX_TILES, ["CA", 2, 4, 1], ["PR", 4, 0, _LIMIT]],
    "a copy without its limit, as its loop was split": [
        *(*_AMX_TILES, ["SP", 2, 1, 128, [32], 1], ["CA", 2, 4, 1], ["PR", 4, 0, _LIMIT]),
    ],
    # Another limit would be inside or outside of the copy's own.
    "a copy with a limit of its own": [*_AMX_TILES, ["PR", 2, 0, _LIMIT]],
}


def _population(task: Task, seed: int) -> list[tuple[Step, ...]]:
    """Random candidates, and one mutation of each."""
    space, rng = SearchSpace(task, SearchOptions()), np.random.default_rng(seed)
    found = space.sample(rng, COUNT)[:COUNT]
    changed = [restructured(space.context, steps, rng) or steps for steps in found]
    structures = Structures()
    rows = mutated(space.context, structures, structures.rows(changed), rng)
    return [*found, *structures.candidates(rows)]


def _one(task: Task, steps: tuple[Step, ...], features: FeatureSetName) -> Rows | None:
    try:
        return rows_of_steps(task.dag, steps, task.target, features)
    except ScheduleError:
        return None


def _bits(rows: Rows | None) -> object:
    return None if rows is None else (rows.values.shape, rows.values.tobytes(), rows.buffers)


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work out small groups at once, too."""
    monkeypatch.setattr(batch, "WORTH_AT_ONCE", 1)


@pytest.mark.parametrize(
    ("target", "name", "args"), CASES, ids=[f"{t}-{n}-{k}" for k, (t, n, _) in enumerate(CASES)]
)
@pytest.mark.parametrize("features", get_args(FeatureSetName))
def test_rows_are_those_of_one_by_one(
    target: str, name: str, args: dict[str, Any], features: FeatureSetName
) -> None:
    task = Task.from_workload(name, target=TARGETS[target], **args)
    found = _population(task, 5)
    assert any(isinstance(step, InstructionStep) for steps in found for step in steps)
    batched = batched_features(task.dag, task.target, features)
    rows = batched.rows_of(found)
    assert batched.share.one_by_one <= 0.5 * len(found), batched.share.reasons
    assert [_bits(r) for r in rows] == [_bits(_one(task, steps, features)) for steps in found]


@pytest.mark.parametrize("case", PINNED)
@pytest.mark.parametrize("features", get_args(FeatureSetName))
def test_pinned_candidates(case: str, features: FeatureSetName) -> None:
    task = Task.from_workload("matmul", M=128, N=128, K=128, target=TARGETS["amx"], **_BYTES)
    steps = steps_from_json(PINNED[case])
    (rows,) = batched_features(task.dag, task.target, features).rows_of([steps])
    assert _bits(rows) == _bits(_one(task, steps, features))


def test_steps_that_the_stage_cannot_use() -> None:
    """A stage without an instruction, or whose loops were changed, has no rule."""
    task = Task.from_workload("matmul", M=128, N=128, K=128, target=TARGETS["amx"], **_BYTES)
    for steps in (
        [["TI", 2, "vpdpbusd.zmm", 1, 2, 1, 0]],
        [["SP", 2, 0, 128, [4], 1], *_AMX_TILES],
    ):
        batched = batched_features(task.dag, task.target, "ansor-0.19")
        assert batched.rows_of([steps_from_json(steps)]) == [None]
        assert batched.share.one_by_one == 1
