"""Names of other libraries say what to write here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from autosched import te
from autosched.te.operations import other_names

A: Any = te.placeholder((4, 8), name="A")
B: Any = te.compute((4, 8), lambda i, j: A[i, j] + 1.0, name="B")
S: Any = te.create_schedule(B.op)

CASES: list[tuple[Callable[[], object], str]] = [
    (lambda: te.clip, r"autosched\.te has no attribute 'clip'; write te\.max\(te\.min\(x, high"),
    (lambda: te.SpecializedCondition, "; write a schedule for each case, and an `if`"),
    (lambda: te.frobnicate, "autosched.te has no attribute 'frobnicate'$"),
    (lambda: A.T, r"'Tensor' object has no attribute 'T'; write te\.compute"),
    (lambda: A.nothing, "'Tensor' object has no attribute 'nothing'$"),
    (lambda: A.op.axis, "'PlaceholderOp' .*; write op.root_iter_vars"),
    (lambda: B.op.input_tensors, r"'ComputeOp' .*; write op\.inputs"),
    (lambda: S[B].rolling_buffer, r"'Stage' .*; write s\[B\]\.compute_at"),
    (lambda: S.rolling_buffer, "'Schedule' object"),
]


@pytest.mark.parametrize(("ask", "message"), CASES, ids=[text for _, text in CASES])
def test_a_missing_name_says_what_to_write(ask: Callable[[], object], message: str) -> None:
    with pytest.raises(AttributeError, match=message):
        ask()


def test_names_that_there_are_have_no_other() -> None:
    assert not other_names.OF_TE.keys() & set(te.__all__)
    assert not [name for name in other_names.OF_TENSORS if hasattr(A, name)]
    assert not [name for name in other_names.OF_SCHEDULES if hasattr(S[B], name)]
    assert set(te.__all__) <= set(dir(te))
