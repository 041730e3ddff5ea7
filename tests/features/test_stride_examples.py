"""The coefficient heuristic on worked examples, quirks included."""

import pytest

from autosched.features.ansor.stride import stride_along
from autosched.tir.expr import Add, Expr, IntImm, Mul, Var

i, j, k, v, y = (Var(name) for name in "ijkvy")


@pytest.mark.parametrize(
    ("index", "var", "expected"),
    [
        (k * 128 + i * 16 + j, k, 16),  # the later product overwrites 128
        (k * 128 + i * 16 + j, i, 16),
        (k * 128 + i * 16 + j, j, 1),
        (i * 16 + j, i, 16),
        (v + y * 4, v, 4),
        ((i + j) * 4, i, 1),
        ((i + j) * 4, j, 1),
        (i // 4, i, 1),
        (i // 4 * 8 + j, i, 8),
        (i % 4 * 16, i, 16),
        (i - 3, i, 1),
        (j * 4 + Add(i, IntImm(1)), i, 1),
        (Mul(IntImm(4), i), i, 4),
    ],
)
def test_examples(index: Expr, var: Var, expected: int) -> None:
    assert stride_along([(index,)], (1024,), var) == expected


def test_outer_dimensions_multiply() -> None:
    assert stride_along([(i, j)], (8, 32), i) == 32
    assert stride_along([(i * 2, j)], (8, 32), i) == 64
    assert stride_along([(i, j)], (8, 32), k) == 0


def test_the_least_of_several_accesses_counts() -> None:
    assert stride_along([(i, j), (j, i)], (8, 32), i) == 1


def test_a_scalar_has_stride_one() -> None:
    assert stride_along([()], (), i) == 1
