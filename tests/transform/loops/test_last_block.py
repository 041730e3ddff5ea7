"""What is left of conditions in the last block of an axis."""

from __future__ import annotations

import pytest

from autosched.tir.expr import Expr, FloorMod, Var
from autosched.tir.op import lt
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text
from autosched.tir.walk import unique_exprs
from autosched.transform.loops.last_block import only_failing, with_value
from autosched.transform.loops.loop_interval import as_part

f, g = Var("f"), Var("g")
BLOCK = f % 4


def failing(*conditions: Expr) -> tuple[Expr, int] | None:
    parts = [part for part in map(as_part, conditions) if part is not None]
    assert len(parts) == len(conditions)
    return only_failing(parts, {f: (0, 11)})


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (BLOCK * 8 <= 20, (BLOCK, 3)),  # 24 alone is more
        (BLOCK * 8 <= 16, (BLOCK, 3)),
        (BLOCK * 8 <= 15, None),  # 16 and 24
        (BLOCK * 8 <= 24, None),  # none
        (BLOCK * -2 <= -1, (BLOCK, 0)),
        (BLOCK * -2 <= -2, (BLOCK, 0)),
        (BLOCK * -2 <= -3, None),  # 0 and 1
        (f // 4 * 10 < 20, (f // 4, 2)),
        (f < 11, (f, 11)),
        (g < 11, None),  # nothing is known of g
        (f // 4 + BLOCK < 5, None),  # depends on two digits
    ],
)
def test_only_failing(condition: Expr, expected: tuple[Expr, int] | None) -> None:
    assert failing(condition) == expected


def test_several_conditions_fail_for_the_same_value() -> None:
    assert failing(lt(BLOCK * 8, 20), lt(BLOCK * 4, 12)) == (BLOCK, 3)
    assert failing(lt(BLOCK * 8, 20), lt(BLOCK * -4, 0)) is None  # 3 and 0
    assert failing(lt(BLOCK * 8, 20), lt(f // 4, 2)) is None  # of two digits


def test_with_value() -> None:
    func = parse_func(
        """
def main(A: Buffer((12,), float32)):
    for f in parallel(12):
        for i in range(f % 4):
            if f % 4 + i < 5:
                A[f % 4 * 3 + f // 4] = float32(f % 4) + float32(i)
"""
    )
    (digit,) = {e for e in unique_exprs(func.body) if isinstance(e, FloorMod)}
    done = to_text(func.with_body(with_value(func.body, digit, 3)))
    assert "f % 4" not in done
    assert "A[9 + f // 4] = 3.0 + float32(i)" in done
