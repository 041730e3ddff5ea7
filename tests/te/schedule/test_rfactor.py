"""rfactor: names, axes, bodies, the stages it leaves, refusals."""

from collections.abc import Callable

import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from autosched.tir.expr import Call, IterKind, IterVar
from kit.te import compute_of, extent_of, factor_of, reduction_of
from kit.tir import value_of


@pytest.fixture
def rows() -> tuple[Schedule, Tensor, Tensor, Tensor, IterVar]:
    A = te.placeholder((8, 30), name="A")
    k = te.reduce_axis((0, 30), "k")
    B = te.compute((8,), lambda i: te.sum(A[i, k], axis=k), name="B", tag="t")
    C = te.compute((8,), lambda i: B[i] + 1.0, name="C")
    return te.create_schedule(C.op), A, B, C, k


def _names(axes: list[IterVar] | tuple[IterVar, ...]) -> list[str]:
    return [iv.var.name for iv in axes]


def test_both_operations(rows: tuple[Schedule, Tensor, Tensor, Tensor, IterVar]) -> None:
    s, A, B, C, k = rows
    ko, ki = s[B].split(k, factor=5)
    BF = factor_of(s.rfactor(B, ki))
    assert [stage.op.name for stage in s.stages] == ["A", "B.rf", "B.repl", "C"]
    factor, final = compute_of(BF), compute_of(s[B])
    assert _names(factor.axis) == ["k.inner", "i"]
    assert _names(factor.reduce_axis) == ["k.outer"]
    assert [extent_of(iv) for iv in factor.root_iter_vars] == [5, 8, 6]
    assert factor.axis[0].kind == IterKind.DATA_PAR
    i = compute_of(B).axis[0]
    body = reduction_of(BF)
    assert body.source == (A[i, ki + ko * 5],)
    assert value_of(body.condition) == 1
    assert _names(final.axis) == ["ax0"]
    assert _names(final.reduce_axis) == ["k.inner.v"]
    (v,) = final.reduce_axis
    assert final.body == (te.sum(BF[v, final.axis[0]], axis=v),)
    assert s[B].leaf_iter_vars == [*final.axis, v]
    assert s[B].relations == []
    assert s[C].op.inputs == (final.output(0),)


def test_the_position_of_the_new_axis(
    rows: tuple[Schedule, Tensor, Tensor, Tensor, IterVar],
) -> None:
    for position, expected in (
        (1, ["i", "k.inner"]),
        (-1, ["i", "k.inner"]),
        (-2, ["k.inner", "i"]),
    ):
        s = te.create_schedule(rows[3].op)
        B, k = rows[2], rows[4]
        _, ki = s[B].split(k, factor=5)
        assert _names(compute_of(factor_of(s.rfactor(B, ki, position))).axis) == expected


def test_a_split_that_does_not_divide_gets_a_condition(
    rows: tuple[Schedule, Tensor, Tensor, Tensor, IterVar],
) -> None:
    s, _, B, _, k = rows
    ko, ki = s[B].split(k, factor=7)
    body = reduction_of(factor_of(s.rfactor(B, ko)))
    assert isinstance(body.condition, Call)
    assert body.condition.op == "likely"
    assert body.condition.args == ((ki + ko * 7) < 30,)


def test_a_factor_of_extent_one_reads_at_its_minimum(
    rows: tuple[Schedule, Tensor, Tensor, Tensor, IterVar],
) -> None:
    s, A, B, _, k = rows
    ko, ki = s[B].split(k, factor=30)
    body = reduction_of(factor_of(s.rfactor(B, ko)))
    assert body.source == (A[compute_of(B).axis[0], ki],)


def test_untouched_reductions_and_loops_stay() -> None:
    A = te.placeholder((6, 4, 10), name="A")
    x, y = te.reduce_axis((0, 4), "x"), te.reduce_axis((0, 10), "y")
    B = te.compute((6,), lambda i: te.sum(A[i, x, y], axis=[x, y]), name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], factor=4)
    s[B].split(x, factor=2)
    _, yi = s[B].split(y, factor=5)
    BF = factor_of(s.rfactor(B, yi))
    assert _names(compute_of(BF).reduce_axis) == ["x", "y.outer"]
    assert _names(s[BF].leaf_iter_vars) == [
        "y.inner",
        "i.outer",
        "i.inner",
        "x.outer",
        "x.inner",
        "y.outer",
    ]
    assert len(s[BF].relations) == 2


def test_a_fused_reduction() -> None:
    A = te.placeholder((6, 4, 10), name="A")
    x, y = te.reduce_axis((0, 4), "x"), te.reduce_axis((0, 10), "y")
    B = te.compute((6,), lambda i: te.sum(A[i, x, y], axis=[x, y]), name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(s[B].fuse(x, y), factor=8)
    body = reduction_of(factor_of(s.rfactor(B, outer)))
    flat = inner + outer * 8
    assert body.source == (A[B.op.axis[0], flat // 10, flat % 10],)
    assert body.axis[0].var is inner.var


def test_init_is_used_once() -> None:
    A = te.placeholder((8, 30), name="A")
    I = te.placeholder((8,), name="I")
    k = te.reduce_axis((0, 30), "k")
    B = te.compute((8,), lambda i: te.sum(A[i, k], axis=k, init=I[i]), name="B")
    s = te.create_schedule(B.op)
    BF = factor_of(s.rfactor(B, s[B].split(k, factor=4)[0]))
    assert reduction_of(BF).init == ()
    assert reduction_of(s[B]).init == (I[compute_of(s[B]).axis[0]],)


def test_a_whole_reduction_axis_leaves_a_copy() -> None:
    A = te.placeholder((30,), name="A")
    k = te.reduce_axis((0, 30), "k")
    B = te.compute((1,), lambda i: te.sum(A[k], axis=k, where=k.var < 20), name="B")
    s = te.create_schedule(B.op)
    BF = factor_of(s.rfactor(B, k))
    assert compute_of(BF).reduce_axis == ()
    assert compute_of(BF).body == (te.if_then_else(te.likely(k.var < 20), A[k], 0.0),)


REFUSED: dict[str, tuple[Callable[..., object], str]] = {
    "data axis": (
        lambda s, A, B, C, k: s.rfactor(B, B.op.axis[0]),
        r"rfactor: stage B, axis i: a data_par axis, not a reduction axis",
    ),
    "no reduction": (
        lambda s, A, B, C, k: s.rfactor(C, C.op.axis[0]),
        r"rfactor: stage C, axis i: the stage is not a reduction",
    ),
    "foreign": (lambda s, A, B, C, k: s.rfactor(C, k), r"rfactor: stage C, axis k: it is not an"),
    "position": (
        lambda s, A, B, C, k: s.rfactor(B, k, 2),
        r"rfactor: stage B, axis k: factor_axis 2 is outside of 1 dimensions",
    ),
    "position of no kind": (
        lambda s, A, B, C, k: s.rfactor(B, k, k),
        r"rfactor: stage B, axis k: factor_axis: expected an integer, found IterVar\(k",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_change_nothing(
    rows: tuple[Schedule, Tensor, Tensor, Tensor, IterVar], name: str
) -> None:
    act, message = REFUSED[name]
    s = rows[0]
    before = [(stage, stage.op, list(stage.leaf_iter_vars)) for stage in s.stages]
    with pytest.raises(ScheduleError, match=message):
        act(*rows)
    assert [(stage, stage.op, list(stage.leaf_iter_vars)) for stage in s.stages] == before


def test_a_reduction_fused_with_a_data_axis_is_refused(
    rows: tuple[Schedule, Tensor, Tensor, Tensor, IterVar],
) -> None:
    s, _, B, _, k = rows
    fused = s[B].fuse(compute_of(B).axis[0], k)
    with pytest.raises(ScheduleError, match=r"rfactor: stage B.*it is fused with data axis i"):
        s.rfactor(B, fused)
