import pytest

from autosched.errors import ScheduleError
from autosched.tir.buffer import Buffer, decl_buffer
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


def test_a_view_that_begins_later_does_so_in_every_copy() -> None:
    view = decl_buffer((3,), "float32", "view", data=L.data, elem_offset=1)
    stmt = allocate(DeclBuffer(view, BufferStore(view, A[i], (i,))))
    declared = {
        innermost: repr(widen_allocate(stmt, 2, v, innermost=innermost).body)
        for innermost in (False, True)
    }
    assert declared == {
        False: "view = declare(L, (6,), float32, elem_offset=1)\nview[i + v * 4] = A[i]",
        True: "view = declare(L, (6,), float32, elem_offset=2)\nview[i * 2 + v] = A[i]",
    }


@pytest.mark.parametrize(
    ("view", "innermost"),
    [
        (decl_buffer((8,), "float16", "halves", data=L.data), False),
        (decl_buffer((8,), "float16", "halves", data=L.data), True),
        (decl_buffer((2,), "float32", "even", data=L.data, strides=(2,)), True),
        (decl_buffer((2, 2), "float32", "square", data=L.data), False),
    ],
)
def test_views_with_other_places_for_copies_are_refused(view: Buffer, innermost: bool) -> None:
    indices = (i, i)[: len(view.shape)]
    stmt = allocate(BufferStore(view, view[indices], indices))
    with pytest.raises(ScheduleError, match=f"{view.name} is a view of L, which cannot be given"):
        widen_allocate(stmt, 2, v, innermost=innermost)


def test_access_pointers_move_bare_ones_are_refused() -> None:
    args = (StringImm("float32"), L.data, i, IntImm(4), IntImm(1))
    stmt = allocate(Evaluate(Call(handle, "tvm_access_ptr", args)))
    wide = widen_allocate(stmt, 2, v, innermost=False)
    assert repr(wide.body) == 'tvm_access_ptr("float32", L, i + v * 4, 4, 1)'
    stmt = allocate(Evaluate(Call(float32, "call_extern", (StringImm("f"), L.data))))
    with pytest.raises(ScheduleError, match="address of L is used as a value"):
        widen_allocate(stmt, 2, v, innermost=False)
