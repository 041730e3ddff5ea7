"""The result of measuring one candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autosched.errors import ConfigError
from autosched.measure.check import Seen
from autosched.words import shortened, visible

MOST_SECONDS = 1e9
"""No call takes longer. Hostile files hold numbers beyond any float."""

# The repeats of one candidate (seconds per call), and why there are none or no more of them.
RunResult = tuple[list[float], "Failure | None"]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a candidate has no time: the stage and kind of a MeasureError, and its message."""

    stage: str
    kind: str
    message: str

    def to_json(self) -> dict[str, str]:
        """The `error` entry of a record's result."""
        return {"stage": self.stage, "kind": self.kind, "message": self.message}

    @classmethod
    def from_json(cls, data: Any) -> Failure:
        """The inverse of `to_json`. Raises ConfigError for anything else."""
        if not isinstance(data, dict) or not {"stage", "kind", "message"} <= data.keys():
            raise ConfigError(
                f"result.error: expected null or stage, kind and message, found {short(data)}"
            )
        stage, kind = (visible(str(data[key])) for key in ("stage", "kind"))
        return cls(stage, kind, str(data["message"]))


@dataclass(frozen=True, slots=True)
class MeasureResult:
    """Raw repeats in seconds per call, or a failure.

    - `checked`: the outputs were compared with the reference and agreed.
    - `seen`: what that comparison could see; None where it is not known.
    - `cache_flush`: the bytes of the buffer that was written before each call to empty the caches;
      0 where the caches kept what the call before left. Times of different sizes are not compared.
      A GPU's L2 cache is overwritten whole, whatever the size.
    - `build_seconds`: the time of lowering and code generation.
    - `total_seconds`: all time spent on the candidate.
    - `device`: what a GPU reported: registers, shared memory and occupancy of each kernel.
    - `disturbed`: the number of visits during which other programs had the cores (disturbance.py).
    - `host`: the cluster's node that measured it, or that failed to build it.
    """

    seconds: tuple[float, ...]
    failure: Failure | None = None
    build_seconds: float = 0.0
    total_seconds: float = 0.0
    checked: bool = False
    seen: Seen | None = None
    cache_flush: int = 0
    device: Mapping[str, Any] | None = None
    disturbed: int = 0
    host: str = ""

    @property
    def valid(self) -> bool:
        """Whether there is a time and no failure."""
        return self.failure is None and bool(self.seconds)

    @property
    def cost(self) -> float:
        """Seconds per call: the lower quartile of the repeats; infinity for a failure."""
        return lower_quartile(self.seconds) if self.valid else float("inf")

    @property
    def accuracy(self) -> float | None:
        """The largest error of the outputs, relative as in `Seen.error`; None if not known."""
        return self.seen.error if self.checked and self.seen is not None else None

    @property
    def checked_text(self) -> str:
        """The check as text: `no`, `equal`, `error 3e-07`, or `yes` where the error is unknown."""
        if not self.checked or self.seen is None:
            return "yes" if self.checked else "no"
        return self.seen.error_text

    def failed(self, failure: Failure) -> MeasureResult:
        """This result turned into a failure; the raw repeats are kept."""
        return replace(self, failure=failure, checked=False, seen=None)

    def to_json(self) -> dict[str, Any]:
        """The `result` entry of a record."""
        return {
            "seconds": list(self.seconds),
            "error": None if self.failure is None else self.failure.to_json(),
            "build_seconds": self.build_seconds,
            "total_seconds": self.total_seconds,
            "checked": self.checked,
            **({} if self.seen is None else {"check": self.seen.to_json()}),
            **({"cache_flush": self.cache_flush} if self.cache_flush else {}),
            **({} if self.device is None else {"device": dict(self.device)}),
            **({"disturbed": self.disturbed} if self.disturbed else {}),
            **({"host": self.host} if self.host else {}),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> MeasureResult:
        """The inverse of `to_json`. Raises ConfigError when an entry is missing or impossible."""
        error = data.get("error")
        return cls(
            times(data.get("seconds")),
            None if error is None else Failure.from_json(error),
            _duration(data, "build_seconds"),
            _duration(data, "total_seconds"),
            bool(data.get("checked", False)),
            None if data.get("check") is None else Seen.from_json(data["check"]),
            _natural(data, "cache_flush", "bytes"),
            _device(data.get("device")),
            _natural(data, "disturbed", "visits"),
            _host(data.get("host", "")),
        )


def _duration(data: Mapping[str, Any], key: str) -> float:
    value = data.get(key)
    return 0.0 if value is None else duration(value, f"result.{key}")


def duration(value: Any, name: str) -> float:
    """Check that `value` is a number of seconds from 0 on. Raises ConfigError otherwise."""
    if type(value) not in (int, float) or not 0 <= value <= MOST_SECONDS:
        raise ConfigError(f"{name}: expected seconds from 0 on, found {short(value)}")
    return float(value)


def _device(value: Any) -> Mapping[str, Any] | None:
    if value is not None and not isinstance(value, dict):
        raise ConfigError(f"result.device: expected an object, found {short(value)}")
    return value


def _host(value: Any) -> str:
    if type(value) is not str or not value.isprintable():
        raise ConfigError(f"result.host: expected a name, found {short(value)}")
    return value


def _natural(data: Mapping[str, Any], key: str, unit: str) -> int:
    value = data.get(key, 0)
    if type(value) is not int or value < 0:
        raise ConfigError(f"{key}: expected {unit} from 0 on, found {short(value)}")
    return value


def times(values: Any) -> tuple[float, ...]:
    """`values` as seconds per call. Raises ConfigError unless all are positive numbers."""
    if isinstance(values, list) and {int, float}.issuperset(map(type, values)):
        possible = not values or (min(values) > 0 and max(values) <= MOST_SECONDS)
        if possible and sum(values) < float("inf"):  # false if any is NaN
            return tuple(map(float, values))
    raise ConfigError(f"seconds: expected a list of positive numbers, found {short(values)}")


def short(value: Any) -> str:
    """`value` as text for a message, cut to 40 characters."""
    return shortened("nothing" if value is None else repr(value), 40)


def lower_quartile(values: Sequence[float]) -> float:
    """The 25th percentile, as numpy.quantile computes it.

    The lower quartile is used because disturbances only make a kernel slower.
    """
    ordered = sorted(values)
    rank = 0.25 * (len(ordered) - 1)
    low = int(rank)
    share = rank - low
    first, second = ordered[low], ordered[min(low + 1, len(ordered) - 1)]
    if share >= 0.5:  # NumPy rounds this way
        return float(second - (second - first) * (1 - share))
    return float(first + (second - first) * share)
