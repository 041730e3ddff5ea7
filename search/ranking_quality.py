"""How well predictions ranked the candidates that were measured afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Quality:
    """How well predictions ranked `candidates` measured candidates.

    `rank_accuracy` is the share of pairs in the right order (0.5 is chance). `top8_recall` is the
    share of the eight fastest that were among the eight predicted fastest.
    """

    rank_accuracy: float
    top8_recall: float
    candidates: int

    def to_json(self) -> dict[str, float]:
        """Both shares and the number of candidates, as a record's `search` entry has them."""
        return asdict(self)


def prediction_quality(
    predicted: Sequence[float | None], costs: Sequence[float], top: int = 8
) -> Quality | None:
    """Compare predicted scores (higher is faster) with measured costs (seconds, inf: failed).

    None when fewer than two candidates had a prediction and different costs.
    """
    pairs = [(p, c) for p, c in zip(predicted, costs, strict=True) if p is not None]
    if len(pairs) < 2:
        return None
    score = np.array([p for p, _ in pairs])
    cost = np.array([c for _, c in pairs])
    faster = cost[:, None] < cost[None, :]
    if not faster.any():
        return None
    agree = np.where(
        score[:, None] > score[None, :], 1.0, np.where(score[:, None] == score[None, :], 0.5, 0.0)
    )
    k = min(top, len(pairs))
    fastest = set(np.argsort(cost, kind="stable")[:k].tolist())
    expected = set(np.argsort(-score, kind="stable")[:k].tolist())
    return Quality(
        round(float(agree[faster].mean()), 4), round(len(fastest & expected) / k, 4), len(pairs)
    )
