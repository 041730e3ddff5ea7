"""A condition of the user's is computed only where a schedule's own conditions hold."""

from collections.abc import Callable

import numpy as np
import pytest

from autosched import te
from autosched.driver import lower
from autosched.target import cpu_target, cuda_target
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.te.operations.conditions import in_turn, may_fail, within
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from autosched.tir import interp
from autosched.tir.expr import IterVar
from kit.te import compute_of

ROWS, COLUMNS = 5, 7


def test_what_may_fail_is_asked_in_turn() -> None:
    A = te.placeholder((8,), name="A")
    i, n = te.var("i"), te.var("n")
    first, second = i < 7, n > 2
    for safe in (n > 3, te.eq(i % 2, 0), te.likely(te.all(i > 1, n < 9))):
        assert not may_fail(safe) and in_turn(safe) == [safe]
    for unsafe in (A[i] > 0.0, te.eq(i % n, 0), te.call_extern("ask", i, dtype="bool")):
        own = te.all(n > 3, unsafe)
        assert may_fail(own) and within([], own) is own
        both = within([first, second], own)
        assert in_turn(both) == [te.likely(te.all(first, second)), own]
        assert in_turn(within([n > 8], both)) == [te.likely(n > 8), *in_turn(both)]


def _cached(s: Schedule, C: Tensor, k: IterVar) -> None:
    s[C].split(compute_of(C).axis[0], factor=3)
    s.cache_write(C, "local")


def _factored(s: Schedule, C: Tensor, k: IterVar) -> None:
    s.rfactor(C, s[C].split(k, factor=4)[1])


def _factored_whole(s: Schedule, C: Tensor, k: IterVar) -> None:
    """No loop of the reduction is left: every element is a partial result of its own."""
    outer, inner = s[C].split(k, factor=4)
    s.rfactor(C, s[C].fuse(outer, inner))


def _factored_twice(s: Schedule, C: Tensor, k: IterVar) -> None:
    outer, _ = s[C].split(k, factor=4)
    part = s.rfactor(C, outer)
    assert isinstance(part, Tensor)
    s.rfactor(part, s[part].split(compute_of(part).reduce_axis[0], factor=3)[1])


def _across_threads(s: Schedule, C: Tensor, k: IterVar) -> None:
    part = s.rfactor(C, s[C].split(k, factor=4)[0])
    assert isinstance(part, Tensor)
    s[C].bind(s[C].leaf_iter_vars[0], te.thread_axis("blockIdx.x"))
    s[part].bind(compute_of(part).axis[0], te.thread_axis("blockIdx.x"))
    s[part].bind(compute_of(part).reduce_axis[0], te.thread_axis("threadIdx.x"))


SCHEDULES = (_cached, _factored, _factored_whole, _factored_twice, _across_threads)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda f: f.__name__)
def test_nothing_is_read_beyond_the_axes(
    schedule: Callable[[Schedule, Tensor, IterVar], None],
) -> None:
    """The interpreter refuses reads beyond A, before and after the passes."""
    A = te.placeholder((ROWS, COLUMNS), name="A")
    k = te.reduce_axis((0, COLUMNS), "k")
    C = te.compute((ROWS,), lambda i: te.sum(A[i, k], axis=k, where=A[i, k] > 0.0), name="C")
    s = te.create_schedule(C.op)
    schedule(s, C, k)
    a = np.random.default_rng(0).integers(-9, 9, (ROWS, COLUMNS)).astype(np.float32)
    target = cuda_target() if schedule is _across_threads else cpu_target(threads=1)
    for func in (schedule_to_prim_func(s, [A, C], "f"), lower(s, [A, C], target, name="f")):
        found = np.zeros(ROWS, np.float32)
        interp.run(func, [a, found])
        np.testing.assert_array_equal(found, np.maximum(a, 0).sum(1))
