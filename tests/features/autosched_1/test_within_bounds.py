"""Programs inside of all borders: which conditions are gone, and which are none of a border."""

from __future__ import annotations

import pytest

from autosched.features.autosched_1.within_bounds import within_bounds
from autosched.tir.parser import parse_func

PROGRAM = """
def main(X: Buffer((64,), float32), V: Buffer((64,), float32), Y: Buffer((64,), float32)):
    for i in range(4):
        for j in range(16):
            {statement}
"""
_THEN = "\n                "


@pytest.mark.parametrize(
    ("statement", "inside"),
    [
        (
            f"if likely(i * 16 + j < 57):{_THEN}Y[i * 16 + j] = X[i * 16 + j]",
            "Y[i * 16 + j] = X[i * 16 + j]",
        ),
        (
            f"if likely(i * 16 + j < 57) and i < 3:{_THEN}Y[j] = X[j]",
            f"if i < 3:{_THEN}Y[j] = X[j]",
        ),
        ("Y[j] = if_then_else(1 <= j, X[j - 1], 0.0)", "Y[j] = X[j - 1]"),
        (
            "Y[j] = max(Y[j], if_then_else(1 <= i + j and i + j < 17, X[i + j - 1], -1.0))",
            "Y[j] = max(Y[j], X[i + j - 1])",
        ),
        (
            "Y[j] = Y[j] + if_then_else(1 <= j, X[j - 1], 0.0) * V[i]",
            "Y[j] = Y[j] + X[j - 1] * V[i]",
        ),
    ],
)
def test_conditions_of_borders_hold(statement: str, inside: str) -> None:
    func = parse_func(PROGRAM.format(statement=statement))
    assert str(within_bounds(func)) == str(parse_func(PROGRAM.format(statement=inside)))


@pytest.mark.parametrize(
    "statement",
    [
        f"if i * 16 + j < 57:{_THEN}Y[j] = X[j]",
        "Y[j] = if_then_else(j % 2 == 0, X[j // 2], 0.0)",
        "Y[j] = if_then_else(0.0 < X[j], X[j], 0.0)",
        "Y[j] = if_then_else(j < 8, X[j], V[j])",
    ],
    ids=["not likely", "zeros are inserted", "a value decides", "what is outside is no constant"],
)
def test_other_conditions_stay(statement: str) -> None:
    func = parse_func(PROGRAM.format(statement=statement))
    assert str(within_bounds(func)) == str(func)
