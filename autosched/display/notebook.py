"""Progress in a notebook: a cell's output that is replaced as the run goes on.

It needs IPython's display protocol and no widgets.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from html import escape
from typing import Any, Protocol

from autosched.display.html import table_html
from autosched.display.status_line import Status, clock, status_line
from autosched.display.task_table import HEAD, TaskTable

_WIDTH = 100  # of the plain text, which front ends without HTML show
_OFTEN = 0.2  # least seconds between two updates: front ends keep all of them


class Handle(Protocol):
    """IPython's handle of an output that can be replaced."""

    def update(self, shown: Any) -> None:
        """Show `shown` instead."""


Display = Callable[..., Any]
"""IPython's `display`; with `display_id=True` it returns a Handle."""


def notebook_display() -> Display | None:
    """IPython's `display` in a notebook; None anywhere else, as in a terminal's IPython."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    found: Display = display
    return found


class Shown:
    """The displayed object: HTML for notebooks, a line of text for everything else."""

    def __init__(self, status: Status, table: TaskTable | None) -> None:
        self._status = status
        self._table = table

    def __repr__(self) -> str:
        table = "" if self._table is None else f"{self._table.text()}\n"
        return table + status_line(self._status, _WIDTH)

    def _repr_html_(self) -> str:
        status = self._status
        eta = "" if status.eta is None else f"{clock(status.eta)} to go"
        best = f"best {status.best}" if status.best else "none valid yet"
        trials = f"{status.done}/{status.total} trials"
        parts = (trials, status.name, best, status.rate, status.peak, status.model, status.failures)
        text = " · ".join(filter(None, (*parts, status.phase, eta)))
        bar = f'<progress value="{status.done}" max="{max(1, status.total)}"></progress>'
        table = "" if self._table is None else table_html(HEAD, self._table.rows())
        return f"<div>{table}{bar} {escape(text)}</div>"


class NotebookProgress:
    """One output of a cell, replaced at most five times a second and once more at the end."""

    def __init__(
        self, display: Display, first: Shown, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._now = now
        self._last, self._waiting = now(), first
        self._handle: Handle | None = display(first, display_id=True)

    def show(self, shown: Shown) -> None:
        """Show `shown` now; if something was shown just before, only keep it for `flush`."""
        self._waiting = shown
        if self._now() - self._last >= _OFTEN:
            self.flush()

    def flush(self) -> None:
        """Show the newest output that was given."""
        self._last = self._now()
        if self._handle is not None:
            self._handle.update(self._waiting)
