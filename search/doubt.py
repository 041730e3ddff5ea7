"""Draw the error that the cost model may make on all candidates of a sketch alike.

A model that has not seen an operator errs by tens of percent, in one direction for all candidates
of a sketch (eight workloads, models without their operators: 0.13 of the logarithm on average, 0.3
at most); its members, trained on the same programs, err together. Every choice by the model
therefore adds a random effect to each sketch, which is smaller the more of the sketch was measured
(Thompson sampling, on top of the one over the members).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.search.population import Structures
from autosched.search.structure import Steps

Effects = npt.NDArray[np.float32]
_SKETCH = 0.15
"""Standard deviation of the error that candidates of a sketch share, in the logarithm of a time."""
_CANDIDATE = 0.35
"""Standard deviation of a candidate's own error: the residuals of such models on eight workloads
were 0.14 to 0.46."""


class Doubt:
    """Draws effects of sketches (errors of the model), as logarithms of factors of the scores."""

    def __init__(self, structures: Structures, rng: np.random.Generator) -> None:
        self._structures = structures
        self._rng = rng
        self._measured: Counter[tuple[Any, ...]] = Counter()

    def note(self, candidates: Sequence[Steps]) -> None:
        """Count these candidates as measured."""
        numbers = self._structures.numbers(candidates)
        self._measured.update(self._structures.known[k].sketch for k in numbers)

    def unmeasured(self, candidates: Sequence[Steps]) -> list[list[int]]:
        """The indices of the `candidates` of each sketch without a measured candidate."""
        found: dict[tuple[Any, ...], list[int]] = {}
        for k, number in enumerate(self._structures.numbers(candidates).tolist()):
            sketch = self._structures.known[number].sketch
            if not self._measured[sketch]:
                found.setdefault(sketch, []).append(k)
        return list(found.values())

    def draw(self, candidates: Sequence[Steps], columns: int) -> Effects:
        """Draw effects: (candidates, columns), equal in a column for candidates of a sketch."""
        numbers = self._structures.numbers(candidates)
        return self.by_structure(columns)[numbers]

    def by_structure(self, columns: int) -> Effects:
        """Draw effects: (structures, columns), equal in a column for structures of a sketch."""
        numbers: dict[tuple[Any, ...], int] = {}
        sketch = [numbers.setdefault(s.sketch, len(numbers)) for s in self._structures.known]
        measured = np.array([self._measured[s] for s in numbers], np.float64)
        spread = (1 / _SKETCH**2 + measured / _CANDIDATE**2) ** -0.5
        drawn = self._rng.normal(size=(len(numbers), columns)) * spread[:, None]
        found: Effects = drawn.astype(np.float32)[sketch]
        return found
