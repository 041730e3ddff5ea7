"""Comparing outputs with the reference."""

import numpy as np
import pytest

from autosched.measure.check import compare


def test_equal_arrays_agree():
    values = np.linspace(-3, 3, 20, dtype=np.float32)
    assert compare("C", values, values.copy()) is None


def test_rounding_is_allowed_and_more_is_not():
    want = np.linspace(1, 2, 50, dtype=np.float32)
    assert compare("C", want * np.float32(1 + 1e-5), want) is None
    problem = compare("C", want * np.float32(1.01), want)
    assert problem is not None
    assert "50 of 50 elements of C" in problem


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_wrong(bad):
    want = np.ones(4, np.float32)
    got = want.copy()
    got[2] = bad
    problem = compare("C", got, want)
    assert problem is not None
    assert "(2,)" in problem


def test_the_same_nan_and_infinity_are_right():
    want = np.array([np.nan, np.inf, 1.0], np.float32)
    assert compare("C", want.copy(), want) is None


def test_integers_must_be_equal():
    want = np.arange(6, dtype=np.int32).reshape(2, 3)
    got = want.copy()
    got[1, 0] += 1
    problem = compare("C", got, want)
    assert problem is not None
    assert "(1, 0): expected 3, found 4" in problem


def test_an_output_of_zeros_may_be_exactly_zero():
    zeros = np.zeros(5, np.float32)
    assert compare("C", zeros, zeros.copy()) is None
    assert compare("C", zeros + np.float32(1e-3), zeros) is not None
