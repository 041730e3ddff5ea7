"""Operands of products that are turned in shared memory on their way to threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched.driver import cuda_source
from autosched.errors import ConfigError
from autosched.measure.ansor_log import format_line
from autosched.measure.result import MeasureResult
from autosched.referee.check import Verdict, check_candidate
from autosched.referee.scale_workload import scaled
from autosched.search.options import SearchOptions
from autosched.search.population import Structures, redrawn_pipelines, redrawn_unrolls
from autosched.search.space import SearchSpace
from autosched.state.steps import CacheReadStep, StorageAlignStep, steps_from_json, steps_to_json
from autosched.target import cuda_target
from autosched.task import Task

TARGET = cuda_target("sm_90")
CONV: dict[str, Any] = {
    "N": 1,
    "H": 8,
    "W": 8,
    "CI": 8,
    "CO": 16,
    "KH": 3,
    "KW": 3,
    "stride": 1,
    "padding": 1,
    "dilation": 1,
    "groups": 1,
}


def space_of(name: str, space: Any = "autosched", **sizes: Any) -> tuple[Task, SearchSpace]:
    task = Task.from_workload(name, target=TARGET, **sizes)
    return task, SearchSpace(task, SearchOptions(space=space))


@pytest.mark.parametrize(
    ("name", "sizes", "turned"),
    [
        ("matmul", {"M": 64, "N": 64, "K": 64}, [0, 1]),  # rows of A
        ("dense_bias_relu", {"M": 64, "N": 64, "K": 64}, [0, 1, 1, 2]),  # rows of both
        ("conv2d_nhwc", CONV, [0]),  # a window, and weights with the result's axis last
    ],
)
def test_operands_that_sums_run_along(name: str, sizes: Any, turned: list[int]) -> None:
    _, space = space_of(name, **sizes)
    aligned = [[s for s in k.steps if isinstance(s, StorageAlignStep)] for k in space.sketches]
    assert sorted(map(len, aligned)) == turned
    assert all((s.factor, s.offset) == (32, 4) for steps in aligned for s in steps)
    _, ansor = space_of(name, "ansor", **sizes)
    assert len(ansor.sketches) == 1


def tile(turned: bool, stages: int) -> list[list[Any]]:
    """A matmul of 256 in blocks of 64 x 128 x 16, 8 x 8 elements a thread."""
    a, b, c, out = (1, 4, 5, 6) if turned else (1, 3, 4, 5)
    steps: list[list[Any]] = [["CHW", 2, "local"], ["SP", 2, 0, 256, [2, 8, 1, 4], 1]]
    steps += [["SP", 2, 5, 256, [2, 16, 1, 4], 1], ["SP", 2, 10, 256, [2, 8], 1]]
    steps += [["RE", 2, [0, 5, 1, 6, 2, 7, 10, 11, 3, 8, 12, 4, 9]], ["FSP", 3, 0, 1, 3]]
    steps += [["FSP", 3, 4, 2, 3], ["RE", 3, [0, 4, 1, 5, 2, 6, 3, 7]], ["CA", 2, 3, 5]]
    steps += [["CHR", 1, "shared", [2]], ["CA", 2, 3, 6], ["CHR", 0, "shared", [3]]]
    if turned:
        steps += [["RE", 1, [1, 0]], ["CHW", 1, "shared"], ["CI", 2], ["SA", 1, 0, 32, 4]]
    steps += [["CA", a, c, 6], ["FU", out, [0, 1]], ["AN", out, 0, 5], ["FU", out, [1, 2]]]
    steps += [["AN", out, 1, 4], ["FU", out, [2, 3]], ["AN", out, 2, 6], ["FU", b, [0, 1]]]
    steps += [["SP", b, 0, 2048, [4], 1], ["AN", b, 1, 2], ["FFSP", b, 0, [2, 1], 1, 1]]
    steps += [["AN", b, 1, 6]]
    if turned:
        steps += [["RE", a, [1, 0]]]
    steps += [["FU", a, [0, 1]], ["SP", a, 0, 1024, [1 if turned else 4], 1], ["AN", a, 1, 2]]
    steps += [["FFSP", a, 0, [2, 1], 1, 1], ["AN", a, 1, 6]]
    return [
        *steps,
        ["PR", c, 6, f"software_pipeline${stages}"],
        ["PR", c, 0, "auto_unroll_max_step$512"],
    ]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("stages", [1, 3])
def test_tiles_filled_ahead_are_right(turned: bool, stages: int) -> None:
    task, _ = space_of("matmul", M=256, N=256, K=256)
    steps = steps_from_json(tile(turned, stages))
    assert steps_to_json(steps) == tile(turned, stages)
    assert check_candidate(task, steps).verdict is Verdict.AGREES
    artifact = cuda_source(task.dag, steps, TARGET, "kernel")
    assert ("cp_async<16>(&B_shared" in artifact.source) == (stages > 1)
    if turned:  # one element of a row each, neighbours of the other axis side by side
        assert ("cp_async<4>(&A_shared_shared" in artifact.source) == (stages > 1)
        assert "+ k_inner * 68 + " in artifact.source
    (kernel,) = artifact.kernels
    rows = 68 * 16 if turned else 64 * 16
    assert kernel.static_shared + kernel.dynamic_shared == 4 * stages * (rows + 128 * 16)


def test_samples_are_right() -> None:
    task, space = space_of("matmul", M=100, N=36, K=60)
    found = space.sample(np.random.default_rng(0), 8)
    assert any(isinstance(s, CacheReadStep) for steps in found for s in steps)
    for steps in found[:8]:
        assert check_candidate(task, steps).verdict is Verdict.AGREES


def test_all_stages_have_tiles_on_a_smaller_problem() -> None:
    """And one more, whose memory was used before."""
    task, _ = space_of("matmul", M=256, N=256, K=256)
    found = scaled(task, steps_from_json(tile(True, 4)))
    assert found is not None
    assert found[0].to_json()["workload"]["args"]["K"] == 5 * 16


def test_ansors_logs_cannot_hold_the_pragma() -> None:
    task, _ = space_of("matmul", M=256, N=256, K=256)
    with pytest.raises(ConfigError, match=r"the pragma software_pipeline\$3, which Ansor"):
        format_line(task.to_json(), steps_from_json(tile(True, 3)), MeasureResult((1.0,), None), 0)


def test_rows_hold_the_number_of_tiles() -> None:
    """They are drawn anew by themselves; the rest stays."""
    structures = Structures()
    candidates = [steps_from_json(tile(turned, 3)) for turned in (False, True)]
    rows = structures.rows(candidates)
    assert structures.candidates(rows) == candidates
    assert structures.any_pipelines
    rng = np.random.default_rng(0)
    drawn = structures.candidates(redrawn_pipelines(structures, rows, rng, (2,)))
    assert drawn == [steps_from_json(tile(turned, 2)) for turned in (False, True)]
    drawn = structures.candidates(redrawn_unrolls(structures, rows, rng, (512,)))
    assert drawn == candidates
