"""Which loops HintBorders marks to be cut at a border."""

from __future__ import annotations

import pytest

from autosched.tir.parser import parse_func
from autosched.transform.vector.hint_borders import HintBorders

COPIED = """
def main(X: Buffer((16,), float32), P: Buffer((18,), float32)):
    for i in range(18):
        P[i] = {value}
"""


@pytest.mark.parametrize(
    ("value", "marked"),
    [
        ("if_then_else(1 <= i and i < 17, X[i - 1], 0.0)", True),
        ("if_then_else(1 <= i and i < 17 and i % 2 == 0, X[i - 1], 0.0)", True),
        ("max(0.0, if_then_else(1 <= i and i < 17, X[i - 1], 0.0))", False),
        ("if_then_else(0.0 < X[0], X[0], 0.0)", False),
        ("X[0]", False),
    ],
)
def test_copies_of_what_a_condition_on_the_loop_chooses_are_marked(
    value: str, marked: bool
) -> None:
    hinted = HintBorders()(parse_func(COPIED.format(value=value)))
    assert ("loop_partition_hint" in str(hinted)) == marked
