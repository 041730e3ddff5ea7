"""Tensors of rewritten operations, repeated thread attributes, substituted variables."""

import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.te.lowering.post_process import original_tensors, post_process
from autosched.te.schedule.schedule import Schedule
from autosched.tir.expr import Call, IntImm, IterVar, Var
from autosched.tir.stmt import AttrStmt, Evaluate, For, ForKind, Stmt


def test_stages_store_into_the_tensors_of_their_first_operation() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    copy = s.cache_read(A, "shared", [B])
    rewritten = s[B].op.output(0)
    assert original_tensors(s) == {rewritten: B}
    assert copy not in original_tensors(s)


def thread_attr(thread: IterVar, extent: int, body: Stmt) -> AttrStmt:
    return AttrStmt(thread, "thread_extent", IntImm(extent), body)


def test_an_open_thread_axis_is_not_opened_again() -> None:
    x, other = te.thread_axis("threadIdx.x"), te.thread_axis("threadIdx.x")
    call = Evaluate(
        te.call_extern(
            "f",
        )
    )
    once = post_process(thread_attr(x, 4, thread_attr(x, 4, call)), Schedule(), {})
    assert isinstance(once, AttrStmt)
    assert once.node is x and isinstance(once.body, Evaluate)
    both = post_process(thread_attr(x, 4, thread_attr(other, 4, call)), Schedule(), {})
    assert isinstance(both, AttrStmt) and isinstance(both.body, AttrStmt)
    assert both.body.node is other


def test_two_extents_of_one_thread_axis() -> None:
    x = te.thread_axis("threadIdx.x")
    nested = thread_attr(x, 4, thread_attr(x, 8, Evaluate(IntImm(1))))
    with pytest.raises(ScheduleError, match=r"threadIdx\.x is used with extent 4 outside and 8"):
        post_process(nested, Schedule(), {})


def test_variables_without_loop_are_replaced() -> None:
    i, j = Var("i"), Var("j")
    call = Evaluate(te.call_extern("f", i + j))
    loop = For(j, IntImm(0), IntImm(4), ForKind.SERIAL, call)
    done = post_process(loop, Schedule(), {i: IntImm(3)})
    assert isinstance(done, For) and isinstance(done.body, Evaluate)
    assert isinstance(done.body.value, Call)
    assert repr(done.body.value.args[-1]) == "3 + j"
    assert post_process(loop, Schedule(), {}) is loop
