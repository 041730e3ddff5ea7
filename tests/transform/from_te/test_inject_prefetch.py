import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import IntImm, Var
from autosched.tir.stmt import AttrStmt, BufferStore, For, Prefetch, SeqStmt
from autosched.tir.walk import stmts
from autosched.transform.from_te.inject_prefetch import InjectPrefetch
from kit.stmts import as_a, loop
from kit.tir import value_of
from kit.types import BodyText, MakeFunc

A, B = decl_buffer((10, 4), "float32", "A"), decl_buffer((8, 4), "float32", "B")
i, j = Var("i"), Var("j")


copy = loop(j, 4, BufferStore(B, A[i, j], (i, j)))


def test_golden(make_func: MakeFunc, body_text: BodyText) -> None:
    marked = AttrStmt(A, "prefetch_scope", IntImm(2), copy)
    after = InjectPrefetch()(make_func(loop(i, 8, marked), A, B))
    prefetch, rest = as_a(SeqStmt, as_a(For, after.body).body).stmts
    assert isinstance(prefetch, Prefetch) and prefetch.buffer is A
    assert [(repr(r.min), repr(r.extent)) for r in prefetch.bounds] == [("i + 2", "1"), ("0", "4")]
    assert rest is copy


def test_unchanged(make_func: MakeFunc) -> None:
    before = make_func(loop(i, 8, copy), A, B)
    assert InjectPrefetch()(before) is before


def test_outside_of_loops_is_refused(make_func: MakeFunc) -> None:
    marked = AttrStmt(A, "prefetch_scope", IntImm(2), copy)
    with pytest.raises(ScheduleError, match="the prefetch of A is not inside a loop"):
        InjectPrefetch()(make_func(marked, A, B))


def test_what_is_not_read_is_not_prefetched(make_func: MakeFunc) -> None:
    other = decl_buffer((4,), "float32", "other")
    marked = AttrStmt(other, "prefetch_scope", IntImm(2), copy)
    after = InjectPrefetch()(make_func(loop(i, 8, marked), A, B, other))
    assert not any(isinstance(s, Prefetch | AttrStmt) for s in stmts(after.body))


def test_schedule() -> None:
    X = te.placeholder((32, 16), name="X")
    Y = te.compute((32, 16), lambda r, c: X[r, c] + 1.0, name="Y")
    sch = te.create_schedule(Y.op)
    sch[Y].prefetch(X, Y.op.axis[0], 1)
    after = InjectPrefetch()(schedule_to_prim_func(sch, [X, Y]))
    prefetch = next(s for s in stmts(after.body) if isinstance(s, Prefetch))
    assert [value_of(r.extent) for r in prefetch.bounds] == [1, 16]


def test_what_the_loop_itself_computes_is_refused() -> None:
    X = te.placeholder((32, 16), name="X")
    Y = te.compute((32, 16), lambda r, c: X[r, c] + 1.0, name="Y")
    Z = te.compute((32, 16), lambda r, c: Y[r, c] * 2.0, name="Z")
    sch = te.create_schedule(Z.op)
    r, c = Z.op.axis
    sch[Y].compute_at(sch[Z], c)
    sch[Z].prefetch(Y, r, 1)
    with pytest.raises(ScheduleError, match="Y is prefetched in loop r, but has no memory before"):
        InjectPrefetch()(schedule_to_prim_func(sch, [X, Z]))


def test_what_memory_says_is_not_read_ahead_of_time() -> None:
    """at[r + 2] may lie beyond `at`, and say anything where it is computed later."""
    X, at = te.placeholder((32, 16), name="X"), te.placeholder((8,), "int32", name="at")
    Y = te.compute((8, 16), lambda r, c: X[at[r], c] + 1.0, name="Y")
    sch = te.create_schedule(Y.op)
    sch[Y].prefetch(X, Y.op.axis[0], 2)
    sch[Y].prefetch(at, Y.op.axis[0], 2)
    after = InjectPrefetch()(schedule_to_prim_func(sch, [X, at, Y]))
    (prefetch,) = [s for s in stmts(after.body) if isinstance(s, Prefetch)]
    assert prefetch.buffer.name == "at"
