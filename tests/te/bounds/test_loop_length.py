"""Loops that their variables cannot count."""

import re

import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.te.bounds.infer_bound import infer_bound
from autosched.te.bounds.loop_length import MOST_ITERATIONS
from autosched.te.schedule.schedule import Schedule
from autosched.tir.expr import IterVar
from kit.te import compute_of
from kit.tir import value_of

MOST = "expected at most 2147483647, which int32 can count; "


def sums(*lengths: int, dtype: str = "int32") -> Schedule:
    """Of as many terms as all `lengths` say."""
    A = te.placeholder((4,), name="A")
    axes = [
        te.reduce_axis((0, te.const(n, dtype)), name)
        for n, name in zip(lengths, "kl", strict=False)
    ]
    return te.create_schedule(te.compute((4,), lambda i: te.sum(A[i], axis=axes), name="S").op)


def axes_of(s: Schedule) -> tuple[IterVar, ...]:
    return compute_of(s.outputs[0].output(0)).reduce_axis


def lengths_of(s: Schedule) -> list[int]:
    n = s.normalize()
    bounds = infer_bound(n)
    return [value_of(bounds[iv].extent) for iv in n.stages[-1].leaf_iter_vars]


def test_fusion() -> None:
    """In int32 65,536 * 65,537 is 65,536, and 65,536 * 65,536 is 0."""
    for second in (65536, 65537, 50000):
        s = sums(65536, second)
        s.stages[-1].fuse(*axes_of(s))
        found = (
            f"infer_bound: stage S, loop k.l.fused: fusing k (65536) with l ({second}) makes "
            f"{65536 * second} iterations, {MOST}fuse fewer loops, or split one before"
        )
        with pytest.raises(ScheduleError, match=re.escape(found)):
            infer_bound(s.normalize())
    s = sums(MOST_ITERATIONS, 1)
    s.stages[-1].fuse(*axes_of(s))
    assert lengths_of(s)[-1] == MOST_ITERATIONS


def test_fusion_with_variables_that_count_further() -> None:
    s = sums(65536, 65537, dtype="int64")
    s.stages[-1].fuse(*axes_of(s))
    assert lengths_of(s)[-1] == 65536 * 65537


def test_an_index_beyond_the_end_of_a_loop() -> None:
    """Its guard would compare a number that has wrapped."""
    s = sums(MOST_ITERATIONS)
    s.stages[-1].split(axes_of(s)[0], factor=2)  # to MOST_ITERATIONS itself
    assert lengths_of(s)[-2:] == [2**30, 2]
    s = sums(MOST_ITERATIONS)
    s.stages[-1].split(axes_of(s)[0], factor=1000)
    found = (
        "loop k: cutting it into 2147484 by 1000 makes 2147484000 iterations, "
        f"{MOST}take a factor that divides its length"
    )
    with pytest.raises(ScheduleError, match=re.escape(found)):
        infer_bound(s.normalize())


def test_threads() -> None:
    """Their variables are int32 whatever the loop's is."""
    A = te.placeholder((4,), name="A")
    B = te.compute((te.const(2**32 + 4, "int64"),), lambda i: A[i % 4], name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
    found = (
        "stage B, loop blockIdx.x: binding i to blockIdx.x makes 4294967300 iterations, "
        f"{MOST}split the loop and bind a part of it"
    )
    with pytest.raises(ScheduleError, match=re.escape(found)):
        infer_bound(s.normalize())
