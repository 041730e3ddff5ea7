"""The NumPy code with which a tuning run compares its kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class NumpyVersion:
    """NumPy code for the same computation as a kernel, in the types of the inputs.

    - `name`: its name in reports.
    - `call`: computes the outputs from a list of the inputs.
    """

    name: str
    call: Callable[[Sequence[npt.NDArray[Any]]], Any]
