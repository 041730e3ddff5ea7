"""Which elements a statement stores, if extremes are all that it computes."""

from __future__ import annotations

import pytest

from autosched.tir.parser import parse_func
from autosched.transform.vector.row_outputs import outputs_of

ROW = """
def main(X: Buffer((64,), float32), Y: Buffer((64,), float32), n: int32):
{body}
"""


def places(body: str) -> set[int] | None:
    lines = "\n".join("    " + line for line in body.splitlines())
    found = outputs_of(parse_func(ROW.format(body=lines)).body)
    return None if found is None else found.places


def test_loops_and_lanes_move_the_outputs() -> None:
    loops = "for i in range(2):\n    for k in range(3):\n        "
    value = "max(Y[n + i * 4:n + i * 4 + 4], X[i * 9 + k:i * 9 + k + 4])"
    assert places(f"{loops}Y[n + i * 4:n + i * 4 + 4] = {value}") == set(range(8))
    assert places("for i in range(3):\n    Y[i * 2 + 1] = X[i]") == {1, 3, 5}


def test_what_is_in_registers_meanwhile_is_no_output() -> None:
    held = 'with a = allocate((1,), float32, "local"):\n    a[0] = X[0]\n    Y[5] = max(a[0], X[1])'
    assert places(held) == {5}


@pytest.mark.parametrize(
    "body",
    [
        "Y[0] = X[0] + X[1]",
        "Y[0] = max(X[0], X[1] * 2.0)",
        "for i in range(n):\n    Y[i] = X[i]",
        "for i in parallel(4):\n    Y[i] = X[i]",
        "for i in range(5000):\n    Y[0] = X[0]",
        "for i in range(4):\n    Y[i // 2] = X[i]",
        "Y[0] = X[0]\nX[1] = X[2]",
    ],
)
def test_anything_else_is_none(body: str) -> None:
    assert places(body) is None
