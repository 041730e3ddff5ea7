from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import IntImm, Var
from autosched.tir.stmt import TRUE, Allocate, BufferStore, seq
from autosched.transform.storage.liveness import linear_access
from kit.stmts import loop

A = decl_buffer((8,), "float32", "A")
P = decl_buffer((8,), "float32", "P")
Q = decl_buffer((8,), "float32", "Q")
i = Var("i")


def test_births_and_deaths() -> None:
    first = loop(i, 8, BufferStore(P, A[i], (i,)))
    second = BufferStore(Q, P[0] + P[1], (IntImm(0),))
    third = loop(i, 8, BufferStore(A, Q[0], (i,)))
    body = seq(first, second, third)
    for b in (P, Q):
        body = Allocate(b.data, b.dtype, b.shape, TRUE, body)
    access = linear_access(body)
    assert list(access.allocations) == [Q.data, P.data]
    assert [e.stmt for e in access.entries] == [first, first, second, third, third]
    assert [e.is_end for e in access.entries] == [False, True, False, False, True]
    events = access.events
    assert (events[first].born, events[first].dying) == ([P.data], [])
    assert (events[second].born, events[second].dying) == ([Q.data], [P.data])
    assert (events[third].born, events[third].dying) == ([], [Q.data])


def test_an_access_counts_for_the_statement_beside_the_allocation() -> None:
    store = BufferStore(P, A[i], (i,))
    inner = Allocate(P.data, P.dtype, P.shape, TRUE, store)
    access = linear_access(loop(i, 8, inner))
    assert [e.stmt for e in access.entries if e.touched] == [store]
    assert access.events[store].born == [P.data]
