"""Reductions whose domain depends on an outer axis, under every primitive that meets them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.driver import build_func, lower
from autosched.errors import ScheduleError
from autosched.runtime.cpu import load
from autosched.target import cpu_target
from autosched.tir import interp
from autosched.workloads.evaluate import evaluate
from kit.te import compute_of

TARGET = cpu_target(threads=1)
N, M = 9, 13


def triangle() -> tuple[Any, Any]:
    """C[i, j] = sum of A[i, k] * B[k, j] for k in [j, i + j // 2 + 1)."""
    A = te.placeholder((N, 3 * M), name="A")
    B = te.placeholder((3 * M, M), name="B")

    def element(i: Any, j: Any) -> Any:
        k = te.reduce_axis((j, i + j // 2 + 1 + j), "k")
        return te.sum(A[i, k] * B[k, j], axis=k)

    return (A, B), te.compute((N, M), element, name="C")


def triangle_reference(a: Any, b: Any) -> Any:
    c = np.zeros((N, M), "float32")
    for i in range(N):
        for j in range(M):
            k = slice(j, i + j // 2 + 1 + j)
            c[i, j] = (a[i, k] * b[k, j]).sum()
    return c


def assert_right(sch: Any, args: Any, arrays: Any, shape: Any) -> None:
    func = lower(sch, args, TARGET)
    wanted = triangle_reference(*arrays)
    np.testing.assert_allclose(evaluate(args, arrays)[0], wanted, rtol=1e-5)
    compute: Callable[..., object]
    for compute in (lambda *x: interp.run(func, list(x)), load(build_func(func, TARGET))):
        found = np.full(shape, np.nan, "float32")
        compute(*arrays, found)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def plain(s: Any, C: Any) -> None:
    pass


def split_both(s: Any, C: Any) -> None:
    i, j = s[C].op.axis
    (k,) = s[C].op.reduce_axis
    io, ii = s[C].split(i, factor=4)
    jo, ji = s[C].split(j, factor=5)
    ko, ki = s[C].split(k, factor=4)
    s[C].reorder(io, jo, ii, ji, ko, ki)


def fused(s: Any, C: Any) -> None:
    i, j = s[C].op.axis
    f = s[C].fuse(i, j)
    outer, _ = s[C].split(f, nparts=5)
    s[C].parallel(outer)


def cached(s: Any, C: Any) -> None:
    CL = s.cache_write(C, "local")
    i, _j = s[C].op.axis
    io, _ = s[C].split(i, factor=4)
    s[CL].compute_at(s[C], io)
    _ko, ki = s[CL].split(s[CL].op.reduce_axis[0], factor=2)
    s[CL].unroll(ki)


def cached_after_split(s: Any, C: Any) -> None:
    i, j = s[C].op.axis
    io, ii = s[C].split(i, factor=4)
    s[C].reorder(io, j, ii)
    CL = s.cache_write(C, "global")
    s[CL].compute_at(s[C], s[C].op.axis[0])


def factored(s: Any, C: Any) -> None:
    _, ki = s[C].split(s[C].op.reduce_axis[0], factor=4)
    s.rfactor(C, ki)


def vectorized(s: Any, C: Any) -> None:
    i, j = s[C].op.axis
    ko, ki = s[C].split(s[C].op.reduce_axis[0], factor=4)
    io, ii = s[C].split(i, factor=3)
    s[C].reorder(j, io, ii, ko, ki)
    s[C].unroll(ii)


SCHEDULES = [plain, split_both, fused, cached, cached_after_split, factored, vectorized]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda f: f.__name__)
def test_ragged_reduction(schedule: Any) -> None:
    inputs, C = triangle()
    s = te.create_schedule(C.op)
    schedule(s, C)
    rng = np.random.default_rng(0)
    arrays = [rng.random(tuple(e.value for e in t.shape), dtype="float32") for t in inputs]
    assert_right(s, [*inputs, C], arrays, (N, M))


@pytest.mark.parametrize("factor", [0, 4])
@pytest.mark.parametrize("producer", ["input", "root", "attached"])
def test_lengths_from_memory(factor: int, producer: str) -> None:
    """C[i] = sum of the first L[i] elements of a row; no length beyond the end is read."""
    A = te.placeholder((N, M), name="A")
    L = te.placeholder((N,), "int32", name="L")
    source = A if producer == "input" else te.compute((N, M), lambda i, j: A[i, j] * 2.0, name="D")

    def element(i: Any) -> Any:
        k = te.reduce_axis((0, L[i]), "k")
        return te.sum(source[i, k], axis=k)

    C = te.compute((N,), element, name="C")
    s = te.create_schedule(C.op)
    (i,) = compute_of(s[C]).axis
    if factor:
        i, _ = s[C].split(i, factor=factor)
    if producer == "attached":
        s[source].compute_at(s[C], i)
    rng = np.random.default_rng(0)
    a, lengths = rng.random((N, M), dtype="float32"), rng.integers(0, M + 1, N, dtype="int32")
    rows = a if producer == "input" else a * np.float32(2)
    wanted = [row[:n].sum() for row, n in zip(rows, lengths, strict=True)]
    np.testing.assert_allclose(evaluate([A, L, C], [a, lengths])[0], wanted, rtol=1e-5)
    func = lower(s, [A, L, C], TARGET)
    compute: Callable[..., object]
    for compute in (lambda *x: interp.run(func, list(x)), load(build_func(func, TARGET))):
        found = np.full(N, np.nan, "float32")
        compute(a, lengths, found)
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("where", ["root", "attached", "attached inside"])
def test_a_producer_covers_what_a_ragged_reduction_reads(where: str) -> None:
    A = te.placeholder((N, M), name="A")
    D = te.compute((N, M), lambda i, j: A[i, j] * 2.0, name="D")

    def element(i: Any) -> Any:
        k = te.reduce_axis((0, i + 2), "k")
        return te.sum(D[i, k + 1], axis=k)

    C = te.compute((N,), element, name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(compute_of(s[C]).axis[0], factor=4)
    if where == "attached":
        s[D].compute_at(s[C], outer)
    elif where == "attached inside":
        s[D].compute_at(s[C], compute_of(s[C]).reduce_axis[0])
    a = np.random.default_rng(0).random((N, M), dtype="float32")
    wanted = [2 * row[1 : i + 3].sum() for i, row in enumerate(a)]
    func = lower(s, [A, C], TARGET)
    compute: Callable[..., object]
    for compute in (lambda *x: interp.run(func, list(x)), load(build_func(func, TARGET))):
        found = np.full(N, np.nan, "float32")
        compute(a, found)
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_a_ragged_reduction_inside_of_its_reader() -> None:
    """Its condition read an axis that no loop went through."""
    A = te.placeholder((N, 4), name="A")

    def element(i: Any, j: Any) -> Any:
        k = te.reduce_axis((0, te.min(i + 1, 4)), "k")
        return te.sum(A[i, k], axis=k)

    B = te.compute((N, M), element, name="B")
    C = te.compute((N, M), lambda i, j: te.max(B[i, j], 0.0), name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], compute_of(C).axis[1])
    a = np.arange(N * 4, dtype="float32").reshape(N, 4)
    func, c = lower(s, [A, C], TARGET), np.zeros((N, M), "float32")
    interp.run(func, [a, c])
    wanted = [a[i, : i + 1].sum() for i in range(N)]
    np.testing.assert_array_equal(c, np.repeat(wanted, M).reshape(N, M))


def test_what_cannot_be_is_refused() -> None:
    inputs, C = triangle()
    s = te.create_schedule(C.op)
    i, j = compute_of(s[C]).axis
    (k,) = compute_of(s[C]).reduce_axis
    s[C].reorder(k, i, j)
    with pytest.raises(ScheduleError, match=r"axis k: its extent .* depends on a loop that is not"):
        lower(s, [*inputs, C], TARGET)
    s = te.create_schedule(C.op)
    s[C].bind(k, te.thread_axis("threadIdx.x"))
    with pytest.raises(ScheduleError, match="no number of threads can be bound"):
        lower(s, [*inputs, C], TARGET)
    s = te.create_schedule(C.op)
    with pytest.raises(ScheduleError, match="factor the part of constant extent"):
        s.rfactor(C, k)
    A, D = te.placeholder((N, M), name="A"), te.compute((N,), lambda i: i + 1, name="D")

    def of_computed(i: Any) -> Any:
        r = te.reduce_axis((0, D[i]), "r")
        return te.sum(A[i, r], axis=r)

    with pytest.raises(ValueError, match="reads D, which is computed"):
        te.compute((N,), of_computed, name="C")

    def of_other(i: Any) -> Any:
        r = te.reduce_axis((0, M), "r")
        q = te.reduce_axis((0, r.var + 1), "q")
        return te.sum(A[i, q], axis=(r, q))

    with pytest.raises(ValueError, match="depends on another reduction axis"):
        te.compute((N,), of_other, name="C")
