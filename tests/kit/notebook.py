"""A stand-in for a notebook that collects what its cell shows by IPython's display protocol."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


class Cell:
    """A cell whose `display` shows objects as a front end would.

    `html` and `text` have everything that was ever shown.
    """

    def __init__(self) -> None:
        self.outputs = 0
        self.html: list[str] = []
        self.text: list[str] = []

    def display(self, shown: Any, *, display_id: bool = False) -> Cell | None:
        self.outputs += 1
        self.update(shown)
        return self if display_id else None

    def update(self, shown: Any) -> None:
        self.html.append(shown._repr_html_())
        self.text.append(repr(shown))

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make this process look like a notebook."""
        ipython, display = ModuleType("IPython"), ModuleType("IPython.display")
        vars(ipython)["get_ipython"] = lambda: SimpleNamespace(kernel=None)
        vars(display)["display"] = self.display
        vars(ipython)["display"] = display
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        monkeypatch.setitem(sys.modules, "IPython.display", display)
