"""The table of the tasks of one run, with the progress of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.table import Table

from autosched.search.progress import Progress
from autosched.words import aligned, rate_text, seconds_text

_LESS_TELLING = ("model", "weight", "checked", "valid", "rate")
HEAD = ("task", "weight", "trials", "valid", "best", "rate", "model", "checked")


@dataclass(slots=True)
class TaskTable:
    """The table; rows are in the order of `keys`, and `runs` is filled as tasks report."""

    keys: Sequence[str]
    names: Sequence[str]
    weights: Sequence[float]
    runs: dict[str, Progress] = field(default_factory=dict)

    def name(self, key: str) -> str:
        """The short name of the task with that key."""
        return self.names[self.keys.index(key)]

    def rows(self) -> list[tuple[str, ...]]:
        """The cells of every task, in the order of `HEAD`; `-` for what is not known."""
        return [
            (name, f"{weight:g}", *_cells(self.runs.get(key)))
            for key, name, weight in zip(self.keys, self.names, self.weights, strict=True)
        ]

    def text(self) -> str:
        """The table in plain characters, a line each."""
        return "\n".join(aligned([HEAD, *self.rows()]))

    def live(self, width: int) -> Table:
        """The table for a terminal of `width`: first columns are left out, then names are cut."""
        rows = [HEAD, *self.rows()]
        widths = [max(map(len, column)) + 2 for column in zip(*rows, strict=True)]
        shown = list(range(len(HEAD)))
        for name in _LESS_TELLING:
            if sum(widths[k] for k in shown) - 2 > width:
                shown.remove(HEAD.index(name))
        table = Table(*(HEAD[k] for k in shown), box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for column in table.columns:
            column.no_wrap = True
        for row in rows[1:]:
            table.add_row(*(row[k] for k in shown))
        return table


def short_names(names: Sequence[str]) -> list[str]:
    """The names, with a number where two are the same."""
    total, seen = Counter(names), Counter[str]()
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if total[name] == 1 else f"{name}#{seen[name]}")
    return found


def _cells(progress: Progress | None) -> tuple[str, ...]:
    if progress is None:
        return ("0", "0", "-", "-", "-", "-")
    done, valid, best = str(progress.done), str(progress.valid), progress.best
    model = f"{progress.quality[-1].rank_accuracy:.2f}" if progress.quality else "-"
    if best is None:
        return (done, valid, "-", "-", model, "-")
    rate = rate_text(progress.flops_per_second(best)) or "-"
    checked = best.result.checked_text
    return (done, valid, seconds_text(best.result.cost), rate, model, checked)
