"""Loops of one kernel that are bound to one axis of threads have one length."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from kit.te import compute_of
from kit.types import Array, Check


def _stages(first: int, second: int, tag: str, *, together: bool) -> tuple[Schedule, list[Tensor]]:
    """C and D, of whose rows parts of these lengths are bound to `tag`: in one kernel or two."""
    A = te.placeholder((4, 64), name="A")
    C = te.compute((4, 64), lambda b, i: A[b, i] * 2.0, name="C")
    D = te.compute((4, 64), lambda b, i: C[b, 63 - i] + 1.0, name="D")
    s = te.create_schedule(D.op)
    for tensor, length in ((C, first), (D, second)):
        row, column = compute_of(tensor).axis
        _, part = s[tensor].split(column, factor=length)
        s[tensor].bind(part, te.thread_axis(tag))
        if not together or tensor is D:
            s[tensor].bind(row, te.thread_axis("blockIdx.x"))
    if together:
        s[C].compute_at(s[D], compute_of(D).axis[0])
        s[C].set_scope("shared")
    return s, [A, D]


def _reference(a: Array) -> Array:
    return np.asarray(a[:, ::-1] * 2 + 1)


@pytest.mark.parametrize(("first", "second"), [(64, 32), (32, 64), (1, 32), (32, 1)])
@pytest.mark.parametrize("tag", ["threadIdx.x", "threadIdx.y"])
def test_two_lengths_in_one_kernel_are_refused(first: int, second: int, tag: str) -> None:
    """The CUDA code generator found them, and named no stage."""
    s, args = _stages(first, second, tag, together=True)
    many = "s" if second > 1 else ""
    message = (
        rf"schedule_ops: stage D, axis i\.inner bound to {tag}: it has {second} iteration{many}, "
        rf"but stage C, axis i\.inner in the same kernel has {first}; .* split both by the same"
    )
    with pytest.raises(ScheduleError, match=message):
        schedule_to_prim_func(s, args)


def test_one_length_in_one_kernel(check: Check) -> None:
    check(*_stages(32, 32, "threadIdx.x", together=True), _reference)


def test_kernels_beside_each_other_have_their_own(check: Check) -> None:
    check(*_stages(64, 32, "threadIdx.x", together=False), _reference)


def test_virtual_threads_are_loops_in_the_end(check: Check) -> None:
    check(*_stages(8, 4, "vthread", together=True), _reference)


def test_threads_of_a_scan() -> None:
    X, state = te.placeholder((4, 8), name="X"), te.placeholder((4, 8), name="state")
    init = te.compute((1, 8), lambda _, i: X[0, i], name="init")
    update = te.compute((4, 8), lambda t, i: state[t - 1, i] + X[t, i], name="update")
    total = te.scan(init, update, state, [X], name="total")
    s = te.create_schedule(total.op)
    s[total].env_threads(te.thread_axis((0, 8), "threadIdx.x"))
    _, part = s[update].split(compute_of(update).axis[1], factor=4)
    s[update].bind(part, te.thread_axis("threadIdx.x"))
    with pytest.raises(ScheduleError, match=r"stage total, env_threads bound to .* 8 it"):
        schedule_to_prim_func(s, [X, total])
