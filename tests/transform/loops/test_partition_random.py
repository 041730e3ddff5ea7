"""Random loop nests mean the same after LoopPartition, whatever their conditions and lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import Expr, IntImm, IterKind, IterVar, Var
from autosched.tir.op import eq, if_then_else, likely, max_, min_, ne, select
from autosched.tir.stmt import AttrStmt, BufferStore, For, ForKind, IfThenElse, Stmt, seq
from autosched.tir.verify import verify
from autosched.tir.walk import all_exprs, stmts
from autosched.transform.loops.loop_partition import LoopPartition
from kit.stmts import loop
from kit.types import MakeFunc, SameResult

A = decl_buffer((64,), "float32", "A")
B = decl_buffer((64,), "float32", "B")
LOOPS = (Var("i"), Var("j"), Var("k"))
n, m = Var("n"), Var("m")


class Nests:
    """Draws nests of three loops; with `symbolic`, lengths and limits may be n and m."""

    def __init__(self, seed: int, symbolic: bool) -> None:
        self.rng = np.random.default_rng(seed)
        self.symbolic = symbolic
        self.index: Expr = LOOPS[0] * 9 + LOOPS[1] * 3 + LOOPS[2]

    def pick(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def condition(self) -> Expr:
        sides = [LOOPS[0], LOOPS[1], LOOPS[0] * 3 + LOOPS[1], self.index, LOOPS[2] - LOOPS[0]]
        left = self.pick(*sides)
        right: Expr = IntImm(int(self.rng.integers(-2, 12)))
        if self.symbolic and self.rng.integers(2):
            right = self.pick(n, m, n - 1, m * 2)
        compare = self.pick(
            lambda a, b: a < b,
            lambda a, b: a <= b,
            lambda a, b: a > b,
            lambda a, b: a >= b,
            eq,
            ne,
        )
        found = compare(left, right)
        return found if self.rng.integers(6) == 0 else likely(found)

    def value(self) -> Expr:
        place = min_(max_(self.index, 0), 63)
        plain, other = A[place] + 1.0, A[place] * 0.5
        choose = self.pick(select, if_then_else, lambda c, a, b: a)
        chosen: Expr = choose(self.condition(), plain, other)
        return chosen

    def body(self, depth: int) -> Stmt:
        place = min_(max_(self.index, 0), 63)
        store = BufferStore(B, self.value() + B[place], (place,))
        if depth == 0:
            return store
        then_case = self.body(depth - 1)
        else_case = self.body(0) if self.rng.integers(3) == 0 else None
        guarded = IfThenElse(self.condition(), then_case, else_case)
        return seq(guarded, store) if self.rng.integers(3) == 0 else guarded

    def nest(self) -> Stmt:
        body = self.body(int(self.rng.integers(1, 3)))
        for var in reversed(LOOPS):
            extent: Any = int(self.rng.integers(1, 5))
            low: Any = int(self.rng.integers(0, 3)) if self.rng.integers(4) == 0 else 0
            if self.symbolic and self.rng.integers(3) == 0:
                extent, low = self.pick((n, 0), (m, 1), (4, m))
            body = loop(var, extent, body, self.pick(ForKind.SERIAL, ForKind.UNROLLED), low)
            if self.rng.integers(5) == 0:
                hint = IterVar(None, var, IterKind.DATA_PAR)
                body = AttrStmt(hint, "pragma_loop_partition_hint", IntImm(1), body)
        return body


@pytest.mark.parametrize("const_loops", [True, False])
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("block", range(4))
def test_random_nests(
    make_func: MakeFunc, same_result: SameResult, block: int, symbolic: bool, const_loops: bool
) -> None:
    changed = 0
    for seed in range(block * 15, block * 15 + 15):
        nests = Nests(seed, symbolic)
        growth = int(nests.pick(0, 4, 16, 64))
        before = make_func(nests.nest(), A, B, scalars=(n, m))
        after = LoopPartition(const_loops, growth)(before)
        verify(after)
        for sizes in ((0, 3), (2, 2), (5, 1)) if symbolic else ((0, 0),):
            same_result(before, after, *sizes, seed=seed)
        stores = [sum(isinstance(s, BufferStore) for s in stmts(f.body)) for f in (before, after)]
        assert stores[1] <= 3 * (stores[0] + growth)
        changed += stores[1] > stores[0]
    assert changed or not const_loops


@pytest.mark.parametrize("limit", [0, 1, 7, 15, 16, 40])
@pytest.mark.parametrize("other", [0, 3, 16])
def test_no_condition_is_left_where_lengths_are_constant(
    make_func: MakeFunc, same_result: SameResult, limit: int, other: int
) -> None:
    """Of several conditions on one loop every piece knows whether each holds."""
    i = LOOPS[0]
    body = seq(
        IfThenElse(likely(i < limit), BufferStore(B, A[i] + 1.0, (i,))),
        BufferStore(B, select(likely(eq(i, other)), B[i], A[i]), (i,)),
        IfThenElse(likely(ne(i, 9)), BufferStore(B, B[i] * 2.0, (i,))),
    )
    before = make_func(loop(i, 17, body), A, B)
    after = LoopPartition(partition_const_loops=True)(before)
    same_result(before, after)
    assert not [e for e in all_exprs(after.body) if e.dtype.is_bool]


def test_growth_is_linear_in_the_number_of_symbolic_limits(
    make_func: MakeFunc, same_result: SameResult
) -> None:
    """`k` conditions make at most 2k + 1 loops, and no more than the limit allows."""
    i = LOOPS[0]
    limits = [Var(f"n{k}") for k in range(6)]
    for count in range(1, 7):
        body = seq(
            *(
                IfThenElse(likely(i < limit), BufferStore(B, B[i] * 2.0 + float(k), (i,)))
                for k, limit in enumerate(limits[:count])
            )
        )
        before = make_func(loop(i, n, body), A, B, scalars=(n, *limits[:count]))
        after = LoopPartition(max_growth=1000)(before)
        same_result(before, after, 20, *(3 * (k % 4) + 2 for k in range(count)))
        assert sum(isinstance(s, For) for s in stmts(after.body)) <= 2 * count + 1
        small = LoopPartition(max_growth=2 * count)(before)
        same_result(before, small, 20, *(3 * (k % 4) + 2 for k in range(count)))
        assert sum(isinstance(s, BufferStore) for s in stmts(small.body)) <= 3 * count


def test_a_variable_of_two_loops_has_the_values_of_each(
    make_func: MakeFunc, same_result: SameResult
) -> None:
    """The range that a variable had in an earlier loop decides nothing in a later one."""
    i = LOOPS[0]
    guarded = IfThenElse(likely(i * 2 < m), BufferStore(B, A[i], (i,)))
    five = IfThenElse(likely(i < 5), BufferStore(B, A[i] + 1.0, (i,)))
    for later in (loop(i, n, five), loop(LOOPS[1], 1, loop(i, n, seq(guarded, five)))):
        first = loop(i, 3, IfThenElse(likely(i < 2), BufferStore(B, A[i], (i,))))
        before = make_func(seq(first, later), A, B, scalars=(n, m))
        same_result(before, LoopPartition()(before), 9, 6)
