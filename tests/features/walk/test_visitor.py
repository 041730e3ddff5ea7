"""The walk: what stands around a store, and what is refused."""

from typing import Any

import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.features.walk.scope import BufferInfo
from autosched.features.walk.visitor import Nest
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.tir import op
from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import IntImm, IterKind, IterVar, Range, Var
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import AttrStmt, BufferStore, IfThenElse, LetStmt, SeqStmt, Stmt
from kit.stmts import loop

A = decl_buffer((64,), name="A")
i, j = Var("i"), Var("j")


class Spy:
    def __init__(self) -> None:
        self.stores: list[tuple[Any, ...]] = []

    def store(self, stmt: Stmt, nest: Nest) -> None:
        self.stores.append(
            ([loop.var.name for loop in nest.loops], nest.prod, list(nest.guards), nest.step)
        )

    def allocation(self, data: Var, info: BufferInfo, extents: list[int], nest: Nest) -> None:
        self.stores.append((info.name, extents))


def walk(body: Stmt) -> list[tuple[Any, ...]]:
    spy = Spy()
    Nest(PrimFunc((A.data,), body, {A.data: A}), spy)
    return spy.stores


def store(index: Var = i) -> BufferStore:
    return BufferStore(A, te.const(1.0), (index,))


def test_guards_remember_their_depth() -> None:
    guarded = IfThenElse(op.lt(i, IntImm(3)), loop(j, 2, store()), store())
    assert walk(loop(i, 8, guarded)) == [(["i", "j"], 16, [1], 0), (["i"], 8, [1], 0)]


def test_the_unroll_pragma_holds_for_its_body() -> None:
    pragma = AttrStmt(i, "pragma_auto_unroll_max_step", IntImm(64), store())
    found = walk(loop(i, 8, SeqStmt((pragma, store()))))
    assert [step for *_, step in found] == [64, 0]


def test_a_variable_bound_twice_alike_is_fine_and_otherwise_refused() -> None:
    assert len(walk(SeqStmt((loop(i, 8, store()), loop(i, 8, store()))))) == 2
    with pytest.raises(ScheduleError, match=r"loop variable i is bound twice, to \(0, 7\) and"):
        walk(SeqStmt((loop(i, 8, store()), loop(i, 4, store()))))


def test_an_unknown_thread_axis_is_refused() -> None:
    axis = IterVar(Range(IntImm(0), IntImm(4)), Var("warp.x"), IterKind.THREAD, "warp.x")
    with pytest.raises(ScheduleError, match=r"unknown thread axis 'warp.x'"):
        walk(AttrStmt(axis, "thread_extent", IntImm(4), store()))


def test_a_let_needs_a_loop_around_it_if_one_is_inside() -> None:
    with pytest.raises(ScheduleError, match="let j is outside all loops"):
        walk(LetStmt(j, IntImm(1), loop(i, 8, store(j))))
    assert walk(LetStmt(j, IntImm(1), store(j))) == [([], 1, [], 0)]


def test_allocations_are_told_with_their_extents() -> None:
    B = te.placeholder((8,), name="B")
    C = te.compute((8,), lambda i: B[i] + te.const(1.0), name="C")
    func = schedule_to_prim_func(te.create_schedule(C.op), [B, C])
    spy = Spy()
    Nest(func, spy)
    assert spy.stores[-1] == ("C", [8])
