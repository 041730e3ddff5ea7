"""What a contest found: runs, their table, frame and chart."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.errors import ConfigError

SHOWN = (16, 32, 64, 128)
"""The numbers of trials that tables show."""
_DRAWS = 2000


@dataclass(frozen=True, slots=True)
class Run:
    """One search of one task with one seed.

    `rank_accuracy` and `top8_recall` are those of the model on all candidates before the search
    (nan where it knew nothing). `regret` tells after each trial how much slower the best so far is
    than the best recorded one, 0.1 for 10%: (trials,).
    """

    task: str
    operator: str
    model: str
    search: str
    seed: int
    rank_accuracy: float
    top8_recall: float
    regret: npt.NDArray[np.float64]

    @property
    def player(self) -> str:
        """The model's name, and the search's."""
        return f"{self.model}, {self.search}"


@dataclass(frozen=True, slots=True)
class Interval:
    """The median of a value over seeds, and where it lies with 95% confidence (bootstrap)."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float] | npt.NDArray[np.float64]) -> Interval:
        """Of at least one value; the draws are the same every time."""
        found = np.asarray(values, float)
        draws = np.random.default_rng(0).choice(found, (_DRAWS, len(found)))
        low, high = np.quantile(np.median(draws, axis=1), [0.025, 0.975])
        return cls(float(np.median(found)), float(low), float(high))


@dataclass(frozen=True, slots=True)
class Line:
    """One task and player of the table; task `all`: medians over tasks of each seed."""

    task: str
    player: str
    rank_accuracy: float
    top8_recall: float
    regret: dict[int, Interval]


@dataclass(frozen=True, slots=True)
class Results:
    """All runs of a contest, and how many seeds each was played with."""

    runs: tuple[Run, ...]
    seeds: int

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
        """What the columns of the table are called."""
        regrets = [f"regret after {k} [%]" for k in self.trials]
        return ["task", "model, search", "rank accuracy", "top 8", *regrets]

    def cells(self) -> list[list[str]]:
        """The table as texts: shares, and regret in percent with its interval."""
        return [
            [
                line.task,
                line.player,
                _share(line.rank_accuracy),
                _share(line.top8_recall),
                *(_percent(line.regret[k]) for k in self.trials),
            ]
            for line in self.table()
        ]

    def text(self) -> str:
        """The table as Markdown."""
        head = self.head()
        rows = [[*map(_cell, row[:2]), *row[2:]] for row in self.cells()]
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        texts = [
            "| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |"
            for row in (head, ["-" * w for w in widths], *rows)
        ]
        return "\n".join(texts)

    def rows(self) -> Iterator[dict[str, Any]]:
        """A row for each run and trial: what `to_pandas` and CSV files hold."""
        for run in self.runs:
            for trial, regret in enumerate(run.regret, 1):
                yield {
                    "task": run.task,
                    "operator": run.operator,
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
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise ConfigError("to_pandas needs pandas: pip install pandas") from error
        return pandas.DataFrame(list(self.rows()))

    def plot(self) -> Any:
        """Regret curves, a chart for each task, as a plotly figure. Raises ConfigError without it.

        The bands are the 95% intervals of the median over seeds.
        """
        require_plotly()
        import plotly.graph_objects as go
        from plotly.subplots import make_subplots

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
                curves = self._curves(task, player)
                bands = [Interval.of(column) for column in curves.T]
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

    def _curves(self, task: str, player: str) -> npt.NDArray[np.float64]:
        """The regrets of a player by seed: (seeds, trials); of `all` tasks their medians.

        A task with fewer candidates than trials stays at what it reached.
        """
        longest = max(len(run.regret) for run in self._runs(task, player))
        by_seed: dict[int, list[npt.NDArray[np.float64]]] = {}
        for run in self._runs(task, player):
            rest = np.full(longest - len(run.regret), run.regret[-1])
            by_seed.setdefault(run.seed, []).append(np.concatenate([run.regret, rest]))
        return np.stack([np.median(curves, axis=0) for curves in by_seed.values()])

    def _line(self, task: str, player: str) -> Line:
        runs, curves = self._runs(task, player), self._curves(task, player)
        return Line(
            task,
            player,
            _mean([run.rank_accuracy for run in runs]),
            _mean([run.top8_recall for run in runs]),
            {k: Interval.of(curves[:, min(k, curves.shape[1]) - 1]) for k in self.trials},
        )


_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555")
"""Okabe and Ito's, which most people with colour vision deficiencies tell apart."""


def require_plotly() -> None:
    """Raise ConfigError, which says what to install, where plotly is missing."""
    try:
        import plotly.graph_objects  # noqa: F401
    except ModuleNotFoundError as error:
        raise ConfigError("plot needs plotly: pip install 'autosched[report]'") from error


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if value == value]
    return float(np.mean(known)) if known else float("nan")


def _cell(text: str) -> str:
    """In a table of Markdown, where a line is a row and `|` ends a cell."""
    return " ".join(text.split()).replace("|", "\\|")


def _share(value: float) -> str:
    return "" if value != value else f"{value:.3f}"


def _percent(found: Interval) -> str:
    return f"{100 * found.median:.1f} ({100 * found.low:.1f} to {100 * found.high:.1f})"
