"""Loops, thread attributes and the values of axes in them."""

import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.te.bounds.bound_check import BoundFacts
from autosched.te.bounds.infer_bound import infer_bound
from autosched.te.lowering.loop_nest import Building, Level, make_loop_nest, substitution, wrap_all
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from autosched.tir.expr import Expr, IterVar
from autosched.tir.stmt import AttrStmt, For, ForKind, nop
from autosched.tir.walk import stmts
from kit.te import compute_of
from kit.tir import value_of


def nest_of(
    s: Schedule,
    tensor: Tensor,
    first: int = 0,
    is_init: bool = False,
    skip: tuple[IterVar, ...] = (),
) -> tuple[list[Level], dict[IterVar, Expr], Building]:
    n = s.normalize()
    bounds = infer_bound(n)
    building = Building(bounds, BoundFacts(bounds))
    values: dict[IterVar, Expr] = {}
    nest = make_loop_nest(n[tensor], building, first, is_init, skip, values)
    return nest, values, building


def stage(
    shape: tuple[int, int] = (8, 4), scope: str = ""
) -> tuple[Schedule, Tensor, tuple[IterVar, IterVar]]:
    A = te.placeholder(shape, name="A")
    B = te.compute(shape, lambda i, j: A[i, j], name="B")
    C = te.compute(shape, lambda i, j: B[i, j], name="C")
    s = te.create_schedule(C.op)
    s[B].set_scope(scope)
    return s, B, B.op.axis


def test_kinds_follow_the_annotations() -> None:
    s, B, (i, j) = stage()
    s[B].parallel(i)
    s[B].vectorize(j)
    nest, _, building = nest_of(s, B)
    loops = [x for x in stmts(wrap_all(nest, nop())) if isinstance(x, For)]
    assert [x.kind for x in loops] == [ForKind.PARALLEL, ForKind.VECTORIZED]
    assert [iv.var.name for iv in building.markers if isinstance(iv, IterVar)] == ["i", "j"]


def test_init_loops_have_variables_of_their_own_and_no_markers() -> None:
    s, B, _ = stage()
    nest, values, building = nest_of(s, B, is_init=True)
    loops = [x for x in stmts(wrap_all(nest, nop())) if isinstance(x, For)]
    assert [x.loop_var.name for x in loops] == ["i.init", "j.init"]
    assert not building.markers
    assert [repr(values[iv]) for iv in compute_of(B).axis] == ["i.init", "j.init"]
    assert len(substitution(values)) == 4


@pytest.mark.parametrize(
    ("scope", "tag", "value"),
    [
        ("", "threadIdx.x", "threadIdx.x"),
        ("shared", "threadIdx.x", "threadIdx.x"),
        ("warp", "threadIdx.x", "threadIdx.x"),
        ("local", "vthread", "vthread"),
    ],
)
def test_value_of_a_bound_axis_depends_on_the_storage(scope: str, tag: str, value: str) -> None:
    s, B, (i, _) = stage(scope=scope)
    s[B].bind(i, te.thread_axis(tag))
    nest, values, _ = nest_of(s, B)
    assert repr(values[i]) == value
    key = "virtual_thread" if tag == "vthread" else "thread_extent"
    launch = nest[0][0]
    assert isinstance(launch, AttrStmt)
    assert (launch.key, value_of(launch.value)) == (key, 8)


@pytest.mark.parametrize(
    ("scope", "tag"),
    [("local", "threadIdx.x"), ("shared", "blockIdx.x"), ("warp", "threadIdx.y")],
)
def test_threads_do_not_fill_together_what_each_has_for_itself(scope: str, tag: str) -> None:
    s, B, (i, _) = stage(scope=scope)
    s[B].bind(i, te.thread_axis(tag))
    with pytest.raises(ScheduleError, match=f"axis i bound to {tag}: its 8 iterations would fill"):
        nest_of(s, B)


def test_an_extent_of_one_leaves_no_loop_but_its_pragmas() -> None:
    s, B, (i, _) = stage((1, 4))
    s[B].pragma(i, "unroll_explicit", 1)
    s[B].unroll(i)
    nest, values, _ = nest_of(s, B)
    assert [x.key for x in nest[0] if isinstance(x, AttrStmt)] == [
        "pragma_unroll_explicit",
        "loop_scope",
    ]
    assert repr(values[i]) == "0"


def test_a_bound_axis_of_one_iteration_is_a_constant() -> None:
    s, B, (i, _) = stage((1, 4))
    s[B].bind(i, te.thread_axis("threadIdx.x"))
    _, values, _ = nest_of(s, B)
    assert repr(values[i]) == "0"
