"""JoinWindows: the extremes of a row with borders are those of NumPy, in one piece."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched import te
from autosched.driver import lower
from autosched.target import HardwareParams, Target
from autosched.tir import interp
from autosched.tir.expr import Expr, Var
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text
from autosched.tir.stmt import SeqStmt
from autosched.transform.framework.context import PassContext
from autosched.transform.vector.join_windows import JoinWindows
from autosched.transform.vector.row_extremes import RowExtremes
from kit.tir import number_of


def pooled(
    size: tuple[int, int],
    window: int,
    stride: int,
    padding: int,
    dtype: str,
    least: bool,
    vector_bytes: int,
    fill: int | None = None,
) -> PrimFunc:
    """A pooling whose border asks for itself, lowered."""
    height, width = size
    A = te.placeholder(size, dtype, name="A")
    ends = (te.min_value, te.max_value)
    outside = ends[least](dtype) if fill is None else te.const(fill, dtype)

    def padded(i: Var, j: Var) -> Expr:
        inside = te.all(i >= padding, i < height + padding, j >= padding, j < width + padding)
        found: Expr = te.if_then_else(inside, A[i - padding, j - padding], outside)
        return found

    P = te.compute((height + 2 * padding, width + 2 * padding), padded, name="P")
    r, s = (te.reduce_axis((0, window), name=v) for v in "rs")
    rows, columns = ((n + 2 * padding - window) // stride + 1 for n in size)

    def value(i: Var, j: Var) -> Expr:
        found: Expr = (te.min if least else te.max)(P[i * stride + r, j * stride + s], axis=[r, s])
        return found

    B = te.compute((rows, columns), value, name="B")
    sch = te.create_schedule(B.op)
    sch[P].compute_inline()
    return lower(sch, [A, B], Target("cpu", HardwareParams(4), 4, "x86-64", "", "", vector_bytes))


@settings(max_examples=25, deadline=None)
@given(
    st.tuples(st.integers(3, 5), st.integers(5, 37)),
    st.integers(2, 4),
    st.integers(1, 3),
    st.integers(0, 2),
    st.sampled_from(["float32", "float64", "int32", "int8"]),
    st.booleans(),
    st.sampled_from([16, 32, 64]),
    st.sampled_from([None, -3, 5]),
)
def test_pooling(
    size: tuple[int, int],
    window: int,
    stride: int,
    padding: int,
    dtype: str,
    least: bool,
    vector_bytes: int,
    fill: int | None,
) -> None:
    """Compared with NumPy; NaN passes."""
    padding, window = min(padding, window - 1), min(window, size[0])
    func = pooled(size, window, stride, padding, dtype, least, vector_bytes, fill)
    a = np.random.default_rng(0).integers(-9, 9, size).astype(dtype)
    if a.dtype.kind == "f":
        a[1, 1] = np.nan
    lowest, highest = (number_of(end(dtype)) for end in (te.min_value, te.max_value))
    outside = (highest if least else lowest) if fill is None else fill
    edges = np.pad(a, padding, constant_values=outside)
    views = np.lib.stride_tricks.sliding_window_view(edges, (window, window))
    views = views[::stride, ::stride]
    b = np.zeros(views.shape[:2], dtype)
    interp.run(func, [a, b])
    np.testing.assert_array_equal(b, (np.min if least else np.max)(views, axis=(2, 3)))


@pytest.mark.parametrize(("stride", "width"), [(1, 21), (2, 42)])
def test_rows_have_no_scalars(stride: int, width: int) -> None:
    """21 outputs are two vectors of 16; the padded rows above and below, too."""
    text = to_text(pooled((7, width), 3, stride, 1, "float32", False, 64))
    assert "B.acc" not in text
    assert "B_1[0:16]" in text
    assert "B_1[5:21]" in text


COPIES = """\
def main(X: Buffer((40,), float32), Y: Buffer((400,), float32)):
    Y[0:3] = max(max(max(max(broadcast({one}, 3), X[0:3]), X[20:23]), X[1:4]), X[21:24])
    Y[{at}] = max(max(max(max({two}, X[{x}]), X[{x} + 20]), X[{y}]), X[{y} + 20])
"""


@pytest.mark.parametrize(
    ("changes", "joined"),
    [
        ({}, True),
        ({"two": -3.4028234663852886e38, "one": -3.4028235e38}, True),  # of one bit pattern
        ({"two": 1.0}, False),
        ({"at": 4}, False),
        ({"x": 5, "y": 6}, False),
        ({"x": 3, "y": 3}, True),
        ({"x": 4, "y": 4}, True),
        ({"x": 2, "y": 2}, False),
        ({"x": 1, "y": 1}, False),
    ],
)
def test_what_is_a_row(changes: dict[str, float], joined: bool) -> None:
    """One constant, outputs without a gap, windows that move by the stride but for the border."""
    values = {"one": 0.0, "two": 0.0, "at": 3, "x": 3, "y": 4, **changes}
    func = parse_func(COPIES.format(**values))
    done = JoinWindows().apply(func, PassContext())
    assert ("X.columns" in to_text(done)) == joined
    assert joined or done is func
    x = np.random.default_rng(0).normal(size=40).astype("float32")
    one, two = np.zeros(400, "float32"), np.zeros(400, "float32")
    interp.run(func, [x, one])
    interp.run(done, [x, two])
    np.testing.assert_array_equal(one, two)


def test_a_statement_that_is_refused_leaves_no_trace() -> None:
    func = parse_func("""\
def main(X: Buffer((40,), float32), Z: Buffer((40,), float32), Y: Buffer((40,), float32)):
    Y[0:4] = max(X[0:4], X[20:24])
    for i in range(2):
        Y[i + 10] = max(X[i + 4], X[i + 24])
        Y[i + 30] = max(X[i], Z[i])
    Y[4] = min(X[4], X[24])
    Y[4] = max(X[4], X[24])
""")
    assert isinstance(func.body, SeqStmt)
    row = RowExtremes()
    assert [row.take(part) for part in func.body.stmts] == [True, False, False, True]
    assert sorted(row.outputs) == [0, 1, 2, 3, 4]
