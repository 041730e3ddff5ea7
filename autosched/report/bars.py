"""The bar charts: features that the model uses, failures, and time by phase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autosched.errors import AutoschedError
from autosched.measure.failure_groups import FailureGroup, FailureGroups
from autosched.report.chart import Chart, axis, percent, shown
from autosched.report.hindsight import Learned, Share, importance
from autosched.report.runs import Run
from autosched.words import count

_MOST_KINDS = 10
_MOST_GROUPS = 8
_UNITS = ((3600.0, "hours", "h"), (60.0, "minutes", "min"), (1.0, "seconds", "s"))
_WORTH = 5  # the total must be so many of a unit before the chart uses it
_ROW = 34  # pixels of a bar with its label
_PHASES = {
    "start": "start",
    "reference": "reference",
    "search": "search",
    "build": "build",
    "run": "run",
    "learn": "learn",
    "race": "final race",
}


def features_that_matter(run: Run, learned: Learned) -> Chart:
    """The chart of the groups of features by the gain of a model's splits."""
    title = "What the model looks at"
    if not learned.enough:
        why = (
            f"its task cannot be rebuilt: {run.problem}"
            if run.task is None
            else f"only {count(len(learned.rows), 'candidate')} with a time and features"
        )
        return Chart("importance", title, f"No model is trained for this chart: {why}.")
    try:
        shares = importance(learned)
    except AutoschedError as error:
        return Chart("importance", title, f"No model is trained for this chart: {error}.")
    if not shares:
        said = "The model found no difference between the candidates."
        return Chart("importance", title, said)
    if len(shares) > _MOST_GROUPS:
        rest = shares[_MOST_GROUPS - 1 :]
        names = [(share.group, share.share) for share in rest]
        others = Share(f"{len(rest)} others", sum(share.share for share in rest), names)
        shares = [*shares[: _MOST_GROUPS - 1], others]
    tips = [
        "<br>".join(f"{shown(name)} {percent(part)}" for name, part in share.columns)
        for share in shares
    ]
    caption = (
        f"Each group's share of the gain of all splits of the trees, in a model trained on "
        f"{len(learned.rows)} of the recorded candidates (the run's own is not recorded)."
    )
    values = [share.share for share in shares]
    labels = [share.group for share in shares]
    texts = [percent(value) for value in values]
    return _bars("importance", title, caption, labels, values, texts, "@best", "share", tips, ".0%")


def failures(run: Run) -> tuple[Chart, list[FailureGroup]]:
    """The chart of failures by stage and kind, and the groups of failures with an example each."""
    groups = FailureGroups()
    failed = 0
    for trial in run.trials:
        failure = trial.record.result.failure
        if failure is not None:
            failed += 1
            groups.add(trial.index, failure)
    title = "Failures"
    if not failed:
        said = f"None of the {count(len(run.trials), 'trial')} failed."
        return Chart("failures", title, said), []
    kinds: dict[str, int] = {}
    for group in groups.ordered:
        kind = f"{group.failure.stage} {group.failure.kind}"[:40]
        kinds[kind] = kinds.get(kind, 0) + group.records
    ordered = sorted(kinds.items(), key=lambda item: -item[1])
    some, rest = ordered[:_MOST_KINDS], ordered[_MOST_KINDS:]
    if rest:
        some.append(("other kinds", sum(number for _, number in rest)))
    values = [float(number) for _, number in some]
    texts = [f"{number:,}" for _, number in some]
    labels = [shown(kind) for kind, _ in some]
    caption = (
        f"{failed:,} of {len(run.trials):,} trials failed, by stage and kind; the table "
        "has an example of each."
    )
    chart = _bars(
        *("failures", title, caption, labels, values, texts, "@failed", "candidates", texts, ",d"),
        wide=True,
    )
    return chart, groups.ordered


def time_spent(run: Run) -> Chart:
    """The chart of the time of each phase."""
    title = "Where the time went"
    spent = {name: run.spent.get(name, 0.0) for name in _PHASES}
    total = sum(spent.values())
    if total > 0:
        caption = "The time of each phase, as the run recorded it."
        return _seconds(title, caption, {_PHASES[k]: v for k, v in spent.items() if v > 0})
    results = [trial.record.result for trial in run.trials]
    built = sum(result.build_seconds for result in results)
    ran = sum(max(0.0, result.total_seconds - result.build_seconds) for result in results)
    if built + ran <= 0:
        return Chart("time", title, "The records do not say how long anything took.")
    caption = (
        "Seconds of building (in several processes at once) and running, added up over the "
        "candidates; these records do not say what search and learning took."
    )
    return _seconds(title, caption, {k: v for k, v in (("build", built), ("run", ran)) if v > 0})


def _seconds(title: str, caption: str, phases: Mapping[str, float]) -> Chart:
    total = sum(phases.values())
    size, unit, short = next(u for u in _UNITS if total >= _WORTH * u[0] or u is _UNITS[-1])
    values = [seconds / size for seconds in phases.values()]
    texts = [f"{value:.2f} {short} ({percent(value * size / total)})" for value in values]
    return _bars("time", title, caption, list(phases), values, texts, "@second", unit, texts, None)


def _bars(
    name: str,
    title: str,
    caption: str,
    labels: Sequence[str],
    values: Sequence[float],
    texts: Sequence[str],
    color: str,
    unit: str,
    tips: Sequence[str],
    tickformat: str | None,
    *,
    wide: bool = False,
) -> Chart:
    """A chart of horizontal bars from the top down, each with its number at its end."""
    trace: dict[str, Any] = {
        "type": "bar",
        "orientation": "h",
        "x": list(values),
        "y": list(labels),
        "text": list(texts),
        "textposition": "outside",
        "cliponaxis": False,
        "customdata": list(tips),
        "marker": {"color": color},
        "hovertemplate": "%{y}: %{text}<br>%{customdata}<extra></extra>"
        if list(tips) != list(texts)
        else "%{y}: %{text}<extra></extra>",
    }
    x = axis(unit, nticks=5)  # the script adds room for the number at the end of the longest bar
    if tickformat is not None:
        x["tickformat"] = tickformat
    layout = {
        "xaxis": x,
        "yaxis": {"autorange": "reversed", "showgrid": False, "type": "category"},
        "showlegend": False,
        "bargap": 0.4,
    }
    return Chart(name, title, caption, [trace], layout, 96 + _ROW * len(labels), wide)
