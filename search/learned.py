"""Which of many records a run learns from: features of a thousand take seconds, not minutes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autosched.measure.records import Record

_BEST = 512  # what evolution begins with, and where a model must be right
_OTHERS = 1024  # evenly from the others: what is slow, and why


def learned_from(records: Sequence[Record]) -> list[int]:
    """The positions of the records to learn from, in order: all of up to 1,536, else a sample.

    The sample has the fastest third and, evenly by their place in the file, others.
    """
    if len(records) <= _BEST + _OTHERS:
        return list(range(len(records)))
    costs = np.array([record.result.cost for record in records])
    order = np.argsort(costs, kind="stable")
    others = np.sort(order[_BEST:])
    spread = others[np.linspace(0, len(others) - 1, _OTHERS).astype(int)]
    return sorted({*order[:_BEST].tolist(), *spread.tolist()})
