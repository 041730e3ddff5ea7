"""The state of the coefficient heuristic between dimensions and tuples."""

from autosched.features.ansor.stride import stride_along
from autosched.tir.expr import Var

i, j = Var("i"), Var("j")


def test_the_coefficient_of_the_last_dimension_that_holds_the_variable_counts() -> None:
    assert stride_along([(i * 4, i)], (8, 32), i) == 1


def test_a_missing_dimension_counts_its_whole_shape() -> None:
    assert stride_along([(i, j, j)], (2, 3, 5), i) == 15
    assert stride_along([(i, j, j)], (2, None, 5), i) == 5


def test_a_negative_coefficient_counts_by_size() -> None:
    assert stride_along([(i * -4,)], (64,), i) == 4
