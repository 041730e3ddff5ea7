"""What measuring one candidate gives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

STAGES = ("lower", "compile", "load", "run", "check")
KINDS = ("error", "illegal", "timeout", "crash", "wrong_answer", "memory")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a candidate has no time: the stage it failed in, the kind, and the message."""

    stage: str
    kind: str
    message: str

    def to_json(self) -> dict[str, str]:
        return {"stage": self.stage, "kind": self.kind, "message": self.message}


@dataclass(frozen=True, slots=True)
class MeasureResult:
    """Raw repeats in seconds per call, or a failure.

    `checked` is True when the outputs were compared with the reference and agreed.
    `build_seconds` is lowering and code generation, `total_seconds` all that was spent on it.
    """

    seconds: tuple[float, ...]
    failure: Failure | None = None
    build_seconds: float = 0.0
    total_seconds: float = 0.0
    checked: bool = False

    @property
    def valid(self) -> bool:
        return self.failure is None and bool(self.seconds)

    @property
    def cost(self) -> float:
        """Seconds per call: the lower quartile of the repeats; infinity for a failure."""
        return lower_quartile(self.seconds) if self.valid else float("inf")

    def failed(self, failure: Failure) -> MeasureResult:
        """This result turned into a failure; the raw repeats are kept."""
        return replace(self, failure=failure, checked=False)

    def to_json(self) -> dict[str, Any]:
        """The `result` entry of a record."""
        return {
            "seconds": list(self.seconds),
            "error": None if self.failure is None else self.failure.to_json(),
            "build_seconds": self.build_seconds,
            "total_seconds": self.total_seconds,
            "checked": self.checked,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> MeasureResult:
        error = data["error"]
        return cls(
            tuple(float(s) for s in data["seconds"]),
            None if error is None else Failure(error["stage"], error["kind"], error["message"]),
            float(data.get("build_seconds", 0.0)),
            float(data.get("total_seconds", 0.0)),
            bool(data.get("checked", False)),
        )


def lower_quartile(values: tuple[float, ...]) -> float:
    """The 25th percentile: disturbances only ever make a kernel slower."""
    return float(np.quantile(values, 0.25))
