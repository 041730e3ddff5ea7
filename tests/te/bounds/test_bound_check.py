"""Predicates of loops that leave the domain of their axes."""

from collections.abc import Collection

import pytest

from autosched import te
from autosched.arith import Analyzer
from autosched.te.bounds.bound_check import make_bound_check, pass_up_bound_check
from autosched.te.bounds.message_passing import pass_down_domain, pass_up_index
from autosched.te.schedule.stage import Stage
from autosched.tir.expr import Expr, IntImm, IterVar, Range
from kit.te import stage_of


def checked(
    stage: Stage,
    roots: dict[IterVar, Range] | None = None,
    skip_domain: bool = False,
    skip: Collection[IterVar] = (),
) -> list[str]:
    state = roots or {iv: iv.dom for iv in stage.op.root_iter_vars if iv.dom is not None}
    pass_down_domain(stage, state, Analyzer())
    values: dict[IterVar, Expr] = {iv: iv.var for iv in stage.leaf_iter_vars}
    pass_up_index(stage, state, values)
    return [repr(p) for p in make_bound_check(stage, state, values, skip_domain, skip)]


def test_none_when_the_split_divides() -> None:
    stage, (i,) = stage_of(12)
    stage.split(i, factor=4)
    assert checked(stage) == []


def test_one_when_it_does_not() -> None:
    stage, (i,) = stage_of(10)
    stage.split(i, factor=4)
    assert checked(stage) == ["i.inner + i.outer * 4 < 10"]


def test_none_when_switched_off() -> None:
    stage, (i,) = stage_of(10)
    stage.split(i, factor=4, disable_predication=True)
    assert checked(stage) == []


def test_roots_come_before_the_parts_split_again() -> None:
    stage, (i,) = stage_of(10)
    outer, _ = stage.split(i, factor=4)
    stage.split(outer, factor=2)
    inner = "i.outer.inner + i.outer.outer * 2"
    assert checked(stage) == [f"i.inner + ({inner}) * 4 < 10", f"{inner} < 3"]


def test_a_split_that_divides_needs_none_for_parts_that_do_not() -> None:
    stage, (i,) = stage_of(20)
    _, inner = stage.split(i, factor=10)
    stage.split(inner, factor=4)
    assert checked(stage) == ["i.inner.inner + i.inner.outer * 4 < 10"]


def test_the_inner_part_of_a_fused_axis_needs_none() -> None:
    stage, (i, j) = stage_of(3, 4)
    fused = stage.fuse(i, j)
    stage.split(fused, factor=5)
    value = "i.j.fused.inner + i.j.fused.outer * 5"
    assert checked(stage) == [f"({value}) // 4 < 3", f"{value} < 12"]


def test_skipped_axes_have_none() -> None:
    stage, (i,) = stage_of(10)
    stage.split(i, factor=4)
    assert checked(stage, skip={i}) == []


@pytest.mark.parametrize(
    ("low", "extent", "expected"),
    [
        (0, 20, []),
        (0, 12, []),
        (2, 18, []),
        (-1, 22, ["i + -1 >= 0", "i + -1 < 20"]),
    ],
)
def test_domain_that_differs_from_the_declared_one(
    low: int, extent: int, expected: list[str]
) -> None:
    A = te.placeholder((20,), name="A")
    B = te.compute((20,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op).normalize()
    (i,) = B.op.axis
    region = Range(IntImm(low), IntImm(extent))
    assert checked(s[B], {i: region}) == expected
    assert checked(s[B], {i: region}, skip_domain=True) == []


def test_flags_pass_through_fuse() -> None:
    stage, (i, j) = stage_of(3, 4)
    fused = stage.fuse(i, j)
    stage.split(fused, factor=5)
    state = {iv: iv.dom for iv in (i, j) if iv.dom is not None}
    pass_down_domain(stage, state, Analyzer())
    assert pass_up_bound_check(stage, state) == {i, j, fused}
