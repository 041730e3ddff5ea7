"""Comparing outputs with the reference."""

from collections.abc import Sequence

import ml_dtypes  # noqa: F401  registers bfloat16
import numpy as np
import pytest

from autosched.errors import ConfigError
from autosched.measure.check import (
    Allowed,
    Seen,
    Tolerance,
    allowance,
    compare,
    tolerance_of,
)
from kit.types import Array


def seen_of(
    outputs: Sequence[tuple[Array, Array]], tolerances: Sequence[Tolerance] | None = None
) -> Seen:
    """What the comparison of (found, expected) of each output saw; they agree."""
    found: list[Seen] = []
    for k, (got, want) in enumerate(outputs):
        seen = Allowed.of(want, tolerances[k] if tolerances else None).seen("C", got, want)
        assert isinstance(seen, Seen)
        found.append(seen)
    return Seen.worst(found)


def test_equal_arrays_agree() -> None:
    values = np.linspace(-3, 3, 20, dtype=np.float32)
    assert compare("C", values, values.copy()) is None


def test_rounding_is_allowed_and_more_is_not() -> None:
    want = np.linspace(1, 2, 50, dtype=np.float32)
    assert compare("C", want * np.float32(1 + 1e-5), want) is None
    problem = compare("C", want * np.float32(1.01), want)
    assert problem is not None
    assert "50 of 50 elements of C" in problem


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_wrong(bad: float) -> None:
    want = np.ones(4, np.float32)
    got = want.copy()
    got[2] = bad
    problem = compare("C", got, want)
    assert problem is not None
    assert "(2,)" in problem


def test_the_same_nan_and_infinity_are_right() -> None:
    want = np.array([np.nan, np.inf, 1.0], np.float32)
    assert compare("C", want.copy(), want) is None


def test_integers_must_be_equal() -> None:
    want = np.arange(6, dtype=np.int32).reshape(2, 3)
    got = want.copy()
    got[1, 0] += 1
    problem = compare("C", got, want)
    assert problem is not None
    assert "(1, 0): expected 3, found 4" in problem


def test_an_output_of_zeros_may_be_exactly_zero() -> None:
    zeros = np.zeros(5, np.float32)
    assert compare("C", zeros, zeros.copy()) is None
    assert compare("C", zeros + np.float32(1e-3), zeros) is not None


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [
        ("float64", 1e-9),
        ("float32", 2e-4),
        ("float16", 2e-2),
        ("bfloat16", 6e-2),
        ("float8_e4m3fn", 0.125),
        ("float8_e5m2", 0.25),
    ],
)
def test_the_tolerance_of_each_type(dtype: str, tolerance: float) -> None:
    """Relative to the element plus the root mean square: to twice the element where all are one."""
    kind = np.dtype(dtype)
    want = np.ones(16, kind)
    for error, agrees in ((1.5, True), (2.5, False)):
        off = want.astype(np.float64)
        off[5] += error * tolerance
        got = off.astype(kind)
        if abs(float(got[5]) - off[5]) < 0.2 * tolerance:  # the type can tell them apart
            assert (compare("C", got, want) is None) == agrees
    low, high = want.copy(), want.copy()
    low[3], high[3] = 1 - 3.5 * tolerance, 1 + 3.5 * tolerance
    assert compare("C", low, want) is not None
    assert compare("C", high, want) is not None


def test_an_output_without_any_number_is_wrong_without_a_warning() -> None:
    """What a kernel leaves that writes nothing: the runner fills outputs with NaN before."""
    problem = compare("C", np.full(4, np.nan, np.float32), np.ones(4, np.float32))
    assert problem is not None
    assert "4 of 4 elements of C" in problem
    assert problem.endswith("expected 1.0, found nan (largest error nan)")


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "bool"])
@pytest.mark.parametrize(
    ("values", "telling"),
    [
        ([1, 2, 3, 4], 1.0),
        ([0, 0, 3, 4], 0.5),
        ([0, 0, 0, 0], 0.0),
        ([7, 7, 7, 7], 0.0),
        ([np.nan] * 4, 0.0),
        ([np.inf] * 4, 0.0),
        ([np.nan, 1, np.inf, 2], 0.5),
        ([1, np.nan, np.nan, np.nan], 0.0),
        ([7], 1.0),
    ],
)
def test_what_a_check_could_see(dtype: str, values: list[float], telling: float) -> None:
    """Elements that are finite, not zero, and not one value everywhere."""
    kind = np.dtype(dtype)
    if kind.kind != "f" and not np.isfinite(values).all():
        return
    want = np.array(values, kind)
    if len(values) > 1 and (want == want[0]).all():  # all true are one value, too
        telling = 0.0
    assert compare("C", want.copy(), want) is None
    seen = seen_of([(want.copy(), want)])
    assert (seen.telling, seen.error) == (telling, 0.0)
    assert (seen.warning is not None) == (telling == 0)
    assert Seen.from_json(seen.to_json()) == seen


def test_small_elements_beside_huge_ones_tell_nothing() -> None:
    """Within the tolerance of the root mean square anything passes."""
    want = np.array([1e20, -1e20, 1.0, 2.0], np.float32)
    wrong = np.array([1e20, -1e20, -5.0, 9.0], np.float32)
    assert compare("C", wrong, want) is None
    assert seen_of([(wrong, want)]).telling == 0.5


@pytest.mark.parametrize("share", [0.01, 0.4, 0.9])
def test_the_largest_error_stands_beside_the_tolerance(share: float) -> None:
    want = np.ones(16, np.float64)
    want[0] = 2.0
    got = want.copy()
    allowed = 1e-9 * (1 + np.sqrt(np.mean(want**2)))
    got[5] += share * allowed
    assert compare("C", got, want) is None
    seen = seen_of([(got, want)])
    assert seen.error == pytest.approx(share * 1e-9, rel=1e-3)
    assert seen.tolerance == 1e-9
    assert ("only within the tolerance" in (seen.warning or "")) == (share > 0.5)
    assert "(1e-09 allowed)" in seen.text


def test_the_worst_of_several_outputs_is_told() -> None:
    good = np.linspace(1, 2, 8, dtype=np.float32)
    nothing = np.full(8, np.nan, np.float32)
    seen = seen_of([(good, good), (nothing, nothing)])
    assert seen.telling == 0.0
    assert "proves little: no output is finite" in (seen.warning or "")


def test_a_damaged_entry_is_refused() -> None:
    for bad in (3, {}, {"telling": "x", "error": 0, "tolerance": 0}):
        with pytest.raises(ConfigError, match=r"result\.check"):
            Seen.from_json(bad)


@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_the_squares_of_huge_elements_allow_no_more(scale: float) -> None:
    want = np.array([3.0, 4.0, np.inf]) * scale
    relative, absolute, _ = allowance(want)
    assert absolute == pytest.approx(relative * scale * np.sqrt(12.5) + 1e-37)
    wrong = want * np.array([1.0, 1.1, 1.0])
    assert (compare("C", wrong, want) is None) == (scale < 1)


@pytest.mark.parametrize(
    ("dtype", "terms", "tolerance"),
    [
        ("float32", 1, 2e-4),
        ("float32", 10**6, 2e-4),
        ("float16", 400, 2e-2),
        ("float16", 2**14, 2**-3),
        ("bfloat16", 2**8, 2**-3),
        ("bfloat16", 10**6, 0.25),
        ("float8_e5m2", 10**6, 0.25),
        ("int32", 10**6, 0.0),
    ],
)
def test_the_tolerance_of_long_sums(dtype: str, terms: int, tolerance: float) -> None:
    want = np.array([3, -4, 5, 2], dtype)
    rms = float(np.sqrt(np.mean(want.astype(float) ** 2)))
    found = Tolerance(tolerance_of(want.dtype, terms))
    expected = (tolerance, tolerance * rms, 0)
    assert allowance(want, found) == pytest.approx(expected, rel=1e-4)
    assert seen_of([(want, want)], [found]).tolerance == tolerance


@pytest.mark.parametrize(("dtype", "K"), [("float16", 20_000), ("bfloat16", 500)])
def test_long_sums_of_16_bit_floats_err_less_than_that(dtype: str, K: int) -> None:
    """One rounding for each term, as a kernel has it: within the tolerance, and not by far."""
    rng = np.random.default_rng(0)
    a, b = (np.floor(rng.uniform(-256, 256, (K, 500))) / 256 for _ in range(2))
    total = np.zeros(500, dtype)
    for row in (a * b).astype(dtype):
        total += row
    exact = (a * b).sum(axis=0).astype(dtype)
    tolerance = Tolerance(tolerance_of(exact.dtype, K))
    assert compare("C", total, exact, tolerance) is None
    assert seen_of([(total, exact)], [tolerance]).error > 0.1 * tolerance.relative
    missing = (exact - (a * b)[: K // 2].sum(axis=0)).astype(dtype)
    assert compare("C", missing, exact, tolerance) is not None  # half of the terms


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "int8"])
@pytest.mark.parametrize("tolerance", [None, Tolerance(1e-2), Tolerance(1e-3, 9e-3)])
def test_parts_of_an_output_are_compared_as_the_whole(
    dtype: str, tolerance: Tolerance | None
) -> None:
    """Right and wrong ones, with elements of every kind where parts meet and at the end."""
    rng = np.random.default_rng(0)
    size, kinds = 3 * (1 << 15) + 5, [0.0, 1e-3, 0.5, 3.0]
    special = [np.nan, np.inf, -np.inf] if np.dtype(dtype).kind not in "iu" else []
    verdicts = set()
    for _ in range(25):
        want = (rng.standard_normal(size) * 9).astype(dtype)
        got = want.copy()
        for place in (0, 1 << 15, size - 1, int(rng.integers(size))):
            if rng.random() < 0.2:
                got[place] = (float(want[place]) + rng.choice(kinds)) % 100
            if special and rng.random() < 0.3:
                want[place] = rng.choice(special)
                got[place] = want[place] if rng.random() < 0.6 else rng.choice(special)
        allowed = Allowed.of(want, tolerance)
        found = allowed.seen("C", got, want)
        expected = compare("C", got, want, tolerance)
        assert expected == (found if isinstance(found, str) else None)
        verdicts.add(expected is None)
        if isinstance(found, Seen):
            exact, value = want.astype(np.float64), got.astype(np.float64)
            finite = np.isfinite(exact)
            most = allowed.relative * np.abs(exact[finite]) + allowed.absolute
            errors = np.abs(value[finite] - exact[finite])
            errors -= allowed.rounding * np.abs(exact[finite])
            largest = max(0.0, (errors / most).max()) if allowed.relative else 0.0
            assert found.error == pytest.approx(largest * allowed.relative)
    assert verdicts == {True, False}


@pytest.mark.parametrize("found", [3.0, -np.inf, np.nan])
def test_what_is_no_infinity_is_wrong_where_one_is_expected(found: float) -> None:
    """However far a finite number is from it: an infinite error is not within an infinite limit."""
    want = np.array([1.0, np.inf, 2.0], np.float32)
    got = np.array([1.0, found, 2.0], np.float32)
    message = compare("C", got, want)
    assert message is not None and "the first at (1,): expected inf" in message
    assert Allowed.of(want).seen("C", got, want) == message


@pytest.mark.parametrize(
    ("dtype", "near", "far"),
    [
        ("float64", 1.797693134e308, 1.79e308),
        ("float32", 3.4027e38, 3.3e38),
        ("float16", 65000.0, 50000.0),
        ("bfloat16", 3.38e38, 2e38),
        ("float8_e5m2", 57344.0, 20000.0),
    ],
)
def test_an_infinity_is_beside_the_largest_number(dtype: str, near: float, far: float) -> None:
    """Sums near the end of the range of their type round to one or the other."""
    values = np.ones((3, 100), dtype)
    values[:, 0] = np.inf, near, far
    for sign in (values.dtype.type(1), values.dtype.type(-1)):
        above, below, small = sign * values
        for want, got in ((above, below), (below, above)):
            tolerance = Tolerance(tolerance_of(want.dtype))
            assert compare("C", got, want, tolerance) is None
            seen = Allowed.of(want, tolerance).seen("C", got, want)
            assert isinstance(seen, Seen) and 0 < seen.error < seen.tolerance
        for want, got in ((above, small), (small, above), (above, -above)):
            message = compare("C", got, want, Tolerance(tolerance_of(want.dtype)))
            assert message is not None
            assert Allowed.of(want).seen("C", got, want) == message


def test_another_shape_is_said() -> None:
    want = np.ones((2, 3), np.float32)
    assert "expected shape (2, 3)" in str(Allowed.of(want).seen("C", want.T, want))
