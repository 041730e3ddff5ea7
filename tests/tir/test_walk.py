"""Walking and rewriting: unchanged means the same object."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest

from autosched.tir import op, walk
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.expr import BufferLoad, Expr, IntImm, Let, Mul, Range, Var, pointer
from autosched.tir.repeated_substitution import RepeatedSubstitution
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Prefetch,
    SeqStmt,
    Stmt,
    While,
    is_nop,
    nop,
    seq,
)
from autosched.tir.substitute_stmt import substitute_stmt
from kit.tir import value_of

I, J, N = Var("i"), Var("j"), Var("n")
A = decl_buffer((8, 8), name="A")


def store(index: Var = I) -> BufferStore:
    return BufferStore(A, A[index, N] + 1.0, (index, N))


def region() -> BufferRegion:
    return BufferRegion(A, (Range.of(4, N), Range.of(4)))


STATEMENTS: dict[str, Callable[[], Stmt]] = {
    "for": lambda: For(I, IntImm(0), N, ForKind.SERIAL, store()),
    "store": store,
    "seq": lambda: seq(store(), store(J)),
    "if": lambda: IfThenElse(N < 3, store(), store(J)),
    "attr": lambda: AttrStmt(None, "pragma_x", N, store()),
    "let": lambda: LetStmt(I, N + 1, store()),
    "allocate": lambda: Allocate(Var("p", "handle"), A.dtype, (N,), TRUE, store()),
    "realize": lambda: BufferRealize(A, (Range.of(4, N), Range.of(8)), TRUE, store()),
    "evaluate": lambda: Evaluate(op.call("exp", A[N, N])),
    "assert": lambda: AssertStmt(N < 3, "small", store()),
    "decl": lambda: DeclBuffer(A, store()),
    "while": lambda: While(N < 3, store()),
    "prefetch": lambda: Prefetch(A, (Range.of(4, N),)),
    "block": lambda: BlockRealize(
        (N,), N < 3, Block((), (region(),), (region(),), "b", store(), store(J))
    ),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_unchanged_is_the_same_object(name: str) -> None:
    stmt = STATEMENTS[name]()
    assert walk.map_children(stmt, lambda s: s, lambda e: e) is stmt
    assert substitute_stmt(stmt, {Var("unused"): IntImm(0)}) is stmt


@pytest.mark.parametrize("name", STATEMENTS)
def test_substitution_reaches_every_expression(name: str) -> None:
    stmt = STATEMENTS[name]()
    changed = substitute_stmt(stmt, {N: IntImm(2)})
    assert (changed is not stmt) == (N in set(walk.all_exprs(stmt)))
    assert N not in set(walk.all_exprs(changed))
    assert [type(s) for s in walk.stmts(changed)] == [type(s) for s in walk.stmts(stmt)]


@pytest.mark.parametrize("name", STATEMENTS)
def test_unique_expressions_come_where_they_come_first(name: str) -> None:
    stmt = STATEMENTS[name]()
    both = SeqStmt((stmt, stmt))
    assert list(walk.unique_exprs(both)) == list(dict.fromkeys(walk.all_exprs(both)))


def test_substitute_folds_and_keeps_the_rest() -> None:
    shared = J * 3
    e = (I * 4 + shared) // 1
    found = walk.substitute(e, {I: IntImm(0)})
    assert found is shared
    assert walk.substitute(e, {N: I}) is e


def test_rewrite_expr_goes_bottom_up() -> None:
    double: dict[Expr, Expr] = {I: J * 2}
    found = walk.rewrite_expr(I + I, lambda e: double.get(e))
    assert found is J * 2 + J * 2
    strip = walk.rewrite_expr(Mul(J, IntImm(1)) + I, lambda e: e.a if isinstance(e, Mul) else None)
    assert strip is J + I


def test_free_variables() -> None:
    assert walk.free_vars(I + J * I) == {I, J}
    assert walk.free_vars(Let(I, J, I + N)) == {J, N}
    assert walk.free_vars(IntImm(3)) == frozenset()
    assert walk.uses(A[I, 0], [I])
    assert not walk.uses(A[I, 0], [J])


def test_orders_of_visits() -> None:
    e = (I + J) * N
    assert list(walk.pre_order(e)) == [e, I + J, I, J, N]
    assert list(walk.distinct(e)) == [e, I + J, I, J, N]
    assert list(walk.post_order(e)) == [I, J, I + J, N, e]


def test_what_is_shared_is_visited_once() -> None:
    e = (I + J) * (I + J) - J
    assert list(walk.distinct(e)) == list(dict.fromkeys(walk.pre_order(e)))
    assert list(walk.post_order(e)) == [I, J, I + J, (I + J) * (I + J), e]
    power: Expr = I
    for _ in range(40):
        power = power * power
    assert len(list(walk.distinct(power))) == len(list(walk.post_order(power))) == 41
    assert walk.written_out(power) == 2**41 - 1
    assert walk.written_out(e) == len(list(walk.pre_order(e))) == 9


def test_loads_in_order() -> None:
    inner = A[I, J]
    outer = BufferLoad(A, (op.cast("int32", inner), I))
    assert list(walk.loads(outer + A[J, J])) == [outer, inner, A[J, J]]


def test_sequences_flatten() -> None:
    a, b, c = store(), store(J), store(N)
    both = seq(a, seq(b, c))
    assert isinstance(both, SeqStmt)
    assert both.stmts == (a, b, c)
    assert seq(nop(), a) is a
    assert is_nop(seq())


def test_statement_order() -> None:
    loop = For(I, IntImm(0), N, ForKind.SERIAL, seq(store(), store(J)))
    kinds = [type(s).__name__ for s in walk.stmts(loop)]
    assert kinds == ["For", "SeqStmt", "BufferStore", "BufferStore"]
    assert walk.direct_exprs(loop) == (IntImm(0), N)


def test_substitution_reaches_buffers_declared_inside() -> None:
    view = Buffer(A.data, A.dtype, (N, N * 2), (N * 2, IntImm(1)), N + 1, name="view")
    body = seq(BufferStore(view, view[I, J] + 1.0, (I, N)), AttrStmt(view, "note", N, store()))
    new = substitute_stmt(DeclBuffer(view, body), {N: IntImm(5)})
    assert isinstance(new, DeclBuffer)
    changed = new.buffer
    assert changed.elem_offset is not None
    assert [value_of(e) for e in (*changed.shape, *changed.strides, changed.elem_offset)] == [
        *(5, 10, 10, 1, 6)
    ]
    assert isinstance(new.body, SeqStmt)
    first, second = new.body.stmts
    assert isinstance(first, BufferStore) and isinstance(second, AttrStmt)
    assert first.buffer is changed and second.node is changed
    assert first.value is changed[I, J] + 1.0 and first.indices == (I, IntImm(5))
    assert substitute_stmt(new, {N: IntImm(6)}) is new


@pytest.mark.parametrize("size", [N * 2, IntImm(10)])
def test_substitution_reaches_flat_buffers_of_storage_made_inside(size: Expr) -> None:
    """Flat accesses of what is allocated are declared nowhere; the size may be simplified alone."""
    data = pointer("data", A.dtype)
    flat = Buffer(data, A.dtype, (N * 2,), name="flat")
    body = BufferStore(flat, flat[I] + A[I, J], (J,))
    made = Allocate(data, A.dtype, (size,), TRUE, body)
    new = substitute_stmt(made, {N: IntImm(5)})
    assert isinstance(new, Allocate) and isinstance(new.body, BufferStore)
    changed = new.body.buffer
    assert [value_of(e) for e in (*changed.shape, *new.extents)] == [10, 10]
    assert changed.data is data and new.body.value is changed[I] + A[I, J]
    outside = substitute_stmt(body, {N: IntImm(5)})
    assert outside is body


@pytest.mark.parametrize(
    "rewritten",
    [
        lambda e, new: walk.substitute(e, {I: new}),
        lambda e, new: RepeatedSubstitution([I])(e, {I: new}),
        lambda e, new: walk.rewrite_expr(e, lambda node: new if node is I else None),
        lambda e, new: next(walk.all_exprs(substitute_stmt(Evaluate(e), {I: new}))),
    ],
)
def test_what_is_rewritten_is_free_at_once(rewritten: Callable[[Expr, Expr], Expr]) -> None:
    """Without the collector, which would look through all that there is of a candidate."""
    gc.disable()
    try:
        new = weakref.ref(rewritten(I * 8 + 3, Var("new")))
        assert new() is None
    finally:
        gc.enable()
