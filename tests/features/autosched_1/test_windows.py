"""What the border makes of reductions over windows."""

from __future__ import annotations

import pytest

from autosched.features.autosched_1.windows import Border, border_of, window_of
from autosched.features.walk.scope import BufferInfo
from autosched.features.walk.visitor import Nest
from autosched.tir.expr import Var
from autosched.tir.parser import parse_func
from autosched.tir.stmt import BufferStore


class Borders:
    """Notes what becomes of each window, and what it is inside."""

    def __init__(self) -> None:
        self.found: list[Border] = []
        self.inside: list[str] = []

    def store(self, stmt: BufferStore, nest: Nest) -> None:
        window = window_of(stmt)
        if window is not None:
            self.found.append(border_of(window, nest))
            self.inside.append(str(window.inside.value))

    def allocation(self, data: Var, info: BufferInfo, extents: list[int], nest: Nest) -> None:
        """Nothing is allocated."""


POOLED = """
def main(X: Buffer((16,), float32), Y: Buffer((16,), float32)):
    for tile in range(4):
        for i in range(4):
            Y[tile * 4 + i] = -1.0
        for i_1 in range(4):
            for k in range(3):
                Y[tile * 4 + i_1] = max(Y[tile * 4 + i_1], {chosen})
"""
BOTH = "1 <= tile * 4 + i_1 + k and tile * 4 + i_1 + k < 17"


def borders(condition: str) -> Borders:
    chosen = f"if_then_else({condition}, X[tile * 4 + i_1 + k - 1], -1.0)"
    found = Borders()
    Nest(parse_func(POOLED.format(chosen=chosen)), found)
    return found


@pytest.mark.parametrize(
    ("condition", "border"),
    [
        (BOTH, Border(0.5, 0.5, 3)),
        ("1 <= tile * 4 + i_1 + k", Border(0.75, 0.25, 3)),
        ("tile * 4 + i_1 < 15", Border(0.75, 0.25, 2)),
        ("1 <= tile", Border(0.75, 0.25, 1)),
        ("tile * 4 + i_1 + k < 18", Border(1.0, 0.0, 0)),
        ("1 <= i_1 + k", Border(0.0, 1.0, 3)),
        ("1 <= tile // 2 * 8 + i_1 + k", Border(0.5, 0.5, 3)),
    ],
)
def test_nests_are_inside_where_all_their_windows_are(condition: str, border: Border) -> None:
    found = borders(condition)
    assert found.found == [border]
    assert found.inside == ["max(Y[tile * 4 + i_1], X[tile * 4 + i_1 + k - 1])"]


def test_what_cannot_be_told_counts_as_not_inside() -> None:
    assert borders("1 <= (tile + i_1) // 2 + k").found == [Border(0.0, 1.0, 3)]


def test_other_conditions_are_no_borders() -> None:
    assert borders("tile % 2 == 0").found == []
    assert borders("1 <= tile or tile < 3").found == []
