"""Tables of numbers in expressions: what they hold, how sums read them, what is refused."""

from __future__ import annotations

import ast
import re
from typing import Any

import numpy as np
import pytest

from autosched.errors import ConfigError
from autosched.search.space import SearchSpace
from autosched.state.iterator import Annotation
from autosched.target import cuda_target
from autosched.task import Task
from autosched.te.operations.operation import CONST_TENSOR_ATTR
from kit.sketches import assert_right

BLUR = """
w[r, s] = [[1, 2, 1], [2, -4, +2], [1, 2, 0.5]]
Y[y, x] = sum(r, s, X[y + r, x + s] * w[r, s])
"""


def test_a_filter_of_numbers() -> None:
    task = Task.from_expression(BLUR, {"X": (8, 9)})
    (x,) = task.inputs()
    (found,) = task.reference([x])
    w = np.array([[1, 2, 1], [2, -4, 2], [1, 2, 0.5]])
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3))
    np.testing.assert_allclose(found, np.einsum("yxrs,rs->yx", windows, w), rtol=1e-5, atol=1e-5)
    space = SearchSpace(task)
    assert_right(task, space.sketches, 3)
    for sketch in space.sketches:
        assert sketch.stages[1].is_inlined
        unrolled = [i.name for i in sketch.stages[2].iters if i.annotation is Annotation.UNROLL]
        assert unrolled == ["r", "s"]


def test_on_a_gpu_too() -> None:
    space = SearchSpace(Task.from_expression(BLUR, {"X": (66, 66)}, target=cuda_target()))
    assert space.sample(np.random.default_rng(0), 4)


@pytest.mark.parametrize(
    "value, hint",
    [
        ("sum(i, X[i, k] * w[i])", ["i"]),
        ("sum(i, X[i, k] * w[k // 8 + i])", []),
        ("sum(i, j, X[i, j] * w[i] * V[k])", []),  # along j nothing is unrolled
        ("X[0, k] * w[0]", []),
    ],
)
def test_sums_along_a_table_alone_are_unrolled(value: str, hint: list[str]) -> None:
    text = f"w[i] = [1, 2, 3]; Y[k] = {value}"
    shapes = {"X": (3, 4), "Y": (4,), **({"V": (4,)} if "V" in value else {})}
    op = Task.from_expression(text, shapes).tensors[-1].op
    assert op.attrs.get(CONST_TENSOR_ATTR, []) == hint


@pytest.mark.parametrize(
    "table, dtype, found",
    [
        ("[1, -2]", "float32", "float32"),
        ("[1, 2.0]", "int8", "int8"),
        ("[1, -2]", {"X": "float32"}, "int32"),
        ("[1, 0.5]", {"X": "float32"}, "float32"),
        ("[1, 0.5]", {"X": "float32", "w": "float64"}, "float64"),
    ],
)
def test_types(table: str, dtype: Any, found: str) -> None:
    task = Task.from_expression(f"w[i] = {table}; Y[i] = X[i] + 1", {"X": (2,)}, dtype=dtype)
    tensor = next(t for t in task.tensors if t.name == "w")
    assert tensor.dtype.name == found
    w = task.reference(task.inputs())[[t.name for t in task.tensors[1:]].index("w")]
    assert w.tolist() == ast.literal_eval(table)


@pytest.mark.parametrize(
    "expr, message",
    [
        ("w[i] = [1, [2]]", "in `w[i] = [1, [2]]`: a table has numbers, found [2]"),
        ("w[i, j] = [[1, 2], [3]]", "or rows of equal lengths: [1, 2, 1], [[1, 0], [0, 1]]; found"),
        ("w[i, j] = [1, 2]", "the table has 1 dimension, but the left side 2 names"),
        ("w[i] = []", "a table has numbers, or rows of equal lengths"),
        ("w[i] = [[]]", "a table has numbers, or rows of equal lengths"),
        ("w[i] = [X[0], 1]", "a table has numbers, found X[0]"),
        ("w[i] = [True]", "a table has numbers, found True"),
        ("w[i] = [1 << 2]", "a table has numbers, found 1 << 2"),
        ("w[i] = [9999999999999999999]", "a number of the table does not fit int64"),
        (f"w[i] = {list(range(257))}", "at most 256 numbers, found 257; make it an input"),
        ("w[i] = [1, 2]; Y[i] = w[i] * V[i]", "the shape (2,), but under shapes w has (3,)"),
        ("w[i] = [1, 2]; Y[i] = w[i] + w[i + 2]", "index i would have no elements in w[i + 2]"),
        ("Y[i] = X[i] * [1, 2][i]", "a table of numbers is a statement of its own: w[i] = [1, 2,"),
        ("Y[i] = X[i] * [1, 2]", "a table of numbers is a statement of its own: w[i] = [1, 2, 1]"),
    ],
)
def test_what_is_refused(expr: str, message: str) -> None:
    shapes = {"X": (2,)} if "X[" in expr else {}
    shapes |= {"V": (2,), "w": (3,)} if "V[" in expr else {}
    with pytest.raises(ConfigError, match=re.escape(message)):
        Task.from_expression(expr, shapes)


@pytest.mark.parametrize(
    "table, dtype, number",
    [
        ("[1, 0.5]", "int8", "int8 holds no 0.5"),
        ("[1, 300]", "int8", "int8 holds no 300"),
        ("[-1]", "uint8", "uint8 holds no -1"),
        ("[1e400]", "int32", "int32 holds no inf"),
        ("[3000000000]", {"w": "int32"}, "int32 holds no 3000000000"),
    ],
)
def test_what_types_do_not_hold(table: str, dtype: Any, number: str) -> None:
    with pytest.raises(ConfigError, match=f"a table of {number}; give the tensor another type"):
        Task.from_expression(f"w[i] = {table}", {}, dtype=dtype)
