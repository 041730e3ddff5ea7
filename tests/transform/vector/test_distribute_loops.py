"""Loops around the start and the steps of a reduction."""

from __future__ import annotations

import numpy as np

from autosched.nest.distribution import MAX_ELEMENTS
from autosched.tir import interp, op
from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import BufferLoad, Expr, Var, pointer
from autosched.tir.function import PrimFunc
from autosched.tir.printer import to_text
from autosched.tir.stmt import BufferStore, For, SeqStmt, Stmt, seq
from autosched.transform.vector.distribute_loops import distribute
from kit.stmts import loop

A, Y = decl_buffer((64,), name="A"), decl_buffer((64,), name="Y")
I, J, K = Var("i"), Var("j"), Var("k")
ZERO = op.const(0.0)


def step(at: Expr, value: Expr) -> BufferStore:
    return BufferStore(Y, BufferLoad(Y, (at,)) + value, (at,))


def run(stmt: Stmt) -> np.ndarray:
    handles = [pointer(b.name + "_h", b.dtype) for b in (A, Y)]
    func = PrimFunc(tuple(handles), stmt, dict(zip(handles, (A, Y))), {})
    arrays = [np.arange(64, dtype=np.float32), np.zeros(64, np.float32)]
    interp.run(func, arrays)
    return arrays[1]


def same(before: Stmt, after: Stmt) -> None:
    np.testing.assert_array_equal(run(before), run(after))


def test_start_and_steps_get_loops_of_their_own() -> None:
    before = loop(
        I, 14, seq(BufferStore(Y, ZERO, (I,)), loop(K, 9, step(I, BufferLoad(A, (I + K,)))))
    )
    after = distribute(before)
    assert isinstance(after, SeqStmt)
    assert [to_text(s).splitlines()[0] for s in after.stmts] == ["for i in range(14):"] * 2
    same(before, after)


def test_two_levels_and_interleaved_outputs() -> None:
    # i moves by 1 inside what j moves by 4: outputs j*4 + {0, 16} + i.
    start = loop(J, 2, BufferStore(Y, ZERO, (I * 4 + J * 16,)))
    again = loop(J, 2, loop(K, 3, step(I * 4 + J * 16, BufferLoad(A, (K + I,)))))
    before = loop(I, 4, seq(start, again))
    after = distribute(before)
    assert isinstance(after, SeqStmt)
    same(before, after)
    outer = Var("o")
    nested = loop(outer, 2, loop(I, 4, seq(*(_shifted(s, outer) for s in (start, again)))))
    wide = distribute(nested)
    assert isinstance(wide, SeqStmt)
    assert all(isinstance(s, For) and s.loop_var is outer for s in wide.stmts)
    same(nested, wide)


def _shifted(stmt: Stmt, outer: Var) -> Stmt:
    from autosched.tir.substitute_stmt import substitute_stmt

    return substitute_stmt(stmt, {J: J + outer * 2})


def test_what_depends_on_other_iterations_stays() -> None:
    scan = loop(I, 8, seq(BufferStore(Y, ZERO, (I,)), step(I, BufferLoad(Y, (I + 1,)))))
    assert distribute(scan) is scan
    overlap = loop(I, 8, seq(BufferStore(Y, ZERO, (I,)), BufferStore(Y, ZERO, (I + 1,))))
    assert distribute(overlap) is overlap
    same_element = loop(I, 8, seq(BufferStore(Y, ZERO, (J * 0,)), step(J * 0, ZERO)))
    assert distribute(same_element) is same_element
    two_buffers = loop(I, 8, seq(BufferStore(A, ZERO, (I,)), step(I, BufferLoad(A, (I + 1,)))))
    assert distribute(two_buffers) is two_buffers


def test_large_outputs_stay_together() -> None:
    extent = MAX_ELEMENTS + 1
    big = loop(I, extent, seq(BufferStore(Y, ZERO, (I,)), step(I, op.const(1.0))))
    assert distribute(big) is big


def test_views_that_begin_elsewhere_are_other_elements() -> None:
    """The next iteration starts what this one has added to."""
    later = decl_buffer((32,), "float32", "V", data=Y.data, elem_offset=1)
    value = BufferLoad(later, (I,)) + BufferLoad(A, (I,))
    before = loop(I, 14, seq(BufferStore(Y, ZERO, (I,)), BufferStore(later, value, (I,))))
    assert distribute(before) is before
