"""Nests of the program in numbers."""

from autosched.nest.loop_nest import InnerLoop
from autosched.tir import op
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.expr import Broadcast, BufferLoad, Expr, IntImm, Ramp, Var
from autosched.transform.vector.describe_nest import can_fold, describe_nest
from kit.stmts import matched

A, B, C = (decl_buffer((4096,), name=name) for name in "ABC")
I, J, K = Var("i"), Var("j"), Var("k")


def load(buffer: Buffer, index: Expr) -> BufferLoad:
    return BufferLoad(buffer, (index,))


def test_loops_move_the_store_and_its_reads() -> None:
    value = load(C, I * 64 + J) + load(A, I * 32 + K) * load(B, K * 64 + J)
    described = describe_nest(matched(C, I * 64 + J, value, (I, 8), (K, 32), (J, 64)))
    assert described.loops == (
        InnerLoop(8, 64, (32, 0)),
        InnerLoop(32, 0, (1, 64)),
        InnerLoop(64, 1, (0, 1)),
    )
    assert (described.width, described.steps, described.own) == (1, (0, 0), 1)


def test_an_element_read_twice_is_one_read() -> None:
    described = describe_nest(matched(C, I, load(A, I) * load(A, I) + load(A, I + 1), (I, 8)))
    assert described.loops == (InnerLoop(8, 1, (1, 1)),)


def test_lanes_that_are_there_already() -> None:
    at = Ramp(I * 4, IntImm(1), 4)
    gathered = op.floormod(Ramp(IntImm(0), IntImm(1), 4), Broadcast(IntImm(3), 4))
    value = (
        load(A, at)
        + Broadcast(load(A, I), 4)
        + load(B, Ramp(I * 4, IntImm(8), 4))
        + load(B, gathered)
    )
    described = describe_nest(matched(C, at, value, (I, 8)))
    assert described.loops[0].reads == (4, 1, 4, 0)
    assert (described.width, described.steps) == (4, (1, 0, 8, 0))
    assert [described.gathered(k) for k in range(4)] == [False, False, True, True]


def test_quotients_have_blocks_and_barred_loops_no_lanes() -> None:
    value = load(A, op.floordiv(I, 8) * 20 + op.floormod(I, 8))
    described = describe_nest(matched(C, I, value, (I, 64)), barred=[0])
    assert described.loops == (InnerLoop(64, 1, (1,), blocks=(8,), lanes=1),)


def test_conditions_close_lanes() -> None:
    value = op.if_then_else(op.ge(I, 1), load(A, I - 1), op.const(0.0))
    scalar = describe_nest(matched(C, I, value, (I, 64)))
    assert (scalar.loops[0].conditional, scalar.closed) == (True, False)
    at = Ramp(J * 4, IntImm(1), 4)
    masked = BufferLoad(A, (at,), op.ge(at, Broadcast(IntImm(1), 4)))
    assert describe_nest(matched(C, at, masked, (J, 8))).closed


def test_partial_results_need_an_operation_whose_order_can_change() -> None:
    total, term = load(C, I), load(A, I * 8 + K)
    loops = (I, 8), (K, 8)
    assert can_fold(matched(C, I, total + term, *loops), reassociate=True)
    assert not can_fold(matched(C, I, total + term, *loops), reassociate=False)
    assert can_fold(matched(C, I, op.max_(term, total), *loops), reassociate=False)
    assert not can_fold(matched(C, I, total * term, *loops), reassociate=True)
    assert not can_fold(matched(C, I, total + total * term, *loops), reassociate=True)
