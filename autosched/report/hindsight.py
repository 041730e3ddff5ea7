"""Train a cost model again on the records of a run, which do not hold the run's own model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nsmallest

from autosched.features.ansor.rows import FeatureRows
from autosched.features.sets import TUNING, feature_set
from autosched.report.chart import thinned
from autosched.report.runs import Run, Trial
from autosched.search.cost_model import XGBoostModel
from autosched.search.featurize import task_featurizer

MOST = 256
_FASTEST = 64  # so many of MOST; the others are spread evenly
_LEAST = 8  # the fewest programs to train a model on
_PART = 16  # the fewest candidates of a part of a run
_TRAININGS = 8  # the most models that each predict one part of a run by the parts before


@dataclass(frozen=True, slots=True)
class Learned:
    """The trials of a sample that have features, and their feature rows."""

    trials: Sequence[Trial]
    rows: Sequence[FeatureRows]

    @property
    def enough(self) -> bool:
        """Whether a model can be trained."""
        return len(self.rows) >= _LEAST


@dataclass(frozen=True, slots=True)
class Share:
    """A group of features, its share of the gain of all splits of a model, and its best columns."""

    group: str
    share: float
    columns: Sequence[tuple[str, float]]


def learn_again(run: Run) -> Learned:
    """The features of up to `MOST` valid trials: the fastest, and others at even distances."""
    valid = run.valid
    if run.task is None or not valid:
        return Learned((), ())
    fastest = nsmallest(_FASTEST, valid, key=lambda trial: trial.cost)
    some = {trial.index: trial for trial in (*fastest, *thinned(valid, MOST - _FASTEST))}
    chosen = valid if len(valid) <= MOST else [some[index] for index in sorted(some)]
    told: list[str] = []  # warnings of candidates without features, which are left out below
    featurize = task_featurizer(run.task, None, TUNING, warning=told.append)
    found = featurize([trial.record.steps for trial in chosen])
    pairs = [(t, r) for t, r in zip(chosen, found, strict=True) if r is not None and r.any()]
    return Learned([t for t, _ in pairs], [r for _, r in pairs])


def importance(learned: Learned) -> list[Share]:
    """The groups of features by the gain of their splits in a model of these trials."""
    model = _trained(learned.trials, learned.rows)
    gains = model.gains()
    total = sum(gains.values())
    features = feature_set(TUNING)
    shares: list[Share] = []
    start = 0
    for group, columns in features.groups.items():
        own = {name: gains.get(start + k, 0.0) for k, name in enumerate(columns)}
        start += len(columns)
        gained = sum(own.values())
        if total > 0 and gained > 0:
            best = sorted(own.items(), key=lambda item: -item[1])[:3]
            named = [(name, gain / total) for name, gain in best if gain > 0]
            shares.append(Share(group, gained / total, named))
    return sorted(shares, key=lambda share: -share.share)


def predicted_by_earlier(learned: Learned) -> list[list[tuple[Trial, float]]]:
    """The trials in parts, with the score that a model trained on all parts before gives each.

    The first part has none and is left out. At most eight models are trained.
    """
    number = len(learned.trials)
    size = max(_PART, -(-number // (_TRAININGS + 1)))
    parts = []
    for start in range(size, number, size):
        model = _trained(learned.trials[:start], learned.rows[:start])
        scores = model.predict(learned.rows[start : start + size])
        trials = learned.trials[start : start + size]
        parts.append([(t, float(score)) for t, score in zip(trials, scores, strict=True)])
    return parts


def _trained(trials: Sequence[Trial], rows: Sequence[FeatureRows]) -> XGBoostModel:
    least = min(trial.cost for trial in trials)
    model = XGBoostModel()
    model.fit(rows, [least / trial.cost for trial in trials])
    return model
