"""PromoteAccumulators: golden text, unchanged programs, equal results to the last bit."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from autosched.tir import interp, op
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import Broadcast, BufferLoad, Expr, FloatImm, IntImm, Ramp, Var, pointer
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text
from autosched.tir.stmt import Allocate, AttrStmt, BufferStore, Stmt
from autosched.tir.walk import stmts
from autosched.transform.vector.promote_accumulators import PromoteAccumulators
from kit.stmts import as_a, func_of, loop
from kit.tir import value_of
from kit.types import Array


def nest(order: str, extents: dict[str, int], body: Stmt, variables: Mapping[str, Expr]) -> Stmt:
    for name in reversed(order.split()):
        body = loop(as_a(Var, variables[name]), extents[name], body)
    return body


def matmul(m: int, n: int, k: int, order: str, extents: dict[str, int], lanes: int) -> PrimFunc:
    """C[m, n] += A[m, k] * B[k, n] with loops i0 i1 i2, j0 j1, k0 k1 of the given extents."""
    names = ("i0", "i1", "i2", "j0", "j1", "k0", "k1")
    v: dict[str, Expr] = {name: Var(name) if name in extents else IntImm(0) for name in names}
    x = {name: extents.get(name, 1) for name in v}
    i: Expr = (v["i0"] * x["i1"] + v["i1"]) * x["i2"] + v["i2"]
    j: Expr = (v["j0"] * x["j1"] + v["j1"]) * lanes
    kk = v["k0"] * x["k1"] + v["k1"]
    a, b, c = (
        decl_buffer((size,), name=s) for s, size in (("A", m * k), ("B", k * n), ("C", m * n))
    )
    f32 = DType("float32").with_lanes(lanes)

    def lane(base: Expr) -> Expr:
        return base if lanes == 1 else Ramp(base, IntImm(1), lanes)

    def spread(e: Expr) -> Expr:
        return e if lanes == 1 else Broadcast(e, lanes)

    at = (lane(i * n + j),)
    value = BufferLoad(c, at) + spread(BufferLoad(a, (i * k + kk,))) * BufferLoad(
        b, (lane(kk * n + j),)
    )
    assert value.dtype is f32
    body = nest(order, x, BufferStore(c, value, at), v)
    handles = [pointer(s.name + "_h", s.dtype) for s in (a, b, c)]
    return PrimFunc(tuple(handles), body, dict(zip(handles, (a, b, c))), {"global_symbol": "main"})


def agree(func: PrimFunc, new: PrimFunc, *sizes: int) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s).astype(np.float32) for s in sizes]
    other = [a.copy() for a in arrays]
    interp.run(func, arrays)
    interp.run(new, other)
    for x, y in zip(arrays, other):
        np.testing.assert_array_equal(x, y)


def test_text() -> None:
    func = matmul(4, 4, 8, "i2 k1", {"i2": 4, "k1": 8}, 4)
    assert to_text(PromoteAccumulators(16, 8)(func)) == to_text(PromoteAccumulators(16, 8)(func))
    text = to_text(PromoteAccumulators(16, 8)(func))
    assert 'C.acc = allocate((16,), float32, "local")' in text
    head, rest = text.split("for k1 in ")
    assert head.count("C.acc[") == 4
    assert rest.count("C.acc[0:4] = C.acc[0:4] + broadcast(A[k1], 4) * B[k1 * 4:k1 * 4 + 4]") == 1
    assert rest.count("= C.acc[") == 8  # four updates, four results


CASES = [
    ("i1 j1 k1 i2", {"i1": 2, "j1": 3, "k1": 5, "i2": 4}, 4),
    ("k0 i1 j1 k1 i2", {"k0": 3, "i1": 2, "j1": 2, "k1": 2, "i2": 3}, 4),
    ("k0 i1 j1 k1 i2 j0", {"k0": 2, "i1": 2, "j1": 2, "k1": 20, "i2": 3, "j0": 2}, 2),
    ("i0 k0 j0 k1 j1", {"i0": 2, "k0": 2, "j0": 2, "k1": 3, "j1": 8}, 1),
    ("i0 k0 k1 j1", {"i0": 3, "k0": 2, "k1": 3, "j1": 7}, 1),
    ("k1", {"k1": 9}, 1),
    ("k1", {"k1": 9}, 8),
    ("i2 k1 j1", {"i2": 2, "k1": 4, "j1": 3}, 2),
    ("j1 i2 k1", {"j1": 5, "i2": 7, "k1": 3}, 16),
    ("k1 j0 j1 i2", {"j0": 3, "j1": 4, "i2": 5, "k1": 3}, 1),
]


@pytest.mark.parametrize(("order", "extents", "lanes"), CASES)
@pytest.mark.parametrize(("vector_bytes", "registers"), [(16, 16), (64, 32), (32, 4)])
def test_results_are_equal_to_the_last_bit(
    order: str, extents: dict[str, int], lanes: int, vector_bytes: int, registers: int
) -> None:
    size = dict.fromkeys("ijk", 1)
    for name in order.split():
        size[name[0]] *= extents[name]
    m, n, k = size["i"], size["j"] * lanes, size["k"]
    func = matmul(m, n, k, order, extents, lanes)
    new = PromoteAccumulators(vector_bytes, registers, reassociate=False)(func)
    assert new is not func
    agree(func, new, m * k, k * n, m * n)


@pytest.mark.parametrize(("order", "extents", "lanes"), CASES)
@pytest.mark.parametrize(("vector_bytes", "registers"), [(16, 16), (64, 32), (32, 4)])
def test_what_is_planned_is_what_is_done(
    order: str, extents: dict[str, int], lanes: int, vector_bytes: int, registers: int
) -> None:
    """The storage of accumulators has the size that the plan tells, nest by nest."""
    size = dict.fromkeys("ijk", 1)
    for name in order.split():
        size[name[0]] *= extents[name]
    func = matmul(size["i"], size["j"] * lanes, size["k"], order, extents, lanes)
    promote = PromoteAccumulators(vector_bytes, registers)
    held = [p.piece.accumulators * p.piece.lanes for p in promote.planned(func)]
    sizes = [
        value_of(s.extents[0])
        for s in stmts(promote(func).body)
        if isinstance(s, Allocate) and s.buffer_var.name == "C.acc"
    ]
    assert held
    assert sizes == held


def accumulate(index: Expr, value: Expr, target: Buffer, loops: list[tuple[Var, int]]) -> Stmt:
    body: Stmt = BufferStore(target, BufferLoad(target, (index,)) + value, (index,))
    for var, extent in reversed(loops):
        body = loop(var, extent, body)
    return body


def test_what_is_no_reduction_stays_the_same_object() -> None:
    a, c = decl_buffer((64,), name="A"), decl_buffer((64,), name="C")
    i, j = Var("i"), Var("j")
    copy = func_of(
        loop(i, 8, loop(j, 8, BufferStore(c, BufferLoad(a, (i * 8 + j,)), (i * 8 + j,)))), a, c
    )
    assert PromoteAccumulators()(copy) is copy
    # Not one accumulator for each address: i and j overlap.
    scan = func_of(accumulate(i + j, BufferLoad(a, (i,)), c, [(i, 8), (j, 8)]), a, c)
    assert PromoteAccumulators()(scan) is scan
    # The value also reads the output elsewhere.
    k = Var("k")
    other = func_of(accumulate(i, BufferLoad(c, (i + 8,)), c, [(i, 8), (k, 8)]), a, c)
    assert PromoteAccumulators()(other) is other
    # The address depends on the loop in a way that is not linear.
    folded = func_of(accumulate(op.floormod(i, 4), BufferLoad(a, (i,)), c, [(k, 4), (i, 8)]), a, c)
    assert PromoteAccumulators()(folded) is folded


def test_conditions_and_other_types() -> None:
    a, c = decl_buffer((64,), "int8", "A"), decl_buffer((16,), "int32", "C")
    i, k = Var("i"), Var("k")
    value = op.if_then_else(
        op.lt(i + k, 15), op.cast("int32", BufferLoad(a, (i + k,))), op.const(0)
    )
    func = func_of(accumulate(i, value, c, [(i, 16), (k, 9)]), a, c)
    new = PromoteAccumulators()(func)
    assert "C.acc" in to_text(new)
    arrays: list[Array] = [np.arange(64, dtype=np.int8), np.arange(16, dtype=np.int32)]
    other = [x.copy() for x in arrays]
    interp.run(func, arrays)
    interp.run(new, other)
    np.testing.assert_array_equal(arrays[1], other[1])


def test_maximum_and_nested_statements() -> None:
    a, c = decl_buffer((240,), name="A"), decl_buffer((24,), name="C")
    i, j, k = Var("i"), Var("j"), Var("k")
    at = (i * 6 + j,)
    store = BufferStore(c, op.max_(BufferLoad(c, at), BufferLoad(a, (k * 24 + i * 6 + j,))), at)
    body = AttrStmt(
        None, "pragma_auto_unroll_max_step", IntImm(16), loop(i, 4, loop(k, 10, loop(j, 6, store)))
    )
    func = func_of(body, a, c)
    new = PromoteAccumulators(16, 16)(func)
    assert "C.acc" in to_text(new)
    agree(func, new, 240, 24)


def dot(
    extent: int, fold: Callable[..., Expr] | None = None, dtype: str = "float32"
) -> tuple[PrimFunc, list[int]]:
    """C[3, 5] folds A[3, k] * B[5, k] (or its maximum) over k: contiguous along k only."""
    a, b = decl_buffer((3 * extent,), dtype, "A"), decl_buffer((5 * extent,), dtype, "B")
    c = decl_buffer((15,), dtype, "C")
    i, j, k = Var("i"), Var("j"), Var("k")
    at = (i * 5 + j,)
    term = BufferLoad(a, (i * extent + k,)) * BufferLoad(b, (j * extent + k,))
    value = (fold or op.add)(BufferLoad(c, at), term)
    body = loop(i, 3, loop(j, 5, loop(k, extent, BufferStore(c, value, at))))
    return func_of(body, a, b, c), [3 * extent, 5 * extent, 15]


@pytest.mark.parametrize("extent", [16, 64, 37, 25, 8, 3, 16 * 35 + 11])
def test_partial_sums_in_lanes(extent: int) -> None:
    func, sizes = dot(extent)
    new = PromoteAccumulators()(func)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s).astype(np.float32) for s in sizes]
    other = [x.copy() for x in arrays]
    interp.run(func, arrays)
    interp.run(new, other)
    np.testing.assert_allclose(arrays[2], other[2], rtol=1e-5, atol=1e-5)


def test_steps_of_a_long_sum_take_turns() -> None:
    """Of 35 steps eight partial results, each of sixteen lanes; three steps are left over."""
    func = parse_func("""\
def main(A: Buffer((560,), float32), C: Buffer((1,), float32)):
    for k in range(560):
        C[0] = max(C[0], A[k])
""")
    new = PromoteAccumulators()(func)
    inside, rest = to_text(new).split("for k in unrolled(4)")[1].split("C.acc[0:64] = ")
    assert inside.count("C.acc[112:128] = max(C.acc[112:128], ") == 1
    assert inside.count("C.acc[32:48] = max(C.acc[32:48], ") == 2
    assert inside.count("C.acc[48:64] = max(C.acc[48:64], ") == 1
    assert rest.startswith("max(C.acc[0:64], C.acc[64:128])")
    agree(func, new, 560, 1)


HALVES = re.compile(r"C.acc\[0:8\] = .*C.acc\[0:8\].*C.acc\[8:16\]")
"""Partial results in 16 lanes are put together: the upper eight into the lower eight."""


def test_sums_of_floats_keep_their_order_unless_allowed() -> None:
    func, sizes = dot(64)
    new = PromoteAccumulators(reassociate=False)(func)
    assert HALVES.search(to_text(new)) is None
    agree(func, new, *sizes)
    assert HALVES.search(to_text(PromoteAccumulators()(func)))


def test_maxima_and_integer_sums_are_folded_exactly() -> None:
    for func, sizes in (dot(64, op.max_), dot(40, op.min_), dot(31, op.max_)):
        new = PromoteAccumulators(reassociate=False)(func)
        assert HALVES.search(to_text(new))
        agree(func, new, *sizes)
    func, sizes = dot(48, dtype="int32")
    new = PromoteAccumulators(reassociate=False)(func)
    assert HALVES.search(to_text(new))
    arrays = [np.arange(s, dtype=np.int32) for s in sizes]
    other = [x.copy() for x in arrays]
    interp.run(func, arrays)
    interp.run(new, other)
    np.testing.assert_array_equal(arrays[2], other[2])


def test_outputs_that_are_no_whole_vectors_are_cut() -> None:
    a, c = decl_buffer((37 * 5,), name="A"), decl_buffer((37,), name="C")
    i, k = Var("i"), Var("k")
    store = BufferStore(c, BufferLoad(c, (i,)) + BufferLoad(a, (k * 37 + i,)), (i,))
    func = func_of(loop(k, 5, loop(i, 37, store)), a, c)
    new = PromoteAccumulators()(func)
    text = to_text(new)
    assert "C[0:16]" in text
    assert "C[32:37] = C.acc_1[0:5]" in text
    agree(func, new, 37 * 5, 37)


def windows(channels: int, size: int, window: int, lanes: int) -> PrimFunc:
    """Y[w, c] += X[w + r, c] * K[r, c], lanes along the channels, the window innermost."""
    w, r = Var("w"), Var("r")
    x, k, y = (
        decl_buffer((rows * channels,), name=name)
        for name, rows in (("X", size + window - 1), ("K", window), ("Y", size))
    )

    def row(e: Expr) -> tuple[Expr]:
        return (Ramp(e * channels, IntImm(1), lanes),)

    value = BufferLoad(y, row(w)) + BufferLoad(x, row(w + r)) * BufferLoad(k, row(r))
    body = loop(w, size, loop(r, window, BufferStore(y, value, row(w))))
    handles = [pointer(s.name + "_h", s.dtype) for s in (x, k, y)]
    return PrimFunc(tuple(handles), body, dict(zip(handles, (x, k, y))), {"global_symbol": "main"})


@pytest.mark.parametrize(("window", "lanes"), [(3, 2), (3, 16), (40, 16)])
def test_a_window_of_few_steps_is_unrolled_whole(window: int, lanes: int) -> None:
    """Its counter took longer than its steps: a pooling of 3x3 up to 12 times as long."""
    func = windows(16, 8, window, 16) if lanes == 16 else windows(2, 8, window, 2)
    new = PromoteAccumulators(64, 32)(func)
    text = to_text(new)
    assert text.count(f"Y.acc = allocate(({8 * lanes},)") == 1
    assert ("for r in unrolled(3)" in text) == (lanes == 2)
    assert ("for r in range(40" in text) == (window == 40)
    agree(func, new, (8 + window - 1) * lanes, window * lanes, 8 * lanes)


def transform(rows: int, terms: int, lanes: int) -> PrimFunc:
    """Y[e, c] += X[r, c] * B[e, r], the numbers of B chosen by e and r."""
    e, r = Var("e"), Var("r")
    x, y = (decl_buffer((n * lanes,), name=name) for name, n in (("X", terms), ("Y", rows)))
    factor: Expr = FloatImm(0.0)
    for k in range(min(rows, terms)):
        factor = op.select(op.all_(op.eq(e, k), op.eq(r, k)), FloatImm(k + 0.5), factor)

    def row(place: Expr) -> tuple[Expr]:
        return (Ramp(place * lanes, IntImm(1), lanes),)

    value = BufferLoad(y, row(e)) + BufferLoad(x, row(r)) * Broadcast(factor, lanes)
    body = loop(e, rows, loop(r, terms, BufferStore(y, value, row(e))))
    handles = [pointer(s.name + "_h", s.dtype) for s in (x, y)]
    return PrimFunc(tuple(handles), body, dict(zip(handles, (x, y))), {"global_symbol": "main"})


@pytest.mark.parametrize(("rows", "terms"), [(20, 6), (6, 99)])
def test_loops_that_choose_numbers_are_unrolled_whole(rows: int, terms: int) -> None:
    """Their copies are many, but no step chooses then; 594 are too many."""
    func = transform(rows, terms, 16)
    new = PromoteAccumulators(64, 32)(func)
    assert (f"for r in unrolled({terms})" in to_text(new)) == (terms == 6)
    agree(func, new, terms * 16, rows * 16)


def test_the_steps_of_a_window_are_in_the_order_of_what_they_read() -> None:
    """X[2] is read by three neighbouring outputs: at one place, and so is every other row."""
    text = to_text(PromoteAccumulators(64, 32)(windows(16, 4, 3, 16)))
    rows = re.findall(r"acc\[\d+:\d+\] \+ X\[(\d+):", text)
    assert len(rows) == 12
    assert list(map(int, rows)) == sorted(map(int, rows))


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("lanes", [4, 7, 32])
@pytest.mark.parametrize("registers", [12, 32])
def test_windows_of_two_dimensions_give_equal_results(
    stride: int, dilation: int, lanes: int, registers: int
) -> None:
    """Y[h, w, c] += X[h * s + rh * d, w * s + rw * d, c] * K[rh, rw, c]."""
    size, window = 4, (2, 3)
    rows = (size - 1) * stride + 2 * dilation + 1
    h, w, rh, rw = Var("h"), Var("w"), Var("rh"), Var("rw")
    x, k, y = (
        decl_buffer((n * lanes,), name=name)
        for name, n in (("X", rows * rows), ("K", 6), ("Y", size * size))
    )

    def vector(place: Expr) -> tuple[Expr]:
        return (Ramp(place * lanes, IntImm(1), lanes),)

    at = vector(h * size + w)
    place = (h * stride + rh * dilation) * rows + (w * stride + rw * dilation)
    step = BufferLoad(x, vector(place)) * BufferLoad(k, vector(rh * 3 + rw))
    inner: Stmt = BufferStore(y, BufferLoad(y, at) + step, at)
    for var, extent in ((w, size), (h, size), (rw, window[1]), (rh, window[0])):
        inner = loop(var, extent, inner)
    func = func_of(inner, x, k, y)
    new = PromoteAccumulators(64, registers)(func)
    assert "Y.acc" in to_text(new)
    agree(func, new, rows * rows * lanes, 6 * lanes, size * size * lanes)


ROWS = """\
    for i in range(6):
        for k in range(41):
            for j in range(8):
                C[i * 8 + j] = C[i * 8 + j] + A[k * 48 + i * 8 + j]
"""
LONG = """\
    for k in range(41):
        C[3] = C[3] + A[k]
"""


@pytest.mark.parametrize(
    ("loops", "stored", "steps", "gone"),
    [
        ("ij", "C[i * 8 + j] = 5.0", ROWS, True),
        ("ji", "C[i * 8 + j] = 5.0", ROWS, False),
        ("ij", "C[i * 8 + j] = A[j]", ROWS, False),
        ("ij", "C[47 - i * 8 - j] = 5.0", ROWS, False),
        ("", "C[3] = 5.0", LONG, True),
        ("", "C[2] = 5.0", LONG, False),
    ],
)
def test_accumulators_begin_with_a_constant_that_is_stored_right_before(
    loops: str, stored: str, steps: str, gone: bool
) -> None:
    """The end of a sum that lanes do not divide goes on with what its first part stored."""
    text = "def main(A: Buffer((1968,), float32), C: Buffer((48,), float32)):\n"
    for depth, name in enumerate(loops, 1):
        text += f"{'    ' * depth}for {name} in range({6 if name == 'i' else 8}):\n"
    func = parse_func(f"{text}{'    ' * (len(loops) + 1)}{stored}\n{steps}")
    new = PromoteAccumulators()(func)
    values = [s.value for s in stmts(new.body) if isinstance(s, BufferStore)]
    assert any(str(value) in stored.split(" = ")[1] for value in values) != gone
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=n).astype(np.float32) for n in (1968, 48)]
    other = [x.copy() for x in arrays]
    interp.run(func, arrays)
    interp.run(new, other)
    np.testing.assert_allclose(arrays[1], other[1], rtol=1e-4, atol=1e-4)
