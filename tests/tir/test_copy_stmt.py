import numpy as np

from autosched.tir.buffer import decl_buffer
from autosched.tir.copy_stmt import copies, copy_stmt, distinct_memory
from autosched.tir.dtype import float32
from autosched.tir.expr import BufferLoad, IntImm, Let, Var
from autosched.tir.parser import parse_func
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    AllocateConst,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    For,
    ForKind,
    LetStmt,
    seq,
)
from autosched.tir.verify import verify
from autosched.tir.walk import all_exprs, free_vars, stmts
from kit.stmts import as_a

A = decl_buffer((8,), "float32", "A")
x, i, t, u = Var("x"), Var("i"), Var("t", float32), Var("u")


def test_without_binders_variables_are_substituted() -> None:
    store = BufferStore(A, A[x + 1], (x,))
    assert repr(copy_stmt(store, {x: IntImm(3)})) == "A[3] = A[4]"
    assert copy_stmt(store, {}) is store


def test_every_bound_variable_is_new() -> None:
    L = decl_buffer((8,), "float32", "L")
    view = decl_buffer((8,), "float32", "view", data=L.data)
    C = decl_buffer((8,), "float32", "C")
    inner = seq(
        BufferStore(L, Let(u, x + i, A[u]) + t, (i,)),
        BufferStore(A, view[i] + C[i], (x,)),
    )
    body = LetStmt(t, A[x], For(i, IntImm(0), IntImm(4), ForKind.SERIAL, inner))
    constant = AllocateConst(C.data, C.dtype, C.shape, np.zeros(8, np.float32), body)
    attr = AttrStmt(L, "note", x, DeclBuffer(view, constant))
    stmt = Allocate(L.data, L.dtype, L.shape, TRUE, attr)
    copy = copy_stmt(stmt, {x: IntImm(2)})
    assert repr(copy) == repr(stmt).replace("x", "2")
    old = {L.data, C.data, t, i, u}
    for s in stmts(copy):
        assert not isinstance(s, BufferStore) or s.buffer.data not in old
    for e in all_exprs(copy):
        assert free_vars(e).isdisjoint(old)
        assert not isinstance(e, BufferLoad) or e.buffer.data not in old


def test_copies_keep_the_first_ones_variables() -> None:
    loop = For(i, IntImm(0), IntImm(4), ForKind.SERIAL, BufferStore(A, A[x], (i,)))
    first, second, third = (
        as_a(For, made) for made in copies(loop, [{x: IntImm(n)} for n in range(3)])
    )
    assert first.loop_var is i
    assert len({first.loop_var, second.loop_var, third.loop_var}) == 3
    assert repr(third) == "for i in range(4):\n    A[i] = A[2]"


def test_memory_of_one_name_twice() -> None:
    """A copy's second allocation had a new pointer, while its accesses went to the first one's."""
    func = parse_func("""\
def main(A: Buffer((8,), float32)):
    for i in unrolled(2):
        with L = allocate((1,), float32, "local"):
            L[0] = A[i]
            A[i + 2] = L[0]
        with L = allocate((1,), float32, "local"):
            L[0] = A[i + 2]
            A[i + 4] = L[0]
""")
    loop = as_a(For, func.body)
    for made in copies(loop.body, [{loop.loop_var: IntImm(n)} for n in range(2)]):
        verify(func.with_body(made))


def test_memory_is_told_apart() -> None:
    func = parse_func("""\
def main(A: Buffer((8,), float32)):
    with L = allocate((1,), float32, "local"):
        L[0] = A[1]
        A[0] = L[0]
    with L = allocate((1,), float32, "local"):
        L[0] = A[2]
        A[3] = L[0]
""")
    distinct = func.with_body(distinct_memory(func.body))
    verify(distinct)
    pointers = [s.buffer_var for s in stmts(distinct.body) if isinstance(s, Allocate)]
    assert len(set(pointers)) == 2
    assert distinct_memory(distinct.body) is distinct.body
