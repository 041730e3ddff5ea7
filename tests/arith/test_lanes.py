"""Vectors of indices: ramps and broadcasts fold, and every fold keeps every lane."""

from __future__ import annotations

import random
from typing import Any

import pytest

from autosched.arith import Analyzer
from autosched.tir import op
from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import (
    Broadcast,
    BufferLoad,
    CompareExpr,
    Expr,
    IntImm,
    Ramp,
    Range,
    Select,
    Var,
)
from autosched.tir.interp_math import wrap
from autosched.tir.printer import to_text
from kit.seeds import each_seed

I, N = Var("i"), Var("n")
A = decl_buffer((64,), name="A")
LANES = 8


def ramp(base: Any, stride: Any = 1) -> Expr:
    return Ramp(op.as_expr(base), op.as_expr(stride), LANES)


def same(value: Any) -> Expr:
    return Broadcast(op.as_expr(value), LANES)


FOLDED: list[tuple[Expr, Expr]] = [
    (ramp(I) + same(4), ramp(I + 4)),
    (same(N) + ramp(0, 2), ramp(N, 2)),
    (ramp(I, 3) - ramp(N, 3), same(I - N)),
    (ramp(I, 3) - ramp(N), ramp(I - N, 2)),
    (ramp(I) * same(4), ramp(I * 4, 4)),
    (same(3) * same(N), same(N * 3)),
    (ramp(N, 16) // same(8), ramp(N // 8, 2)),
    (ramp(N, 16) % same(8), same(N % 8)),
    (ramp(N * 16) // same(8), same(N * 2)),
    (ramp(N * 16) % same(8), ramp(0)),
    (ramp(N * 16 + 3, 1) // same(32), same(N // 2)),
    (ramp(I * 8 + 7, -1) // same(8), same(I)),  # backwards
    (ramp(I * 8 + 7, -1) % same(8), ramp(7, -1)),
    (ramp(I * 8 - 1, -1) // same(8), same(I - 1)),
    (ramp(I * 8 + 6, -1) // same(8), ramp(I * 8 + 6, -1) // same(8)),
    (op.max_(op.max_(ramp(N), same(3)), same(5)), op.max_(ramp(N), same(5))),
    (op.min_(op.min_(ramp(N), same(3)), same(5)), op.min_(ramp(N), same(3))),
    (op.lt(ramp(I * 8), same(64)), same(True)),
    (op.lt(ramp(I * 8), same(0)), same(False)),
    (op.lt(same(64), ramp(I * 8)), same(False)),
    (op.ne(ramp(I), same(100)), same(True)),
    (op.max_(same(I), same(-1)), same(I)),
    (op.select(op.le(same(1), ramp(16)), ramp(I), same(0)), ramp(I)),
    (BufferLoad(A, (ramp(I),), op.le(same(1), ramp(16))), BufferLoad(A, (ramp(I),))),
    (op.and_(op.le(same(0), ramp(N)), op.lt(ramp(0), same(8))), op.le(same(0), ramp(N))),
    (op.or_(op.le(same(0), ramp(N)), op.lt(ramp(0), same(8))), same(True)),
    # undecided ones stay
    (op.lt(ramp(I * 8), same(63)), op.lt(ramp(I * 8), same(63))),
    (ramp(N) // same(8), ramp(N) // same(8)),
]


@pytest.mark.parametrize(("e", "folded"), FOLDED, ids=[to_text(e) for e, _ in FOLDED])
def test_folds(e: Expr, folded: Expr) -> None:
    analyzer = Analyzer()
    analyzer.bind(I, Range.of(8))
    found = analyzer.simplify(e)
    assert found is folded, f"{found!r}"


def lane(e: Any, k: int, point: dict[Var, int]) -> int:
    """Lane k of a vector, or the scalar, wrapped to its type at every step."""
    if isinstance(e, IntImm):
        return e.value
    if isinstance(e, Var):
        return point[e]
    if isinstance(e, Ramp):
        return wrap(lane(e.base, 0, point) + k * lane(e.stride, 0, point), e.dtype.element)
    if isinstance(e, Broadcast):
        return lane(e.value, 0, point)
    if isinstance(e, Select):
        return lane(e.true_value if lane(e.condition, k, point) else e.false_value, k, point)
    if not hasattr(e, "a"):
        raise AssertionError(repr(e))
    if not hasattr(e, "b"):
        return int(not lane(e.a, k, point))
    a, b = lane(e.a, k, point), lane(e.b, k, point)
    folded: Any = type(e)(IntImm(a, e.a.dtype.element), IntImm(b, e.b.dtype.element))
    value: Any = folded.with_children(folded.children())
    return int(value.value)


def vector(rng: random.Random, names: list[Var], depth: int) -> Expr:
    dtype = names[0].dtype
    if depth == 0:
        scale = op.const(rng.choice((0, 1, 2, 3, 4, 8, 16)), dtype)
        base = rng.choice(names) * scale + op.const(rng.randrange(9), dtype)
        stride = op.const(rng.choice((0, 1, 1, 2, 4, 8, 16)), dtype)
        if rng.random() < 0.5 and isinstance(stride, IntImm) and stride.value:
            return Ramp(base, stride, 4)
        return Broadcast(base if rng.random() < 0.5 else stride, 4)
    a, b = vector(rng, names, depth - 1), vector(rng, names, depth - 1)
    kind = rng.randrange(8)
    if kind < 4:
        return rng.choice((op.add, op.add, op.sub, op.mul))(a, b)
    if kind < 6:
        divisor = Broadcast(op.const(rng.choice((1, 2, 3, 4, 8, 16)), dtype), 4)
        return rng.choice((op.floordiv, op.floormod))(a, divisor)
    if kind == 6:
        return rng.choice((op.min_, op.max_))(a, b)
    return op.select(condition(rng, names, depth - 1), a, b)


def condition(rng: random.Random, names: list[Var], depth: int) -> Expr:
    compare = rng.choice((op.lt, op.le, op.gt, op.ge, op.eq, op.ne))
    result = compare(vector(rng, names, depth), vector(rng, names, depth))
    return op.and_(result, condition(rng, names, 0)) if rng.random() < 0.2 else result


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "int16"])
@each_seed(100)
def test_every_lane_keeps_its_value(dtype: str, seed: int) -> None:
    rng = random.Random(seed)
    names = [Var("a", dtype), Var("b", dtype)]
    analyzer = Analyzer()
    ranges = {v: range(rng.randrange(3), rng.randrange(4, 13)) for v in names}
    for v, r in ranges.items():
        analyzer.bind(v, Range(op.const(r.start, dtype), op.const(len(r), dtype)))
    e = vector(rng, names, 2) if rng.random() < 0.6 else condition(rng, names, 1)
    simple = analyzer.simplify(e)
    assert simple.dtype is e.dtype
    assert isinstance(e, CompareExpr) or simple.dtype.lanes == 4 or e.dtype.lanes == 1
    for _ in range(10):
        point = {v: rng.choice(r) for v, r in ranges.items()}
        for k in range(4):
            assert lane(simple, k, point) == lane(e, k, point), f"{e!r} -> {simple!r} at {point}"
