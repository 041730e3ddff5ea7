import numpy as np
import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.tir import interp
from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import IntImm, Var
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    AttrStmt,
    BufferStore,
    ForKind,
    IfThenElse,
    seq,
)
from autosched.transform.from_te.storage_flatten import StorageFlatten
from autosched.transform.loops.inject_double_buffer import InjectDoubleBuffer
from kit.stmts import loop

A = decl_buffer((64,), "float32", "A")
B = decl_buffer((64,), "float32", "B")
L = decl_buffer((4,), "float32", "L", scope="shared")
M = decl_buffer((4,), "float32", "M", scope="shared")
i, j, k = Var("i"), Var("j"), Var("k")


def allocate(buffer, *body):
    return Allocate(buffer.data, buffer.dtype, buffer.shape, TRUE, seq(*body))


def fill(buffer, body):
    return AttrStmt(buffer, "double_buffer_scope", IntImm(1), body)


def copy(target, offset=0):
    return loop(j, 4, BufferStore(target, A[i * 4 + j + offset], (j,)))


def use(value):
    return loop(k, 4, BufferStore(B, value, (i * 4 + k,)))


def test_golden(make_func, body_text, same_result):
    before = make_func(loop(i, 8, allocate(L, fill(L, copy(L)), use(L[3 - k]))), A, B)
    after = InjectDoubleBuffer()(before)
    assert (
        body_text(after)
        == """\
L = allocate((8,), float32, "shared")
for j in range(4):
    L[j] = A[j]
for i in range(8):
    if i + 1 < 8:
        for j_1 in range(4):
            L[j_1 + (i + 1) % 2 * 4] = A[(i + 1) * 4 + j_1]
    for k in range(4):
        B[i * 4 + k] = L[3 - k + i % 2 * 4]"""
    )
    same_result(before, after)


def test_nothing_marked_returns_the_same_object(make_func):
    func = make_func(loop(i, 8, allocate(L, copy(L), use(L[k]))), A, B)
    assert InjectDoubleBuffer()(func) is func


def test_two_buffers_and_a_loop_that_does_not_start_at_0(make_func, same_result):
    inner = allocate(M, fill(L, copy(L)), fill(M, copy(M, 1)), use(L[3 - k] + M[k]))
    before = make_func(loop(i, 8, allocate(L, inner), low=3), A, B)
    after = InjectDoubleBuffer()(before)
    assert [s.extents[0].value for s in (after.body, after.body.body)] == [8, 8]
    same_result(before, after)


@pytest.mark.parametrize("extent", [0, 1, 5])
def test_a_symbolic_extent(make_func, same_result, extent):
    n = Var("n")
    body = loop(i, n, allocate(L, fill(L, copy(L)), use(L[k])))
    before = make_func(body, A, B, scalars=(n,))
    same_result(before, InjectDoubleBuffer()(before), extent)


def test_refuses_what_has_no_next_iteration(make_func):
    body = allocate(L, fill(L, loop(j, 4, BufferStore(L, A[j], (j,)))))
    message = "L is double-buffered, but no serial loop encloses its allocation"
    with pytest.raises(ScheduleError, match=message):
        InjectDoubleBuffer()(make_func(body, A))
    with pytest.raises(ScheduleError, match=message):
        InjectDoubleBuffer()(make_func(loop(i, 8, body, ForKind.PARALLEL), A))


def test_refuses_fills_that_are_not_in_every_iteration(make_func):
    message = "L must be filled once in every iteration of the loop around its allocation"
    guarded = allocate(L, IfThenElse(i < 4, fill(L, copy(L))))
    with pytest.raises(ScheduleError, match=message):
        InjectDoubleBuffer()(make_func(loop(i, 8, guarded), A))
    deeper = allocate(L, loop(k, 2, fill(L, copy(L))))
    with pytest.raises(ScheduleError, match=message):
        InjectDoubleBuffer()(make_func(loop(i, 8, deeper), A))


def test_refuses_a_size_that_changes(make_func):
    body = Allocate(L.data, L.dtype, (i + 1,), TRUE, fill(L, copy(L)))
    with pytest.raises(ScheduleError, match="the size of L depends on the loop i"):
        InjectDoubleBuffer()(make_func(loop(i, 8, body), A))


def test_from_a_schedule():
    X = te.placeholder((32, 8), name="X")
    Y = te.compute((32, 8), lambda a, b: X[a, b] * 2.0, name="Y")
    Z = te.compute((32, 8), lambda a, b: Y[a, 7 - b] + 1.0, name="Z")
    s = te.create_schedule([Z.op])
    s[Y].compute_at(s[Z], Z.op.axis[0])
    s[Y].double_buffer()
    func = StorageFlatten()(schedule_to_prim_func(s, [X, Z]))
    doubled = InjectDoubleBuffer()(func)
    assert doubled is not func
    rng = np.random.default_rng(0)
    x, z = rng.random((32, 8), dtype=np.float32), np.zeros((32, 8), np.float32)
    interp.run(doubled, [x, z])
    np.testing.assert_array_equal(z, x[:, ::-1] * np.float32(2) + np.float32(1))
