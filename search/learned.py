"""Which of many measured candidates a model learns from, so that a trial's cost does not grow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_BEST = 256  # what evolution begins with, and where a model must be right
_OTHERS = 256  # evenly from the others: what is slow, and why
MOST = _BEST + _OTHERS


def learned_from(costs: Sequence[float]) -> list[int]:
    """The positions of the candidates to learn from, in order: all of up to 512, else a sample.

    Half of the sample are the fastest, half are others, evenly by their place.
    """
    if len(costs) <= _BEST + _OTHERS:
        return list(range(len(costs)))
    order = np.argsort(np.asarray(costs), kind="stable")
    others = np.sort(order[_BEST:])
    spread = others[np.linspace(0, len(others) - 1, _OTHERS).astype(int)]
    return sorted({*order[:_BEST].tolist(), *spread.tolist()})
