"""Vector instructions of a value."""

from autosched.tir import op
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.expr import Broadcast, BufferLoad, Expr, IntImm, Ramp, Var
from autosched.transform.vector.instructions import instructions, step_weight

A, C = decl_buffer((64,), name="A"), decl_buffer((64,), name="C")
I, K = Var("i"), Var("k")


def load(buffer: Buffer, index: Expr) -> BufferLoad:
    return BufferLoad(buffer, (index,))


def test_a_multiply_and_an_add_are_one() -> None:
    assert instructions(load(C, I) + load(A, K) * load(A, I)) == 1
    assert instructions(load(C, I) + load(A, K)) == 1


def test_index_arithmetic_is_free() -> None:
    assert instructions(load(A, op.floordiv(I * 3 + K, 4))) == 0


def test_broadcasting_is_free() -> None:
    wide = Broadcast(load(A, K), 4) * load(A, Ramp(I, IntImm(1), 4))
    assert instructions(wide) == instructions(load(A, K) * load(A, I)) == 1


def test_functions_are_long() -> None:
    assert instructions(op.call("exp", load(A, I))) == 21


def test_a_step_takes_an_instruction_at_least() -> None:
    assert step_weight(load(A, I)) == 1
