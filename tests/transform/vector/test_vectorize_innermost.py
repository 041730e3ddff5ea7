"""Copies and elementwise loops as vectors."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.tir import interp, op
from autosched.tir.buffer import decl_buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import BufferLoad, IntImm, Ramp, Var
from autosched.tir.function import PrimFunc
from autosched.tir.printer import to_text
from autosched.tir.stmt import BufferStore, ForKind
from autosched.transform.vector.vectorize_innermost import VectorizeInnermost
from kit.stmts import func_of, loop
from kit.tir import value_of

I, J = Var("i"), Var("j")


def agree(func: PrimFunc, new: PrimFunc) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.random(value_of(b.shape[0]), dtype=np.float32) for b in func.buffers]
    other = [a.copy() for a in arrays]
    interp.run(func, arrays)
    interp.run(new, other)
    for x, y in zip(arrays, other):
        np.testing.assert_array_equal(x, y)


def test_text() -> None:
    a, b = decl_buffer((29,), name="A"), decl_buffer((29,), name="B")
    func = func_of(loop(I, 29, BufferStore(b, BufferLoad(a, (I,)) + 1.0, (I,))), a, b)
    lines = to_text(VectorizeInnermost(64)(func)).splitlines()
    assert [s.strip() for s in lines if "B[" in s] == [
        "B[0:16] = A[0:16] + broadcast(1.0, 16)",
        "B[16:29] = A[16:29] + broadcast(1.0, 13)",
    ]


@pytest.mark.parametrize("extents", [(1, 1), (3, 5), (4, 16), (2, 37), (5, 64), (29, 3), (7, 8)])
@pytest.mark.parametrize("lanes", [1, 2])
def test_meaning(extents: tuple[int, int], lanes: int) -> None:
    m, n = extents
    a, b = decl_buffer((m * n * lanes + 4,), name="A"), decl_buffer((m * n * lanes,), name="B")
    at = (I * n + J) * lanes
    where = at if lanes == 1 else Ramp(at, IntImm(1), lanes)
    read = at + 4 if lanes == 1 else Ramp(at + 4, IntImm(1), lanes)
    store = BufferStore(b, BufferLoad(a, (read,)) * BufferLoad(b, (where,)), (where,))
    func = func_of(loop(I, m, loop(J, n, store)), a, b)
    new = VectorizeInnermost(32)(func)
    assert (new is func) == (n == 1)
    agree(func, new)


def test_what_reads_registers_stays_unrolled() -> None:
    """An index that is no constant would keep the sums of a product in memory."""
    a, b = decl_buffer((64,), name="A"), decl_buffer((64,), name="B")
    tile = decl_buffer((64,), name="tile", scope="local")
    for source, kind in ((tile, "unrolled"), (a, "range")):
        store = BufferStore(b, BufferLoad(source, (I * 16 + J,)) + 1.0, (I * 16 + J,))
        func = func_of(loop(I, 4, loop(J, 16, store), ForKind.UNROLLED), source, b)
        text = to_text(VectorizeInnermost(16)(func))
        assert f"for i in {kind}(4):" in text and "for j in range(4):" in text


def test_padding_reads_nothing_outside() -> None:
    a, b = decl_buffer((20,), name="A"), decl_buffer((24,), name="B")
    inside = op.and_(op.ge(I, 2), op.lt(I, 22))
    value = op.if_then_else(inside, BufferLoad(a, (I - 2,)), op.const(0.0))
    func = func_of(loop(I, 24, BufferStore(b, value, (I,))), a, b)
    new = VectorizeInnermost(32)(func)
    assert "predicate=" in to_text(new)
    agree(func, new)


def test_transposed_loops_keep_their_order() -> None:
    a, b = decl_buffer((64,), name="A"), decl_buffer((64,), name="B")
    store = BufferStore(b, BufferLoad(a, (J * 8 + I,)), (I + J * 8,))
    func = func_of(loop(I, 8, loop(J, 8, store)), a, b)
    new = VectorizeInnermost(16)(func)
    assert "B[i * 4 + j * 8" in to_text(new)
    agree(func, new)


def test_what_cannot_be_widened_is_the_same_object() -> None:
    a, b = decl_buffer((64,), name="A"), decl_buffer((64,), name="B")
    scatter = func_of(loop(I, 8, BufferStore(b, BufferLoad(a, (I,)), (I * 2,))), a, b)
    assert VectorizeInnermost()(scatter) is scatter
    scan = func_of(loop(I, 8, BufferStore(b, BufferLoad(b, (I + 1,)), (I,))), a, b)
    assert VectorizeInnermost()(scan) is scan
    full = func_of(
        loop(
            I,
            4,
            BufferStore(b, op.const(0.0, DType("float32x16")), (Ramp(I * 16, IntImm(1), 16),)),
        ),
        a,
        b,
    )
    assert VectorizeInnermost(64)(full) is full


def test_what_is_planned_is_what_is_done() -> None:
    a, b = decl_buffer((29,), name="A"), decl_buffer((29,), name="B")
    func = func_of(loop(I, 29, BufferStore(b, BufferLoad(a, (I,)) + 1.0, (I,))), a, b)
    planned = VectorizeInnermost(64).planned(func)
    assert [(p.buffer, p.times, p.piece.lanes) for p in planned] == [("B", 1, 16), ("B", 1, 13)]
    assert VectorizeInnermost(64).planned(VectorizeInnermost(64)(func)) == []
