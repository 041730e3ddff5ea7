"""Which loops HintBorders marks to be cut at a border."""

from __future__ import annotations

import pytest

from autosched.tir.parser import parse_func
from autosched.transform.vector.hint_borders import HintBorders

COPIED = """
def main(X: Buffer((16,), float32), P: Buffer((18,), float32)):
    for i in range(18):
        P[i] = if_then_else({condition}, X[{place}], 0.0)
"""
BORDER = "1 <= i and i < 17"
REMAINDER = f"{BORDER} and i % 2 == 0"


@pytest.mark.parametrize(
    ("condition", "remainders", "marked"),
    [
        (BORDER, True, True),
        (BORDER, False, True),
        (REMAINDER, True, True),
        (REMAINDER, False, False),
        ("1 <= i // 2 and i % 2 < 1", False, True),
    ],
)
def test_copies_that_ask_for_remainders_are_marked_on_request(
    condition: str, remainders: bool, marked: bool
) -> None:
    func = parse_func(COPIED.format(condition=condition, place="i - 1"))
    hinted = HintBorders(remainders=remainders)(func)
    assert ("loop_partition_hint" in str(hinted)) == marked
