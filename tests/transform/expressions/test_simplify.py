import pytest

from autosched import te
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.expr import IntImm, Range, Var
from autosched.tir.op import const, floordiv, floormod, if_then_else, likely, lt, mul
from autosched.tir.parser import parse_func
from autosched.tir.stmt import (
    TRUE,
    AssertStmt,
    AttrStmt,
    BufferRealize,
    BufferStore,
    IfThenElse,
    LetStmt,
    Stmt,
    seq,
)
from autosched.tir.verify import verify
from autosched.transform.expressions.simplify import Simplify
from kit.stmts import loop
from kit.types import BodyText, MakeFunc, SameResult


@pytest.fixture
def buffers() -> tuple[Buffer, Buffer]:
    return decl_buffer((512,), "float32", "A"), decl_buffer((512,), "float32", "B")


def test_indices_take_the_canonical_form(
    make_func: MakeFunc,
    buffers: tuple[Buffer, Buffer],
    body_text: BodyText,
    same_result: SameResult,
) -> None:
    A, B = buffers
    i, j = Var("i"), Var("j")
    store = BufferStore(B, A[floordiv(i * 16 + j, 32)] + A[floormod(i * 16 + j, 32)], (j + i * 16,))
    before = make_func(loop(i, 8, loop(j, 16, store)), A, B)
    after = Simplify()(before)
    assert (
        body_text(after)
        == """\
for i in range(8):
    for j in range(16):
        B[i * 16 + j] = A[i // 2] + A[i % 2 * 16 + j]"""
    )
    same_result(before, after)


def test_simplified_is_unchanged(make_func: MakeFunc, buffers: tuple[Buffer, Buffer]) -> None:
    A, B = buffers
    i, j = Var("i"), Var("j")
    func = make_func(loop(i, 8, loop(j, 16, BufferStore(B, A[j] + 1.0, (i * 16 + j,)))), A, B)
    once = Simplify()(func)
    assert once is func
    assert Simplify()(once) is once


def test_conditions_are_decided(
    make_func: MakeFunc,
    buffers: tuple[Buffer, Buffer],
    body_text: BodyText,
    same_result: SameResult,
) -> None:
    A, B = buffers
    i, j = Var("i"), Var("j")
    always = IfThenElse(likely(lt(i * 4 + j, 32)), BufferStore(B, A[i], (j,)))
    never = IfThenElse(lt(i, 0), BufferStore(B, A[j], (i,)))
    either = IfThenElse(lt(i, 8), BufferStore(B, A[0], (i,)), BufferStore(B, A[1], (i,)))
    before = make_func(loop(i, 8, loop(j, 4, seq(always, never, either))), A, B)
    after = Simplify()(before)
    assert (
        body_text(after)
        == """\
for i in range(8):
    for j in range(4):
        B[j] = A[i]
        B[i] = A[0]"""
    )
    same_result(before, after)


def test_a_condition_holds_inside_and_its_negation_in_else(
    make_func: MakeFunc, buffers: tuple[Buffer, Buffer], body_text: BodyText
) -> None:
    A, B = buffers
    i = Var("i")
    inner = IfThenElse(lt(i, 6), BufferStore(B, A[0], (i,)))
    other = IfThenElse(lt(i, 2), BufferStore(B, A[1], (i,)))
    before = make_func(loop(i, 8, IfThenElse(lt(i, 4), inner, other)), A, B)
    text = body_text(Simplify()(before))
    assert "i < 6" not in text
    assert "i < 2" not in text


def test_facts_end_with_their_branch(
    make_func: MakeFunc, buffers: tuple[Buffer, Buffer], body_text: BodyText
) -> None:
    A, B = buffers
    i = Var("i")
    inside = IfThenElse(lt(i, 4), IfThenElse(lt(i, 6), BufferStore(B, A[0], (i,))))
    outside = IfThenElse(lt(i, 6), BufferStore(B, A[1], (i,)))
    text = body_text(Simplify()(make_func(loop(i, 8, seq(inside, outside)), A, B)))
    assert text.count("i < 6") == 1


def test_conditions_on_memory_are_no_facts(
    make_func: MakeFunc,
    buffers: tuple[Buffer, Buffer],
    body_text: BodyText,
    same_result: SameResult,
) -> None:
    A, B = buffers
    bound = lt(A[0], 2.0)
    change = BufferStore(A, const(5.0), (IntImm(0),))
    inner = IfThenElse(bound, BufferStore(B, const(1.0), (IntImm(0),)))
    before = make_func(IfThenElse(bound, seq(change, inner)), A, B)
    after = Simplify()(before)
    assert body_text(after).count("if") == 2
    same_result(before, after)


def test_pure_lets_are_inlined(
    make_func: MakeFunc,
    buffers: tuple[Buffer, Buffer],
    body_text: BodyText,
    same_result: SameResult,
) -> None:
    A, B = buffers
    i, x, y = Var("i"), Var("x"), Var("y", "float32")
    body = LetStmt(x, i * 2 + 1, LetStmt(y, A[i], BufferStore(B, y + y, (x,))))
    before = make_func(loop(i, 8, body), A, B)
    after = Simplify()(before)
    text = body_text(after)
    assert "B[i * 2 + 1]" in text
    assert "A[i]" in text and text.count("A[i]") == 1  # a loaded value is not repeated
    same_result(before, after)


def test_let_in_a_buffer_shape_stays(
    make_func: MakeFunc, buffers: tuple[Buffer, Buffer], body_text: BodyText
) -> None:
    n = Var("n")
    A = decl_buffer((4, n), "float32", "A")
    stored = BufferStore(A, const(1.0), (IntImm(0), IntImm(1)))
    body = LetStmt(n, IntImm(4), BufferRealize(A, (Range.of(4), Range.of(n)), TRUE, stored))
    assert isinstance(Simplify()(make_func(body)).body, LetStmt)


def test_storing_what_is_there_does_nothing(
    make_func: MakeFunc, buffers: tuple[Buffer, Buffer], body_text: BodyText
) -> None:
    A, B = buffers
    i, j = Var("i"), Var("j")
    same = BufferStore(A, A[j + i * 2], (i * 2 + j,))
    other = BufferStore(B, A[i], (j,))
    text = body_text(Simplify()(make_func(loop(i, 4, loop(j, 2, seq(same, other))), A, B)))
    assert "A[i * 2 + j] =" not in text
    assert "B[j] = A[i]" in text


def test_loops_of_one_iteration_stay(
    make_func: MakeFunc, buffers: tuple[Buffer, Buffer], body_text: BodyText
) -> None:
    A, B = buffers
    i = Var("i")
    after = Simplify()(make_func(loop(i, 1, BufferStore(B, A[i], (i,))), A, B))
    assert (
        body_text(after)
        == """\
for i in range(1):
    B[0] = A[0]"""
    )


def test_thread_extents_bound_their_variable(
    make_func: MakeFunc, buffers: tuple[Buffer, Buffer], body_text: BodyText
) -> None:
    A, B = buffers
    axis = te.thread_axis((0, 32), "threadIdx.x")
    guarded = IfThenElse(lt(axis.var, 32), BufferStore(B, A[axis.var], (axis.var,)))
    after = Simplify()(make_func(AttrStmt(axis, "thread_extent", IntImm(32), guarded), A, B))
    assert "if" not in body_text(after)


def test_symbolic_extent(make_func: MakeFunc, body_text: BodyText) -> None:
    n, i = Var("n"), Var("i")
    A = decl_buffer((n,), "float32", "A")
    guarded = IfThenElse(likely(lt(i, n)), BufferStore(A, const(1.0), (i,)))
    after = Simplify()(make_func(loop(i, n, guarded), A, scalars=(n,)))
    assert "if" not in body_text(after)


def test_asserts_that_hold_disappear(
    make_func: MakeFunc, buffers: tuple[Buffer, Buffer], body_text: BodyText
) -> None:
    A, B = buffers
    i = Var("i")
    store: Stmt = BufferStore(B, A[i], (i,))
    after = Simplify()(make_func(loop(i, 4, AssertStmt(lt(i, 4), "i", store)), A, B))
    assert "assert" not in body_text(after)


def test_the_guard_of_if_then_else_is_known_in_its_branch(
    make_func: MakeFunc, buffers: tuple[Buffer, Buffer], body_text: BodyText
) -> None:
    A, B = buffers
    i = Var("i")
    value = if_then_else(lt(i, 4), A[floormod(i, 4)], const(0.0))
    after = Simplify()(make_func(loop(i, 8, BufferStore(B, value, (i,))), A, B))
    assert "A[i]" in body_text(after)


def test_schedule(same_result: SameResult) -> None:
    A = te.placeholder((17, 13), name="A")
    k = te.reduce_axis((0, 13), name="k")
    B = te.compute((17,), lambda i: te.sum(A[i, k], axis=k), name="B")
    sch = te.create_schedule(B.op)
    (i,) = B.op.axis
    io, ii = sch[B].split(i, factor=4)
    ko, ki = sch[B].split(k, factor=5)
    sch[B].reorder(io, ko, ii, ki)
    before = schedule_to_prim_func(sch, [A, B])
    after = Simplify()(before)
    assert after is not before
    same_result(before, after)


def test_rebound_variable(
    make_func: MakeFunc, buffers: tuple[Buffer, Buffer], body_text: BodyText
) -> None:
    """One variable in two loops of different extents: nothing is carried over."""
    A, B = buffers
    i = Var("i")

    def guarded(bound: int) -> Stmt:
        return IfThenElse(lt(mul(i, 2), bound), BufferStore(B, A[i], (i,)))

    body = seq(loop(i, 4, guarded(8)), loop(i, 8, guarded(8)))
    text = body_text(Simplify()(make_func(body, A, B)))
    assert text.count("if") == 1


@pytest.mark.parametrize("first", ["i", "A[3]", "7"])
@pytest.mark.parametrize("second", ["i + 1", "A[2]", "9"])
def test_a_variable_of_two_lets(first: str, second: str, same_result: SameResult) -> None:
    """What the first one was bound to stood for the second one as well, or its let was missing."""
    parts = "".join(
        f"""\
        with x: int32 = {value}:
            A[{place}] = x + Select(x < 4, 1, 2)
            A[{place + 1}] = x // 8
"""
        for place, value in ((8, first), (10, second))
    )
    before = parse_func(f"def main(A: Buffer((16,), int32)):\n    for i in range(3):\n{parts}")
    after = Simplify()(before)
    verify(after)
    same_result(before, after)
