"""Data races between threads, and the barriers that order them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autosched.tir import interp, op
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import int32
from autosched.tir.expr import Call, Expr, IntImm, Range, StringImm, Var
from autosched.tir.stmt import (
    TRUE,
    BufferRealize,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    Stmt,
    seq,
)
from kit.programs import Programs
from kit.types import Array

I = Var("i")
N = 64
ZERO = IntImm(0)


def sync(scope: str = "shared") -> Evaluate:
    return Evaluate(Call(int32, "tvm_storage_sync", (StringImm(scope),)))


def run(
    tir: type[Programs],
    make: Callable[[Var, Buffer, Buffer], Stmt],
    check_races: bool | None = True,
) -> Array:
    """Runs make(t, S, out) with 64 threads and shared S of 128; returns the output."""
    S = decl_buffer((2 * N,), "int32", "S", "shared")
    out = decl_buffer((N,), "int32", "out")
    tx = tir.thread("threadIdx.x")
    body = BufferRealize(S, (Range.of(2 * N),), TRUE, make(tx.var, S, out))
    found = np.zeros(N, "int32")
    interp.run(tir.func([out], tir.launch(body, (tx, N))), [found], check_races=check_races)
    return found


def reverse(*between: Stmt) -> Callable[[Var, Buffer, Buffer], Stmt]:
    def make(t: Var, S: Buffer, out: Buffer) -> Stmt:
        return seq(BufferStore(S, t * 2, (t,)), *between, BufferStore(out, S[N - 1 - t], (t,)))

    return make


def test_read_after_write(tir: type[Programs]) -> None:
    with pytest.raises(interp.RaceError, match=r"race on S\[63\].*read by thread 0 of"):
        run(tir, reverse())
    assert run(tir, reverse(sync()))[0] == 126


def test_schedules_without_barriers_are_not_asked(tir: type[Programs]) -> None:
    assert run(tir, reverse(), check_races=None)[0] == 126
    assert run(tir, reverse(), check_races=False)[0] == 126


def test_own_element_needs_no_barrier(tir: type[Programs]) -> None:
    def make(t: Var, S: Buffer, out: Buffer) -> Stmt:
        return seq(
            BufferStore(S, t, (t,)),
            BufferStore(S, S[t] + 1, (t,)),
            BufferStore(out, S[t], (t,)),
        )

    assert run(tir, make).tolist() == list(range(1, N + 1))


def test_write_after_read_around_a_loop(tir: type[Programs]) -> None:
    def make(*last: Stmt) -> Callable[[Var, Buffer, Buffer], For]:
        def body(t: Var, S: Buffer, out: Buffer) -> For:
            step = seq(
                BufferStore(S, t + I, (t,)), sync(), BufferStore(out, S[N - 1 - t], (t,)), *last
            )
            return tir.loop(I, 3, step)

        return body

    with pytest.raises(
        interp.RaceError, match="written by thread 0 of block 0, read by thread 63 of"
    ):
        run(tir, make())
    run(tir, make(sync()))


def test_write_after_write(tir: type[Programs]) -> None:
    def make(*between: Stmt) -> Callable[[Var, Buffer, Buffer], Stmt]:
        return lambda t, S, out: seq(BufferStore(S, t, (t,)), *between, BufferStore(S, t, (t + 1,)))

    with pytest.raises(
        interp.RaceError, match="written by thread 0 of block 0, written by thread 1 of"
    ):
        run(tir, make())
    run(tir, make(sync()))


def test_all_threads_storing_the_same_is_no_race_until_it_is_read(tir: type[Programs]) -> None:
    def make(*between: Stmt) -> Callable[[Var, Buffer, Buffer], Stmt]:
        def fill(S: Buffer) -> Stmt:
            return tir.loop(I, 8, BufferStore(S, I * 3, (I,)))

        return lambda t, S, out: seq(fill(S), *between, BufferStore(out, S[t % 8], (t,)))

    with pytest.raises(interp.RaceError):
        run(tir, make())
    assert run(tir, make(sync()))[:3].tolist() == [0, 3, 6]


def test_different_values_at_one_place_are_never_right(tir: type[Programs]) -> None:
    with pytest.raises(interp.RaceError, match="store different values"):
        run(tir, lambda t, S, out: BufferStore(S, t, (t // 2,)), check_races=False)


def test_a_warp_barrier_orders_one_warp(tir: type[Programs]) -> None:
    def neighbour(t: Var) -> Expr:
        return op.select(op.eq(t % 32, 31), t, t + 1)

    def make(source: Callable[[Var], Expr]) -> Callable[[Var, Buffer, Buffer], Stmt]:
        return lambda t, S, out: seq(
            BufferStore(S, t, (t,)), sync("warp"), BufferStore(out, S[source(t)], (t,))
        )

    assert run(tir, make(neighbour))[0] == 1
    with pytest.raises(interp.RaceError):
        run(tir, make(lambda t: op.select(op.eq(t, N - 1), t, t + 1)))


def test_a_tree_with_warp_barriers(tir: type[Programs]) -> None:
    """The in-warp part of a reduction over shared memory: read, meet, store, meet."""

    def make(t: Var, S: Buffer, out: Buffer) -> Stmt:
        steps = [BufferStore(S, t, (t,)), sync()]
        for offset in (16, 8, 4, 2, 1):
            x = Var("x")
            from autosched.tir.stmt import LetStmt

            store = seq(sync("warp"), BufferStore(S, x, (t,)), sync("warp"))
            steps.append(LetStmt(x, S[t] + S[t + offset], store))
        inside = seq(*steps[2:])
        return seq(
            BufferStore(S, t * 0, (t + N,)),
            *steps[:2],
            IfThenElse(t < 32, inside),
            sync(),
            BufferStore(out, S[ZERO], (t,)),
        )

    def widened(t: Var, S: Buffer, out: Buffer) -> Stmt:
        return make(t, S, out)

    assert run(tir, widened)[5] == sum(range(32))
