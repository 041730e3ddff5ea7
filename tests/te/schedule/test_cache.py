"""cache_read and cache_write: names, places, bodies, refusals."""

from collections.abc import Callable

import numpy as np
import pytest

from autosched import te
from autosched.driver import lower
from autosched.errors import ScheduleError
from autosched.runtime.cpu import CpuKernel, build_artifact
from autosched.target import cpu_target
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from kit.te import compute_of
from kit.types import Check


@pytest.fixture
def matmul() -> tuple[Schedule, Tensor, Tensor, Tensor, Tensor]:
    A = te.placeholder((8, 4), name="A")
    B = te.placeholder((4, 8), name="B")
    k = te.reduce_axis((0, 4), "k")
    C = te.compute(
        (8, 8), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C", tag="t", attrs={"x": 1}
    )
    D = te.compute((8, 8), lambda i, j: C[i, j] + A[0, 0], name="D")
    return te.create_schedule(D), A, B, C, D


def _names(schedule: Schedule) -> list[str]:
    return [stage.op.name for stage in schedule.stages]


def test_cache_read_changes_only_the_given_readers(
    matmul: tuple[Schedule, Tensor, Tensor, Tensor, Tensor],
) -> None:
    s, A, _, C, D = matmul
    AS = s.cache_read(A, "shared", [C])
    assert _names(s) == ["A", "A.shared", "B", "C", "D"]
    assert s[AS].scope == "shared"
    assert compute_of(AS).body == (A[tuple(compute_of(AS).axis)],)
    assert [iv.var.name for iv in compute_of(AS).axis] == ["ax0", "ax1"]
    assert s[C].op.inputs[0] is AS
    assert A in s[D].op.inputs
    assert s[D].op.inputs[0] is s[C].op.output(0)


def test_cache_read_of_a_scans_own_update_is_refused() -> None:
    X, state = te.placeholder((4, 3), name="X"), te.placeholder((4, 3), name="state")
    init = te.compute((1, 3), lambda _, i: X[0, i], name="init")
    update = te.compute((4, 3), lambda t, i: state[t - 1, i] + X[t, i], name="update")
    total = te.scan(init, update, state, [X], name="total")
    s = te.create_schedule(total)
    with pytest.raises(ScheduleError, match=r"stage update: the scan keeps what .*cache_write"):
        s.cache_read(update, "local", [total])
    assert _names(s) == ["X", "init", "state", "update", "total"]


def test_a_second_cache_in_the_same_scope_gets_another_name(
    matmul: tuple[Schedule, Tensor, Tensor, Tensor, Tensor],
) -> None:
    s, A, _, C, D = matmul
    s.cache_read(A, "shared", [C])
    again = s.cache_read(A, "shared", [D])
    assert again.op.name == "A.d.shared"
    assert _names(s) == ["A", "A.d.shared", "A.shared", "B", "C", "D"]
    nested = s.cache_read(again, "local", D)
    assert nested.op.name == "A.d.shared.local"


def test_cache_read_keeps_loops_of_the_reader(
    matmul: tuple[Schedule, Tensor, Tensor, Tensor, Tensor],
) -> None:
    s, A, _, C, _ = matmul
    io, _ = s[C].split(compute_of(C).axis[0], factor=2)
    s.cache_read(A, "local", [C])
    assert io in s[C].leaf_iter_vars


def test_cache_write_relabels_an_untransformed_stage(
    matmul: tuple[Schedule, Tensor, Tensor, Tensor, Tensor],
) -> None:
    s, A, B, C, _D = matmul
    CL = s.cache_write(C, "local")
    assert _names(s) == ["A", "B", "C.local", "C", "D"]
    assert [iv.var.name for iv in CL.op.root_iter_vars] == ["i.c", "j.c", "k"]
    i, j = CL.op.axis
    (k,) = CL.op.reduce_axis
    assert CL.op.body == (te.sum(A[i, k] * B[k, j], axis=k),)
    assert compute_of(s[C]).body == (CL[tuple(compute_of(C).axis)],)
    assert compute_of(s[C]).axis == compute_of(C).axis
    assert (CL.op.tag, CL.op.attrs, s[C].op.tag) == ("t", {"x": 1}, "t")
    assert s[CL].scope == "local"
    assert s[C].leaf_iter_vars == list(compute_of(C).axis)


def test_cache_write_follows_the_loop_order(
    matmul: tuple[Schedule, Tensor, Tensor, Tensor, Tensor],
) -> None:
    s, _, _, C, _ = matmul
    i, j, _ = s[C].leaf_iter_vars
    s[C].reorder(j, i)
    CL = s.cache_write(C, "local")
    assert [iv.var.name for iv in CL.op.axis] == ["j.c", "i.c"]
    assert compute_of(s[C]).body == (CL[j, i],)


def test_cache_write_of_an_output() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    BL = s.cache_write(B, "local")
    assert s.outputs == [s[B].op]
    assert s[B].is_output
    assert not s[BL].is_output


def test_cache_write_of_several_outputs() -> None:
    A = te.placeholder((8,), name="A")
    B, C = te.compute((8,), lambda i: (A[i] + 1.0, A[i] * 2.0), name="B")
    s = te.create_schedule(B.op)
    second, first = s.cache_write([C, B], "local")
    assert (first.value_index, second.value_index) == (0, 1)
    (i,) = B.op.axis
    assert compute_of(s[B]).body == (first[i], second[i])
    with pytest.raises(ScheduleError, match=r"cache_write: stage B: give all its 2 outputs"):
        s.cache_write(B, "local")


def test_cache_read_of_one_of_several_outputs() -> None:
    A = te.placeholder((8,), name="A")
    B, C = te.compute((8,), lambda i: (A[i] + 1.0, A[i] * 2.0), name="B")
    D = te.compute((8,), lambda i: B[i] + C[i], name="D")
    s = te.create_schedule(D.op)
    cache = s.cache_read(C, "shared", D)
    assert cache.op.name == "B.v1.shared"
    assert s[D].op.inputs == (B, cache)


REFUSED: dict[str, tuple[Callable[..., object], str]] = {
    "scope": (lambda s, A, B, C, D: s.cache_read(A, "near", C), r"cache_read: stage A: unknown"),
    "no reader": (lambda s, A, B, C, D: s.cache_read(A, "local", []), r"no reader of A given"),
    "not read": (
        lambda s, A, B, C, D: s.cache_read(B, "local", [C, D]),
        r"cache_read: stage D: it does not read B",
    ),
    "placeholder": (
        lambda s, A, B, C, D: s.cache_write(A, "local"),
        r"cache_write: stage A: only te.compute",
    ),
    "write scope": (lambda s, A, B, C, D: s.cache_write(C, ""), r"cache_write: stage C: unknown"),
    "nothing": (lambda s, A, B, C, D: s.cache_write([], "local"), r"cache_write: no tensor"),
    "read an operation": (
        lambda s, A, B, C, D: s.cache_read(A.op, "local", [C]),
        r"cache_read: expected a tensor, found PlaceholderOp.*; those of an operation are its",
    ),
    "write an operation": (
        lambda s, A, B, C, D: s.cache_write(D.op, "local"),
        r"cache_write: expected a tensor, found ComputeOp",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_change_nothing(
    matmul: tuple[Schedule, Tensor, Tensor, Tensor, Tensor], name: str
) -> None:
    act, message = REFUSED[name]
    s = matmul[0]
    before = [(stage, stage.op) for stage in s.stages]
    with pytest.raises(ScheduleError, match=message):
        act(*matmul)
    assert [(stage, stage.op) for stage in s.stages] == before


def test_cache_write_after_a_split_of_the_reduction_is_refused(
    matmul: tuple[Schedule, Tensor, Tensor, Tensor, Tensor],
) -> None:
    s, _, _, C, _ = matmul
    s[C].split(compute_of(C).reduce_axis[0], factor=2)
    with pytest.raises(ScheduleError, match=r"cache_write: stage C, axis k.outer"):
        s.cache_write(C, "local")
    assert _names(s) == ["A", "B", "C", "D"]


def test_cache_write_after_an_uneven_split_is_guarded() -> None:
    A = te.placeholder((10,), name="A")
    k = te.reduce_axis((0, 3), "k")
    B = te.compute((10,), lambda i: te.sum(A[i] * k.var.astype("float32"), axis=k), name="B")
    C = te.compute((10,), lambda i: A[i] + 1.0, name="C")
    s = te.create_schedule([B.op, C.op])
    for tensor in (B, C):
        s[tensor].split(tensor.op.axis[0], factor=4)
    BL, CL = s.cache_write(B, "local"), s.cache_write(C, "local")
    for cache in (BL, CL):
        assert [iv.var.name for iv in cache.op.axis] == ["i.outer.c", "i.inner.c"]
        assert [e.value for e in cache.shape] == [3, 4]
    outer, inner = CL.op.axis
    index = inner + outer * 4
    assert CL.op.body == (te.if_then_else(index < 10, A[index] + 1.0, 0.0),)
    (i,) = C.op.axis
    assert compute_of(s[C]).body == (CL[i // 4, i % 4],)
    outer, inner = BL.op.axis
    assert BL.op.body[0].condition is ((inner + outer * 4) < 10)


@pytest.mark.parametrize(("size", "factor"), [(10, 4), (11, 8), (7, 4), (13, 8), (21, 8)])
def test_a_guarded_cache_reads_nothing_beyond_its_source(size: int, factor: int) -> None:
    """As lanes of a vector: of local memory the compiler takes such values for anything."""
    A = te.placeholder((size,), name="A")
    T = te.compute((size,), lambda i: A[i] * 2.0, name="T")
    B = te.compute((size,), lambda i: T[size - 1 - i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], factor=factor)
    cache = s.cache_write(B, "local")
    s[T].set_scope("local")
    s[cache].vectorize(cache.op.axis[1])
    target = cpu_target()
    kernel = CpuKernel(build_artifact(lower(s, [A, B], target), target))
    a, b = np.arange(size, dtype=np.float32), np.zeros(size, np.float32)
    kernel(a, b)
    np.testing.assert_array_equal(b, a[::-1] * 2 + 1)


@pytest.mark.parametrize("factor", [4, 6])
def test_what_a_cached_reduction_begins_with_is_read_inside_of_the_axes_alone(
    factor: int, check: Check
) -> None:
    A, S = te.placeholder((10, 3), name="A"), te.placeholder((10,), name="S")
    k = te.reduce_axis((0, 3), "k")
    B = te.compute((10,), lambda i: te.sum(A[i, k], axis=k, init=S[9 - i]), name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], factor=factor)
    s.cache_write(B, "local")
    check(s, [A, S, B], lambda a, s: a.sum(1) + s[::-1])


def test_readers_are_tensors_or_operations(
    matmul: tuple[Schedule, Tensor, Tensor, Tensor, Tensor],
) -> None:
    s, A, _, C, _ = matmul
    for readers in (None, s[C], "C"):
        with pytest.raises(ScheduleError, match="cache_read: stage A: expected the tensors that"):
            s.cache_read(A, "local", readers)  # type: ignore[arg-type]
    with pytest.raises(ScheduleError, match="cache_read: stage A: unknown scope"):
        s.cache_read(A, [C], "local")  # type: ignore[arg-type]
