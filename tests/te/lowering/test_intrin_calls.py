"""te.compute over tensor intrinsics: what is computed under schedules, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.te.operations.tensor import Tensor
from autosched.tir.expr import IterVar
from autosched.tir.printer import to_text
from kit.intrinsics import axpy, gemv, loops, store, vadd

Array = np.ndarray
Check = Callable[..., None]
M, N = 6, 8


def added(**params: Any) -> tuple[list[Tensor], te.Schedule]:
    A, B = te.placeholder((M, N), name="A"), te.placeholder((M, N), name="B")
    row = vadd(N, **params)
    C = te.compute((M, N), lambda i: row(A[i, 0:N], B[i, :]), name="C")
    return [A, B, C], te.create_schedule(C.op)


def test_the_text() -> None:
    args, s = added()
    assert to_text(schedule_to_prim_func(s, args)).split("\n", 2)[2] == (
        '    realize(C[0:6, 0:8], float32, "global")\n'
        "    for i in range(6):\n"
        "        for v0 in range(8):\n"
        "            C[i, v0] = A[i, v0] + B[i, v0]"
    )


def axis(tensor: Tensor) -> IterVar:
    """The first loop of the tensor's operation."""
    return tensor.op.root_iter_vars[0]


SCHEDULES: list[Callable[[te.Schedule, Tensor], object]] = [
    lambda s, C: None,
    lambda s, C: s[C].split(axis(C), factor=2),
    lambda s, C: s[C].split(axis(C), factor=4),
    lambda s, C: s[C].parallel(axis(C)),
    lambda s, C: s[C].unroll(axis(C)),
    lambda s, C: s[C].bind(axis(C), te.thread_axis("blockIdx.x")),
    lambda s, C: s[C].pragma(axis(C), "auto_unroll_max_step", 16),
    lambda s, C: s[C].set_store_predicate(axis(C).var >= 0),
    lambda s, C: s.cache_read(C.op.inputs[0], "global", [C.op]),
]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_under_schedules(check: Check, schedule: Callable[[te.Schedule, Tensor], object]) -> None:
    args, s = added()
    schedule(s, args[-1])
    check(s, args, lambda a, b: a + b)


@pytest.mark.parametrize("rows", [1, 2])
def test_between_other_stages(check: Check, rows: int) -> None:
    """What it reads and what reads it are computed in its loops and around it."""
    A = te.placeholder((M, N), name="A")
    before = te.compute((M, N), lambda i, j: A[M - 1 - i, j] * 2.0, name="before")
    row = vadd(N)
    C = te.compute((M, N), lambda i: row(before[i, 0:N], A[i, 0:N]), name="C")
    after = te.compute((M, N), lambda i, j: C[i, N - 1 - j] + 1.0, name="after")
    s = te.create_schedule(after.op)
    outer, _ = s[after].split(after.op.axis[0], factor=rows)
    s[C].compute_at(s[after], outer)
    s[before].compute_at(s[C], C.op.axis[0])
    check(s, [A, after], lambda a: (2 * a[::-1] + a)[:, ::-1] + 1)
    text = to_text(schedule_to_prim_func(s, [A, after]))
    assert f"realize(C[i.outer * {rows}:" in text.replace("C[i.outer:", "C[i.outer * 1:")
    assert "realize(before[" in text and ":6, 0:8], float32" not in text.split("realize(before")[1]


@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize("reordered", [False, True])
def test_reductions_around_the_intrinsic(check: Check, parts: int, reordered: bool) -> None:
    m, k, steps = 4, 3, 5
    W = te.placeholder((2, m, steps * k), name="W")
    x = te.placeholder((steps * k,), name="x")
    r = te.reduce_axis((0, steps), "r")
    call = gemv(m, k, parts)
    z = te.compute(
        (2, m),
        lambda i: call(W[i, :, r * k : r * k + k], x[r * k : r * k + k], reduce_axis=r),
        name="z",
    )
    s = te.create_schedule(z.op)
    if reordered:
        s[z].reorder(r, z.op.axis[0])
    s[z].split(r, factor=2)
    check(s, [W, x, z], lambda w, x: w @ x)


def tensorized(parts: int, loop: str) -> tuple[list[Tensor], te.Schedule]:
    """Products of rows with x; the reduction goes on outside, in a loop that is "fused" with a data
    axis, or bound to the threads `loop`."""
    W, x = te.placeholder((6, 15), name="W"), te.placeholder((15,), name="x")
    r = te.reduce_axis((0, 15), "r")
    z = te.compute((6,), lambda i: te.sum(W[i, r] * x[r], axis=r), name="z")
    s = te.create_schedule(z.op)
    outer, row = s[z].split(z.op.axis[0], factor=2)
    steps, step = s[z].split(r, factor=3)
    s[z].reorder(outer, steps, row, step)
    if loop == "fused":
        s[z].fuse(outer, steps)
    else:
        s[z].bind(steps, te.thread_axis(loop))
        s[z].bind(outer, te.thread_axis("threadIdx.y"))
    s[z].tensorize(row, gemv(2, 3, parts))
    return [W, x, z], s


def test_a_loop_fused_of_data_and_reduction(check: Check) -> None:
    args, s = tensorized(3, "fused")
    check(s, args, lambda w, x: w @ x)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (1, "the reduction goes on outside of the intrinsic, which has no reduce_update"),
        (2, "i.outer.r.outer.fused was fused of data and reduction axes, .* has no reduce_init"),
    ],
)
def test_a_fused_loop_needs_all_statements(parts: int, message: str) -> None:
    args, s = tensorized(parts, "fused")
    with pytest.raises(ScheduleError, match=f"stage z, .*intrinsic gemv: .*{message}"):
        schedule_to_prim_func(s, args)


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("tag", ["threadIdx.x", "blockIdx.x"])
def test_threads_cannot_share_the_reduction(parts: int, tag: str) -> None:
    args, s = tensorized(parts, tag)
    with pytest.raises(ScheduleError, match=r"axis r.outer is bound to threads, which cannot"):
        schedule_to_prim_func(s, args)


@pytest.mark.parametrize("parts", [2, 3])
def test_virtual_threads_do_the_reduction_in_turns(check: Check, parts: int) -> None:
    args, s = tensorized(parts, "vthread")
    check(s, args, lambda w, x: w @ x)


@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize("loop", ["i", "r"])
def test_what_a_call_reads_is_computed_in_its_loops(check: Check, loop: str, parts: int) -> None:
    """reduce_init comes before the reduction, where nothing of what the call reads is there."""
    A, x = te.placeholder((4, 12), name="A"), te.placeholder((3, 12), name="x")
    before = te.compute((4, 12), lambda i, j: A[i, j] + 1.0, name="before")
    r, call = te.reduce_axis((0, 2), "r"), gemv(4, 6, parts)
    z = te.compute(
        (3, 4),
        lambda i: call(before[:, r * 6 : r * 6 + 6], x[i, r * 6 : r * 6 + 6], reduce_axis=r),
        name="z",
    )
    s = te.create_schedule(z.op)
    s[before].compute_at(s[z], r if loop == "r" else axis(z))
    check(s, [A, x, z], lambda a, x: x @ (a + 1).T)


def test_a_reduction_of_one_step_is_the_body(check: Check) -> None:
    W, x = te.placeholder((2, 4, 3), name="W"), te.placeholder((3,), name="x")
    r = te.reduce_axis((0, 1), "r")
    call = gemv(4, 3)
    z = te.compute((2, 4), lambda i: call(W[i, :, :], x, reduce_axis=[r]), name="z")
    check(te.create_schedule(z.op), [W, x, z], lambda w, x: w @ x)


def test_scalars_of_a_call(check: Check) -> None:
    A, b = te.placeholder((M, N), name="A"), te.placeholder((M,), name="b")
    twice = te.compute((M,), lambda i: b[i] * 2.0, name="twice")
    scale = axpy(N)
    C = te.compute((M, N), lambda i: scale(A[i, 0:N], twice[i] + 1.0), name="C")
    s = te.create_schedule(C.op)
    s[twice].compute_at(s[C], C.op.axis[0])
    check(s, [A, b, C], lambda a, b: a * (2 * b[:, None] + 1))
    assert "realize(twice[i:i + 1]" in to_text(schedule_to_prim_func(s, [A, b, C]))


def test_constants_as_scalars_and_whole_tensors(check: Check) -> None:
    A = te.placeholder((N,), name="A")
    scale = axpy(N)
    C = te.compute((M, N), lambda i: scale(A, 3), name="C")
    check(te.create_schedule(C.op), [A, C], lambda a: np.tile(a * 3, (M, 1)))


@pytest.mark.parametrize("inside", ["constant", "element"])
def test_tensorize_finds_the_scalars(check: Check, inside: str) -> None:
    A, b = te.placeholder((M, N), name="A"), te.placeholder((M,), name="b")
    C = te.compute(
        (M, N), lambda i, j: A[i, j] * (b[i] if inside == "element" else te.const(3.0)), name="C"
    )
    s = te.create_schedule(C.op)
    s[C].tensorize(C.op.axis[1], axpy(N))
    args, scale = ([A, b, C], None) if inside == "element" else ([A, C], 3)
    check(s, args, (lambda a, b: a * b[:, None]) if scale is None else (lambda a: a * 3))


def refused(element: Callable[[Tensor, Tensor, Any, Any], Any], intrin: te.TensorIntrin) -> str:
    A, b = te.placeholder((M, N), name="A"), te.placeholder((N,), name="b")
    C = te.compute((M, N), lambda i, j: element(A, b, i, j), name="C")
    s = te.create_schedule(C.op)
    s[C].tensorize(C.op.axis[1], intrin)
    with pytest.raises(ScheduleError) as info:
        schedule_to_prim_func(s, [A, *([b] if b in C.op.inputs else []), C])
    return str(info.value)


def test_tensorize_refuses_scalars_that_change_inside_or_differ() -> None:
    assert "its scalar alpha (float32) cannot be" in refused(
        lambda A, b, i, j: A[i, j] * b[j], axpy(N)
    )
    x, alpha = te.placeholder((N,), name="x"), te.var("alpha", "float32")

    def intrinsic(element: Callable[[Any], Any]) -> te.TensorIntrin:
        z = te.compute((N,), element, name="z")
        return te.decl_tensor_intrin(
            z.op,
            lambda ins, outs, scalars: te.call_extern("f", outs[0].data, scalars[0]),
            "both",
            scalar_params=[alpha],
        )

    text = refused(
        lambda A, b, i, j: A[i, j] * 2.0 + 3.0, intrinsic(lambda i: x[i] * alpha + alpha)
    )
    assert "would be both 2.0 and 3.0" in text
    assert "does not occur in what it computes" in refused(
        lambda A, b, i, j: A[i, j] * 2.0, intrinsic(lambda i: x[i] * 2.0)
    )


def test_parameters_of_the_buffers_are_checked_against_the_regions(check: Check) -> None:
    args, s = added(default_buffer_params={"offset_factor": N})
    check(s, args, lambda a, b: a + b)
    for params, message in [
        ({"offset_factor": 3}, "not known to be a multiple of 3"),
        ({"scope": "shared"}, "declared in scope shared, but C is in global"),
        ({"data_alignment": 128}, "alignment of 128 bytes, C has 64"),
        ({"strides": [2]}, "stride 0 2, but the region of C has 1"),
    ]:
        args, s = added(default_buffer_params=params)
        with pytest.raises(ScheduleError, match=message):
            schedule_to_prim_func(s, args)


def test_buffers_of_ones_own(check: Check) -> None:
    """A column of a matrix is a vector with a stride that the region determines."""
    A, B = te.placeholder((N, M), name="A"), te.placeholder((M, N), name="B")
    strided = te.decl_buffer(
        (N, 1), "float32", "x2", strides=[te.var("ld"), 1], elem_offset=te.var("o")
    )
    column = te.placeholder((N, 1), name="column")
    y = te.placeholder((N,), name="y")
    z = te.compute((N,), lambda i: column[i, 0] + y[i], name="z")
    call = te.decl_tensor_intrin(
        z.op,
        lambda ins, outs: loops([N], lambda i: store(outs[0], ins[0][i, 0] + ins[1][i], i)),
        binds={column: strided},
    )
    C = te.compute((M, N), lambda i: call(A[:, i : i + 1], B[i, :]), name="C")
    check(te.create_schedule(C.op), [A, B, C], lambda a, b: a.T + b)


def test_symbolic_sizes_are_bound_by_the_regions(check: Check) -> None:
    A, B = te.placeholder((M, N), name="A"), te.placeholder((M, N), name="B")
    row = vadd(te.size_var("n"))
    C = te.compute((M, N), lambda i: row(A[i, 0:N], B[i, 0:N]), name="C")
    check(te.create_schedule(C.op), [A, B, C], lambda a, b: a + b)


def test_refused_schedules() -> None:
    for kind, message in [
        ("vectorize", "loop i is vectorized, but it contains the intrinsic"),
        ("tensorize", "loop i is tensorized"),
    ]:
        args, s = added()
        (i,) = args[-1].op.root_iter_vars
        if kind == "vectorize":
            s[args[-1]].vectorize(i)
        else:
            s[args[-1]].tensorize(i, vadd(N))
        with pytest.raises(ScheduleError, match=message):
            schedule_to_prim_func(s, args)
    with pytest.raises(ScheduleError, match=r"cache_write: stage C: only te\.compute"):
        s.cache_write(args[-1], "local")
    r = te.reduce_axis((0, 2), "r")
    W, x = te.placeholder((2, 4, 3), name="W"), te.placeholder((3,), name="x")
    call = gemv(4, 3)
    z = te.compute((4,), lambda: call(W[r, :, :], x, reduce_axis=r), name="z", axis_names=[])
    s = te.create_schedule(z.op)
    s[z].bind(r, te.thread_axis("threadIdx.x"))
    with pytest.raises(ScheduleError, match="reduction axis r is bound to threads"):
        schedule_to_prim_func(s, [W, x, z])
