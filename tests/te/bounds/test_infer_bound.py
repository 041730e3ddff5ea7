"""InferBound: regions computed where a stage is attached."""

from collections.abc import Mapping

import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.te.bounds.attach_path import attach_path
from autosched.te.bounds.infer_bound import infer_bound
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from autosched.tir.expr import IterVar, Range
from kit.te import compute_of


def bounds_of(s: Schedule) -> tuple[Schedule, dict[IterVar, Range]]:
    n = s.normalize()
    return n, infer_bound(n)


def region(n: Schedule, bounds: Mapping[IterVar, Range], tensor: Tensor) -> list[str]:
    return [repr(bounds[iv]) for iv in compute_of(n[tensor]).axis]


def producer_consumer(
    size: int = 20, offsets: tuple[int, int, int] = (0, 1, 2)
) -> tuple[Schedule, Tensor, Tensor]:
    A = te.placeholder((size + max(offsets),), name="A")
    P = te.compute(A.shape, lambda i: A[i] * 2.0, name="P")
    B = te.compute((size,), lambda i: sum((P[i + d] for d in offsets[1:]), P[i]), name="B")
    s = te.create_schedule(B.op)
    return s, P, B


def test_root_stage_has_the_region_its_consumers_read() -> None:
    A = te.placeholder((20,), name="A")
    P = te.compute((20,), lambda i: A[i] * 2.0, name="P")
    B = te.compute((8,), lambda i: P[i + 3], name="B")
    n, bounds = bounds_of(te.create_schedule(B.op))
    assert region(n, bounds, P) == ["[3, 3 + 8)"]


def test_attached_region_follows_the_loop() -> None:
    s, P, B = producer_consumer()
    outer, _ = s[B].split(compute_of(B).axis[0], factor=6)
    s[P].compute_at(s[B], outer)
    n, bounds = bounds_of(s)
    assert region(n, bounds, P) == ["[i.outer * 6, i.outer * 6 + 8)"]


def test_shape_is_preferred_when_it_is_smaller() -> None:
    A = te.placeholder((4,), name="A")
    P = te.compute((4,), lambda i: A[i], name="P")
    B = te.compute((4,), lambda i: te.if_then_else(i < 2, P[i + 2], P[i - 2]), name="B")
    n, bounds = bounds_of(te.create_schedule(B.op))
    assert region(n, bounds, P) == ["[-2, -2 + 8)"]
    C = te.compute((4,), lambda i: te.if_then_else(i < 2, P[i * 3 - 3], 0.0), name="C")
    n, bounds = bounds_of(te.create_schedule(C.op))
    assert region(n, bounds, P) == ["[0, 0 + 4)"]


def test_data_dependent_reads_need_the_whole_tensor() -> None:
    I = te.placeholder((8,), "int32", name="I")
    A = te.placeholder((30,), name="A")
    P = te.compute((30,), lambda i: A[i], name="P")
    B = te.compute((8,), lambda i: P[I[i]], name="B")
    s = te.create_schedule(B.op)
    s[P].compute_at(s[B], B.op.axis[0])
    n, bounds = bounds_of(s)
    assert region(n, bounds, P) == ["[0, 0 + 30)"]


def tiled_matmul(scope: str) -> tuple[Schedule, Tensor]:
    A = te.placeholder((64, 64), name="A")
    B = te.placeholder((64, 64), name="B")
    k = te.reduce_axis((0, 64), "k")
    C = te.compute((64, 64), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    copy = s.cache_read(A, scope, [C])
    i, j = compute_of(s[C]).axis
    bx, i = s[C].split(i, factor=16)
    tx, i = s[C].split(i, factor=4)
    ko, ki = s[C].split(compute_of(s[C]).reduce_axis[0], factor=8)
    s[C].reorder(bx, tx, ko, ki, i, j)
    s[C].bind(bx, te.thread_axis("blockIdx.x"))
    s[C].bind(tx, te.thread_axis("threadIdx.x"))
    s[copy].compute_at(s[C], ko)
    return s, copy


@pytest.mark.parametrize(
    ("scope", "rows"),
    [
        ("shared", "[blockIdx.x * 16, blockIdx.x * 16 + 16)"),
        ("local", "[blockIdx.x * 16 + threadIdx.x * 4, blockIdx.x * 16 + threadIdx.x * 4 + 4)"),
        ("global", "[0, 0 + 64)"),
    ],
)
def test_storage_decides_which_threads_share_a_region(scope: str, rows: str) -> None:
    s, copy = tiled_matmul(scope)
    n, bounds = bounds_of(s)
    assert region(n, bounds, copy) == [rows, "[k.outer * 8, k.outer * 8 + 8)"]


@pytest.mark.parametrize(
    ("scope", "rows"),
    [
        ("shared", "[max(blockIdx.x * 16 - 1, 0), max(blockIdx.x * 16 - 1, 0) + 18)"),
        ("global", "[0, 0 + 64)"),
    ],
)
def test_memory_of_a_block_has_one_size_where_reads_stop_at_a_border(scope: str, rows: str) -> None:
    A = te.placeholder((64,), name="A")
    k = te.reduce_axis((0, 3), "k")
    B = te.compute((64,), lambda i: te.sum(A[te.max(te.min(i + k - 1, 63), 0)], axis=k), name="B")
    s = te.create_schedule(B.op)
    copy = s.cache_read(A, scope, [B])
    block, thread = s[B].split(compute_of(s[B]).axis[0], factor=16)
    s[B].bind(block, te.thread_axis("blockIdx.x"))
    s[B].bind(thread, te.thread_axis("threadIdx.x"))
    s[copy].compute_at(s[B], block)
    n, bounds = bounds_of(s)
    assert region(n, bounds, copy) == [rows]


def test_consumer_attached_further_in_is_relaxed() -> None:
    A = te.placeholder((32,), name="A")
    P = te.compute((32,), lambda i: A[i], name="P")
    Q = te.compute((32,), lambda i: P[i], name="Q")
    B = te.compute((32,), lambda i: Q[i], name="B")
    s = te.create_schedule(B.op)
    outer, rest = s[B].split(B.op.axis[0], factor=8)
    middle, _ = s[B].split(rest, factor=2)
    s[Q].compute_at(s[B], middle)
    s[P].compute_at(s[B], outer)
    n, bounds = bounds_of(s)
    assert region(n, bounds, P) == ["[i.outer * 8, i.outer * 8 + 8)"]
    assert region(n, bounds, Q) == [
        "[i.outer * 8 + i.inner.outer * 2, i.outer * 8 + i.inner.outer * 2 + 2)"
    ]
    assert [iv.var.name for iv in attach_path(n[Q])] == ["i.inner.outer", "i.outer"]


def test_int64_axes_keep_their_type() -> None:
    n = te.size_var("n", "int64")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i], name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], factor=4)
    norm, bounds = bounds_of(s)
    for iv in norm[B].leaf_iter_vars:
        assert str(bounds[iv].extent.dtype) == str(bounds[iv].min.dtype) == "int64"


@pytest.mark.parametrize("scope", ["shared", "local"])
def test_memory_of_threads_that_are_not_around_the_stage(scope: str) -> None:
    A = te.placeholder((8, 4), name="A")
    B = te.compute((8, 4), lambda i, j: A[i, j], name="B")
    s = te.create_schedule(B.op)
    cache = s.cache_read(A, scope, [B])
    i, j = B.op.axis
    s[B].bind(i, te.thread_axis("blockIdx.x"))
    s[B].bind(j, te.thread_axis("threadIdx.x"))
    with pytest.raises(ScheduleError, match=rf"A.{scope}: what its consumers read depends on"):
        bounds_of(s)
    s[cache].compute_at(s[B], j)
    bounds_of(s)


def test_attach_that_does_not_enclose_all_consumers() -> None:
    A = te.placeholder((8,), name="A")
    P = te.compute((8,), lambda i: A[i], name="P")
    B = te.compute((8,), lambda i: P[i], name="B")
    C = te.compute((8,), lambda i: P[i] + B[i], name="C")
    s = te.create_schedule(C.op)
    s[P].compute_at(s[B], B.op.axis[0])
    with pytest.raises(ScheduleError, match=r"cannot find the producer along the loop nest.* C"):
        infer_bound(s.normalize())


def test_attach_axis_that_is_gone() -> None:
    s, P, B = producer_consumer()
    (i,) = compute_of(B).axis
    s[P].compute_at(s[B], i)
    s[B].split(i, factor=4)
    # without normalize, which would follow the split
    with pytest.raises(ScheduleError, match=r"stage P is attached at i of B.*i\.outer, i\.inner"):
        infer_bound(s)


def test_thread_axis_shared_by_stages_needs_one_extent() -> None:
    A = te.placeholder((8, 8), name="A")
    P = te.compute((8, 4), lambda i, j: A[i, j], name="P")
    B = te.compute((8, 4), lambda i, j: P[i, j], name="B")
    s = te.create_schedule(B.op)
    tx = te.thread_axis("threadIdx.x")
    s[B].bind(B.op.axis[0], tx)
    s[P].bind(P.op.axis[1], tx)
    with pytest.raises(ScheduleError, match=r"threadIdx\.x"):
        infer_bound(s.normalize())
