"""The results of a contest: runs, and their table, data frame and chart."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.arena.searches import SEARCHES
from autosched.needed import needed_for
from autosched.words import count

SHOWN = (16, 32, 64, 128)
"""The numbers of trials that tables show."""
TOP = 8
"""How many of the fastest candidates the model should have predicted."""
_DRAWS = 2000
TOO_FEW = "-"
"""The text in a table for a value that a task with too few candidates does not have."""


@dataclass(frozen=True, slots=True)
class Run:
    """One search of one task with one seed.

    `candidates` is how many there are to try. `rank_accuracy` and `top8_recall` are those of the
    model on all of them before the search (nan where it knew nothing; the second also where there
    are no more than eight). `regret` is how much slower the best so far is than the best recorded
    one after each trial, 0.1 for 10%, and nan from the trial on that leaves none: (trials,).
    """

    task: str
    operator: str
    candidates: int
    model: str
    search: str
    seed: int
    rank_accuracy: float
    top8_recall: float
    regret: npt.NDArray[np.float64]

    @property
    def player(self) -> str:
        """The names of the model and of the search."""
        return f"{self.model}, {self.search}"

    def after(self, trial: int) -> float:
        """The regret after a number of trials from 1; nan where all candidates were tried."""
        return float(self.regret[trial - 1]) if trial <= len(self.regret) else float("nan")


@dataclass(frozen=True, slots=True)
class Interval:
    """The median of a value over seeds, and its 95% confidence interval (bootstrap)."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float] | npt.NDArray[np.float64]) -> Interval:
        """The interval of any values, nan if there are none; the draws are the same every time."""
        found = np.asarray(values, float)
        if not len(found):
            return cls(*[float("nan")] * 3)
        draws = np.random.default_rng(0).choice(found, (_DRAWS, len(found)))
        low, high = np.quantile(np.median(draws, axis=1), [0.025, 0.975])
        return cls(float(np.median(found)), float(low), float(high))


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the table: one task and player, or the task `all` and a player.

    The regret of `all` is that of each seed's median over tasks. A value is nan where no task has
    one. `tasks` says of how many tasks each value is: rank accuracy, top 8, and regret after each
    number of trials.
    """

    task: str
    candidates: int
    player: str
    rank_accuracy: float
    top8_recall: float
    regret: dict[int, Interval]
    tasks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Results:
    """All runs of a contest, the number of seeds of each, and the candidates of a round."""

    runs: tuple[Run, ...]
    seeds: int
    batch: int

    @property
    def trials(self) -> list[int]:
        """The numbers of trials that the table shows: those of SHOWN that were played."""
        most = max(len(run.regret) for run in self.runs)
        return [k for k in SHOWN if k <= most] or [most]

    def table(self) -> list[Line]:
        """A line for each task and player; where there are several tasks, for all as well."""
        lines = [self._line(task, player) for task in self._tasks() for player in self._players()]
        if len(self._tasks()) > 1:
            lines += [self._line("all", player) for player in self._players()]
        return lines

    def head(self) -> list[str]:
        """The names of the columns of the table."""
        regrets = [f"regret after {k} [%]" for k in self.trials]
        return ["task", "candidates", "model, search", "rank accuracy", "top 8", *regrets]

    def cells(self) -> list[list[str]]:
        """The table as texts: shares, and regret in percent with its interval.

        In the lines of `all`, a value that some tasks lack says of how many tasks it is.
        """
        return [
            [line.task, str(line.candidates), line.player, *self._values(line)]
            for line in self.table()
        ]

    def text(self) -> str:
        """The table as Markdown, and its `notes`."""
        notes = self.notes()
        return "\n".join([self.markdown(), *([""] if notes else []), *notes])

    def markdown(self, left_out: Sequence[str] = ()) -> str:
        """The table as Markdown, without the columns `left_out` (names of `head`)."""
        head = self.head()
        shown = [k for k, name in enumerate(head) if name not in left_out]
        rows = [[_cell(row[k]) for k in shown] for row in (head, *self.cells())]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        texts = [
            "| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |"
            for row in (rows[0], ["-" * w for w in widths], *rows[1:])
        ]
        return "\n".join(texts)

    def notes(self) -> list[str]:
        """Sentences about values that say little; often none.

        They name values that are left blank because candidates are too few, values that do not
        depend on the players, and remedies.
        """
        tried = {run.task: run.candidates for run in self.runs if np.isnan(run.regret[-1])}
        all_top = {
            run.task
            for run in self.runs
            if run.candidates <= TOP and not np.isnan(run.rank_accuracy)
        }
        of = f"of {count(len(self._tasks()), 'task')}"
        notes = []
        if tried:
            notes.append(
                f"Too few candidates for so many trials in {len(tried)} {of} (the fewest: "
                f"{min(tried.values())}). A search that tried them all has found the best, so "
                "regret is left blank from there on. Record more candidates, or ask for fewer "
                "trials."
            )
        if all_top:
            notes.append(
                f"Top {TOP} is left blank for {len(all_top)} {of}: with no more than {TOP} "
                "candidates, all are among the top. Record more candidates."
            )
        drawn = self._drawn()
        if drawn:
            notes.append(
                f"In {len(drawn)} {of} the models had nothing to learn from before the search, and "
                f"the first {self.batch} trials, one round, are drawn at random: they do not "
                "depend on the model. Give records of other operators, or ask for more trials."
            )
        return notes

    def _drawn(self) -> set[str]:
        """The tasks in which all players tried the same: a first round that is drawn, no more.

        A search of the user need not draw it.
        """
        known = {run.task for run in self.runs if not np.isnan(run.rank_accuracy)}
        longer = {run.task for run in self.runs if len(run.regret) > self.batch}
        if len(self._players()) < 2 or any(run.search not in SEARCHES for run in self.runs):
            return set()
        return set(self._tasks()) - known - longer

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row for each run and trial, as `to_pandas` and CSV files hold them."""
        for run in self.runs:
            for trial, regret in enumerate(run.regret, 1):
                yield {
                    "task": run.task,
                    "operator": run.operator,
                    "candidates": run.candidates,
                    "model": run.model,
                    "search": run.search,
                    "seed": run.seed,
                    "rank_accuracy": run.rank_accuracy,
                    "top8_recall": run.top8_recall,
                    "trial": trial,
                    "regret": float(regret),
                }

    def to_pandas(self) -> Any:
        """The rows as a pandas DataFrame. Raises ConfigError without pandas."""
        pandas = needed_for("to_pandas", "pandas", "pandas")
        return pandas.DataFrame(list(self.rows()))

    def plot(self) -> Any:
        """Regret curves, a chart for each task, as a plotly figure. Raises ConfigError without it.

        The bands are the 95% intervals of the median over seeds. A curve ends where no candidate is
        left to try.
        """
        require_plotly()
        go = needed_for("plot", "plotly.graph_objects", "autosched[report]")
        make_subplots = needed_for("plot", "plotly.subplots", "autosched[report]").make_subplots
        tasks = self._tasks()
        columns = min(2, len(tasks))
        figure = make_subplots(
            rows=-(-len(tasks) // columns),
            cols=columns,
            subplot_titles=[html.escape(task) for task in tasks],
            vertical_spacing=0.08,
        )
        for at, task in enumerate(tasks):
            place = {"row": at // columns + 1, "col": at % columns + 1}
            for number, player in enumerate(self._players()):
                bands = self._bands(task, player)
                colour = _COLOURS[number % len(_COLOURS)]
                trials = list(range(1, len(bands) + 1))
                edge = [100 * b.high for b in bands] + [100 * b.low for b in reversed(bands)]
                band = {"fill": "toself", "fillcolor": colour, "opacity": 0.15, "line_width": 0}
                common = {"legendgroup": player, "hoverinfo": "skip", "showlegend": False}
                figure.add_trace(
                    go.Scatter(x=trials + trials[::-1], y=edge, **band, **common), **place
                )
                line = {"color": colour, "shape": "hv"}
                figure.add_trace(
                    go.Scatter(
                        x=trials,
                        y=[100 * b.median for b in bands],
                        name=html.escape(player),
                        legendgroup=player,
                        showlegend=at == 0,
                        line=line,
                    ),
                    **place,
                )
        figure.update_xaxes(title_text="trials", rangemode="tozero")
        figure.update_yaxes(title_text="slower than the best [%]", rangemode="tozero")
        figure.update_layout(height=150 + 320 * -(-len(tasks) // columns), template="plotly_white")
        return figure

    def _tasks(self) -> list[str]:
        return list(dict.fromkeys(run.task for run in self.runs))

    def _players(self) -> list[str]:
        return list(dict.fromkeys(run.player for run in self.runs))

    def _runs(self, task: str, player: str) -> list[Run]:
        return [r for r in self.runs if r.player == player and task in (r.task, "all")]

    def _bands(self, task: str, player: str) -> list[Interval]:
        """The regret of a player after 1, 2, ... trials, until no candidate is left to try."""
        runs = self._runs(task, player)
        most = max(np.count_nonzero(~np.isnan(run.regret)) for run in runs)
        return [_over_seeds(runs, [run.after(k) for run in runs]) for k in range(1, most + 1)]

    def _line(self, task: str, player: str) -> Line:
        runs = self._runs(task, player)
        accuracies = [run.rank_accuracy for run in runs]
        recalls = [run.top8_recall for run in runs]
        regrets = {k: [run.after(k) for run in runs] for k in self.trials}
        return Line(
            task,
            sum({run.task: run.candidates for run in runs}.values()),
            player,
            _mean(accuracies),
            _mean(recalls),
            {k: _over_seeds(runs, found) for k, found in regrets.items()},
            tuple(_tasks_of(runs, found) for found in (accuracies, recalls, *regrets.values())),
        )

    def _values(self, line: Line) -> list[str]:
        """The texts of a line's values."""
        knew_nothing = np.isnan(line.rank_accuracy)
        texts = [
            _share(line.rank_accuracy, ""),
            _share(line.top8_recall, "" if knew_nothing else TOO_FEW),
            *(_percent(line.regret[k]) for k in self.trials),
        ]
        most = len(self._tasks()) if line.task == "all" else 1
        return [
            f"{text} of {count(tasks, 'task')}" if 0 < tasks < most else text
            for text, tasks in zip(texts, line.tasks, strict=True)
        ]


_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555")
"""Okabe and Ito's, which most people with colour vision deficiencies tell apart."""


def require_plotly() -> None:
    """Raise ConfigError, which says what to install, where plotly is missing."""
    needed_for("plot", "plotly.graph_objects", "autosched[report]")


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if value == value]
    return float(np.mean(known)) if known else float("nan")


def _tasks_of(runs: Sequence[Run], values: Sequence[float]) -> int:
    """The number of tasks of which the runs have a value."""
    return len({run.task for run, value in zip(runs, values, strict=True) if value == value})


def _over_seeds(runs: Sequence[Run], values: Sequence[float]) -> Interval:
    """The interval of each seed's median over the tasks that have a value."""
    by_seed: dict[int, list[float]] = {}
    for run, value in zip(runs, values, strict=True):
        if value == value:
            by_seed.setdefault(run.seed, []).append(value)
    return Interval.of([float(np.median(found)) for found in by_seed.values()])


def _cell(text: str) -> str:
    """Escape a cell of a Markdown table, where a line is a row and `|` ends a cell."""
    return " ".join(text.split()).replace("|", "\\|")


def _share(value: float, missing: str) -> str:
    return missing if value != value else f"{value:.3f}"


def _percent(found: Interval) -> str:
    if found.median != found.median:
        return TOO_FEW
    return f"{100 * found.median:.1f} ({100 * found.low:.1f} to {100 * found.high:.1f})"
