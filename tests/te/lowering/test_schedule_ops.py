"""Where stages and their storage are put."""

import pytest

from autosched import te
from autosched.driver import lower
from autosched.errors import ScheduleError
from autosched.target import cpu_target
from autosched.te.bounds.infer_bound import infer_bound
from autosched.te.lowering.schedule_ops import schedule_ops
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from autosched.tir.expr import Call
from autosched.tir.stmt import AttrStmt, For, ForKind, ProducerRealize, SeqStmt, Stmt
from autosched.tir.walk import stmts
from kit.te import compute_of
from kit.tir import value_of
from kit.types import Check


def lowered(s: Schedule) -> Stmt:
    n = s.normalize()
    return schedule_ops(n, infer_bound(n))


def chain() -> tuple[Schedule, Tensor, Tensor, Tensor]:
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((16,), lambda i: A[i] * 2.0, name="C")
    D = te.compute((16,), lambda i: B[i] + C[i], name="D")
    return te.create_schedule(D.op), B, C, D


def realized(stmt: Stmt) -> list[str]:
    return [s.producer.name for s in stmts(stmt) if isinstance(s, ProducerRealize)]


def test_stages_at_the_root_in_order() -> None:
    s, *_ = chain()
    stmt = lowered(s)
    assert realized(stmt) == ["B", "C", "D"]
    assert isinstance(stmt, ProducerRealize) and isinstance(stmt.body, SeqStmt)
    assert [type(x).__name__ for x in stmt.body.stmts] == ["For", "ProducerRealize"]


def test_the_earlier_of_two_stages_at_one_loop_is_outermost() -> None:
    s, B, C, D = chain()
    s[B].compute_at(s[D], compute_of(D).axis[0])
    s[C].compute_at(s[D], compute_of(D).axis[0])
    assert realized(lowered(s)) == ["D", "B", "C"]


def test_no_marker_is_left() -> None:
    s, B, _, D = chain()
    s[B].compute_at(s[D], compute_of(D).axis[0])
    assert not [x for x in stmts(lowered(s)) if isinstance(x, AttrStmt)]


def test_double_buffer_and_storage_align() -> None:
    s, B, _, D = chain()
    s[B].compute_at(s[D], compute_of(D).axis[0])
    s[B].double_buffer()
    s[B].storage_align(compute_of(B).axis[0], 32, 1)
    attrs = [x for x in stmts(lowered(s)) if isinstance(x, AttrStmt)]
    assert [(x.key, x.node) for x in attrs] == [
        ("buffer_dim_align", B),
        ("double_buffer_scope", B),
    ]
    align = attrs[0].value
    assert isinstance(align, Call)
    assert [value_of(a) for a in align.args] == [0, 32, 1]
    assert isinstance(attrs[0].body, ProducerRealize)


def test_prefetch_stands_inside_its_loop() -> None:
    s, B, _, D = chain()
    s[D].prefetch(B, compute_of(D).axis[0], 2)
    (attr,) = [x for x in stmts(lowered(s)) if isinstance(x, AttrStmt)]
    assert (attr.key, attr.node, value_of(attr.value)) == ("prefetch_scope", B, 2)
    loops = [x for x in stmts(lowered(s)) if isinstance(x, For)]
    assert isinstance(loops[-1].body, AttrStmt)


def test_a_prefetch_stays_when_what_it_names_is_rewritten() -> None:
    s, _, C, D = chain()
    cache = s.cache_write(C, "local")
    s[D].prefetch(s[C].op.output(0), compute_of(D).axis[0], 2)
    s.cache_write(C, "global")
    s[cache].compute_inline()
    attrs = [x for x in stmts(lowered(s)) if isinstance(x, AttrStmt)]
    assert [(x.key, x.node) for x in attrs] == [("prefetch_scope", C)]


def test_scope_is_on_the_realization() -> None:
    s, B, *_ = chain()
    s[B].set_scope("shared")
    scopes = {x.producer.name: x.scope for x in stmts(lowered(s)) if isinstance(x, ProducerRealize)}
    assert scopes == {"B": "shared", "C": "", "D": ""}


def test_vectorize_needs_a_constant_extent() -> None:
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i], name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(B.op.axis[0])
    with pytest.raises(ScheduleError, match="extent of the loop i must be a positive constant"):
        lower(s, [A, B], cpu_target())


@pytest.mark.parametrize("fused", [False, True])
def test_extent_is_constant_where_one_consumer_reads_a_point_of_what_another_reads_whole(
    fused: bool,
) -> None:
    """B covers the point i and [0, 8): [min(i, 0), max(i, 7)], with i known to be in [0, 8)."""
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i], name="B")
    k = te.reduce_axis((0, 8), "k")
    C = te.compute((8,), lambda i: te.sum(B[k], axis=k), name="C")
    D = te.compute((8, 3), lambda i, j: B[i] + C[i], name="D")
    s = te.create_schedule(D.op)
    around = s[D].fuse(*D.op.axis) if fused else D.op.axis[0]
    for stage in (B, C):
        s[stage].compute_at(s[D], around)
    s[B].vectorize(B.op.axis[0])
    extents = {x.kind: x.extent for x in stmts(lowered(s)) if isinstance(x, For)}
    assert repr(extents[ForKind.VECTORIZED]) == "8"
    assert "B[0:8] = A[0:8]" in repr(lower(s, [A, D], cpu_target()))


def test_virtual_threads_need_a_constant_extent() -> None:
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i], name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("vthread"))
    with pytest.raises(ScheduleError, match="axis i bound to vthread"):
        lowered(s)


def test_members_of_a_group_are_put_where_it_is(check: Check) -> None:
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((16,), lambda i: B[i] * 2.0, name="C")
    D = te.compute((16,), lambda i: C[i] - 3.0, name="D")
    s = te.create_schedule(D.op)
    outer, _ = s[D].split(D.op.axis[0], factor=4)
    s.create_group(outputs=C, inputs=A).compute_at(s[D], outer)
    assert realized(lowered(s)) == ["D", "B", "C"]
    check(s, [A, D], lambda a: (a + 1) * 2 - 3)
