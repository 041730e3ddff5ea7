import time

import pytest

from autosched.tir.buffer import decl_buffer
from autosched.tir.dtype import handle
from autosched.tir.expr import Call, IntImm, StringImm, Var
from autosched.tir.op import add, const, ge, lt, mul
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    AttrStmt,
    BufferStore,
    Evaluate,
    IfThenElse,
    LetStmt,
    Stmt,
    is_nop,
    nop,
    seq,
)
from autosched.transform.loops.remove_no_op import RemoveNoOp
from kit.stmts import as_a, loop
from kit.types import BodyText, MakeFunc, SameResult

A = decl_buffer((8,), "float32", "A")
i, j, n = Var("i"), Var("j"), Var("n")
store = BufferStore(A, const(1.0), (i,))
effect = Call(handle, "call_extern", (StringImm("f"),))


def test_golden(make_func: MakeFunc, body_text: BodyText, same_result: SameResult) -> None:
    branch = IfThenElse(lt(i, 2), nop(), store)
    before = make_func(seq(loop(i, 4, branch), loop(j, 0, store), loop(j, 3, nop())), A)
    after = RemoveNoOp()(before)
    assert (
        body_text(after)
        == """\
for i in range(4):
    if not i < 2:
        A[i] = 1.0"""
    )
    same_result(before, after)


def test_unchanged(make_func: MakeFunc) -> None:
    before = make_func(loop(i, 4, IfThenElse(lt(i, 2), store)), A)
    assert RemoveNoOp()(before) is before


@pytest.mark.parametrize(
    "stmt",
    [
        loop(i, 4, nop()),
        loop(i, -1, store),
        IfThenElse(lt(i, 1), nop()),
        IfThenElse(lt(A[0], 1.0), nop(), nop()),
        LetStmt(i, IntImm(3), nop()),
        AttrStmt(None, "pragma_x", IntImm(1), nop()),
        AttrStmt(None, "pragma_debug_skip_region", IntImm(1), store),
        Allocate(Var("T", handle), A.dtype, (IntImm(4),), TRUE, nop()),
        Evaluate(i + 1),
        BufferStore(A, A[i], (i,)),
    ],
)
def test_removed(make_func: MakeFunc, stmt: Stmt) -> None:
    assert is_nop(RemoveNoOp()(make_func(stmt, A)).body)


def test_else_without_effect_is_dropped(make_func: MakeFunc) -> None:
    after = RemoveNoOp()(make_func(IfThenElse(lt(i, 2), store, nop()), A, scalars=[i]))
    test = as_a(IfThenElse, after.body)
    assert test.else_case is None
    assert test.then_case is store


def test_effects_stay(make_func: MakeFunc) -> None:
    kept = Evaluate(effect)
    assert RemoveNoOp()(make_func(kept, A)).body is kept
    let = LetStmt(Var("h", handle), effect, nop())
    after = RemoveNoOp()(make_func(let, A))
    assert isinstance(after.body, Evaluate) and after.body.value is effect


def test_loop_whose_extent_is_never_positive(make_func: MakeFunc) -> None:
    inner = loop(j, mul(i, -1), store)
    assert is_nop(RemoveNoOp()(make_func(loop(i, 4, inner), A)).body)


def test_store_to_another_element_stays(make_func: MakeFunc) -> None:
    move = BufferStore(A, A[i + 1], (i,))
    before = make_func(loop(i, 4, IfThenElse(ge(i, 1), move)), A)
    assert RemoveNoOp()(before) is before


def test_many_nested_lets_take_no_time(make_func: MakeFunc) -> None:
    """All that is inside of each was looked at in full, so that 2,000 took 20 s."""
    names = [Var(f"x{k}") for k in range(1500)]
    body: Stmt = BufferStore(A, const(1.0), (names[-1],))
    for k in reversed(range(len(names))):
        body = LetStmt(names[k], add(names[k - 1], IntImm(1)) if k else i, body)
    func = make_func(loop(i, 4, body), A)
    start = time.perf_counter()
    assert RemoveNoOp()(func) is func
    assert time.perf_counter() - start < 3
