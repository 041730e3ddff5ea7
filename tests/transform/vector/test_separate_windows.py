"""SeparateWindows: windows of any size and stride have the same extremes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched import te
from autosched.driver import lower
from autosched.target import HardwareParams, Target
from autosched.tir import interp
from autosched.tir.expr import Expr, Var
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text
from autosched.transform.framework.context import PassContext
from autosched.transform.vector.separate_windows import SeparateWindows
from kit.te import compute_of


@settings(max_examples=20, deadline=None)
@given(
    st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 3)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.integers(1, 3), st.integers(8, 37)),
    st.sampled_from(["float32", "float64", "int32", "int8"]),
    st.booleans(),
    st.sampled_from([16, 32, 64]),
)
def test_windows(
    window: tuple[int, int, int],
    strides: tuple[int, int],
    outputs: tuple[int, int],
    dtype: str,
    least: bool,
    vector_bytes: int,
) -> None:
    """Compared with NumPy; NaN passes."""
    depth, (height, width) = window[0], window[1:]
    size = [(n - 1) * s + w for n, s, w in zip(outputs, strides, (height, width), strict=True)]
    A = te.placeholder((depth, *size), dtype, name="A")
    d, r, s = (te.reduce_axis((0, n), name=v) for n, v in zip(window, "drs", strict=True))

    def value(i: Var, j: Var) -> Expr:
        found: Expr = (te.min if least else te.max)(
            A[d, i * strides[0] + r, j * strides[1] + s], axis=[d, r, s]
        )
        return found

    B = te.compute(outputs, value, name="B")
    sch = te.create_schedule(B.op)
    if depth > 1:  # rows of the image together
        i, j = compute_of(B).axis
        sch[B].reorder(d, i, j)
    func = lower(sch, [A, B], Target("cpu", HardwareParams(4), 4, "x86-64", "", "", vector_bytes))
    a = np.random.default_rng(0).integers(-9, 9, (depth, *size)).astype(dtype)
    if a.dtype.kind == "f":
        a[0, 0, 0] = np.nan
    b = np.zeros(outputs, dtype)
    interp.run(func, [a, b])
    views = np.lib.stride_tricks.sliding_window_view(a, (height, width), (1, 2))
    views = views[:, :: strides[0], :: strides[1]]
    expected = (np.min if least else np.max)(views, axis=(0, 3, 4))
    np.testing.assert_array_equal(b, expected)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("lanes", "vector_bytes"), [(8, 16), (16, 32), (24, 64), (32, 64)])
def test_vectors_wider_than_a_register(lanes: int, vector_bytes: int, stride: int) -> None:
    A = te.placeholder((4, (lanes - 1) * stride + 3), name="A")
    r, s = (te.reduce_axis((0, 3), name=v) for v in "rs")

    def value(i: Var, j: Var) -> Expr:
        found: Expr = te.max(A[i + r, j * stride + s], axis=[r, s])
        return found

    B = te.compute((2, lanes), value, name="B")
    sch = te.create_schedule(B.op)
    i, j = compute_of(B).axis
    outer, inner = sch[B].split(j, factor=lanes)
    sch[B].reorder(i, outer, r, s, inner)
    sch[B].vectorize(inner)
    func = lower(sch, [A, B], Target("cpu", HardwareParams(4), 4, "x86-64", "", "", vector_bytes))
    assert "A.columns" in to_text(func)
    a = np.random.default_rng(0).normal(size=(4, (lanes - 1) * stride + 3)).astype("float32")
    b = np.zeros((2, lanes), "float32")
    interp.run(func, [a, b])
    views = np.lib.stride_tricks.sliding_window_view(a, (3, 3))[:, ::stride]
    np.testing.assert_array_equal(b, views.max((2, 3)))


MANY_COLUMNS = """
def main(X: Buffer((99,), float32), Y: Buffer((20,), float32)):
    Y.acc = allocate((20,), float32, "local")
    for k in unrolled(2):
        for j in unrolled(3):
            Y.acc[0:4] = max(Y.acc[0:4], X[ramp(k * 50 + j, 2, 4)])
            Y.acc[4:8] = max(Y.acc[4:8], X[ramp(k * 50 + j + 8, 2, 4)])
            Y.acc[8:12] = max(Y.acc[8:12], X[ramp(k * 50 + j + 16, 2, 4)])
            Y.acc[12:16] = max(Y.acc[12:16], X[ramp(k * 50 + j + 24, 2, 4)])
            Y.acc[16:20] = max(Y.acc[16:20], X[ramp(k * 50 + j + 32, 2, 4)])
    Y[0:20] = Y.acc[0:20]
"""


def test_accumulators_in_turn_where_not_all_columns_fit() -> None:
    """Eleven vectors of columns and five accumulators, 12 registers: three columns at once."""
    func = parse_func(MANY_COLUMNS)
    ctx = PassContext()
    done = SeparateWindows(16, 16).apply(func, ctx)
    lines = [line.strip() for line in to_text(done).splitlines()]
    start = lines.index("X.columns[0:4] = max(X[0:4], X[50:54])")
    assert lines[start : start + 6] == [
        "X.columns[0:4] = max(X[0:4], X[50:54])",
        "X.columns[4:8] = max(X[4:8], X[54:58])",
        "X.columns[8:12] = max(X[8:12], X[58:62])",
        "Y.acc[0:4] = max(max(max(Y.acc[0:4], "
        "shuffle([X.columns[0:4], X.columns[4:8]], [0, 2, 4, 6])), "
        "shuffle([X.columns[0:4], X.columns[4:8]], [1, 3, 5, 7])), "
        "shuffle([shuffle([X.columns[0:4], X.columns[4:8]], [2, 4, 6, 0]), "
        "X.columns[8:12]], [0, 1, 2, 4]))",
        "X.columns[12:16] = max(X[12:16], X[62:66])",
        "X.columns[16:20] = max(X[16:20], X[66:70])",
    ]
    assert sum("X.columns" in line.split(" = ")[0] for line in lines) == 12  # one allocates
    x = np.random.default_rng(0).normal(size=99).astype("float32")
    before, after = np.zeros((2, 20), "float32")
    interp.run(func, [x, before])
    interp.run(done, [x, after])
    np.testing.assert_array_equal(before, after)
    # Windows of 32 columns use more vectors than there are registers beside the accumulators.
    text = MANY_COLUMNS.replace("unrolled(3)", "unrolled(32)").replace("k * 50", "k * 99")
    wide = parse_func(text.replace("(99,)", "(200,)"))
    assert SeparateWindows(16, 16).apply(wide, ctx) is wide


ROWS = """
def main(X: Buffer(({size},), float32), Y: Buffer((16,), float32)):
    for h in range(2):
        Y.acc = allocate((8,), float32, "local")
        Y.acc[0:8] = broadcast(0.0, 8)
        for i in unrolled(2):
            for j in unrolled(3):
                Y.acc[0:4] = max(Y.acc[0:4], X[ramp(h * {row} + i * {row} + j + 3, 2, 4)])
                Y.acc[4:8] = max(Y.acc[4:8], X[ramp(h * {row} + i * {row} + j + 11, 2, 4)])
        Y[h * 8:h * 8 + 8] = Y.acc[0:8]
"""


@pytest.mark.parametrize(
    ("row", "size", "starts"),
    [
        (20, 60, [0, 4, 8, 12, 16]),  # columns 3 to 19, five vectors either way
        (24, 72, [0, 4, 8, 12, 16]),
        (22, 66, [3, 7, 11, 15, 16]),  # the second row begins in the middle of a vector
        (20, 61, [3, 7, 11, 15, 16]),  # what is behind the last whole vector may be read of none
    ],
)
def test_rows_of_whole_vectors_are_read_from_one_on(row: int, size: int, starts: list[int]) -> None:
    func = parse_func(ROWS.format(row=row, size=size))
    done = SeparateWindows(16).apply(func, PassContext())
    first = [line.split("max(X[")[1].split(":")[0] for line in to_text(done).splitlines()[5:10]]
    assert first == [f"h * {row}" + (f" + {start}" if start else "") for start in starts]
    x = np.random.default_rng(0).normal(size=size).astype("float32")
    before, after = np.zeros((2, 16), "float32")
    interp.run(func, [x, before])
    interp.run(done, [x, after])
    np.testing.assert_array_equal(before, after)


def test_a_long_loop_takes_no_memory() -> None:
    """A maximum over more elements than a window may have, without a list of them."""
    func = parse_func("""
def main(X: Buffer((16000000,), float32), Y: Buffer((16,), float32)):
    Y.acc = allocate((16,), float32, "local")
    Y.acc[0:16] = broadcast(0.0, 16)
    for k in range(1000000):
        Y.acc[0:16] = max(Y.acc[0:16], X[k * 16:k * 16 + 16])
    Y[0:16] = Y.acc[0:16]
""")
    tracemalloc.start()
    try:
        assert SeparateWindows(64).apply(func, PassContext()) is func
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
