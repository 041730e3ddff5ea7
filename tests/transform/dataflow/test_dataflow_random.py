"""Random programs leave the same in memory without what data flow analysis removes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.expr import Expr, IntImm, Ramp, Var
from autosched.tir.function import PrimFunc
from autosched.tir.op import all_, eq, max_, min_, ne
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    BufferStore,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    seq,
)
from autosched.tir.verify import verify
from autosched.tir.walk import stmts
from autosched.transform.loops.remove_no_op import RemoveNoOp
from kit.stmts import loop
from kit.types import MakeFunc, SameResult

A = decl_buffer((24,), "float32", "A")
B = decl_buffer((24,), "float32", "B")
n = Var("n")


class Programs:
    """Draws sequences of small stores, loops and branches over two parameters and temporaries."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.memory: list[Buffer] = [A, B, B]
        self.loops: list[tuple[Var, int]] = []

    def pick(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def index(self) -> Expr:
        """A place that is in bounds, whatever n (0 to 6) is."""
        found: Expr = IntImm(int(self.rng.integers(0, 4)))
        for var, extent in self.loops[-2:]:
            if self.rng.integers(3):
                found = found + var * self.pick(1, 1, 1, 2) if extent <= 5 else found + var
        if self.rng.integers(6) == 0:
            found = found + n
        return min_(found, 20) if self.rng.integers(4) == 0 or len(self.loops) > 1 else found

    def value(self) -> Expr:
        kind = self.rng.integers(5)
        if kind < 2:
            return self.pick(A, B)[0] * 0.0 + float(self.pick(1, 2)) if kind else self.constant()
        if kind == 2 and self.loops:
            return self.loops[-1][0].astype("float32")
        source = self.pick(*self.memory)
        load: Expr = source[self.index()]
        return load if self.rng.integers(2) else max_(min_(load, 9.0), -9.0) + 1.0

    def constant(self) -> Expr:
        found: Expr = self.pick(IntImm(1), IntImm(2)).astype("float32")
        return found

    def condition(self) -> Expr:
        source = self.pick(*self.memory)
        var = self.loops[-1][0] if self.loops else n
        found: Expr = self.pick(
            n > 2,
            eq(var, 2),
            ne(var, n),
            source[self.index()] < 2.0,
            eq(source[self.index()], 1.0),
            all_(var < 3, source[0] > 0.0),
        )
        return found

    def store(self) -> Stmt:
        target = self.pick(*self.memory)
        index = self.index()
        if self.rng.integers(8) == 0:
            at = Ramp(min_(index, 20), IntImm(1), 4)
            value = self.pick(A, B)[Ramp(IntImm(4), IntImm(1), 4)]
            if self.rng.integers(2):
                value = self.constant().astype("float32x4")
            return BufferStore(target, value, (at,))
        if self.rng.integers(6) == 0:
            return BufferStore(target, target[self.index()], (index,))
        return BufferStore(target, self.value(), (index,))

    def stmt(self, depth: int) -> Stmt:
        kind = self.rng.integers(9) if depth else 0
        if kind < 4:
            return self.store()
        if kind < 7:
            return self.loop(depth)
        if kind == 7:
            other = self.block(depth - 1) if self.rng.integers(2) else None
            return IfThenElse(self.condition(), self.block(depth - 1), other)
        if self.rng.integers(2):
            var = Var("t")
            self.loops.append((var, 5))
            body = self.block(depth - 1)
            self.loops.pop()
            return LetStmt(var, self.pick(IntImm(2), min_(n, 4)), body)
        buffer = decl_buffer((24,), "float32", "T")
        whole = Var("w")
        self.memory.append(buffer)
        fill = loop(whole, 24, BufferStore(buffer, self.constant(), (whole,)))
        body = seq(fill, self.block(depth - 1))
        self.memory.pop()
        return Allocate(buffer.data, buffer.dtype, buffer.shape, TRUE, body)

    def loop(self, depth: int) -> Stmt:
        var = self.pick(Var("i"), LOOP)
        if any(v is var for v, _ in self.loops):
            var = Var("i")
        extent, most = self.pick((4, 4), (1, 1), (12, 12), (n, 6), (5, 5), (0, 1))
        low = int(self.pick(0, 0, 1, 3))
        self.loops.append((var, most + low))
        body = self.block(depth - 1)
        self.loops.pop()
        return loop(var, extent, body, self.pick(ForKind.SERIAL, ForKind.UNROLLED), low)

    def block(self, depth: int) -> Stmt:
        return seq(*(self.stmt(depth) for _ in range(self.rng.integers(1, 4))))

    def program(self) -> Stmt:
        return seq(*(self.stmt(3) for _ in range(self.rng.integers(3, 7))))


LOOP = Var("i")  # a variable that several loops bind, one after the other


def stores(func: PrimFunc) -> int:
    return sum(isinstance(s, BufferStore) for s in stmts(func.body))


@pytest.mark.parametrize("block", range(5))
def test_random_programs(make_func: MakeFunc, same_result: SameResult, block: int) -> None:
    removed = 0
    for seed in range(block * 25, block * 25 + 25):
        before = make_func(Programs(seed).program(), A, B, scalars=(n,))
        verify(before)
        plain, after = RemoveNoOp()(before), RemoveNoOp(dataflow=True)(before)
        verify(after)
        for size in (0, 4) if seed % 2 else (1, 6):
            same_result(before, after, size, seed=seed)
        removed += stores(plain) - stores(after)
    assert removed > 5
