"""Charts of how well the cost model ranked candidates before they were measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import inf
from typing import Any

from autosched.report.chart import MOST_POINTS, Chart, axis, thinned
from autosched.report.hindsight import Learned, predicted_by_earlier
from autosched.report.runs import Run, Trial
from autosched.search.ranking_quality import prediction_quality
from autosched.words import count

_Point = tuple[float, float, float | None]  # round, pairs in the right order, recall
_EIGHT = 8
_MANY = 500  # marks, beyond which they are small
_MARKED = 40  # points, beyond which lines go without marks
_ROUNDS = 200  # points of the chart over rounds
_ACCURACY, _PREDICTED = "Model accuracy", "Predicted against measured"


@dataclass(frozen=True, slots=True)
class Guess:
    """A trial, the score predicted for it, and the best time known then (infinity if none)."""

    trial: Trial
    score: float
    known: float


@dataclass(frozen=True, slots=True)
class Guesses:
    """The predictions of a run, round by round.

    `recorded` says whether they are those of the run's own model, or else of one that was trained
    for the page. `why_none` says why there are none.
    """

    rounds: Sequence[Sequence[Guess]]
    recorded: bool
    why_none: str = ""


def guesses(run: Run, learned: Learned) -> Guesses:
    """The recorded predictions; if there are none, those of models trained on earlier parts."""
    rounds = _recorded(run.trials)
    if rounds:
        return Guesses(rounds, recorded=True)
    if not learned.enough:
        return Guesses((), False, _why_none(run, learned))
    known = min(trial.cost for trial in learned.trials)
    parts = []
    seen = {trial.index for trial in learned.trials}
    for part in predicted_by_earlier(learned):
        first = part[0][0].index
        known = min(t.cost for t in learned.trials if t.index in seen and t.index < first)
        parts.append([Guess(trial, score, known) for trial, score in part])
    if not parts:
        return Guesses((), False, _why_none(run, learned))
    return Guesses(parts, recorded=False)


def _why_none(run: Run, learned: Learned) -> str:
    if run.task is None:
        return f"The records hold no predictions, and features need the task: {run.problem}."
    number = len(learned.rows)
    return (
        "The records hold no predictions, and a model needs more than the "
        f"{count(number, 'candidate')} that have a time and features."
    )


def _recorded(trials: Sequence[Trial]) -> list[list[Guess]]:
    rounds = []
    known = inf
    for _, group in groupby(trials, key=_round_of):
        batch = list(group)
        guessed = [Guess(t, t.predicted, known) for t in batch if t.predicted is not None]
        if guessed:
            rounds.append(guessed)
        known = min([known, *(trial.cost for trial in batch)])
    return rounds


def _round_of(trial: Trial) -> tuple[str, str]:
    search = trial.record.search
    return str(search.get("seed")), str(search.get("round"))


def accuracy(found: Guesses) -> Chart:
    """The chart by round: shares of pairs in the right order and of the fastest eight foreseen."""
    if not found.rounds:
        return Chart("accuracy", _ACCURACY, found.why_none)
    points: list[_Point] = []
    for place, batch in enumerate(found.rounds, 1):
        quality = prediction_quality([g.score for g in batch], [g.trial.cost for g in batch])
        if quality is not None:
            # Of eight or less, all are among the eight predicted fastest.
            recall = quality.top8_recall if quality.candidates > _EIGHT else None
            points.append((place, quality.rank_accuracy, recall))
    if not points:
        said = "No round has two candidates with a prediction and different times."
        return Chart("accuracy", _ACCURACY, said)
    wide = -(-len(points) // _ROUNDS)
    means = [_mean(points[k : k + wide]) for k in range(0, len(points), wide)]
    orders = [(place, share) for place, share, _ in means]
    recalls = [(place, share) for place, _, share in means]
    traces = [
        _line("pairs in the right order", "@best", "circle", "solid", orders),
        _line("fastest 8 predicted", "@second", "diamond", "dash", recalls),
        {
            "type": "scatter",
            "mode": "lines",
            "name": "order by chance",
            "x": [means[0][0] - 0.5, means[-1][0] + 0.5],
            "y": [0.5, 0.5],
            "line": {"width": 1.5, "color": "@muted", "dash": "dot"},
            "hoverinfo": "skip",
        },
    ]
    traces = [trace for trace in traces if trace["x"]]
    steps = {"tickmode": "linear", "dtick": 1} if len(means) <= 8 else {}
    layout = {
        "xaxis": axis("round with predictions" if found.recorded else "part of the run", **steps),
        "yaxis": axis("share", tickformat=".0%", range=[-0.03, 1.05]),
    }
    mean = f" Each point is the mean of {wide} rounds." if wide > 1 else ""
    how = (
        "How well the model that chose the candidates had ranked them before they were measured."
        if found.recorded
        else "The records hold no predictions: here a model trained on the earlier parts of the "
        "run predicts the next."
    )
    return Chart("accuracy", _ACCURACY, how + mean, traces, layout)


def _mean(points: Sequence[_Point]) -> _Point:
    places, orders, recalls = zip(*points, strict=True)
    known = [recall for recall in recalls if recall is not None]
    recall = sum(known) / len(known) if known else None
    return sum(places) / len(places), sum(orders) / len(orders), recall


def _line(
    name: str, color: str, symbol: str, dash: str, points: Sequence[tuple[float, float | None]]
) -> dict[str, Any]:
    known = [(x, y) for x, y in points if y is not None]
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(known) <= _MARKED else "lines",
        "name": name,
        "x": [round(x, 2) for x, _ in known],
        "y": [round(y, 4) for _, y in known],
        "line": {"width": 2.5 if len(known) <= _MARKED else 1.5, "color": color, "dash": dash},
        "marker": {"size": 8, "symbol": symbol, "color": color},
        "hovertemplate": f"round %{{x}}: %{{y:.0%}}<extra>{name}</extra>",
    }


def predicted(found: Guesses) -> Chart:
    """The chart of predicted and measured throughput, relative to the best before the round."""
    fair = [g for batch in found.rounds for g in batch if g.known < inf and g.trial.valid]
    if not fair:
        why = found.why_none or (
            "No candidate has a time, a prediction and an earlier best to compare both with."
        )
        return Chart("predicted", _PREDICTED, why)
    drawn = thinned(fair)
    xs = [round(g.score, 4) for g in drawn]
    ys = [round(g.known / g.trial.cost, 4) for g in drawn]
    low, high = min(*xs, *ys), max(*xs, *ys)
    room = 0.08 * max(high - low, 0.05)
    ends = [max(0.0, low - room), high + room]
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "as predicted",
            "x": ends,
            "y": ends,
            "line": {"width": 1.5, "color": "@muted", "dash": "dot"},
            "hoverinfo": "skip",
        },
        {
            "type": "scatter",
            "mode": "markers",
            "name": "candidate",
            "x": xs,
            "y": ys,
            "marker": {
                "size": 8 if len(drawn) <= _MANY else 5,
                "color": "@best",
                "opacity": 0.6 if len(drawn) <= _MANY else 0.35,
            },
            "hovertemplate": "predicted %{x:.0%}, measured %{y:.0%}<extra></extra>",
        },
    ]
    layout = {
        "xaxis": axis("predicted", tickformat=".0%", range=ends),
        "yaxis": axis("measured", tickformat=".0%", range=ends),
    }
    by = "" if found.recorded else ", by the model trained for this page"
    caption = (
        f"Throughput as a share of the best known before the candidate's round{by}: above the "
        "line it was faster than predicted."
    )
    if len(fair) > MOST_POINTS:
        caption += f" {len(drawn):,} of {len(fair):,} candidates are drawn, evenly spaced."
    return Chart("predicted", _PREDICTED, caption, traces, layout)
