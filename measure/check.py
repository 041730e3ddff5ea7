"""Compare a kernel's output with the NumPy reference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import numpy.typing as npt

from autosched.errors import ConfigError
from autosched.runtime.infinities import finite_values

# Relative to an element plus the output's root mean square, for outputs that are not long sums.
_TOLERANCE = {
    "float64": 1e-9,
    "float32": 2e-4,
    "float16": 2e-2,
    "bfloat16": 6e-2,
    "float8_e4m3fn": 0.125,
    "float8_e5m2": 0.25,
}

# Unit roundoff: half of the distance from 1 to the next number.
_ROUNDING = {"float64": 2**-53, "float32": 2**-24, "float16": 2**-11, "bfloat16": 2**-8}

# A sum of n terms may err by this times sqrt(n) unit roundoffs. The n random roundings of its
# partial sums add up to 0.4 sqrt(n); the worst of many elements has four times that.
_OF_TERMS = 2.0
MOST = 0.25  # the largest tolerance of sums: a kernel that leaves out part of the terms is wrong

_LEAST_TELLING = 0.01  # share of the elements
_NEAR = 0.5  # share of the tolerance
_TINY = 1e-37  # absolute error that any float may have: an exact zero may come out as a tiny number
_AT_ONCE = 1 << 15  # elements compared at a time: their float64 values stay in a cache


_Doubles = npt.NDArray[np.float64]


class Tolerance(NamedTuple):
    """How much an element may err: `relative` times itself plus the output's root mean square.

    A result that is converted to a narrower type at the end may err by `rounding` times itself
    besides: the distance to the next number of that type. Both are 0 for integers.
    """

    relative: float
    rounding: float = 0.0


def compare(
    name: str, got: npt.NDArray[Any], want: npt.NDArray[Any], tolerance: Tolerance | None = None
) -> str | None:
    """Why `got` differs from `want` (first bad element, largest error), or None when they agree.

    Floats may differ by `tolerance`. Without one, `tolerance_of` the type holds
    (measure/tolerance.py works out others). Integers must be equal unless a tolerance is given;
    then they may differ by 1 more than it allows.
    """
    if got.shape != want.shape:
        return _other_shape(name, got, want)
    relative, absolute, rounding = allowance(want, tolerance)
    exact = finite_values(want)
    same = (got == want) | (_nan(got) & _nan(want))
    with np.errstate(over="ignore"):
        error = np.abs(finite_values(got) - exact)
    allowed = (relative + rounding) * np.abs(exact) + absolute
    bad = ~((error <= allowed) | same) if relative else got != want
    if not bad.any():
        return None
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    problem = wrong_answer(name, int(bad.sum()), want, where, got[where])
    return f"{problem} (largest error {np.fmax.reduce(error[bad]):.3g})"


def _other_shape(name: str, got: npt.NDArray[Any], want: npt.NDArray[Any]) -> str:
    return f"output {name}: expected shape {want.shape}, found {got.shape}"


def wrong_answer(
    name: str, bad: int, want: npt.NDArray[Any], where: tuple[int, ...], found: Any
) -> str:
    """The message that `bad` elements are wrong; `where` is the index of the first."""
    return (
        f"wrong answer: {bad} of {want.size} elements of {name} differ from the NumPy "
        f"reference; the first at {where}: expected {want[where]}, found {found}"
    )


def telling_share(want: npt.NDArray[Any], relative: float, absolute: float) -> float:
    """`Seen.telling` of one output; `relative` and `absolute` are its `allowance`."""
    exact = want.astype(np.float64)
    finite = np.isfinite(exact)
    values = exact[finite]
    if not exact.size or (exact.size > 1 and (not values.size or values.min() == values.max())):
        return 0.0
    with np.errstate(invalid="ignore"):
        return float(np.mean(finite & (np.abs(exact) > relative * np.abs(exact) + absolute)))


def allowance(
    want: npt.NDArray[Any], tolerance: Tolerance | None = None
) -> tuple[float, float, float]:
    """(a, b, c) such that an element may err by a * |element| + b, and c * |element| besides.

    All are 0 for integers.
    """
    relative, rounding = Tolerance(tolerance_of(want.dtype)) if tolerance is None else tolerance
    if not relative:
        return 0.0, 0.0, 0.0
    absolute = relative * root_mean_square(want.astype(np.float64)) + least_error(want)
    return relative, absolute, rounding


@dataclass(frozen=True, slots=True)
class Seen:
    """How much a comparison that found nothing wrong could see.

    - `telling`: the share of elements whose reference is finite and farther from zero than the
      allowed error; the smallest share of all outputs, and 0 for an output that has one value
      everywhere. Other elements say little: NaN agrees with NaN, and a constant with a kernel that
      forgot to read.
    - `error`: the largest error, relative to the element plus the output's root mean square. Of a
      result that is converted at the end, it is what the rounding of that does not explain.
    - `tolerance`: the relative error that was allowed. Both are 0 for integers, which are equal.
    """

    telling: float
    error: float
    tolerance: float

    @classmethod
    def worst(cls, outputs: Sequence[Seen]) -> Seen:
        """Combine the outputs: the smallest `telling`, and the error closest to its tolerance."""
        worst = max(outputs, key=lambda seen: seen.error / (seen.tolerance or 1.0))
        return cls(min(seen.telling for seen in outputs), worst.error, worst.tolerance)

    @property
    def error_text(self) -> str:
        """The error as text: `equal`, or `error 3e-07`."""
        return f"error {_short(self.error)}" if self.tolerance else "equal"

    @property
    def text(self) -> str:
        """What the comparison saw, in words.

        E.g. `98% of the outputs finite and not zero, largest relative error 3e-07 (2e-04 allowed)`.
        The error is relative to an element plus the root mean square of its output.
        """
        error = f"largest relative error {_short(self.error)} ({_short(self.tolerance)} allowed)"
        if not self.tolerance:
            error = "all equal"
        if self.tolerance >= 1:
            return f"roundings may be as large as the outputs; {error}"
        if not self.telling:
            return f"no output is finite, not zero and varied; {error}"
        share = f"{self.telling:.0%}" if self.telling >= 0.01 else "<1%"
        return f"{share} of the outputs finite and not zero, {error}"

    @property
    def warning(self) -> str | None:
        """The warning for a check that could hardly have found a mistake; None for any other."""
        if self.telling < _LEAST_TELLING:
            return (
                f"the check against NumPy proves little: {self.text}; choose other inputs with "
                "`inputs:`"
            )
        if self.error > _NEAR * self.tolerance:
            return (
                f"the result is right only within the tolerance: {self.text}; choose inputs "
                "with `inputs:` for which it is more exact"
            )
        return None

    def to_json(self) -> dict[str, float]:
        """The `check` entry of a record's result."""
        return {"telling": self.telling, "error": self.error, "tolerance": self.tolerance}

    @classmethod
    def from_json(cls, data: Any) -> Seen:
        """The inverse of `to_json`. Raises ConfigError for anything else."""
        names = ("telling", "error", "tolerance")
        if not isinstance(data, dict) or any(
            type(data.get(name)) not in (int, float) for name in names
        ):
            raise ConfigError(f"result.check: expected {', '.join(names)}, found {data!r:.40}")
        try:
            return cls(*(float(data[name]) for name in names))
        except OverflowError:
            raise ConfigError(f"result.check: expected floats, found {data!r:.40}") from None


def _short(value: float) -> str:
    return f"{value:.0e}" if value else "0"


class Allowed(NamedTuple):
    """How much one output may err, and how much its reference tells: the same for every candidate.

    An element may err by `relative` times itself plus `absolute`, and by `rounding` times itself
    besides (`Tolerance`). All are 0 for integers. `telling` is `Seen.telling`.
    """

    relative: float
    absolute: float
    rounding: float
    telling: float

    @classmethod
    def of(cls, want: npt.NDArray[Any], tolerance: Tolerance | None = None) -> Allowed:
        """Work it out from the reference `want`.

        Takes tens of nanoseconds an element, far longer than most kernels.
        """
        relative, absolute, rounding = allowance(want, tolerance)
        telling = telling_share(want, relative + rounding, absolute)
        return cls(relative, absolute, rounding, telling)

    def seen(self, name: str, got: npt.NDArray[Any], want: npt.NDArray[Any]) -> Seen | str:
        """Compare an output: what the comparison saw, or the message of `compare` if wrong."""
        if got.shape != want.shape:
            return _other_shape(name, got, want)
        found, wanted, largest = got.reshape(-1), want.reshape(-1), 0.0
        for start in range(0, want.size, _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            error = self._largest(found[part], wanted[part])
            if error is None:
                problem = compare(name, got, want, Tolerance(self.relative, self.rounding))
                if problem:
                    return problem
                error = 1.0  # exactly at the limit, where roundings decide
            largest = max(largest, error)
        return Seen(self.telling, largest * self.relative, self.relative)

    def _largest(self, got: npt.NDArray[Any], want: npt.NDArray[Any]) -> float | None:
        """The largest error in units of what is allowed; None when one is larger."""
        if not self.relative:
            return 0.0 if np.array_equal(got, want) else None
        errors = self._errors(got.astype(np.float64), want.astype(np.float64))
        largest = float(errors.max(initial=0.0))
        if largest <= 1.0:
            return largest
        errors = self._errors(finite_values(got), finite_values(want))
        if not ((errors <= 1.0) | (_nan(got) & _nan(want))).all():
            return None
        return float(np.fmax.reduce(errors, initial=0.0))

    def _errors(self, got: _Doubles, want: _Doubles) -> _Doubles:
        """The error of each element in units of what is allowed."""
        size = np.abs(want)
        with np.errstate(invalid="ignore", over="ignore"):
            errors: _Doubles = np.abs(got - want) - self.rounding * size
            errors /= self.relative * size + self.absolute
        return errors


def tolerance_of(dtype: np.dtype[Any], terms: int = 1) -> float:
    """The tolerance of a type for sums of `terms` terms; 0 for integers."""
    name = dtype.name
    of_sums = _OF_TERMS * _ROUNDING.get(name, 0.0) * math.sqrt(terms)
    return max(_TOLERANCE.get(name, 0.0), min(MOST, of_sums))


def _nan(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    return np.isnan(values.astype(np.float64))


def least_error(want: npt.NDArray[Any]) -> float:
    """The absolute error that any element may have: 1 for integers made of floats.

    For floats it is _TINY, or the least distance of two numbers of the type.
    """
    if want.dtype.kind in "iu":
        return 1.0
    return max(_TINY, float(ml_dtypes.finfo(want.dtype).smallest_subnormal))  # type: ignore[no-untyped-call]  # ml_dtypes is untyped


def root_mean_square(exact: _Doubles) -> float:
    """The root mean square of the finite elements; 0 where there are none."""
    finite = np.abs(exact[np.isfinite(exact)])
    largest = finite.max(initial=0.0)
    if not largest:
        return 0.0
    return float(largest * np.sqrt(np.mean((finite / largest) ** 2)))  # no square overflows
