"""Multi-level tiling and following it, with iterators that stay whole."""

import math
from collections.abc import Sequence
from typing import Any

import pytest

from autosched import te
from autosched.errors import ConfigError, ScheduleError
from autosched.search.options import SearchOptions
from autosched.search.rules.protocol import Context
from autosched.search.rules.tiling import (
    follow_tiling,
    fuse_reductions,
    multi_level_tile,
    structure_problem,
)
from autosched.search.space import SearchSpace
from autosched.state.dag import ComputeDAG
from autosched.state.state import State
from autosched.target import HardwareParams


def matmul(unsplit: Sequence[str] = ()) -> ComputeDAG:
    attrs = {"auto_scheduler_no_split_at_inner": list(unsplit)} if unsplit else {}
    a, b = te.placeholder((8, 4), name="A"), te.placeholder((4, 16), name="B")
    k = te.reduce_axis((0, 4), name="k")
    c = te.compute((8, 16), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C", attrs=attrs)
    d = te.compute((8, 16), lambda i, j: c[i, j] + 1.0, name="D", attrs=attrs)
    return ComputeDAG([a, b, d])


def names(state: State, stage_id: int) -> str:
    return " ".join(it.name for it in state.stages[stage_id].iters)


def test_levels_alternate() -> None:
    state = matmul().init_state
    cpu, splits = multi_level_tile(state, 2, "SSRSRS")
    assert names(cpu, 2) == "i.0 j.0 i.1 j.1 k.0 i.2 j.2 k.1 i.3 j.3"
    assert splits == [0, 1]
    gpu, _ = multi_level_tile(state, 2, "SSSRRSRS")
    assert names(gpu, 2) == "i.0 j.0 i.1 j.1 i.2 j.2 k.0 k.1 i.3 j.3 k.2 i.4 j.4"


def test_a_single_level_is_not_split() -> None:
    state, splits = multi_level_tile(matmul().init_state, 2, "SRS")
    assert names(state, 2) == "i.0 j.0 k i.1 j.1"
    assert splits == [0, 1]


def test_whole_iterators_stand_before_the_innermost_level() -> None:
    state, splits = multi_level_tile(matmul(["j", "k"]).init_state, 2, "SSRSRS")
    assert names(state, 2) == "i.0 i.1 i.2 k j i.3"
    assert splits == [0]


def test_the_follower_has_one_level_more_than_it_follows() -> None:
    state, splits = multi_level_tile(matmul().init_state, 2, "SSRSRS")
    assert names(follow_tiling(state, 3, splits, 2), 3) == "i.0 j.0 i.1 j.1 i.2 j.2"
    assert names(follow_tiling(state, 3, splits, 1), 3) == "i.0 j.0 i.1 j.1"


def test_whole_iterators_of_the_follower_stay_in_their_order() -> None:
    state, splits = multi_level_tile(matmul(["j"]).init_state, 2, "SSRSRS")
    assert names(follow_tiling(state, 3, splits, 2), 3) == "i.0 i.1 i.2 j"


def test_annotations_move_to_the_outer_or_inner_piece() -> None:
    state, splits = multi_level_tile(matmul().init_state, 2, "SSRSRS")
    i, j = state.stages[3].iters
    state, _ = state.parallel(3, i)
    state, _ = state.vectorize(3, j)
    followed = follow_tiling(state, 3, splits, 1)
    assert [repr(it).split()[:2] for it in followed.stages[3].iters] == [
        ["parallel", "i.0"],
        ["for", "j.0"],
        ["for", "i.1"],
        ["vectorize", "j.1"],
    ]


def test_what_cannot_be_followed() -> None:
    state, splits = multi_level_tile(matmul().init_state, 2, "SSRSRS")
    with pytest.raises(ScheduleError, match="no split to follow for iterator j"):
        follow_tiling(state, 3, splits[:1], 1)
    with pytest.raises(ScheduleError, match="more splits to follow"):
        follow_tiling(state, 3, [*splits, 2], 1)
    with pytest.raises(ScheduleError, match=r"iterator k\.0 is not spatial"):
        follow_tiling(state, 2, [*splits, *splits], 1)


def test_structures_that_are_none() -> None:
    assert structure_problem("ssrsrs", is_gpu=False) == ""
    assert "letters S and R" in structure_problem("SXR", is_gpu=False)
    with pytest.raises(ScheduleError, match="only the letters S and R"):
        multi_level_tile(matmul().init_state, 2, "SSXS")
    with pytest.raises(ScheduleError, match="'SS' has no level for the reduction iterator k"):
        multi_level_tile(matmul().init_state, 2, "SS")


@pytest.mark.parametrize(("gpu", "name"), [(False, "cpu"), (True, "gpu")])
def test_options_with_such_a_structure_are_refused(gpu: bool, name: str) -> None:
    key = f"{name}_multi_level_tiling_structure"
    given: dict[str, Any] = {key: "SR"}
    options = SearchOptions(**given)
    with pytest.raises(ConfigError, match=f"{key}: expected"):
        SearchSpace.of(Context(matmul(), HardwareParams.default("cuda"), gpu, options))


@pytest.mark.parametrize(
    ("lengths", "left"),
    [
        ((4, 8), "i k@l@"),
        ((4, 1), "i k@l@"),
        ((65536, 65537), "i k l"),
        ((2**20, 2**12, 2**16, 4), "i k l@m@n@"),
        ((2**18, 2**12, 2**20), "i k@l@ m"),
        ((2**31 - 1, 2, 2), "i k l m"),
    ],
)
def test_reductions_are_fused_as_far_as_one_loop_can_have_them(
    lengths: tuple[int, ...], left: str
) -> None:
    a = te.placeholder((2,), name="A")
    axes = [te.reduce_axis((0, n), name) for n, name in zip(lengths, "klmn", strict=False)]
    c = te.compute((2,), lambda i: te.sum(a[i], axis=axes), name="C")
    before = ComputeDAG([a, c]).init_state
    state, longest = fuse_reductions(before, 1)
    assert names(state, 1) == left
    assert longest is max(state.stages[1].iters[1:], key=lambda it: it.extent_or_unknown)
    if math.prod(lengths) < 2**31:
        assert fuse_reductions(before, 1, as_ansor=True)[1].name == longest.name
    else:
        with pytest.raises(ScheduleError, match="which int32 can count"):
            fuse_reductions(before, 1, as_ansor=True)
