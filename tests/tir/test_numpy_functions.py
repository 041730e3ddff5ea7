"""NumPy's operators and functions beside expressions and tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.tir import op
from autosched.tir.expr import Var
from autosched.tir.numpy_functions import _HERE

I: Any = Var("i")  # for mypy NumPy's operators take what NumPy knows
X: Any = Var("x", "float32")
A: Any = te.placeholder((2, 3), name="A")

MADE: list[tuple[Callable[[], object], str]] = [
    (lambda: np.float32(2.5) * X, "2.5 * x"),
    (lambda: np.array(2.5) * X, "2.5 * x"),
    (lambda: X - np.array(2.5), "x - 2.5"),
    (lambda: np.int64(7) - I, "7 - i"),
    (lambda: np.int64(7) // I, "7 // i"),
    (lambda: np.float64(2) > X, "x < 2.0"),
    (lambda: op.as_expr(np.array(2) == I), "i == 2"),
    (lambda: op.as_expr(np.not_equal(I, 2)), "i != 2"),
    (lambda: np.add(X, 1), "x + 1.0"),
    (lambda: I ** np.int64(2), "i * i"),
    (lambda: I ** te.const(3), "i * (i * i)"),
    (lambda: np.negative(X), "x * -1.0"),
    (lambda: np.abs(X), "fabs(x)"),
    (lambda: te.max(X, np.array(0.5)), "max(x, 0.5)"),
    (lambda: (np.array(2.0) * A).op.body[0], "2.0 * A[ax0, ax1]"),
    (lambda: (A + np.float32(1)).op.body[0], "A[ax0, ax1] + 1.0"),
]


@pytest.mark.parametrize(("make", "text"), MADE, ids=[text for _, text in MADE])
def test_numbers_of_numpy_are_operands(make: Callable[[], object], text: str) -> None:
    assert repr(make()) == text


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: np.exp(X), r"numpy\.exp takes arrays, found x; write te\.exp"),
    (lambda: np.maximum(X, 0), r"numpy\.maximum takes .*; write te\.max"),
    (lambda: np.where(X > 0, X, 0), r"numpy\.where .*x > 0\.0, x; write te\.if_then_else"),
    (lambda: np.sum(A), r"numpy\.sum .*Tensor\(A.*; write te\.sum over a te\.reduce_axis"),
    (lambda: np.dot(A, A), r"numpy\.dot .*; write te\.sum of products"),
    (lambda: np.flip(A), r"numpy\.flip .*; write the functions of te"),
    (lambda: np.add.reduce(A), r"numpy\.add takes arrays"),
    (lambda: np.ones((2, 3)) * A, r"an array of shape \(2, 3\); make it an input"),
    (lambda: A + np.ones((2, 3)), r"an array of shape \(2, 3\); make it an input"),
    (lambda: np.ones(2) * X, r"an array of shape \(2,\); make it an input"),
    (lambda: np.asarray(A), r"Tensor\(A: .* holds no numbers"),
]


@pytest.mark.parametrize(("ask", "message"), REFUSED, ids=[text for _, text in REFUSED])
def test_functions_and_arrays_are_refused(ask: Callable[[], Any], message: str) -> None:
    """They made arrays of objects, or gave a tensor back as its own sum."""
    with pytest.raises(TypeError, match=message):
        ask()


def test_what_is_written_instead_exists() -> None:
    for remedy in _HERE.values():
        assert remedy.split()[0] in te.__all__, remedy
