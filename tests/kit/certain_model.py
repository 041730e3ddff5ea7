"""A cost model without training, for tests of the search."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kit.types import Array


class CertainModel:
    """The score of a program is the first number of its first row."""

    trained = True

    def prepare(self) -> None:
        pass

    def fit(self, programs: Sequence[Array], throughputs: Sequence[float]) -> None:
        pass

    def opinions(self, programs: Sequence[Array]) -> Array:
        return np.array([p[0, 0] for p in programs], np.float32).reshape(-1, 1)
