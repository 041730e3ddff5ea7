"""Tensors as Python objects: indices, comparisons, iteration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from autosched import te

A: Any = te.placeholder((4, 8), name="A")
B: Any = te.placeholder((4, 8), name="B")


@pytest.mark.parametrize(
    "compare",
    [
        lambda: A == 0,
        lambda: A != 0,
        lambda: te.var("x") == A,
        lambda: A > 0,
        lambda: A <= B,
        lambda: te.compute((4,), lambda i: te.if_then_else(A == B, 1.0, 0.0)),
    ],
)
def test_tensors_are_not_compared_by_value(compare: Callable[[], object]) -> None:
    """`A == 0` was False, whatever its elements."""
    with pytest.raises(TypeError, match=r"Tensor\(A: .* is compared with .*; compare elements, as"):
        compare()


def test_tensors_are_objects() -> None:
    assert A == A and A != B and A != "A" and A in [B, A] and {A: 1}[A] == 1
    assert te.compute((4,), lambda i: A[i, 0] if A == A else B[i, 0]).op.inputs == (A,)


def test_tensors_are_not_iterated() -> None:
    """A tensor of one dimension was, without an end."""
    V = te.placeholder((4,), name="V")
    for tensor in (A, V):
        with pytest.raises(TypeError, match=r"cannot be iterated; use te\.compute and te"):
            list(tensor)


def test_an_index_for_each_dimension() -> None:
    with pytest.raises(ValueError, match=r"A has 2 dimensions, found 1 indices; give one for each"):
        A[0]
    with pytest.raises(TypeError, match=r"A: an index is an integer: .* found ellipsis"):
        A[..., 0]


def test_tensors_and_regions_are_no_values() -> None:
    with pytest.raises(TypeError, match=r"found Tensor .*; read its elements, as te\.compute"):
        te.exp(A)
    with pytest.raises(TypeError, match=r"found TensorRegion .*; .* sum over a te\.reduce_axis k"):
        te.compute((4,), lambda i: A[i, :])
