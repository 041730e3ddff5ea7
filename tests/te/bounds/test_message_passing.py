"""Domains, indices and sets passed along split, fuse and rebase relations."""

from collections.abc import Mapping

import pytest

from autosched import te
from autosched.arith import Analyzer, IntSet
from autosched.errors import ScheduleError
from autosched.te.bounds.message_passing import (
    pass_down_bit_mask,
    pass_down_domain,
    pass_down_index,
    pass_up_bit_mask,
    pass_up_domain,
    pass_up_index,
)
from autosched.te.schedule.stage import Stage
from autosched.tir.expr import Expr, IntImm, IterVar, Range
from kit.te import stage_of
from kit.tir import value_of


def domains(stage: Stage, **options: bool) -> dict[IterVar, Range]:
    state = {iv: iv.dom for iv in stage.op.root_iter_vars if iv.dom is not None}
    pass_down_domain(stage, state, Analyzer(), **options)
    return state


def extent(state: Mapping[IterVar, Range], iv: IterVar) -> int:
    return value_of(state[iv].extent)


@pytest.mark.parametrize(
    ("total", "factor", "inner", "outer"),
    [(10, 4, 4, 3), (12, 4, 4, 3), (3, 8, 3, 1), (1, 1, 1, 1)],
)
def test_split_by_factor(total: int, factor: int, inner: int, outer: int) -> None:
    stage, (i,) = stage_of(total)
    io, ii = stage.split(i, factor=factor)
    state = domains(stage)
    assert (extent(state, ii), extent(state, io)) == (inner, outer)


def test_split_by_nparts_tightens_the_outer_part() -> None:
    stage, (i,) = stage_of(3)
    io, ii = stage.split(i, nparts=8)
    state = domains(stage)
    assert (extent(state, io), extent(state, ii)) == (3, 1)


def test_no_tightening_when_a_thread_hangs_on_it() -> None:
    stage, (i,) = stage_of(3)
    _, ii = stage.split(i, factor=8)
    thread = te.thread_axis("threadIdx.x")
    stage.bind(ii, thread)
    state = domains(stage)
    assert extent(state, ii) == 8
    assert extent(state, thread) == 8


@pytest.mark.parametrize("thread", ["vthread", "threadIdx.x", "blockIdx.x"])
def test_a_thread_that_no_loop_has_any_more_holds_nothing_open(thread: str) -> None:
    for part in ("fused", "split"):
        stage, (i,) = stage_of(4)
        outer, inner = stage.split(i, factor=5)
        middle, last = stage.split(outer, nparts=16)
        stage.bind(middle, te.thread_axis(thread))
        assert extent(domains(stage), middle) == 16
        if part == "fused":
            fused = stage.fuse(middle, last)
            assert extent(domains(stage), fused) == 1
        else:
            first, second = stage.split(middle, factor=2)
            state = domains(stage)
            assert (extent(state, first), extent(state, second)) == (1, 1)
        assert extent(domains(stage), inner) == 4


def test_no_tightening_while_the_schedule_is_made() -> None:
    stage, (i,) = stage_of(3)
    _, ii = stage.split(i, factor=8)
    assert extent(domains(stage, allow_missing=True), ii) == 8


def test_symbolic_extents_are_simplified() -> None:
    n = te.var("n")
    stage, (i,) = stage_of(n)
    io, ii = stage.split(i, factor=4)
    state = domains(stage)
    assert repr(state[io].extent) == "(n + 3) // 4"
    assert extent(state, ii) == 4


def test_a_thread_axis_keeps_one_extent() -> None:
    stage, (i, j) = stage_of(4, 8)
    thread = te.thread_axis("threadIdx.x")
    stage.bind(i, thread)
    stage.bind(j, thread)
    with pytest.raises(ScheduleError, match=r"threadIdx\.x.*for another loop"):
        domains(stage)


@pytest.mark.parametrize("length", [32, 128])
def test_a_loop_has_the_length_of_its_thread_axis(length: int) -> None:
    stage, (i,) = stage_of(64)
    stage.bind(i, te.thread_axis((0, length), "threadIdx.x"))
    with pytest.raises(ScheduleError, match=rf"a loop of 64 is bound to .* has {length}; split"):
        domains(stage)


def test_missing_root_is_an_error() -> None:
    stage, (i,) = stage_of(8)
    stage.split(i, factor=4)
    with pytest.raises(ScheduleError, match="stage B, axis i"):
        pass_down_domain(stage, {}, Analyzer())
    pass_down_domain(stage, {}, Analyzer(), allow_missing=True)


def test_up_index_of_split_and_fuse() -> None:
    stage, (i, j) = stage_of(10, 12)
    fused = stage.fuse(i, j)
    outer, inner = stage.split(fused, factor=7)
    state = domains(stage)
    values: dict[IterVar, Expr] = {outer: outer.var, inner: inner.var}
    pass_up_index(stage, state, values)
    value = "i.j.fused.inner + i.j.fused.outer * 7"
    assert repr(values[fused]) == value
    assert repr(values[i]) == f"({value}) // 12"
    assert repr(values[j]) == f"({value}) % 12"


def test_up_index_adds_the_min_of_the_parent() -> None:
    stage, (i,) = stage_of(8)
    outer, inner = stage.split(i, factor=4)
    state = {i: Range(IntImm(3), IntImm(8))}
    pass_down_domain(stage, state, Analyzer())
    values: dict[IterVar, Expr] = {outer: outer.var, inner: inner.var}
    pass_up_index(stage, state, values)
    assert repr(values[i]) == "i.inner + i.outer * 4 + 3"


def test_down_index_of_split_and_fuse() -> None:
    stage, (i, j) = stage_of(10, 12)
    io, ii = stage.split(i, factor=4)
    fused = stage.fuse(ii, j)
    state = domains(stage)
    values: dict[IterVar, Expr] = {i: i.var, j: j.var}
    pass_down_index(stage, state, values)
    assert repr(values[io]) == "i // 4"
    assert repr(values[fused]) == "i % 4 * 12 + j"


def test_down_index_needs_domains_from_zero() -> None:
    stage, (i,) = stage_of(8)
    stage.split(i, factor=4)
    state = {i: Range(IntImm(3), IntImm(8))}
    pass_down_domain(stage, state, Analyzer())
    with pytest.raises(ScheduleError, match="must start at 0"):
        pass_down_index(stage, state, {i: i.var})


def test_up_domain_of_a_point_and_a_row() -> None:
    stage, (i, j) = stage_of(10, 12)
    fused = stage.fuse(i, j)
    outer, inner = stage.split(fused, factor=4)
    state = domains(stage)
    sets = {outer: IntSet.single_point(outer.var), inner: IntSet.from_range(state[inner])}
    pass_up_domain(stage, state, sets)
    low, high = sets[fused].min_value, sets[fused].max_value
    assert Analyzer().can_prove_equal(low, outer.var * 4)
    assert Analyzer().can_prove_equal(high, outer.var * 4 + 3)
    # Four elements never leave a row of twelve, so the columns are known exactly.
    assert Analyzer().can_prove_equal(sets[j].min_value, outer.var * 4 % 12)


def test_up_domain_that_leaves_its_row_takes_whole_rows() -> None:
    stage, (i, j) = stage_of(10, 12)
    fused = stage.fuse(i, j)
    outer, inner = stage.split(fused, factor=5)
    state = domains(stage)
    sets = {outer: IntSet.single_point(outer.var), inner: IntSet.from_range(state[inner])}
    pass_up_domain(stage, state, sets)
    assert (value_of(sets[j].min_value), value_of(sets[j].max_value)) == (0, 11)


def test_full_sets_stay_full() -> None:
    stage, (i, j) = stage_of(10, 12)
    fused = stage.fuse(i, j)
    parts = stage.split(fused, factor=7)
    state = domains(stage)
    sets = {iv: IntSet.from_range(state[iv]) for iv in parts}
    pass_up_domain(stage, state, sets)
    assert (value_of(sets[i].max_value), value_of(sets[j].max_value)) == (9, 11)


def test_bit_masks() -> None:
    stage, (i, j) = stage_of(10, 12)
    io, ii = stage.split(i, factor=4)
    fused = stage.fuse(ii, j)
    down = {i: 1, j: 2}
    pass_down_bit_mask(stage, down)
    assert (down[io], down[ii], down[fused]) == (1, 1, 3)
    up = {fused: 1, io: 4}
    pass_up_bit_mask(stage, up)
    assert (up[ii], up[j], up[i]) == (1, 1, 5)
