"""Concatenating the values of an expression at consecutive values of a variable."""

from __future__ import annotations

from autosched.tir import op
from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import Broadcast, BufferLoad, Expr, IntImm, Ramp, Var
from autosched.transform.vector.lanes import lane_slice, widen

I, X = Var("i"), Var("x")
A = decl_buffer((64,), name="A")


def ramp(base: Expr, lanes: int) -> Expr:
    return Ramp(base, IntImm(1), lanes)


def test_scalars_become_vectors() -> None:
    assert widen(BufferLoad(A, (X + I,)), I, 4) is BufferLoad(A, (ramp(X, 4),))
    assert widen(BufferLoad(A, (X,)), I, 4) is Broadcast(BufferLoad(A, (X,)), 4)


def test_vectors_become_wider() -> None:
    narrow = BufferLoad(A, (ramp(X + I * 2, 2),)) * Broadcast(BufferLoad(A, (X,)), 2)
    wide = BufferLoad(A, (ramp(X, 8),)) * Broadcast(BufferLoad(A, (X,)), 8)
    assert widen(narrow, I, 4) is wide


def test_what_does_not_fit_together_is_refused() -> None:
    assert widen(BufferLoad(A, (ramp(X + I * 3, 2),)), I, 4) is None  # gaps
    assert widen(BufferLoad(A, (ramp(X, 2),)), I, 4) is None  # repeats
    assert widen(Broadcast(BufferLoad(A, (I,)), 2), I, 4) is None  # pairs
    assert widen(op.call("call_extern", ramp(X + I * 2, 2)), I, 4) is None


def test_a_scalar_condition_chooses_for_the_wider_vector() -> None:
    def chosen(condition: Expr, lanes: int, at: Expr) -> Expr:
        loaded = BufferLoad(A, (ramp(at, lanes),))
        return op.if_then_else(condition, loaded, Broadcast(op.const(0.0), lanes))

    assert widen(chosen(X < 4, 2, X + I * 2), I, 4) is chosen(X < 4, 8, X)
    assert widen(chosen(I < 4, 2, X + I * 2), I, 4) is None
    assert widen(chosen(ramp(X, 2) < Broadcast(X, 2), 2, X + I * 2), I, 4) is None


def test_slices_undo_it() -> None:
    wide = BufferLoad(A, (ramp(X, 8),)) * Broadcast(BufferLoad(A, (X,)), 8)
    part = lane_slice(wide, 4, 2)
    assert part is BufferLoad(A, (ramp(X + 4, 2),)) * Broadcast(BufferLoad(A, (X,)), 2)
    assert lane_slice(X, 4, 2) is X
    assert lane_slice(op.call("call_extern", wide), 0, 2) is None
