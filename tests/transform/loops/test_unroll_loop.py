from typing import Any

import pytest

from autosched.errors import ScheduleError
from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import Expr, IntImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    Stmt,
    seq,
)
from autosched.tir.walk import stmts
from autosched.transform.loops.unroll_loop import UnrollLoop
from kit.stmts import loop
from kit.types import BodyText, MakeFunc, SameResult

A = decl_buffer((64,), "float32", "A")
B = decl_buffer((64,), "float32", "B")
i, j, k = Var("i"), Var("j"), Var("k")


def step(limit: int, body: For) -> AttrStmt:
    return AttrStmt(None, "pragma_auto_unroll_max_step", IntImm(limit), body)


def copy(index: Expr) -> BufferStore:
    return BufferStore(B, A[index] + 1.0, (index,))


def test_golden(make_func: MakeFunc, body_text: BodyText, same_result: SameResult) -> None:
    before = make_func(step(4, loop(i, 8, loop(j, 2, copy(i * 2 + j)))), A, B)
    after = UnrollLoop()(before)
    assert (
        body_text(after)
        == """\
for i in range(8):
    B[i * 2] = A[i * 2] + 1.0
    B[i * 2 + 1] = A[i * 2 + 1] + 1.0"""
    )
    same_result(before, after)


def test_nothing_to_unroll_returns_the_same_object(make_func: MakeFunc) -> None:
    func = make_func(loop(i, 8, loop(j, 2, copy(i * 2 + j))), A, B)
    assert UnrollLoop()(func) is func
    assert UnrollLoop(mark_only=True)(func) is func


def test_refuses_an_extent_that_is_not_constant(make_func: MakeFunc) -> None:
    n = Var("n")
    func = make_func(loop(i, n, copy(i), ForKind.UNROLLED), A, B, scalars=(n,))
    with pytest.raises(ScheduleError, match="cannot unroll the loop i: its extent n is not const"):
        UnrollLoop()(func)


def test_refuses_a_pragma_that_is_not_constant(make_func: MakeFunc) -> None:
    n = Var("n")
    body = AttrStmt(None, "pragma_auto_unroll_max_step", n, loop(i, 4, copy(i)))
    with pytest.raises(ScheduleError, match="auto_unroll_max_step must be an integer constant"):
        UnrollLoop()(make_func(body, A, B, scalars=(n,)))


def count(func: PrimFunc) -> int:
    return sum(isinstance(s, BufferStore) for s in stmts(func.body))


@pytest.mark.parametrize(
    ("limit", "copies"),
    # 4 * 2 * 3 stores: one loop after the other is unrolled while the product stays below.
    [(2, 1), (3, 3), (5, 3), (6, 6), (23, 6), (24, 24)],
)
def test_loops_are_unrolled_outward_while_the_stores_stay_below(
    make_func: MakeFunc, same_result: SameResult, limit: int, copies: int
) -> None:
    nest = loop(i, 4, loop(j, 2, loop(k, 3, copy((i * 2 + j) * 3 + k))))
    before = make_func(step(limit, nest), A, B)
    after = UnrollLoop()(before)
    assert count(after) == copies
    same_result(before, after)


def test_a_sequence_adds_its_stores_and_a_kept_loop_stops_unrolling(
    make_func: MakeFunc, same_result: SameResult
) -> None:
    short, long = loop(j, 2, copy(i * 8 + j)), loop(k, 6, copy(i * 8 + 2 + k))
    # 2 + 6 stores: 8 * 4 = 32 <= 32, so everything is unrolled.
    before = make_func(step(32, loop(i, 4, seq(short, long))), A, B)
    assert count(UnrollLoop()(before)) == 32
    # With at most 5 the loop over k stays, so the loop around it stays too.
    before = make_func(step(5, loop(i, 4, seq(short, long))), A, B)
    after = UnrollLoop()(before)
    assert count(after) == 3
    same_result(before, after)


def test_depth_limit(make_func: MakeFunc) -> None:
    index: Expr = IntImm(0)
    body_vars = [Var(f"v{n}") for n in range(4)]
    for var in body_vars:
        index = index * 2 + var
    body: Stmt = copy(index)
    for var in reversed(body_vars):
        body = loop(var, 2, body)
    func = make_func(body, A, B)
    assert count(UnrollLoop(auto_max_step=64)(func)) == 16
    assert count(UnrollLoop(auto_max_step=64, auto_max_depth=1)(func)) == 4


def test_extent_limit(make_func: MakeFunc) -> None:
    func = make_func(loop(i, 8, loop(j, 4, copy(i * 4 + j))), A, B)
    assert count(UnrollLoop(auto_max_extent=4)(func)) == 4


def test_marked_loops_are_always_unrolled_and_an_empty_one_disappears(
    make_func: MakeFunc, body_text: BodyText
) -> None:
    func = make_func(loop(i, 2, copy(i), ForKind.UNROLLED), A, B)
    assert body_text(UnrollLoop()(func)) == "B[0] = A[0] + 1.0\nB[1] = A[1] + 1.0"
    empty = make_func(seq(loop(i, 0, copy(i), ForKind.UNROLLED), copy(IntImm(3))), A, B)
    assert body_text(UnrollLoop()(empty)) == "B[3] = A[3] + 1.0"


def test_unroll_explicit_pragma_decides_between_copies_and_marks(
    make_func: MakeFunc, body_text: BodyText
) -> None:
    nest = loop(i, 4, loop(j, 4, copy(i * 4 + j)))
    explicit = AttrStmt(None, "pragma_unroll_explicit", IntImm(0), step(4, nest))
    assert (
        body_text(UnrollLoop()(make_func(explicit, A, B)))
        == """\
for i in range(4):
    for j in unrolled(4):
        B[i * 4 + j] = A[i * 4 + j] + 1.0"""
    )
    explicit = AttrStmt(None, "pragma_unroll_explicit", IntImm(1), step(4, nest))
    func = make_func(explicit, A, B)
    assert count(UnrollLoop(explicit_unroll=False)(func)) == 4
    marked = UnrollLoop(mark_only=True)(func)
    assert count(marked) == 1
    assert ForKind.UNROLLED in {s.kind for s in stmts(marked.body) if isinstance(s, For)}


def test_loops_that_index_local_memory(make_func: MakeFunc, body_text: BodyText) -> None:
    local = decl_buffer((4,), "float32", "L", scope="local")
    body: Stmt = loop(i, 4, loop(j, 2, BufferStore(local, A[i * 2 + j], (j,))))
    body = Allocate(local.data, local.dtype, local.shape, TRUE, body)
    after = UnrollLoop(unroll_local_access=True)(make_func(body, A))
    assert body_text(after).endswith("L[0] = A[i * 2]\n    L[1] = A[i * 2 + 1]")


def test_copies_bind_their_own_variables(make_func: MakeFunc, same_result: SameResult) -> None:
    before = make_func(loop(i, 3, loop(j, 8, copy(i * 8 + j)), ForKind.UNROLLED), A, B)
    after = UnrollLoop()(before)
    loops = [s for s in stmts(after.body) if isinstance(s, For)]
    assert len({s.loop_var for s in loops}) == 3
    same_result(before, after)


def test_evaluates_count_as_steps(make_func: MakeFunc) -> None:
    body = loop(i, 4, seq(copy(i), Evaluate(A[i])))
    assert count(UnrollLoop(auto_max_step=7)(make_func(body, A, B))) == 1
    assert count(UnrollLoop(auto_max_step=8)(make_func(body, A, B))) == 4


@pytest.mark.parametrize(("limit", "marked"), [(0, True), (16, True), (15, False)])
def test_local_memory_that_cannot_be_registers(limit: int, marked: bool, make_func: Any) -> None:
    local = decl_buffer((4,), "float32", "L", scope="local")
    body = loop(i, 8, loop(j, 4, BufferStore(local, A[i * 4 + j], (j,))))
    func = make_func(Allocate(local.data, local.dtype, local.shape, TRUE, body), A)
    after = UnrollLoop(mark_only=True, unroll_local_access=True, local_bytes=limit)(func)
    kinds = [s.kind for s in stmts(after.body) if isinstance(s, For)]
    assert (kinds == [ForKind.SERIAL, ForKind.UNROLLED]) == marked


def test_copies_of_integers_narrower_than_indices_wrap(same_result: SameResult) -> None:
    before = parse_func("""
def main(N: Buffer((16,), int32)):
    for i in unrolled(4):
        for j in range(4):
            N[i * 4 + j] = int32(int8(i * 50) + int8(j * 50)) + 5
""")
    same_result(before, UnrollLoop()(before))
