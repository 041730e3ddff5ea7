from collections.abc import Callable
from typing import Any

import pytest

from autosched import te
from autosched.driver import lower
from autosched.target import HardwareParams, Target
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import float32, handle
from autosched.tir.expr import BufferLoad, Call, Expr, Range, Var
from autosched.tir.function import PrimFunc
from autosched.tir.op import const, lt
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    AttrStmt,
    BufferRealize,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    seq,
)
from autosched.tir.walk import stmts
from autosched.transform.loops.hoist_invariants import HoistInvariants
from kit.stmts import as_a
from kit.types import BodyText, MakeFunc, SameResult

AVX512 = Target("cpu", HardwareParams(num_cores=2), threads=2, vector_bytes=64)
X = decl_buffer((64,), "float32", "X")
Y = decl_buffer((64,), "float32", "Y")
TOTAL = decl_buffer((1,), "float32", "total")
OTHER = decl_buffer((1,), "float32", "other")
i, j, k = Var("i"), Var("j"), Var("k")
ZERO = const(0)


def loop(var: Var, extent: Var | int, body: Stmt, kind: ForKind = ForKind.SERIAL) -> For:
    return For(var, ZERO, extent if isinstance(extent, Var) else const(extent), kind, body)


def allocate(buffer: Buffer, body: Stmt) -> Allocate:
    return Allocate(buffer.data, buffer.dtype, buffer.shape, TRUE, body)


def read(buffer: Buffer, index: Expr = ZERO) -> BufferLoad:
    return BufferLoad(buffer, (index,))


def summed(buffer: Buffer = TOTAL, source: Buffer = X, index: Expr = i) -> Stmt:
    """buffer[0] = the sum of source[index * 8 ... + 8]."""
    step = BufferStore(buffer, read(buffer) + read(source, index * 8 + k), (ZERO,))
    return seq(BufferStore(buffer, const(0.0, float32), (ZERO,)), loop(k, 8, step))


def used(value: Expr | None = None) -> BufferStore:
    where = i * 8 + j
    return BufferStore(Y, read(X, where) + (read(TOTAL) if value is None else value), (where,))


def func_of(
    make_func: Callable[..., PrimFunc],
    body: Stmt,
    kind: ForKind = ForKind.SERIAL,
    extent: int = 8,
    **attrs: Any,
) -> PrimFunc:
    """`body` in a loop j in a loop i."""
    return make_func(loop(i, 8, loop(j, extent, body, kind)), X, Y, **attrs)


@pytest.mark.parametrize("kind", [ForKind.SERIAL, ForKind.UNROLLED])
def test_golden(
    kind: ForKind, make_func: MakeFunc, body_text: BodyText, same_result: SameResult
) -> None:
    before = func_of(make_func, allocate(TOTAL, seq(summed(), used())), kind)
    after = HoistInvariants()(before)
    unrolled = "unrolled(8)" if kind is ForKind.UNROLLED else "range(8)"
    assert (
        body_text(after)
        == f"""\
for i in range(8):
    total = allocate((1,), float32, "global")
    total[0] = 0.0
    for k in range(8):
        total[0] = total[0] + X[i * 8 + k]
    for j in {unrolled}:
        Y[i * 8 + j] = X[i * 8 + j] + total[0]"""
    )
    same_result(before, after)


def test_out_of_several_loops(
    make_func: MakeFunc, body_text: BodyText, same_result: SameResult
) -> None:
    inner = allocate(TOTAL, seq(summed(index=const(3)), used()))
    before = func_of(make_func, inner)
    after = HoistInvariants()(before)
    assert (
        body_text(after)
        == """\
total = allocate((1,), float32, "global")
total[0] = 0.0
for k in range(8):
    total[0] = total[0] + X[24 + k]
for i in range(8):
    for j in range(8):
        Y[i * 8 + j] = X[i * 8 + j] + total[0]"""
    )
    same_result(before, after)


def test_one_stage_out_of_two(
    make_func: MakeFunc, body_text: BodyText, same_result: SameResult
) -> None:
    """`other` depends on the loop: it stays, `total` after it moves."""
    varying = BufferStore(OTHER, read(X, j), (ZERO,))
    body = allocate(OTHER, allocate(TOTAL, seq(varying, summed(), used(read(OTHER) + read(TOTAL)))))
    before = func_of(make_func, body)
    after = HoistInvariants()(before)
    assert (
        body_text(after)
        == """\
for i in range(8):
    total = allocate((1,), float32, "global")
    total[0] = 0.0
    for k in range(8):
        total[0] = total[0] + X[i * 8 + k]
    for j in range(8):
        other = allocate((1,), float32, "global")
        other[0] = X[j]
        Y[i * 8 + j] = X[i * 8 + j] + (other[0] + total[0])"""
    )
    same_result(before, after)


def test_a_stage_that_reads_a_moved_one_moves_too(
    make_func: MakeFunc, body_text: BodyText, same_result: SameResult
) -> None:
    second = BufferStore(OTHER, read(TOTAL) * 2.0, (ZERO,))
    body = allocate(TOTAL, seq(summed(), allocate(OTHER, seq(second, used(read(OTHER))))))
    before = func_of(make_func, body)
    after = HoistInvariants()(before)
    assert body_text(after).splitlines()[-2:] == [
        "    for j in range(8):",
        "        Y[i * 8 + j] = X[i * 8 + j] + other[0]",
    ]
    same_result(before, after)


def test_storage_that_is_not_flat_yet_moves_with_its_pragmas(
    make_func: MakeFunc, body_text: BodyText
) -> None:
    total = decl_buffer((8,), "float32", "total")
    first = BufferStore(total, read(X, i), (i,))
    produced = AttrStmt(k, "pragma_unroll_explicit", const(1), first)
    body = BufferRealize(total, (Range(i, const(1)),), TRUE, seq(produced, used(read(total, i))))
    after = HoistInvariants()(func_of(make_func, body))
    assert (
        body_text(after)
        == """\
for i in range(8):
    realize(total[i:i + 1], float32, "global", shape=(8,))
    with pragma(var(k), "unroll_explicit", 1):
        total[i] = X[i]
    for j in range(8):
        Y[i * 8 + j] = X[i * 8 + j] + total[i]"""
    )


def produced_and_used() -> Allocate:
    return allocate(TOTAL, seq(summed(), used()))


def conditional(body: Stmt) -> Stmt:
    return IfThenElse(lt(j, 4), body)


INDEXED = decl_buffer((8,), "float32", "indexed")
STAYS = {
    "it depends on the loop": allocate(TOTAL, seq(summed(index=j), used())),
    "so does its condition": allocate(TOTAL, seq(conditional(summed()), used())),
    "its storage lasts longer": seq(summed(Y), used(read(Y))),
    "its storage depends on the loop": BufferRealize(
        INDEXED,
        (Range(j, const(1)),),
        TRUE,
        seq(BufferStore(INDEXED, const(1.0, float32), (const(0),)), used(read(INDEXED))),
    ),
    "others write what it wrote": allocate(
        TOTAL, seq(summed(), used(), BufferStore(TOTAL, read(X, j), (ZERO,)), used())
    ),
    "others write what it reads": allocate(TOTAL, seq(summed(source=Y), used())),
    "another value was read before": allocate(
        TOTAL, seq(BufferStore(TOTAL, read(X, j), (ZERO,)), used(), summed(), used())
    ),
    "it calls something": allocate(
        TOTAL, seq(Evaluate(Call(handle, "call_extern", (TOTAL.data,))), used())
    ),
    "it may not end": allocate(TOTAL, seq(While(lt(read(TOTAL), 1.0), summed()), used())),
    "it is all there is": allocate(TOTAL, summed()),
}


@pytest.mark.parametrize("body", STAYS.values(), ids=STAYS.keys())
def test_what_stays_is_the_same_object(body: Stmt, make_func: MakeFunc) -> None:
    func = func_of(make_func, body)
    assert HoistInvariants()(func) is func


@pytest.mark.parametrize("kind", [ForKind.PARALLEL, ForKind.THREAD_BINDING])
def test_loops_of_several_threads_keep_their_body(kind: ForKind, make_func: MakeFunc) -> None:
    func = func_of(make_func, produced_and_used(), kind)
    assert HoistInvariants()(func) is func


def test_a_loop_that_may_not_run_keeps_its_body(make_func: MakeFunc) -> None:
    """Reading what the body reads could be out of bounds."""
    n = Var("n")
    func = make_func(loop(i, 8, loop(j, n, produced_and_used())), X, Y, scalars=(n,))
    assert HoistInvariants()(func) is func


def test_arguments_that_may_overlap_are_left_alone(make_func: MakeFunc) -> None:
    func = func_of(make_func, produced_and_used(), ForKind.SERIAL, 8, **{"tir.noalias": False})
    assert HoistInvariants()(func) is func


def test_two_writers_move_in_order_or_not_at_all(
    make_func: MakeFunc, same_result: SameResult
) -> None:
    """A value read between two writers is the first one's."""
    first = BufferStore(TOTAL, const(1.0, float32), (ZERO,))
    second = BufferStore(TOTAL, const(2.0, float32), (ZERO,))
    both = func_of(make_func, allocate(TOTAL, seq(first, second, used())))
    same_result(both, HoistInvariants()(both))
    assert HoistInvariants()(both) is not both
    between = BufferStore(Y, read(TOTAL), (i * 8 + j,))
    apart = func_of(make_func, allocate(TOTAL, seq(first, between, second, used())))
    assert HoistInvariants()(apart) is apart


def test_a_quotient_by_the_sum_of_its_row_sums_once_a_row() -> None:
    """The schedule sums anew for each of the 512 outputs of a row, and as scalars."""
    a = te.placeholder((4, 512), name="A")
    r = te.reduce_axis((0, 512), name="r")
    total = te.compute((4,), lambda x: te.sum(a[x, r], axis=r), name="total")
    out = te.compute((4, 512), lambda x, y: a[x, y] / total[x], name="out")
    sch = te.create_schedule(out)
    sch[total].compute_at(sch[out], out.op.axis[1])
    (rows,) = [s for s in stmts(lower(sch, [a, out], AVX512).body) if isinstance(s, For)][:1]
    (last,) = [s for s in as_a(SeqStmt, rows.body).stmts if isinstance(s, For | LetStmt)]
    columns = as_a(For, as_a(LetStmt, last).body)  # the divisor is read before the loop
    assert columns.loop_var.name == "y"
    stores = [s for s in stmts(columns.body) if isinstance(s, BufferStore)]
    assert {store.value.dtype.lanes for store in stores} == {16}
