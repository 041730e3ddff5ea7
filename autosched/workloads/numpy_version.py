"""What NumPy's users would call instead of a kernel: the yardstick of a tuning run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class NumpyVersion:
    """`call(inputs)` computes what the kernel does, in the types of the inputs.

    `name` is how a report calls it.
    """

    name: str
    call: Callable[[Sequence[npt.NDArray[Any]]], Any]
