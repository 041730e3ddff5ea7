"""Charts of the tuning curve: all trials of a run and its best so far; and of several runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from autosched.measure.standing import is_race
from autosched.report.chart import MOST_POINTS, Chart, axis, number, shown, thinned, time_text
from autosched.report.runs import Run, Trial
from autosched.words import count, shortened

_FAILURES = 250
_MANY = 500  # marks, beyond which they are small
_DASHES = ("solid", "dash", "dot", "dashdot")
_MOST_CURVES = 8  # curves of different colours; more could not be told apart


def unit(run: Run) -> tuple[float, str]:
    """The number that rates of the run are divided by, and the unit of the result."""
    return (1e9, "GFLOP/s") if run.flops else (1.0, "calls per second")


def curve(run: Run) -> Chart:
    """The chart of throughput over trials."""
    scale, name = unit(run)
    places = list(enumerate(run.trials, 1))
    valid = [(place, trial) for place, trial in places if trial.valid]
    failed = [(place, trial) for place, trial in places if not trial.valid]
    if not valid:
        said = f"None of the {count(len(places), 'trial')} has a time, so there is no curve."
        return Chart("curve", "Tuning curve", said)
    drawn, crosses = thinned(valid), thinned(failed, _FAILURES)
    line = _best_so_far(valid)
    rates = [run.rate(trial.cost) / scale for _, trial in valid]
    bottom, top = _range(rates)
    traces = [_trials(run, drawn)]
    if failed:
        traces.append(_failures(crosses, bottom))
    stairs = thinned(line)
    traces.append(
        {
            "type": "scatter",
            "mode": "lines",
            "name": "best so far",
            "x": [place for place, _ in stairs] + [len(places)],
            "y": [run.rate(cost) / scale for _, cost in stairs] + [run.rate(line[-1][1]) / scale],
            "line": {"shape": "hv", "width": 2.5, "color": "@best"},
            "hovertemplate": f"best after %{{x}} trials: %{{y:.4~g}} {name}<extra></extra>",
        }
    )
    traces.append(_winner(run, valid))
    layout = {
        "xaxis": axis("trial", rangemode="tozero"),
        "yaxis": axis(name, range=[bottom, top]),
    }
    caption = _caption(run, len(valid), len(failed), len(line))
    if len(valid) > MOST_POINTS or len(failed) > _FAILURES:
        caption += (
            f" {len(drawn):,} of {len(valid):,} trials and {len(crosses):,} of {len(failed):,} "
            "failures are drawn, evenly spaced."
        )
    return Chart("curve", "Tuning curve", caption, traces, layout, 380, wide=True)


def _range(rates: Sequence[float]) -> tuple[float, float]:
    """The range of the axis: from zero, or from below the slowest if all are near the fastest."""
    low, high = min(rates), max(rates)
    room = max(high - low, 0.05 * high)
    return (0.0 if low < 0.5 * high else max(0.0, low - 0.15 * room)), high + 0.1 * room


def _trials(run: Run, drawn: Sequence[tuple[int, Trial]]) -> dict[str, Any]:
    scale, name = unit(run)
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "trial",
        "x": [place for place, _ in drawn],
        "y": [run.rate(trial.cost) / scale for _, trial in drawn],
        "text": [time_text(trial.cost) for _, trial in drawn],
        "marker": {
            "size": 7 if len(drawn) <= _MANY else 4,
            "color": "@trial",
            "opacity": 0.75 if len(drawn) <= _MANY else 0.5,
        },
        "hovertemplate": f"trial %{{x}}: %{{text}}, %{{y:.4~g}} {name}<extra></extra>",
    }


def _failures(crosses: Sequence[tuple[int, Trial]], bottom: float) -> dict[str, Any]:
    kinds = [trial.record.result.failure for _, trial in crosses]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "failed",
        "x": [place for place, _ in crosses],
        "y": [bottom] * len(crosses),
        "text": [shown(f"{f.stage} {f.kind}"[:60]) if f else "no time" for f in kinds],
        "marker": {
            "symbol": "x-thin" if len(crosses) <= _MANY // 5 else "line-ns",
            "size": 8,
            "line": {"width": 2 if len(crosses) <= _MANY // 5 else 1, "color": "@failed"},
        },
        "cliponaxis": False,
        "hovertemplate": "trial %{x} failed: %{text}<extra></extra>",
    }


def _winner(run: Run, valid: Sequence[tuple[int, Trial]]) -> dict[str, Any]:
    scale, name = unit(run)
    best = run.best
    assert best is not None
    place = next((p for p, t in valid if t.record.steps == best.steps), valid[-1][0])
    word = "won the race" if is_race(best) else "best"
    return {
        "type": "scatter",
        "mode": "markers",
        "name": word,
        "x": [place],
        "y": [run.rate(best.result.cost) / scale],
        "text": [time_text(best.result.cost)],
        "marker": {"symbol": "star", "size": 15, "color": "@winner"},
        "hovertemplate": f"{word}: %{{text}}, %{{y:.4~g}} {name}<extra></extra>",
    }


def _best_so_far(valid: Sequence[tuple[int, Trial]]) -> list[tuple[int, float]]:
    """The trials at which the best changed, from 1, and its cost in seconds."""
    line: list[tuple[int, float]] = []
    for place, trial in valid:
        if not line or trial.cost < line[-1][1]:
            line.append((place, trial.cost))
    return line


def _caption(run: Run, valid: int, failed: int, steps: int) -> str:
    best = run.best
    assert best is not None
    if valid + failed == 1:
        return "There is one trial."
    share = f", {failed:,} failed (at the bottom)" if failed else ""
    raced = " (the star is its time in the race at the end)" if is_race(best) else ""
    improved = f"the best improved {count(steps - 1, 'time')} after the first"
    if steps == 1:
        improved = "none was faster than the first that has a time"
    return f"{valid + failed:,} trials{share}: {improved}{raced}."


def curves(runs: Sequence[Run]) -> Chart:
    """The chart of the best so far of several runs.

    Runs of one task are compared by throughput. Runs of several tasks, whose throughputs cannot be
    compared, are shown as shares of the best that each reached in the end.
    """
    timed = [run for run in runs if run.best is not None]
    if not timed:
        return Chart("curves", "All runs", "No run has a valid time.")
    alike = len({run.entry["key"] for run in timed}) == 1
    scale, name = unit(timed[0])
    traces: list[dict[str, Any]] = []
    heights: list[float] = []
    labels = _labels(timed, alike=alike)
    for place, run in enumerate(timed[:_MOST_CURVES]):
        valid = [(p, t) for p, t in enumerate(run.trials, 1) if t.valid]
        line = _best_so_far(valid)
        base = scale if alike else run.rate(line[-1][1])
        stairs = thinned(line)
        end = run.rate(line[-1][1]) / base
        heights += [run.rate(line[0][1]) / base, end]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": shown(labels[place]),
                "x": [p for p, _ in stairs] + [len(run.trials)],
                "y": [run.rate(cost) / base for _, cost in stairs] + [end],
                "line": {
                    "shape": "hv",
                    "width": 2.5,
                    "color": f"@series{place}",
                    "dash": _DASHES[(place + place // 4) % 4],  # lines that coincide show both
                },
                "hovertemplate": "trial %{x}: "
                + (f"%{{y:.4~g}} {name}" if alike else "%{y:.0%} of its best")
                + "<extra>%{fullData.name}</extra>",
            }
        )
    said = (
        "The best so far of each run"
        if alike
        else "How far each run had come, as a share of the throughput it reached in the end"
    )
    more = f"; the first {_MOST_CURVES} of {len(timed)} runs" if len(timed) > _MOST_CURVES else ""
    y = axis(name if alike else "of its own best", range=list(_range(heights)))
    if not alike:
        y["tickformat"] = ".0%"
    layout = {"xaxis": axis("trial", rangemode="tozero"), "yaxis": y}
    return Chart("curves", "All runs", f"{said}{more}.", traces, layout, 380, wide=True)


def _labels(runs: Sequence[Run], *, alike: bool) -> list[str]:
    """A label that tells each run from the others: its task, if there are several, and its file.

    Equal labels get the machine and the way of timing as well.
    """
    labels = [
        _file(run, 40) if alike else f"{shortened(run.name, 24, '…')} · {_file(run, 20)}"
        for run in runs
    ]
    number = Counter(labels)
    return [
        label if number[label] == 1 else f"{label} · {shortened(run.machine, 24, '…')}{run.timed}"
        for run, label in zip(runs, labels, strict=True)
    ]


def _file(run: Run, most: int) -> str:
    """The file name of a run, or the end of its path where that tells files of one name apart."""
    if run.file == run.source.name or len(run.file) <= most:
        return shortened(run.file, most, "…")
    return "…" + run.file[1 - most :]


def rate_text(run: Run, seconds: float) -> str:
    """The rate of a time in seconds for people, as `323 GFLOP/s`."""
    scale, name = unit(run)
    return f"{number(run.rate(seconds) / scale)} {name}"
