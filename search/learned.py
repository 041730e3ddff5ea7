"""Choose the measured candidates that a model learns from, so that a trial's cost does not grow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_BEST = 256  # the fastest: evolution begins with them, and the model must rank them correctly
_OTHERS = 256  # a sample of the others: examples of what is slow
MOST = _BEST + _OTHERS


def learned_from(costs: Sequence[float]) -> list[int]:
    """The positions of the candidates to learn from, ascending: all of up to 512, else a sample.

    Half of the sample are the fastest candidates, half are others at evenly spaced positions.
    """
    if len(costs) <= _BEST + _OTHERS:
        return list(range(len(costs)))
    order = np.argsort(np.asarray(costs), kind="stable")
    others = np.sort(order[_BEST:])
    spread = others[np.linspace(0, len(others) - 1, _OTHERS).astype(int)]
    return sorted({*order[:_BEST].tolist(), *spread.tolist()})
