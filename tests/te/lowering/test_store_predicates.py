"""Conditions of stores use axes and threads that are there."""

import pytest

from autosched import te
from autosched.driver import schedule_ops
from autosched.errors import ScheduleError
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule


def _two_kernels() -> tuple[Schedule, Tensor, Tensor, Tensor]:
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((16,), lambda i: B[i] * 2.0, name="C")
    return te.create_schedule(C.op), A, B, C


def test_a_thread_around_the_store() -> None:
    s, A, B, C = _two_kernels()
    thread = te.thread_axis("threadIdx.x")
    s[C].bind(s[C].leaf_iter_vars[0], thread)
    s[C].set_store_predicate(thread.var < 8)
    assert "if threadIdx.x < 8:" in str(schedule_ops(s, [A, C]))
    s[B].compute_at(s[C], s[C].leaf_iter_vars[0])
    s[B].set_store_predicate(thread.var < 8)
    assert str(schedule_ops(s, [A, C])).count("if threadIdx.x < 8:") == 2


def test_an_argument() -> None:
    s, A, _, C = _two_kernels()
    n = te.var("n")
    s[C].set_store_predicate(s[C].leaf_iter_vars[0].var < n)
    assert "_1 < n:" in str(schedule_ops(s, [A, C, n]))
    with pytest.raises(ScheduleError, match="stage C: n is neither an axis"):
        schedule_ops(s, [A, C])


def test_a_thread_of_no_loop_or_of_another_kernel() -> None:
    s, A, B, C = _two_kernels()
    thread = te.thread_axis("threadIdx.x")
    s[C].set_store_predicate(thread.var < 8)
    with pytest.raises(ScheduleError, match=r"stage C: threadIdx\.x is neither an axis of its"):
        schedule_ops(s, [A, C])
    s[B].bind(s[B].leaf_iter_vars[0], thread)
    s[C].bind(s[C].leaf_iter_vars[0], te.thread_axis("blockIdx.x"))
    with pytest.raises(ScheduleError, match=r"stage C: threadIdx\.x is neither an axis of its"):
        schedule_ops(s, [A, C])
