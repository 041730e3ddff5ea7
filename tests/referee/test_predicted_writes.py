"""The stores of a function alone, and what they write."""

from __future__ import annotations

import inspect
import textwrap

import numpy as np
import pytest

from autosched.referee import predicted_writes as module
from autosched.referee.predicted_writes import (
    UnpredictableError,
    predicted_writes,
    stores_alone,
)
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text


def _examples() -> tuple[str, str]:
    text = inspect.getdoc(module)
    assert text is not None
    before, after = text.split("before:\n")[1].split("after:\n")
    return textwrap.dedent(before), textwrap.dedent(after)


def test_the_docstring_shows_what_happens() -> None:
    before, after = _examples()
    func = parse_func(before)
    assert to_text(func.with_body(stores_alone(func.body, {"B"}))).strip() == after.strip()


def test_blocks_write_their_elements() -> None:
    func = parse_func(_examples()[0])
    written = predicted_writes(func, {"B"}, lambda extents: np.array([1, 3]))["B"]
    assert sorted(set(np.flatnonzero(written) // 30)) == [2, 3, 6, 7]
    assert written.sum() == 4 * 30


def test_a_loop_that_may_be_empty_writes_nothing() -> None:
    text = """\
    def main(A: Buffer((8,), float32), B: Buffer((8,), float32)):
        launch(threadIdx.x, 8)
        for k in range(threadIdx.x // 4):
            B[threadIdx.x] = A[k]
    """
    written = predicted_writes(parse_func(textwrap.dedent(text)), {"B"})["B"]
    assert written.tolist() == [False] * 4 + [True] * 4


def test_conditions_on_data_cannot_be_told() -> None:
    text = """\
    def main(A: Buffer((8,), float32), B: Buffer((8,), float32)):
        launch(threadIdx.x, 8)
        if A[threadIdx.x] > 0.0:
            B[threadIdx.x] = 1.0
    """
    with pytest.raises(UnpredictableError, match="reads memory"):
        predicted_writes(parse_func(textwrap.dedent(text)), {"B"})
