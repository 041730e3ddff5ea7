from collections.abc import Callable

from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import IntImm, IterKind, IterVar, Var
from autosched.tir.stmt import (
    AttrStmt,
    BufferStore,
    LetStmt,
    seq,
)
from autosched.tir.walk import stmts
from autosched.transform.device.inject_virtual_thread import InjectVirtualThread, touched_variables
from kit.types import MakeFunc, SameResult

A = decl_buffer((64,), "float32", "A")
B = decl_buffer((64,), "float32", "B")
i, j = Var("i"), Var("j")
L = decl_buffer((4,), "float32", "L", scope="local")


def virtual(extent: int, make_body: Callable[[Var], LetStmt], tag: str = "vthread") -> AttrStmt:
    thread = IterVar(None, Var(tag), IterKind.THREAD, tag)
    return AttrStmt(thread, "virtual_thread", IntImm(extent), make_body(thread.var))


def test_copies_of_a_let_bind_their_own_variables(
    make_func: MakeFunc, same_result: SameResult
) -> None:
    t = Var("t")
    before = make_func(
        virtual(3, lambda vx: LetStmt(t, vx * 2, BufferStore(B, A[t], (t + 1,)))), A, B
    )
    after = InjectVirtualThread()(before)
    assert len({s.var for s in stmts(after.body) if isinstance(s, LetStmt)}) == 3
    same_result(before, after)


def test_touched_variables_follow_stores_and_loads() -> None:
    vx, t = Var("vx"), Var("t")
    m = decl_buffer((4,), "float32", "M", scope="local")
    body = seq(
        BufferStore(L, A[vx], (IntImm(0),)),
        LetStmt(t, i + 1, BufferStore(m, L[0], (t,))),
    )
    assert touched_variables(body, vx) == {vx, L.data, m.data}
