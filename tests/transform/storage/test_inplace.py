import pytest

from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import Call, Expr, IntImm, IterKind, IterVar, Ramp, StringImm, Var
from autosched.tir.op import floormod
from autosched.tir.stmt import (
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    LetStmt,
    Stmt,
    While,
    seq,
)
from autosched.transform.storage.inplace import can_run_in_place

S = decl_buffer((64,), "float32", "S")
T = decl_buffer((64,), "float32", "T")
U = decl_buffer((64,), "float32", "U")
N = decl_buffer((1,), "int32", "N")
i, j, k = Var("i"), Var("j"), Var("k")
THREAD = IterVar(None, Var("t"), IterKind.THREAD, "threadIdx.x")


def nest(body: Stmt, outer: int = 8, inner: int = 8) -> For:
    inner_loop = For(j, IntImm(0), IntImm(inner), ForKind.SERIAL, body)
    return For(i, IntImm(0), IntImm(outer), ForKind.SERIAL, inner_loop)


def store(index: Expr, value: Expr | None = None) -> BufferStore:
    return BufferStore(T, S[index] if value is None else value, (index,))


at = i * 8 + j


@pytest.mark.parametrize(
    ("stmt", "expected"),
    [
        (nest(store(at, S[at] + U[at])), True),
        (nest(store(i * 8 + j * 2), inner=4), True),
        (nest(store(Ramp(at * 4, IntImm(1), 4)), outer=2), True),
        (nest(store(i * 4 + j)), False),  # rows overlap
        (nest(store(j)), False),  # each element eight times
        (nest(store(floormod(at, 8))), False),
        (nest(store(Ramp(at, IntImm(1), 4))), False),
        (nest(store(at - N[0])), False),  # another N[0] in each iteration
        (nest(LetStmt(k, 63 - at, store(at + k))), False),
        (nest(store(at + k)), True),  # k is the same in all of them
        (nest(store(at, S[at + 1])), False),
        (nest(store(at, S[at] + T[at])), False),
        (nest(store(at, U[S[at].astype("int32")])), False),
        (nest(store(at, S[S[at].astype("int32")])), False),
        (nest(seq(store(at), store(at))), False),
        (nest(seq(store(at), BufferStore(S, U[at], (at,)))), False),
        (nest(seq(store(at), BufferStore(U, S[at], (at,)))), False),
        (nest(BufferStore(U, U[at] + 1.0, (at,))), False),
        (nest(seq(store(at), Evaluate(Call(S.dtype, "call_extern", (S.data,))))), False),
        (AttrStmt(None, "extern_scope", IntImm(1), nest(store(at))), False),
        (While(N[0] < 3, nest(store(at))), False),  # S is what it is only the first time
        (nest(While(N[0] < 3, store(at))), False),
        (AttrStmt(THREAD, "thread_extent", IntImm(8), nest(store(at))), False),
        (AttrStmt(THREAD, "thread_extent", IntImm(8), store(THREAD.var * 2)), True),
        (AttrStmt(THREAD, "virtual_thread", IntImm(2), nest(store(at))), False),
    ],
)
def test_can_run_in_place(stmt: Stmt, expected: bool) -> None:
    assert can_run_in_place(stmt, T.data, S.data) is expected


def test_a_loop_of_unknown_length_is_refused() -> None:
    stmt = For(i, IntImm(0), Var("n"), ForKind.SERIAL, store(i))
    assert not can_run_in_place(stmt, T.data, S.data)


def test_a_lone_store() -> None:
    assert can_run_in_place(store(IntImm(0)), T.data, S.data)
    assert not can_run_in_place(Evaluate(StringImm("x")), T.data, S.data)
