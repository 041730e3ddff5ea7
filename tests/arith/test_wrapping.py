"""Simplification against wrapping evaluation, near the limits of every integer type.

Data wraps in every type and must agree everywhere. Indices are taken to stay within half the
range of their type: where every operation of an index expression does, they must agree.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.arith import Analyzer
from autosched.driver import build_func, lower
from autosched.runtime.cpu import load
from autosched.target import cpu_target
from autosched.te.operations.tensor import Tensor
from autosched.tir import interp, op
from autosched.tir.buffer import decl_buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import (
    Add,
    And,
    BinaryExpr,
    BufferLoad,
    Call,
    Cast,
    CompareExpr,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Range,
    Select,
    Sub,
    Var,
)
from autosched.tir.interp_math import trunc_div, trunc_mod, wrap
from autosched.tir.printer import to_text
from autosched.tir.stmt import BufferStore, LetStmt, nop
from autosched.tir.walk import substitute
from kit.seeds import each_seed
from kit.stmts import func_of
from kit.te import compute_of
from kit.types import Array

TARGET = cpu_target(threads=1)

TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_VALUE: dict[type[Expr], Callable[[int, int], int]] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    FloorDiv: lambda a, b: a // b,
    FloorMod: lambda a, b: a % b,
    Div: trunc_div,
    Mod: trunc_mod,
    Min: min,
    Max: max,
    And: lambda a, b: a & b,
    Or: lambda a, b: a | b,
}
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


class Overflow(Exception):
    """A value left half the range of its type."""


def wrapped(e: Any, point: Mapping[Expr, int], exact: bool = False) -> int:
    """The value of `e` with every operation wrapped to its type.

    With `exact` raises Overflow where a value leaves half the range of its type.
    """
    if e in point:
        if exact and not e.dtype.min_value <= 2 * point[e] <= e.dtype.max_value:
            raise Overflow
        return point[e]
    if isinstance(e, IntImm):
        assert wrap(e.value, e.dtype) == e.value, f"{e!r} is no {e.dtype}"
        return e.value
    match e:
        case CompareExpr():
            a, b = wrapped(e.a, point, exact), wrapped(e.b, point, exact)
            return int(_COMPARE[e.symbol](a, b))
        case BinaryExpr():
            a, b = wrapped(e.a, point, exact), wrapped(e.b, point, exact)
            value = _VALUE[type(e)](a, b)
        case Cast():
            value = wrapped(e.value, point, exact)
        case Not():
            return int(not wrapped(e.a, point, exact))
        case Select(condition, yes, no):
            return wrapped(yes if wrapped(condition, point, exact) else no, point, exact)
        case Call(op="if_then_else", args=(condition, yes, no)):
            return wrapped(yes if wrapped(condition, point, exact) else no, point, exact)
        case _:
            raise AssertionError(f"no value for {e!r}")
    if exact and not e.dtype.min_value <= 2 * value <= e.dtype.max_value:
        raise Overflow
    return wrap(value, e.dtype)


class Near:
    """Random expressions over `leaves` of one type, with constants near its limits."""

    def __init__(self, rng: random.Random, leaves: list[Expr]) -> None:
        self.rng = rng
        self.leaves = leaves
        self.dtype = leaves[0].dtype

    def number(self) -> int:
        rng, low, high = self.rng, int(self.dtype.min_value), int(self.dtype.max_value)
        match rng.randrange(7):
            case 0:
                value = rng.choice((0, 1, 2, 3, 4, 5, 7, 8, 16))
            case 1:
                value = rng.choice((-1, -2, -3, -4))
            case 2:
                value = rng.choice((low, high)) + rng.randrange(-3, 4)
            case 3:
                value = low // 2 + rng.randrange(-2, 3)
            case 4:
                value = high // 2 + rng.randrange(-2, 3)
            case 5:
                value = (1 << (self.dtype.bits // 2)) + rng.randrange(-2, 3)
            case _:
                value = rng.choice((10, 100, 1000, 100000))
        return min(max(value, low), high)

    def constant(self) -> Expr:
        return op.const(self.number(), self.dtype)

    def positive(self) -> Expr:
        return (
            op.const(abs(self.number()) or 2, self.dtype)
            if self.number() > -(1 << 62)
            else (op.const(2, self.dtype))
        )

    def integer(self, depth: int) -> Expr:
        rng = self.rng
        if depth <= 0 or rng.random() < 0.08:
            return rng.choice(self.leaves) if rng.random() < 0.7 else self.constant()
        kind = rng.randrange(22)
        a = self.integer(depth - 1)
        if kind < 5:
            return op.add(a, self.integer(depth - 1))
        if kind < 9:
            return op.sub(a, self.integer(depth - 1))
        if kind < 12:
            return op.mul(a, self.constant())
        if kind < 19:
            divide = (op.floordiv, op.floormod, op.truncdiv, op.truncmod)
            c = min(abs(self.number()) or 2, int(self.dtype.max_value))
            return rng.choice(divide)(a, op.const(c, self.dtype))
        if kind == 19:
            return rng.choice((op.min_, op.max_))(a, self.integer(depth - 1))
        if kind == 20:
            return op.mul(a, self.integer(depth - 1))
        return op.select(self.condition(depth - 1), a, self.integer(depth - 1))

    def condition(self, depth: int) -> Expr:
        rng = self.rng
        if depth <= 0 or rng.random() < 0.8:
            compare = rng.choice((op.lt, op.le, op.gt, op.ge, op.eq, op.ne))
            return compare(self.integer(depth - 1), self.integer(depth - 1))
        return rng.choice((op.and_, op.or_))(self.condition(depth - 1), self.condition(depth - 1))


def points(rng: random.Random, near: Near, ranges: Mapping[Expr, range], count: int) -> Any:
    """Points for the leaves: near the ends of the ranges, or of the type."""
    for _ in range(count):
        point = {}
        for leaf in near.leaves:
            inside = ranges.get(leaf)
            if inside is None:
                point[leaf] = near.number()
            else:
                point[leaf] = rng.choice((inside.start, inside.stop - 1, rng.choice(inside)))
        yield point


def check(rng: random.Random, dtype: str, data: bool, depth: int) -> None:
    names = ("x", "y")
    analyzer = Analyzer()
    ranges: dict[Expr, range] = {}
    leaves: list[Expr] = []
    for name in names:
        if data:
            leaves.append(BufferLoad(decl_buffer((4,), dtype, name), (IntImm(0),)))
            continue
        v = Var(name, dtype)
        leaves.append(v)
        if rng.random() < 0.5:
            start = rng.choice((0, 0, -5, int(v.dtype.min_value), int(v.dtype.max_value) - 20))
            start = max(start, int(v.dtype.min_value))
            ranges[v] = range(start, start + rng.randrange(1, 20))
            analyzer.bind(v, Range(op.const(start, dtype), op.const(len(ranges[v]), dtype)))
    near = Near(rng, leaves)
    e = near.integer(depth) if rng.random() < 0.6 else near.condition(depth)
    simple = analyzer.simplify(e)
    low, high = analyzer.const_int_bound(e)
    for point in points(rng, near, ranges, 25):
        try:
            before = wrapped(e, point, exact=not data and leaves[0].dtype.is_index)
        except (Overflow, ZeroDivisionError):
            continue
        assert wrapped(simple, point) == before, f"{e!r} -> {simple!r} at {point}"
        if abs(before) < 2**63 - 1:
            assert low <= before <= high, f"{e!r} in [{low}, {high}] at {point}"


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("data", [True, False], ids=["data", "index"])
@each_seed(60)
def test_simplified_near_the_limits(dtype: str, data: bool, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(4):
        check(rng, dtype, data, rng.randrange(1, 5))


X, Y = Var("x"), Var("y")
WIDE = Var("w", "int64")
LOADED = BufferLoad(decl_buffer((4,), "int32", "A"), (IntImm(0),))
BILLION = 10**9

KEPT: list[tuple[Expr, str]] = [
    # constants that would not fit are not folded
    (X // 100000 % 100000, "x // 100000 % 100000"),
    (X // 65536 % 65536, "x // 65536 % 65536"),
    (X // 100000 // 100000, "x // 100000 // 100000"),
    (op.truncdiv(op.truncdiv(X, 100000), 100000), "truncdiv(truncdiv(x, 100000), 100000)"),
    (op.truncmod(op.truncdiv(X, 100000), 100000), "truncmod(truncdiv(x, 100000), 100000)"),
    (X * 100000 * 100000, "x * 100000 * 100000"),
    (X + 2 * BILLION + 2 * BILLION, "x + 2000000000 + 2000000000"),
    (
        WIDE // 10**10 // 10**10,
        "w // int64(10000000000) // int64(10000000000)",
    ),
    # nor is a comparison decided by one that wrapped
    (X + op.min_value("int32") <= -3, "x <= 2147483645"),
    (op.const(-2147483647) - X >= 1, "x <= -2147483648"),
    (op.min_value("int32") + Y > X, "x < y + -2147483648"),
    # data wraps: no rule for exact arithmetic
    (LOADED + 1 > LOADED, "A[0] < A[0] + 1"),
    (LOADED * 4 // 4, "A[0] * 4 // 4"),
    (op.min_(LOADED + 1, LOADED), "min(A[0] + 1, A[0])"),
    # what folds to constants, and what stays exact
    ((X + 1 - X) * (X + 3 - X), "3"),
    (X // 1000 % 1000, "x % 1000000 // 1000"),
    (LOADED % 8 * 4 // 4, "A[0] % 8"),
    (LOADED + 1 - LOADED, "1"),
    (LOADED // 2 + 1 > LOADED // 2, "True"),
]


@pytest.mark.parametrize(("e", "text"), KEPT, ids=[to_text(e) for e, _ in KEPT])
def test_at_the_limits(e: Expr, text: str) -> None:
    assert to_text(Analyzer().simplify(e)) == text


@pytest.mark.parametrize("dtype", TYPES)
def test_a_constant_outside_its_type_is_refused(dtype: str) -> None:
    kind = DType(dtype)
    for value in (int(kind.max_value) + 1, int(kind.min_value) - 1):
        with pytest.raises(ValueError, match=rf"const: {value} is no {dtype}, which holds"):
            op.const(value, dtype)
    assert op.add(op.max_value(dtype), op.const(1, dtype)) is op.min_value(dtype)


def substituter_of(e: Expr, i: Var) -> Callable[[Var], Expr]:
    return lambda j: substitute(e, {i: j})


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("lanes", [1, 8])
def test_compiled_kernels_compute_what_numpy_does(dtype: str, lanes: int) -> None:
    rng = random.Random(f"{dtype} {lanes}")
    n, outputs = 64, 16
    tensors = [te.placeholder((n,), dtype, name) for name in "xy"]
    i = te.var("i")
    near = Near(rng, [t[i] for t in tensors])
    limits = int(DType(dtype).min_value), int(DType(dtype).max_value)
    special = [*limits, limits[0] + 1, limits[1] - 1, limits[1] // 2, 0, 1, 2]
    arrays = [
        np.array((special * n)[:n] if k else [near.number() for _ in range(n)], dtype)
        for k in range(2)
    ]
    arrays[0][: len(special)] = np.array(special[::-1], dtype)
    wanted: list[tuple[Expr, Array]] = []
    results: list[Tensor] = []
    while len(results) < outputs:
        e = near.integer(4)
        try:
            values = [wrapped(e, dict(zip(near.leaves, map(int, p)))) for p in zip(*arrays)]
        except ZeroDivisionError:
            continue
        if op.const(limits[0], dtype) is e or isinstance(e, IntImm):
            continue
        wanted.append((e, np.array(values, dtype)))
        body = substituter_of(e, i)
        results.append(te.compute((n,), body, name=f"out{len(results)}"))
    sch = te.create_schedule([r.op for r in results])
    if lanes > 1:
        for r in results:
            _, inner = sch[r].split(compute_of(r).axis[0], factor=lanes)
            sch[r].vectorize(inner)
    func = lower(sch, [*tensors, *results], TARGET)
    found = [np.zeros(n, dtype) for _ in results]
    interp.run(func, [*arrays, *found])
    for (e, expected), array in zip(wanted, found):
        np.testing.assert_array_equal(array, expected, err_msg=f"interpreted {e!r}")
    found = [np.zeros(n, dtype) for _ in results]
    load(build_func(func, TARGET))(*arrays, *found)
    for (e, expected), array in zip(wanted, found):
        np.testing.assert_array_equal(array, expected, err_msg=f"compiled {e!r}")


def test_a_variable_whose_value_may_wrap_as_a_sum() -> None:
    """Written out, the sum of its value needs more than an int64: it stays one term."""
    t, v = decl_buffer((8,), "int64", "t"), Var("v", "int64")
    limit = op.const(1000, "int64")
    value = op.floormod(t[1] - op.const(2, "int64") + op.const(-1, "int64"), limit)
    bound = LetStmt(v, value, nop())  # v is data from here on
    analyzer = Analyzer()
    analyzer.bind(v, bound.value)
    made = analyzer.simplify(op.floormod(t[4] * op.const(4, "int64") + v * -2, limit))
    C = decl_buffer((1,), "int64", "C")
    store = LetStmt(v, value, BufferStore(C, made, (IntImm(0),)))
    func = func_of(store, t, C)
    for first, second in ((2**62, 5), (-(2**63), 2**63 - 1), (7, -(2**63) + 2)):
        numbers = np.array([0, first, 0, 0, second, 0, 0, 0], np.int64)
        x = wrap(wrap(first - 3, DType("int64")) % 1000, DType("int64"))
        wanted = wrap(wrap(second * 4, DType("int64")) - 2 * x, DType("int64")) % 1000
        out = np.zeros(1, np.int64)
        interp.run(func, [numbers, out])
        assert out[0] == wanted
