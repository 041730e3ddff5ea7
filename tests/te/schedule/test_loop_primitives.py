"""split, fuse, reorder, tile: the loops they leave, and what they refuse."""

from collections.abc import Callable
from typing import Any

import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.te.relations import Fuse, Singleton, Split
from autosched.te.schedule.stage import Stage
from kit.te import extent_of
from kit.tir import value_of


@pytest.fixture
def stage() -> Stage:
    A = te.placeholder((16, 16), name="A")
    B = te.placeholder((16, 16), name="B")
    k = te.reduce_axis((0, 16), "k")
    C = te.compute((16, 16), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return te.create_schedule(C.op)[C]


def _loops(stage: Stage) -> list[str]:
    return [iv.var.name for iv in stage.leaf_iter_vars]


def test_split_by_factor_and_by_parts(stage: Stage) -> None:
    i, j, k = stage.leaf_iter_vars
    io, ii = stage.split(i, factor=3)
    ko, ki = stage.split(k, nparts=2)
    assert _loops(stage) == ["i.outer", "i.inner", "j", "k.outer", "k.inner"]
    assert stage.all_iter_vars == [i, j, k, io, ii, ko, ki]
    first, second = stage.relations
    assert isinstance(first, Split) and isinstance(second, Split)
    assert first.factor is not None and second.nparts is not None
    assert (value_of(first.factor), first.nparts) == (3, None)
    assert (second.factor, value_of(second.nparts)) == (None, 2)
    assert (io.kind, ki.kind) == (i.kind, k.kind)


def test_fuse_is_a_left_fold_in_either_order(stage: Stage) -> None:
    i, j, k = stage.leaf_iter_vars
    fused = stage.fuse(j, i)
    assert fused.var.name == "i.j.fused"
    everything = stage.fuse(fused, k)
    assert _loops(stage) == ["i.j.fused.k.fused"]
    assert everything.kind == k.kind  # reduction wins
    assert all(isinstance(r, Fuse) for r in stage.relations)


def test_fuse_of_nothing_is_a_singleton(stage: Stage) -> None:
    iv = stage.fuse()
    assert _loops(stage) == ["singleton", "i", "j", "k"]
    assert extent_of(iv) == 1
    assert isinstance(stage.relations[0], Singleton)


def test_fuse_of_one_changes_nothing(stage: Stage) -> None:
    i = stage.leaf_iter_vars[0]
    assert stage.fuse(i) is i
    assert stage.relations == []


def test_fused_type_is_the_wider_one() -> None:
    A = te.placeholder((4, te.const(8, "int64")), name="A")
    B = te.compute(A.shape, lambda i, j: A[i, j], name="B")
    stage = te.create_schedule(B.op)[B]
    assert str(stage.fuse(*stage.leaf_iter_vars).var.dtype) == "int64"


def test_reorder_permutes_only_the_named_loops(stage: Stage) -> None:
    i, j, k = stage.leaf_iter_vars
    stage.reorder(k, i)
    assert stage.leaf_iter_vars == [k, j, i]


def test_tile(stage: Stage) -> None:
    i, j, _ = stage.leaf_iter_vars
    xo, yo, xi, yi = stage.tile(i, j, 4, 8)
    assert stage.leaf_iter_vars[:4] == [xo, yo, xi, yi]
    assert _loops(stage) == ["i.outer", "j.outer", "i.inner", "j.inner", "k"]


def _snapshot(stage: Stage) -> tuple[Any, ...]:
    return (
        list(stage.leaf_iter_vars),
        list(stage.all_iter_vars),
        list(stage.relations),
        dict(stage.iter_var_attrs),
    )


REFUSED: dict[str, tuple[Callable[..., object], str]] = {
    "split twice": (
        lambda s, i, j, k: s.split(s.op.axis[0], factor=2),
        r"split: stage C, axis i: it has been split or fused already",
    ),
    "split foreign": (
        lambda s, i, j, k: s.split(te.reduce_axis((0, 4), "z"), factor=2),
        r"split: stage C, axis z: it is not an axis of this stage; its loops are \[i.outer,",
    ),
    "split no extent": (lambda s, i, j, k: s.split(j), r"split: stage C, axis j: give exactly one"),
    "split both": (lambda s, i, j, k: s.split(j, factor=2, nparts=2), r"give exactly one"),
    "split zero": (lambda s, i, j, k: s.split(j, factor=0), r"factor must be at least 1, found 0"),
    "split fraction": (
        lambda s, i, j, k: s.split(j, factor=5.7),
        r"split: stage C, axis j: factor must be an integer, found 5.7 \(float\)",
    ),
    "split condition": (
        lambda s, i, j, k: s.split(j, nparts=j.var < 3),
        r"split: stage C, axis j: nparts must be an integer, found",
    ),
    "split huge": (
        lambda s, i, j, k: s.split(j, factor=2**40),
        r"factor must be at most 2147483647 \(the axis is int32\), found 1099511627776",
    ),
    "fuse apart": (
        lambda s, i, j, k: s.fuse(j, k, i),
        r"fuse: stage C, axis i.outer: not adjacent",
    ),
    "fuse itself": (lambda s, i, j, k: s.fuse(j, j), r"fuse: stage C, axis j: not adjacent to j"),
    "reorder twice": (lambda s, i, j, k: s.reorder(j, j), r"reorder: stage C, axis j: named twice"),
    "reorder foreign": (lambda s, i, j, k: s.reorder(j, s.op.axis[0]), r"reorder: stage C, axis i"),
    "tile itself": (lambda s, i, j, k: s.tile(j, j, 2, 2), r"tile: stage C, axis j: .* differ"),
    "tile factor": (lambda s, i, j, k: s.tile(i, j, 2, 0), r"tile: stage C, axis j: .* found 0"),
    "tile fraction": (
        lambda s, i, j, k: s.tile(i, j, 2, 2.5),
        r"tile: stage C, axis j: a factor must be an integer, found 2.5",
    ),
    "not an axis": (lambda s, i, j, k: s.split("j", factor=2), r"expected an axis, found 'j'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_the_place_and_change_nothing(stage: Stage, name: str) -> None:
    act, message = REFUSED[name]
    i, _ = stage.split(stage.leaf_iter_vars[0], factor=4)
    j, k = stage.leaf_iter_vars[2:]
    before = _snapshot(stage)
    with pytest.raises(ScheduleError, match=message):
        act(stage, i, j, k)
    assert _snapshot(stage) == before
