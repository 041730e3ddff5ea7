"""SeparateWindows: windows of any size and stride have the same extremes."""

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
from autosched.tir.printer import to_text
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
    assert ("A.columns" in to_text(func)) == (stride == 1 or vector_bytes == 64)
    a = np.random.default_rng(0).normal(size=(4, (lanes - 1) * stride + 3)).astype("float32")
    b = np.zeros((2, lanes), "float32")
    interp.run(func, [a, b])
    views = np.lib.stride_tricks.sliding_window_view(a, (3, 3))[:, ::stride]
    np.testing.assert_array_equal(b, views.max((2, 3)))
