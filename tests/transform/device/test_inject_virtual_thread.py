import pytest

from autosched.errors import ScheduleError
from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import IntImm, IterKind, IterVar, Var
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    AttrStmt,
    BufferStore,
    IfThenElse,
    LetStmt,
    seq,
)
from autosched.tir.walk import stmts
from autosched.transform.device.inject_virtual_thread import InjectVirtualThread, touched_variables
from kit.stmts import loop

A = decl_buffer((64,), "float32", "A")
B = decl_buffer((64,), "float32", "B")
i, j = Var("i"), Var("j")
L = decl_buffer((4,), "float32", "L", scope="local")


def virtual(extent, make_body, tag="vthread"):
    thread = IterVar(None, Var(tag), IterKind.THREAD, tag)
    extent = IntImm(extent) if isinstance(extent, int) else extent
    return AttrStmt(thread, "virtual_thread", extent, make_body(thread.var))


def local(body):
    return Allocate(L.data, L.dtype, (IntImm(4),), TRUE, body)


def test_golden(make_func, body_text, same_result):
    def body(vx):
        fill = loop(i, 4, BufferStore(L, A[vx * 4 + i], (i,)))
        use = loop(j, 4, BufferStore(B, L[j] + 1.0, (vx * 4 + j,)))
        return local(seq(fill, use))

    before = make_func(virtual(2, body), A, B)
    after = InjectVirtualThread()(before)
    assert (
        body_text(after)
        == """\
L = allocate((8,), float32, "local")
for i in range(4):
    L[i] = A[i]
    L[i + 4] = A[4 + i]
for j in range(4):
    B[j] = L[j] + 1.0
    B[4 + j] = L[j + 4] + 1.0"""
    )
    same_result(before, after)


def test_no_virtual_thread_returns_the_same_object(make_func):
    func = make_func(loop(i, 4, BufferStore(B, A[i], (i,))), A, B)
    assert InjectVirtualThread()(func) is func


def test_refuses_a_number_of_threads_that_is_not_constant(make_func):
    n = Var("n")
    func = make_func(virtual(n, lambda vx: BufferStore(B, A[vx], (vx,))), A, B, scalars=(n,))
    with pytest.raises(ScheduleError, match="virtual threads vthread must be a constant, found n"):
        InjectVirtualThread()(func)


def test_what_does_not_depend_on_the_thread_is_shared(make_func, body_text, same_result):
    def body(vx):
        fill = loop(i, 4, BufferStore(L, A[i], (i,)))
        return local(seq(fill, loop(j, 4, BufferStore(B, L[j], (vx * 4 + j,)))))

    before = make_func(virtual(2, body), A, B)
    after = InjectVirtualThread()(before)
    assert (
        body_text(after)
        == """\
L = allocate((4,), float32, "local")
for i in range(4):
    L[i] = A[i]
for j in range(4):
    B[j] = L[j]
    B[4 + j] = L[j]"""
    )
    same_result(before, after)
    apart = InjectVirtualThread()(make_func(virtual(2, body, "cthread"), A, B))
    assert body_text(apart).startswith('L = allocate((8,), float32, "local")')


def test_loops_inside_or_many_threads_keep_a_loop(make_func, body_text, same_result):
    def guarded(vx):
        return IfThenElse(vx < 1, loop(j, 4, BufferStore(B, A[j], (vx * 4 + j,))))

    before = make_func(virtual(2, guarded), A, B)
    after = InjectVirtualThread()(before)
    assert (
        body_text(after)
        == """\
for vthread.s in range(2):
    if vthread.s < 1:
        for j in range(4):
            B[vthread.s * 4 + j] = A[j]"""
    )
    same_result(before, after)
    before = make_func(virtual(16, lambda vx: BufferStore(B, A[vx], (vx,))), A, B)
    after = InjectVirtualThread()(before)
    assert body_text(after) == "for vthread.s in range(16):\n    B[vthread.s] = A[vthread.s]"
    same_result(before, after)


def test_nested_threads_are_injected_inner_first(make_func, body_text, same_result):
    def body(vx):
        return virtual(2, lambda vy: BufferStore(B, A[vx * 2 + vy], (vx * 2 + vy,)))

    before = make_func(virtual(2, body), A, B)
    after = InjectVirtualThread()(before)
    assert body_text(after) == "\n".join(f"B[{k}] = A[{k}]" for k in (0, 2, 1, 3))
    same_result(before, after)


def test_one_thread_disappears(make_func, body_text):
    func = make_func(virtual(1, lambda vx: BufferStore(B, A[vx], (vx,))), A, B)
    assert body_text(InjectVirtualThread()(func)) == "B[0] = A[0]"


def test_copies_of_a_let_bind_their_own_variables(make_func, same_result):
    t = Var("t")
    before = make_func(
        virtual(3, lambda vx: LetStmt(t, vx * 2, BufferStore(B, A[t], (t + 1,)))), A, B
    )
    after = InjectVirtualThread()(before)
    assert len({s.var for s in stmts(after.body) if isinstance(s, LetStmt)}) == 3
    same_result(before, after)


def test_touched_variables_follow_stores_and_loads():
    vx, t = Var("vx"), Var("t")
    m = decl_buffer((4,), "float32", "M", scope="local")
    body = seq(
        BufferStore(L, A[vx], (IntImm(0),)),
        LetStmt(t, i + 1, BufferStore(m, L[0], (t,))),
    )
    assert touched_variables(body, vx) == {vx, L.data, m.data}
