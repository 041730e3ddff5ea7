import pytest

from autosched.errors import ScheduleError
from autosched.tir.buffer import decl_buffer
from autosched.tir.dtype import float32, handle
from autosched.tir.expr import Call, IntImm, StringImm, Var
from autosched.tir.stmt import TRUE, Allocate, BufferStore, DeclBuffer, Evaluate, Stmt, seq
from autosched.transform.storage.widen_allocate import widen_allocate

A = decl_buffer((8,), "float32", "A")
L = decl_buffer((4,), "float32", "L")
v, i = Var("v"), Var("i")


def allocate(*body: Stmt) -> Allocate:
    return Allocate(L.data, L.dtype, L.shape, TRUE, seq(*body))


def test_copies_follow_one_another() -> None:
    stmt = allocate(BufferStore(L, A[i], (i,)), BufferStore(A, L[L[i].astype("int32")], (i,)))
    assert (
        repr(widen_allocate(stmt, 2, v, innermost=False))
        == """\
L = allocate((8,), float32, "global")
L[i + v * 4] = A[i]
A[i] = L[int32(L[i + v * 4]) + v * 4]"""
    )


def test_copies_are_interleaved() -> None:
    view = decl_buffer((4,), "float32", "view", data=L.data)
    stmt = allocate(DeclBuffer(view, BufferStore(view, A[i], (i,))))
    assert (
        repr(widen_allocate(stmt, 2, v, innermost=True))
        == """\
L = allocate((8,), float32, "global")
view = declare(L, (8,), float32)
view[i * 2 + v] = A[i]"""
    )


def test_access_pointers_move_bare_ones_are_refused() -> None:
    args = (StringImm("float32"), L.data, i, IntImm(4), IntImm(1))
    stmt = allocate(Evaluate(Call(handle, "tvm_access_ptr", args)))
    wide = widen_allocate(stmt, 2, v, innermost=False)
    assert repr(wide.body) == 'tvm_access_ptr("float32", L, i + v * 4, 4, 1)'
    stmt = allocate(Evaluate(Call(float32, "call_extern", (StringImm("f"), L.data))))
    with pytest.raises(ScheduleError, match="address of L is used as a value"):
        widen_allocate(stmt, 2, v, innermost=False)
