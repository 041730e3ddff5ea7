from autosched import te
from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import IntImm, Var
from autosched.tir.op import const, eq, floordiv, likely, lt
from autosched.tir.stmt import (
    AttrStmt,
    BufferStore,
    IfThenElse,
    LetStmt,
    seq,
)
from autosched.transform.loops.hoist_if_then_else import HoistIfThenElse
from kit.stmts import loop

A = decl_buffer((64,), "float32", "A")
i, j, k = Var("i"), Var("j"), Var("k")
store = BufferStore(A, const(1.0), (i * 8 + j,))
other = BufferStore(A, const(2.0), (i * 8 + j,))


def test_golden(make_func, body_text, same_result):
    before = make_func(loop(i, 8, loop(j, 8, IfThenElse(likely(lt(i, 3)), store, other))), A)
    after = HoistIfThenElse()(before)
    assert (
        body_text(after)
        == """\
for i in range(8):
    if likely(i < 3):
        for j in range(8):
            A[i * 8 + j] = 1.0
    else:
        for j in range(8):
            A[i * 8 + j] = 2.0"""
    )
    same_result(before, after)


def test_through_several_loops_and_conditions(make_func, body_text, same_result):
    inner = IfThenElse(lt(j, 5), IfThenElse(lt(i, 3), store))
    attr = AttrStmt(i, "pragma_x", IntImm(1), inner)
    before = make_func(loop(i, 8, loop(k, 2, loop(j, 8, attr))), A)
    after = HoistIfThenElse()(before)
    assert (
        body_text(after)
        == """\
for i in range(8):
    if i < 3:
        for k in range(2):
            for j in range(8):
                pragma(var(i), "x", 1)
                if j < 5:
                    A[i * 8 + j] = 1.0"""
    )
    same_result(before, after)


def test_what_depends_on_the_loop_stays(make_func):
    before = make_func(loop(i, 8, loop(j, 8, IfThenElse(lt(j, 3), store))), A)
    assert HoistIfThenElse()(before) is before


def test_what_depends_on_a_let_stays(make_func):
    x = Var("x")
    guarded = LetStmt(x, j + 1, IfThenElse(lt(x, 3), store))
    before = make_func(loop(i, 8, loop(j, 8, guarded)), A)
    assert HoistIfThenElse()(before) is before


def test_sequences_stop_it(make_func):
    body = seq(IfThenElse(lt(i, 3), store), other)
    before = make_func(loop(i, 8, loop(j, 8, body)), A)
    assert HoistIfThenElse()(before) is before


def test_conditions_on_memory_stay(make_func):
    before = make_func(loop(i, 8, loop(j, 8, IfThenElse(lt(A[i], 3.0), store))), A)
    assert HoistIfThenElse()(before) is before


def test_a_division_that_may_trap_stays(make_func):
    inner = IfThenElse(lt(j, 4), IfThenElse(eq(floordiv(8, i), 1), store))
    before = make_func(loop(i, 8, loop(j, 8, inner)), A)
    assert HoistIfThenElse()(before) is before


def test_thread_attributes_stop_it(make_func):
    axis = te.thread_axis((0, 8), "threadIdx.x")
    guarded = IfThenElse(lt(i, 3), BufferStore(A, const(1.0), (i * 8 + axis.var,)))
    attr = AttrStmt(axis, "thread_extent", IntImm(8), guarded)
    before = make_func(loop(i, 8, loop(k, 2, attr)), A)
    assert HoistIfThenElse()(before) is before
